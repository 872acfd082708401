"""Preprocessor: the Keras layer from texts to an encoder's three inputs."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_bert.batch import INPUT_NAMES, Inputs
from keras_bert.text.base import BaseTokenizer, as_strings
from keras_bert.text.packing import check_lengths, pack


@keras.saving.register_keras_serializable(package="keras_bert")
class Preprocessor(keras.layers.Layer):
    """Texts, or pairs of texts, to `input_word_ids`, `input_mask` and `input_type_ids`, int32 [B,S].

    `preprocessor(texts)`, `preprocessor(texts, pairs)` or `preprocessor((texts, pairs))`: a tuple is always a pair, a
    list a batch; one text is a batch of one. Works on values, in tf.data, in a functional model (inputs
    `keras.Input(shape=(), dtype="string")`) and in a SavedModel. It is string work: on accelerators keep it in tf.data.
    A `.keras` file holds the vocabulary.

    Args:
        tokenizer: a Tokenizer (or PythonTokenizer, for values only).
        sequence_length: S; longer rows are cut, pairs longest text first. None pads to the batch's longest row.
        max_length: with `sequence_length=None`, the S that rows are cut to.

    Raises:
        ValueError: a length without room for the special tokens.
    """

    def __init__(
        self,
        tokenizer: BaseTokenizer,
        sequence_length: int | None = 128,
        *,
        max_length: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(tokenizer, BaseTokenizer):
            raise ValueError(f"expected a keras_bert.Tokenizer, got {tokenizer!r}")
        check_lengths(sequence_length, max_length, num_special=2)
        self.tokenizer = tokenizer
        self.sequence_length = sequence_length
        self.max_length = max_length
        self.supports_jit = False  # XLA has no strings
        self.built = True

    def __call__(self, texts: Any, pairs: Any = None, **kwargs: Any) -> Inputs:
        """Texts and pairs in any form that `Tokenizer` takes, or as KerasTensors."""
        if isinstance(texts, tuple):
            if pairs is not None or len(texts) != 2:
                raise ValueError(
                    f"a tuple is (texts, pairs): got {len(texts)} items{' and pairs beside' * (pairs is not None)}; "
                    "give a batch of texts as a list"
                )
            texts, pairs = texts
        given = [texts if is_symbolic(texts) else as_strings(texts)]
        if pairs is not None:
            given.append(pairs if is_symbolic(pairs) else as_strings(pairs))
        return super().__call__(*given, **kwargs)

    def call(self, texts: tf.Tensor, pairs: tf.Tensor | None = None) -> Inputs:
        ids_a = self.tokenizer(texts)
        ids_b = None if pairs is None else self.tokenizer(pairs)
        return pack(ids_a, ids_b, self.sequence_length, self.tokenizer.vocabulary, max_length=self.max_length)

    def compute_output_spec(self, texts: Any, pairs: Any = None) -> dict[str, keras.KerasTensor]:
        if len(texts.shape) > 1:
            raise ValueError(
                f"expected texts of shape (batch,), got {texts.shape}: give keras.Input(shape=(), dtype='string')"
            )
        shape = (texts.shape[0] if len(texts.shape) else 1, self.sequence_length)
        return {name: keras.KerasTensor(shape, dtype="int32", name=name) for name in INPUT_NAMES}

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "tokenizer": keras.saving.serialize_keras_object(self.tokenizer),
            "sequence_length": self.sequence_length,
            "max_length": self.max_length,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Preprocessor:
        tokenizer = config["tokenizer"]
        if isinstance(tokenizer, dict):
            tokenizer = keras.saving.deserialize_keras_object(tokenizer)
        return cls(**config | {"tokenizer": tokenizer})


def is_symbolic(texts: Any) -> bool:
    return isinstance(texts, keras.KerasTensor)
