"""Multi-head self-attention (Vaswani et al., section 3.2; paper, section 3)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_bert.config import Config
from keras_bert.layers.base import ConfigLayer, dense, dropout


@keras.saving.register_keras_serializable("keras_bert")
class AttentionBias(ConfigLayer):
    """ids [B,S] and mask [B,S] (1 = real token) or None (real = not the pad id) → what to add to the scores [B,1,1,S].

    0 for a real token, a large negative number for padding: finite, so that a row of padding alone gives no NaN. With
    the config's causal attention [B,1,S,S], where tokens after one's own are as far as padding.
    """

    # `input_mask`, not `mask`: Keras fills an argument of that name by itself.
    def call(self, ids: tf.Tensor, input_mask: tf.Tensor | None = None) -> tf.Tensor:
        real_BS = ops.not_equal(ids, self.config.pad_token_id) if input_mask is None else ops.greater(input_mask, 0)
        far = -3e4 if self.compute_dtype == "float16" else -1e9  # float16 ends at 65504
        length = ops.shape(ids)[1]
        seen = ops.reshape(real_BS, (-1, 1, 1, length))  # reshape: TFLite converts no double new axis
        if self.config.attention == "causal":
            places = tf.range(length)
            seen = tf.logical_and(seen, tf.expand_dims(places, 1) >= tf.expand_dims(places, 0))
        return ops.where(seen, ops.zeros((), self.compute_dtype), ops.cast(far, self.compute_dtype))

    def compute_output_spec(self, ids: tf.Tensor, input_mask: tf.Tensor | None = None) -> keras.KerasTensor:
        rows = ids.shape[1] if self.config.attention == "causal" else 1
        return keras.KerasTensor((ids.shape[0], 1, rows, ids.shape[1]), dtype=self.compute_dtype)


@keras.saving.register_keras_serializable("keras_bert")
class SelfAttention(ConfigLayer):
    """x [B·S,H] and bias [B,1,1,S] or [B,1,S,S] → [B·S,H], and the attention probabilities [B,A,S,S].

    Query, key and value come from one matrix product; the kernel is [H,3H], columns query | key | value.
    """

    def __init__(self, config: Config | dict, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        config, dtype = self.config, self.dtype_policy
        self.head_size = config.hidden_size // config.num_attention_heads
        self.qkv = dense(config, 3 * config.hidden_size, "qkv", dtype)
        self.dropout = dropout(config.attention_probs_dropout_prob, "dropout", dtype)
        self.output_dense = dense(config, config.hidden_size, "output", dtype)

    def build(self, x_shape: tuple, bias_shape: tuple) -> None:
        self.qkv.build((None, self.config.hidden_size))
        self.output_dense.build((None, self.config.hidden_size))
        self.built = True

    def call(self, x: tf.Tensor, bias: tf.Tensor, training: bool | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        heads, size = self.config.num_attention_heads, self.head_size
        shape = (ops.shape(bias)[0], ops.shape(bias)[3], 3, heads, size)
        q_BASD, k_BASD, v_BASD = tf.unstack(tf.transpose(tf.reshape(self.qkv(x), shape), (2, 0, 3, 1, 4)))
        scores_BASS = tf.matmul(q_BASD * tf.cast(size**-0.5, q_BASD.dtype), k_BASD, transpose_b=True) + bias
        probabilities_BASS = tf.nn.softmax(scores_BASS)
        mixed_BASD = tf.matmul(self.dropout(probabilities_BASS, training=training), v_BASD)
        mixed = tf.reshape(tf.transpose(mixed_BASD, (0, 2, 1, 3)), (-1, heads * size))
        return self.output_dense(mixed), probabilities_BASS
