"""The pooled output: tanh of a dense layer on the first token's state (paper, section 3; google-research/bert)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_bert.config import Config
from keras_bert.layers.base import ConfigLayer, dense


@keras.saving.register_keras_serializable("keras_bert")
class Pooler(ConfigLayer):
    """x [B,S,H] → [B,H]."""

    def __init__(self, config: Config | dict, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self.dense = dense(self.config, self.config.hidden_size, "dense", self.dtype_policy, activation="tanh")

    def build(self, x_shape: tuple) -> None:
        self.dense.build((None, self.config.hidden_size))
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.dense(x[:, 0])
