"""Token + position + segment embeddings, their LayerNorm and dropout (paper, section 3 and figure 2)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_bert.config import Config
from keras_bert.layers.base import ConfigLayer, dropout, initializer, layer_norm
from keras_bert.layers.checks import check_ids, check_length


@keras.saving.register_keras_serializable("keras_bert")
class Embeddings(ConfigLayer):
    """ids [B,S], and types [B,S] or None (all 0) → [B,S,H].

    Raises:
        ValueError: eager, or while a graph is traced with known lengths: an id, a type or a length beyond its table.
        tf.errors.InvalidArgumentError: the same, found while a graph runs, before its step changes a weight.
    """

    def __init__(self, config: Config | dict, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        # XLA drops assertions, and on CPUs it slows training: model.fit's "auto" leaves it off, jit_compile=True stays
        # the caller's choice.
        self.supports_jit = False
        self.norm = layer_norm(self.config, "LayerNorm", self.dtype_policy)
        self.dropout = dropout(self.config.hidden_dropout_prob, "dropout", self.dtype_policy)

    def build(self, ids_shape: tuple, types_shape: tuple | None = None) -> None:
        hidden = self.config.hidden_size
        self.word_table = self.table("word_embeddings", self.config.vocab_size)
        self.position_table = self.table("position_embeddings", self.config.max_position_embeddings)
        self.type_table = self.table("token_type_embeddings", self.config.type_vocab_size)
        self.norm.build((None, None, hidden))
        self.built = True

    def table(self, name: str, rows: int) -> keras.Variable:
        shape = (rows, self.config.hidden_size)
        # autocast=False: rows are gathered first and rounded afterwards, so that no step casts the whole table.
        return self.add_weight(name=name, shape=shape, initializer=initializer(self.config), autocast=False)

    def call(
        self, ids: tf.Tensor, types: tf.Tensor | None = None, word_table: bool = False, training: bool | None = None
    ) -> tf.Tensor:
        """With `word_table`, the token table [V,H] instead, for a head that ties to it."""
        if word_table:
            return ops.cast(self.word_table, self.compute_dtype)
        config = self.config
        ids = check_ids(ids, "input_word_ids", config.vocab_size, "vocab_size", "use the vocabulary of the checkpoint")
        ids = check_length(ids, config.max_position_embeddings)
        x_BSH = tf.gather(self.word_table.value, ids)
        x_BSH += ops.expand_dims(self.position_table.value[: ops.shape(ids)[1]], 0)
        if types is None:
            x_BSH += self.type_table.value[0]
        else:
            remedy = "number the segments from 0"
            types = check_ids(types, "input_type_ids", config.type_vocab_size, "type_vocab_size", remedy)
            x_BSH += tf.gather(self.type_table.value, types)
        return self.dropout(self.norm(x_BSH), training=training)

    def compute_output_spec(
        self, ids: tf.Tensor, types: tf.Tensor | None = None, word_table: bool = False, training: bool | None = None
    ) -> keras.KerasTensor:
        shape = (self.config.vocab_size,) if word_table else ids.shape
        return keras.KerasTensor((*shape, self.config.hidden_size), dtype=self.compute_dtype)
