"""Bert: a model with its tokenizer, as `load` gives it and `save` takes it."""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.batch import INPUT_NAMES
from keras_bert.checkpoint import Source, assign, collect, slots, some
from keras_bert.config import Config
from keras_bert.convert import transformers
from keras_bert.decoding import decode_classes, decode_scores
from keras_bert.encoder import build_encoder
from keras_bert.files import atomic_directory
from keras_bert.heads import build_classifier, build_pretrainer, build_regressor
from keras_bert.origins import read_origin
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.tokenizer import Tokenizer

HEADS = ("classifier", "regressor", "pretrainer", "encoder")
HEAD_PARTS = ("classifier", "cls", "qa_outputs")  # how canonical names of a head's weights begin
OWN_FILES = re.compile(
    r"(config|keras_bert|tokenizer|tokenizer_config|special_tokens_map|added_tokens)\.json|vocab\.txt"
    r"|model.*\.safetensors(\.index\.json)?|pytorch_model.*|tf_model\.h5|flax_model\.msgpack"
)
log = logging.getLogger("keras_bert")


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

        return tf.function(decoded, input_signature=[tf.TensorSpec((None, None), tf.int32)] * 3)

    def predict(
        self, texts: Sequence[str] | str, pairs: Sequence[str] | str | None = None, batch_size: int = 32
    ) -> list[dict[str, Any]] | dict[str, np.ndarray]:
        """What the model says of each text, or of each text with its pair, in the order given.

        Texts of like length share a batch, and a batch is as wide as its longest.

        Returns:
            A classifier: a list of {"label": …, "probabilities": {label: …}}. A regressor: a list of {"score": …}.
            An encoder: {"pooled_output": float32 [N,H]}.

        Raises:
            ValueError: texts and pairs differ in number, or the head is the pre-trainer's.
        """
        if self.head == "pretrainer":
            raise ValueError("a pre-trainer answers no texts: load it with head='encoder' for the encoder's outputs")
        texts = [texts] if isinstance(texts, str) else list(texts)
        pairs = [pairs] if isinstance(pairs, str) else pairs if pairs is None else list(pairs)
        if pairs is not None and len(pairs) != len(texts):
            raise ValueError(f"expected a pair for each of {len(texts)} texts, got {len(pairs)}")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1: got {batch_size}")
        lengths = [len(text) + len(pairs[row] if pairs else "") for row, text in enumerate(texts)]
        order = np.argsort(lengths, kind="stable")
        found: dict[str, list[np.ndarray]] = {}
        for start in range(0, len(texts), batch_size):
            rows = order[start : start + batch_size]
            columns = [[column[row] for row in rows] for column in (texts, pairs) if column is not None]
            inputs = self.preprocessor(*columns)
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


def load(
    origin: str | os.PathLike[str],
    *,
    head: str | None = None,
    num_labels: int | None = None,
    labels: Sequence[str] | None = None,
    fresh_head: bool = False,
    max_length: int | None = None,
    lower_case: bool | None = None,
    hidden_act: str | None = None,
    dtype: str | None = "float32",
    attention_scores: bool = False,
) -> Bert:
    """A BERT of any origin, ready to predict or to be trained.

    Args:
        origin: a checkpoint directory (ours, transformers', Google's), a Google zip, "hf://org/name" or
            "keras_hub://preset".
        head: None takes the head that the checkpoint has, and every weight must be there. "classifier", "regressor",
            "pretrainer" and "encoder" choose: weights of that head (and of the pooler) that the checkpoint lacks are
            fresh, those of another head are left out; both are logged, the fresh ones also in `Bert.fresh`.
        num_labels, labels: of a fresh classifier; one of them is enough.
        fresh_head: leave the checkpoint's head out even if it would fit.
        max_length: tokens a row has at most; None: as saved, else max_position_embeddings.
        lower_case: of the tokenizer; None: as the checkpoint says.
        hidden_act: None: as the checkpoint says. For a Google checkpoint whose "gelu" means the tanh approximation,
            "gelu_new".
        dtype: "float32", "mixed_bfloat16" or "mixed_float16"; weights are float32 in each.
        attention_scores: the encoder also gives its attention probabilities.

    Raises:
        ValueError: the origin is unknown or damaged, or its parts do not fit each other or the arguments.
        FileNotFoundError: there is nothing there, or a file is missing.
    """
    if head not in (None, *HEADS):
        raise ValueError(f"head must be one of {', '.join(HEADS)} or None: got {head!r}")
    source = read_origin(origin, lower_case=lower_case)
    if hidden_act is not None:
        source.config = dataclasses.replace(source.config, hidden_act=hidden_act)
    if source.tokenizer is None:
        raise FileNotFoundError(f"{source.where} has no vocabulary: put the vocab.txt of these weights beside them")
    if head is None:
        head, chosen = transformers.detect_head(source) or "encoder", False
    else:
        chosen = True
    architecture = next(iter(source.keys.get("architectures") or []), None)
    # A tagger's or a chooser's weights are called "classifier" too.
    foreign = architecture not in transformers.SEQUENCE and head in ("classifier", "regressor")
    if fresh_head or foreign:
        source.weights = {name: value for name, value in source.weights.items() if part_of(name) != "classifier"}
    names = head_labels(source, head, labels, num_labels)
    model = build(source, head, len(names or ()), dtype, attention_scores)
    fresh = choose(model, source, head) if chosen or fresh_head else ()
    remedy = "" if chosen else "check that config.json belongs to these weights, or choose a head: head='encoder', …"
    assign(model, source.weights, source.where, fresh, remedy)
    limit = source.config.max_position_embeddings
    length = max_length or source.info.get("max_length") or limit
    info = {"provenance": {"origin": os.fspath(origin)}} | source.info
    return Bert(model, source.tokenizer, names, length, info, fresh)


