"""The masked-LM head: states at chosen positions → vocabulary logits, with the word table tied (paper, 3.1)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_bert.config import Config
from keras_bert.layers.activations import ACTIVATIONS
from keras_bert.layers.base import ConfigLayer, dense, layer_norm


@keras.saving.register_keras_serializable("keras_bert")
class MaskedLM(ConfigLayer):
    """x [B,S,H], positions [B,M] and the word table [V,H] → logits [B,M,V].

    Dense, the config's activation, LayerNorm, then a product with the word table and a bias per word
    (google-research/bert: get_masked_lm_output).
    """

    def __init__(self, config: Config | dict, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self.activation = ACTIVATIONS[self.config.hidden_act]
        self.dense = dense(self.config, self.config.hidden_size, "dense", self.dtype_policy)
        self.norm = layer_norm(self.config, "LayerNorm", self.dtype_policy)

    def build(self, x_shape: tuple, positions_shape: tuple, word_table_shape: tuple) -> None:
        self.dense.build((None, self.config.hidden_size))
        self.norm.build((None, self.config.hidden_size))
        self.bias = self.add_weight(name="bias", shape=(self.config.vocab_size,), initializer="zeros")
        self.built = True

    def call(self, x: tf.Tensor, positions: tf.Tensor, word_table: tf.Tensor) -> tf.Tensor:
        x_MH = tf.reshape(tf.gather(x, positions, batch_dims=1), (-1, self.config.hidden_size))
        x_MH = self.norm(self.activation(self.dense(x_MH)))
        logits = tf.matmul(x_MH, word_table, transpose_b=True) + ops.convert_to_tensor(self.bias)
        shape = ops.shape(positions)
        return tf.reshape(logits, (shape[0], shape[1], self.config.vocab_size))

    def compute_output_spec(self, x: tf.Tensor, positions: tf.Tensor, word_table: tf.Tensor) -> keras.KerasTensor:
        return keras.KerasTensor((*positions.shape, self.config.vocab_size), dtype=self.compute_dtype)
