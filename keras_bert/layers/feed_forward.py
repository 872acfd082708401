"""The position-wise feed-forward network (Vaswani et al., section 3.3), with the config's activation."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_bert.config import Config
from keras_bert.layers.activations import ACTIVATIONS
from keras_bert.layers.base import ConfigLayer, dense


@keras.saving.register_keras_serializable("keras_bert")
class FeedForward(ConfigLayer):
    """x [B·S,H] → [B·S,F] → [B·S,H]."""

    def __init__(self, config: Config | dict, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self.activation = ACTIVATIONS[self.config.hidden_act]
        self.inner = dense(self.config, self.config.intermediate_size, "inner", self.dtype_policy)
        self.outer = dense(self.config, self.config.hidden_size, "outer", self.dtype_policy)

    def build(self, x_shape: tuple) -> None:
        self.inner.build((None, self.config.hidden_size))
        self.outer.build((None, self.config.intermediate_size))
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.outer(self.activation(self.inner(x)))
