"""`load`: from any origin to a Bert; which head it gets, and which weights start fresh."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Sequence

import keras

from keras_bert.bert import Bert
from keras_bert.checkpoint import Source, assign, check_size, slots, some
from keras_bert.convert import transformers
from keras_bert.encoder import build_encoder
from keras_bert.heads import build_classifier, build_pretrainer, build_regressor
from keras_bert.origins import read_origin

HEADS = ("classifier", "regressor", "pretrainer", "encoder")
HEAD_PARTS = ("classifier", "cls", "qa_outputs")  # how canonical names of a head's weights begin
log = logging.getLogger("keras_bert")


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
    if head == "pretrainer":
        transformers.check_tied(source.weights, source.where)
    names = head_labels(source, head, labels, num_labels)
    check_size(source.config, source.weights, source.where)
    model = build(source, head, len(names or ()), dtype, attention_scores)
    fresh = choose(model, source, head) if chosen or fresh_head else ()
    remedy = "" if chosen else "check that config.json belongs to these weights, or choose a head: head='encoder', …"
    assign(model, source.weights, source.where, fresh, remedy)
    limit = source.config.max_position_embeddings
    length = max_length if max_length is not None else source.info.get("max_length") or limit
    provenance = {"origin": os.fspath(origin)} | (source.info.get("provenance") or {})
    info = source.info | {"provenance": provenance}
    return Bert(model, source.tokenizer, names, length, info, fresh)


def head_labels(
    source: Source, head: str, labels: Sequence[str] | None, num_labels: int | None
) -> tuple[str, ...] | None:
    """A classifier's labels, from the arguments and the checkpoint, which must agree; None for other heads."""
    own = transformers.num_units(source.weights)
    if head != "classifier":
        if head == "regressor" and own > 1:
            raise ValueError(
                f"{source.where}: its head has {own} labels, expected one number; "
                f"give fresh_head=True (--fresh_head) for a new head"
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
    if source.keys.get("problem_type") == "multi_label_classification":
        raise ValueError(
            f"{source.where}: its classifier was trained for several labels a text (problem_type "
            f"multi_label_classification), expected one label a text, whose probabilities sum to 1; give "
            f"fresh_head=True (--fresh_head) for a new one on its body"
        )
    saved = transformers.labels_of(source, own)
    named = saved != tuple(f"LABEL_{index}" for index in range(own))  # transformers' names for units without one
    if (count and count != own) or (given and named and given != saved):
        raise ValueError(
            f"{source.where}: its classifier has the {own} labels {some(saved, 5)}, "
            f"expected {some(given, 5) if given else count}; "
            f"give fresh_head=True (--fresh_head) for a new one on its body"
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