def head_labels(
    source: Source, head: str, labels: Sequence[str] | None, num_labels: int | None
) -> tuple[str, ...] | None:
    """A classifier's labels, from the arguments and the checkpoint, which must agree; None for other heads."""
    own = len(np.atleast_1d(source.weights["classifier.bias"])) if "classifier.bias" in source.weights else 0
    if head != "classifier":
        if head == "regressor" and own > 1:
            raise ValueError(
                f"{source.where}: its head has {own} labels, expected one number; give fresh_head=True for a new head"
            )
        if labels is not None or num_labels not in (None, 1):
            raise ValueError(f"labels and num_labels are for a classifier: the head is {head}; give head='classifier'")
        return None
    given = tuple(str(label) for label in labels) if labels is not None else None
    if given is not None and num_labels not in (None, len(given)):
        raise ValueError(f"num_labels is {num_labels}, but {len(given)} labels are given; give one of the two")
    count = num_labels or len(given or ())
    if not own:
        if not count:
            raise ValueError(f"{source.where} has no classifier: give labels or num_labels for a fresh one")
        return given or tuple(f"LABEL_{index}" for index in range(count))
    saved = transformers.labels_of(source, own)
    named = saved != tuple(f"LABEL_{index}" for index in range(own))  # transformers' names for units without one
    if (count and count != own) or (given and named and given != saved):
        raise ValueError(
            f"{source.where}: its classifier has the {own} labels {some(saved, 5)}, "
            f"expected {some(given, 5) if given else count}; give fresh_head=True for a new classifier on its body"
        )
    return given or saved


def build(source: Source, head: str, num_labels: int, dtype: str | None, attention_scores: bool) -> keras.Model:
    encoder = build_encoder(source.config, attention_scores=attention_scores, dtype=dtype)
    dropout = source.keys.get("classifier_dropout")
    if head == "classifier":
        return build_classifier(encoder, num_labels, dropout)
    if head == "regressor":
        return build_regressor(encoder, dropout)
    return build_pretrainer(encoder) if head == "pretrainer" else encoder


def choose(model: keras.Model, source: Source, head: str) -> tuple[str, ...]:
    """For a head that was asked for: which weights start fresh; those of other heads are taken out of the source."""
    wanted = [slot.name for slot in slots(model)]
    parts = {part_of(name) for name in wanted} - {None}
    foreign = {part_of(name) for name in source.weights if name.split(".")[0] in HEAD_PARTS} - parts
    left_out = sorted(name for name in source.weights if part_of(name) in foreign)
    for name in left_out:
        del source.weights[name]
    loaded_parts = {part_of(name) for name in source.weights}
    fresh = tuple(name for name in wanted if part_of(name) is not None and part_of(name) not in loaded_parts)
    if left_out:
        log.info("%s: left out %d weights of another head (%s)", source.where, len(left_out), some(left_out))
    if fresh:
        log.info("%s: no weights for the %s's %s: they start fresh", source.where, head, some(fresh, len(fresh)))
    return fresh


def part_of(name: str) -> str | None:
    """The part that is loaded or fresh as one: a head's, or the pooler; None for the rest of the body."""
    parts = name.split(".")
    if parts[0] == "bert":
        return "bert.pooler" if parts[1] == "pooler" else None
    return ".".join(parts[:2]) if parts[0] == "cls" else parts[0]


def save(bert: Bert, directory: str | os.PathLike[str], overwrite: bool = True) -> None:
    """Writes the checkpoint directory, which transformers loads too. A reader sees the old one or the new one.

    Files of other programs in a directory that is replaced stay in it.

    Raises:
        FileExistsError: `overwrite` is off and there is something.
        ValueError: a weight is NaN or infinite; what was in the directory stays.
        OSError: it cannot be written; what was in the directory stays.
    """
    weights = collect(bert.model)
    bad = [name for name, value in weights.items() if not np.isfinite(value).all()]
    if bad:
        raise ValueError(f"not saved: {len(bad)} weights hold NaN or infinity ({some(bad)}); lower the learning rate")
    dropout = bert.model.get_layer("head_dropout").rate if bert.head in ("classifier", "regressor") else None
    text = {**(bert.info.get("text") or {}), "special_tokens_in_text": bert.tokenizer.special_tokens_in_text}
    own = {"format": transformers.FORMAT, "head": bert.head, "labels": bert.labels, "max_length": bert.max_length}
    with atomic_directory(directory, overwrite, keep=lambda name: not OWN_FILES.fullmatch(name)) as folder:
        transformers.write_weights(weights, bert.head, folder / transformers.WEIGHTS)
        bert.tokenizer.save(folder, model_max_length=bert.max_length)
        write_json(folder / transformers.INFO, {"paired": False, **bert.info, **own, "text": text})
        write_json(folder / transformers.CONFIG, transformers.config_keys(bert.config, bert.head, bert.labels, dropout))


def write_json(path: Path, keys: dict[str, Any]) -> None:
    path.write_text(json.dumps(keys, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
