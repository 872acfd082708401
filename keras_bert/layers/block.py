"""One encoder block: self-attention and feed-forward, each with dropout, residual and LayerNorm after (post-LN)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_bert.config import Config
from keras_bert.layers.attention import SelfAttention
from keras_bert.layers.base import ConfigLayer, dropout, layer_norm
from keras_bert.layers.feed_forward import FeedForward


@keras.saving.register_keras_serializable("keras_bert")
class Block(ConfigLayer):
    """x [B,S,H] and the attention's bias → [B,S,H]; with `attention_scores` also the probabilities [B,A,S,S]."""

    def __init__(self, config: Config | dict, attention_scores: bool = False, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        config, dtype = self.config, self.dtype_policy
        self.attention_scores = attention_scores
        self.attention = SelfAttention(config, name="attention", dtype=dtype)
        self.attention_dropout = dropout(config.hidden_dropout_prob, "attention_dropout", dtype)
        self.attention_norm = layer_norm(config, "attention_norm", dtype)
        self.feed_forward = FeedForward(config, name="feed_forward", dtype=dtype)
        self.output_dropout = dropout(config.hidden_dropout_prob, "output_dropout", dtype)
        self.output_norm = layer_norm(config, "output_norm", dtype)

    def build(self, x_shape: tuple, bias_shape: tuple) -> None:
        flat = (None, self.config.hidden_size)
        self.attention.build(flat, bias_shape)
        self.attention_norm.build(flat)
        self.feed_forward.build(flat)
        self.output_norm.build(flat)
        self.built = True

    def call(self, x: tf.Tensor, bias: tf.Tensor, training: bool | None = None) -> Any:
        hidden = self.config.hidden_size
        shape = ops.shape(x)
        x = ops.reshape(x, (-1, hidden))  # two axes: matmul, bias and activation fuse into one kernel on CPUs
        attended, probabilities = self.attention(x, bias, training=training)
        x = self.attention_norm(x + self.attention_dropout(attended, training=training))
        x = self.output_norm(x + self.output_dropout(self.feed_forward(x), training=training))
        x = ops.reshape(x, (shape[0], shape[1], hidden))
        return (x, probabilities) if self.attention_scores else x

    def compute_output_spec(self, x: tf.Tensor, bias: tf.Tensor, training: bool | None = None) -> Any:
        spec = keras.KerasTensor(x.shape, dtype=self.compute_dtype)
        batch, length = x.shape[0], x.shape[1]
        scores_shape = (batch, self.config.num_attention_heads, length, length)
        return (spec, keras.KerasTensor(scores_shape, dtype=self.compute_dtype)) if self.attention_scores else spec

    def get_config(self) -> dict:
        return {**super().get_config(), "attention_scores": self.attention_scores}
