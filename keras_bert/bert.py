"""Bert: a model with its tokenizer, as `load` gives it and `save` takes it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.batch import INPUT_NAMES
from keras_bert.config import Config
from keras_bert.decoding import decode_classes, decode_scores
from keras_bert.text.base import Texts, as_strings
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Bert:
    """An encoder or a head model with its tokenizer: everything from text to answer.

    Attributes:
        model: from `build_encoder` or a head's builder; `fit` and `evaluate` take what `preprocessor` gives.
        tokenizer: the one whose ids the weights know.
        labels: a classifier's labels, in the order of its units.
        max_length: tokens a row has at most, [CLS] and [SEP] counted; longer texts are cut.
        info: what keras_bert.json holds beyond these: provenance, metrics, paired, …
        fresh: canonical names of the weights that were not loaded and have first values.
    """

    model: keras.Model
    tokenizer: Tokenizer
    labels: tuple[str, ...] | None = None
    max_length: int = 128
    info: dict[str, Any] = field(default_factory=dict)
    fresh: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.labels is not None:
            object.__setattr__(self, "labels", tuple(self.labels))
        if self.head == "classifier":
            check_labels(self.labels, self.model.output_shape[-1])
        if not 2 <= self.max_length <= self.config.max_position_embeddings:
            raise ValueError(
                f"max_length must be from 2 to {self.config.max_position_embeddings} (max_position_embeddings): "
                f"got {self.max_length}"
            )

    @property
    def config(self) -> Config:
        return self.model.config

    @property
    def head(self) -> str | None:
        """ "classifier", "regressor", "pretrainer", or None for a bare encoder."""
        return getattr(self.model, "head", None)

    @property
    def encoder(self) -> keras.Model:
        """Inputs [B,S] → the dictionary of outputs; its weights are the model's."""
        return self.model if self.head is None else self.model.encoder

    @functools.cached_property
    def preprocessor(self) -> Preprocessor:
        """Texts, or texts and pairs → the three inputs [B,S]: as wide as the longest, at most max_length."""
        return Preprocessor(self.tokenizer, None, max_length=self.max_length)

    @functools.cached_property
    def answer(self) -> Callable[..., dict[str, tf.Tensor]]:
        """Inputs int32 [B,S] → what the head says: one graph for any B and S."""
        labels = self.labels or ()

        def decoded(ids: tf.Tensor, mask: tf.Tensor, types: tf.Tensor) -> dict[str, tf.Tensor]:
            outputs = self.model(dict(zip(INPUT_NAMES, (ids, mask, types), strict=True)), training=False)
            if self.head == "classifier":
                return decode_classes(outputs, labels)
            if self.head == "regressor":
                return decode_scores(outputs)
            return {"pooled_output": outputs["pooled_output"]}

        return tf.function(decoded, input_signature=[tf.TensorSpec((None, None), tf.int32)] * 3, autograph=False)

    def predict(
        self, texts: Texts, pairs: Texts | None = None, batch_size: int = 32
    ) -> list[dict[str, Any]] | dict[str, np.ndarray]:
        """What the model says of each text, or of each text with its pair, in the order given.

        Texts of like length share a batch, and a batch is as wide as its longest.

        Returns:
            A classifier: a list of {"label": …, "probabilities": {label: …}}. A regressor: a list of {"score": …}.
            An encoder: {"pooled_output": float32 [N,H]}.

        Raises:
            ValueError: something is no text, texts and pairs differ in number, or the head is the pre-trainer's.
        """
        if self.head == "pretrainer":
            raise ValueError("a pre-trainer answers no texts: load it with head='encoder' for the encoder's outputs")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1: got {batch_size}")
        columns = [as_strings(column) for column in (texts, pairs) if column is not None]
        sizes = [len(column) for column in columns]
        if sizes != sizes[:1] * len(sizes):
            raise ValueError(f"expected a pair for each of {sizes[0]} texts, got {sizes[1]}")
        order = np.argsort(sum(tf.strings.length(column).numpy() for column in columns), kind="stable")
        found: dict[str, list[np.ndarray]] = {}
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            inputs = dict(self.preprocessor(*(tf.gather(column, rows) for column in columns)))
            for name, value in self.answer(*(inputs[key] for key in INPUT_NAMES)).items():
                found.setdefault(name, []).append(value.numpy())
        back = np.argsort(order, kind="stable")
        return self.rows({name: np.concatenate(values)[back] for name, values in found.items()})

    def rows(self, found: dict[str, np.ndarray]) -> list[dict[str, Any]] | dict[str, np.ndarray]:
        if self.head == "classifier":
            labels = self.labels or ()
            return [
                {"label": label.decode("utf-8"), "probabilities": dict(zip(labels, map(float, row), strict=True))}
                for label, row in zip(found.get("label", ()), found.get("probabilities", ()), strict=True)
            ]
        if self.head == "regressor":
            return [{"score": float(score)} for score in found.get("score", ())]
        return found or {"pooled_output": np.zeros((0, self.config.hidden_size), np.float32)}


def check_labels(labels: tuple[str, ...] | None, units: int) -> None:
    if labels is None or len(labels) != units or len(set(labels)) != units:
        raise ValueError(f"expected {units} different labels, one for each unit of the classifier, got {labels}")
