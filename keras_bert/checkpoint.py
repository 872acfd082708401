"""Our variables ↔ canonical (transformers') weight names, and how strictly a checkpoint must fit its model.

Everything that reads or writes weights, of whatever format, goes through canonical names, here always with the `bert.`
prefix; only this file knows how our variables are called and that query, key and value share one kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np

from keras_bert.config import Config

if TYPE_CHECKING:
    from keras_bert.text.tokenizer import Tokenizer

Weights = Mapping[str, np.ndarray]
MANY_MISSING = 8  # layers; where fewer are missing, a model is built and their weights are named


@dataclass
class Source:
    """What a checkpoint of any origin is read into, before a model is made of it."""

    where: str  # as errors name it
    config: Config
    weights: dict[str, np.ndarray]  # canonical names
    tokenizer: Tokenizer | None
    keys: dict[str, Any] = field(default_factory=dict)  # of config.json: architectures, id2label, …
    info: dict[str, Any] = field(default_factory=dict)  # of keras_bert.json


class Slot(NamedTuple):
    """Where one canonical weight lives: a variable, or (`third` 0, 1, 2: query, key, value) a third of its columns."""

    name: str
    variable: keras.Variable
    transposed: bool = False
    third: int | None = None

    def shape(self) -> tuple[int, ...]:
        shape = tuple(self.variable.shape)
        if self.third is not None:
            shape = (*shape[:-1], shape[-1] // 3)
        return shape[::-1] if self.transposed else shape


def collect(model: keras.Model) -> dict[str, np.ndarray]:
    """Every weight of an encoder or a head model under its canonical name, float32, laid out as transformers does."""
    weights = {}
    for slot in slots(model):
        value = np.asarray(keras.ops.convert_to_numpy(slot.variable), np.float32)
        if slot.third is not None:
            value = np.split(value, 3, axis=-1)[slot.third]
        weights[slot.name] = np.ascontiguousarray(value.T if slot.transposed else value)
    return weights


def assign(
    model: keras.Model, weights: Weights, where: str = "the weights", fresh: Collection[str] = (), remedy: str = ""
) -> None:
    """Gives an encoder or a head model its weights, all of them and nothing left over, or changes none.

    Args:
        model: from `build_encoder` or a head's builder.
        weights: canonical name (`bert.` prefix) → array.
        where: what the weights came from, for errors.
        fresh: names that may be missing, and keep the value they have.
        remedy: what to do about missing and unused weights, for errors.

    Raises:
        ValueError: a weight is missing, unused, misshaped, no float, or not finite; the first few are named.
    """
    wanted = [slot for slot in slots(model) if slot.name not in fresh]
    check_names([slot.name for slot in wanted], weights, where, remedy)
    check_values(wanted, weights, where)
    thirds: dict[int, list[np.ndarray]] = {}
    for slot in wanted:
        value = weights[slot.name].T if slot.transposed else weights[slot.name]
        if slot.third is None:
            slot.variable.assign(value)
            continue
        parts = thirds.setdefault(id(slot.variable), [])
        parts.append(value)
        if len(parts) == 3:
            slot.variable.assign(np.concatenate(parts, axis=-1))


def check_size(config: Config, weights: Weights, where: str) -> None:
    """Holds the config's numbers against the body's weights, before a model is built that the memory could not hold.

    Raises:
        ValueError: the config promises more layers than there are, or a table or layer of another shape.
    """
    hidden, inner = config.hidden_size, config.intermediate_size
    expected = {
        "bert.embeddings.word_embeddings.weight": (config.vocab_size, hidden),
        "bert.embeddings.position_embeddings.weight": (config.max_position_embeddings, hidden),
        "bert.embeddings.token_type_embeddings.weight": (config.type_vocab_size, hidden),
        "bert.encoder.layer.0.intermediate.dense.weight": (inner, hidden),
    }
    for name, shape in expected.items():
        if name in weights and weights[name].shape != shape:
            raise ValueError(misshaped(where, name, weights[name].shape, shape))
    layers = {name.split(".")[3] for name in weights if name.startswith("bert.encoder.layer.")}
    if config.num_hidden_layers > len(layers) + MANY_MISSING:
        raise ValueError(
            f"{where}: the config has {config.num_hidden_layers} layers (num_hidden_layers), the weights have "
            f"{len(layers)}: config and weights are not of one model; get both from the same place"
        )


def misshaped(where: str, name: str, got: tuple[int, ...], expected: tuple[int, ...]) -> str:
    return (
        f"{where}: {name} has shape {list(got)}, expected {list(expected)} from the config: "
        f"config and weights are not of one model; get both from the same place"
    )


def check_names(wanted: Iterable[str], weights: Weights, where: str, remedy: str) -> None:
    missing = [name for name in wanted if name not in weights]
    unused = sorted(set(weights) - set(wanted))
    if missing or unused:
        said = [
            f"{len(names)} {kind} ({some(names)})"
            for kind, names in (("missing", missing), ("unused", unused))
            if names
        ]
        remedy = remedy or "check that config.json belongs to these weights"
        raise ValueError(f"{where}: expected exactly the model's weights, got {' and '.join(said)}; {remedy}")


def check_values(wanted: Iterable[Slot], weights: Weights, where: str) -> None:
    for slot in wanted:
        value = weights[slot.name]
        if value.shape != slot.shape():
            raise ValueError(misshaped(where, slot.name, value.shape, slot.shape()))
        if value.dtype.kind != "f":
            raise ValueError(f"{where}: {slot.name} has type {value.dtype}, expected a float type; save it as float32")
        if not np.isfinite(value).all():
            count = int(np.size(value) - np.isfinite(value).sum())
            raise ValueError(
                f"{where}: {slot.name} holds {count} values that are NaN or infinite, expected numbers: the training "
                f"that wrote it had diverged, or the file is damaged; use an earlier checkpoint"
            )


def some(names: Iterable[str], limit: int = 3) -> str:
    names = list(names)
    return ", ".join(names[:limit]) + (", …" if len(names) > limit else "")


def slots(model: keras.Model) -> list[Slot]:
    """Every variable of an encoder or a head model, by canonical name."""
    head = getattr(model, "head", None)
    return encoder_slots(model) if head is None else encoder_slots(model.encoder) + HEAD_SLOTS[head](model)


def encoder_slots(encoder: keras.Model) -> list[Slot]:
    embeddings = encoder.get_layer("embeddings")
    prefix = "bert.embeddings"
    found = [
        Slot(f"{prefix}.word_embeddings.weight", embeddings.word_table),
        Slot(f"{prefix}.position_embeddings.weight", embeddings.position_table),
        Slot(f"{prefix}.token_type_embeddings.weight", embeddings.type_table),
        *norm_slots(f"{prefix}.LayerNorm", embeddings.norm),
    ]
    for index in range(encoder.config.num_hidden_layers):
        found += block_slots(f"bert.encoder.layer.{index}", encoder.get_layer(f"block_{index}"))
    return found + dense_slots("bert.pooler.dense", encoder.get_layer("pooler").dense)


def block_slots(prefix: str, block: Any) -> list[Slot]:
    found = []
    for third, part in enumerate(("query", "key", "value")):
        found += dense_slots(f"{prefix}.attention.self.{part}", block.attention.qkv, third)
    return [
        *found,
        *dense_slots(f"{prefix}.attention.output.dense", block.attention.output_dense),
        *norm_slots(f"{prefix}.attention.output.LayerNorm", block.attention_norm),
        *dense_slots(f"{prefix}.intermediate.dense", block.feed_forward.inner),
        *dense_slots(f"{prefix}.output.dense", block.feed_forward.outer),
        *norm_slots(f"{prefix}.output.LayerNorm", block.output_norm),
    ]


def dense_slots(prefix: str, dense: Any, third: int | None = None) -> list[Slot]:
    return [Slot(f"{prefix}.weight", dense.kernel, True, third), Slot(f"{prefix}.bias", dense.bias, False, third)]


def norm_slots(prefix: str, norm: Any) -> list[Slot]:
    return [Slot(f"{prefix}.weight", norm.gamma), Slot(f"{prefix}.bias", norm.beta)]


def pretrainer_slots(model: keras.Model) -> list[Slot]:
    masked_lm = model.get_layer("masked_lm")
    return [
        *dense_slots("cls.predictions.transform.dense", masked_lm.dense),
        *norm_slots("cls.predictions.transform.LayerNorm", masked_lm.norm),
        Slot("cls.predictions.bias", masked_lm.bias),
        *dense_slots("cls.seq_relationship", model.get_layer("next_sentence")),
    ]


# transformers calls a regressor's one unit "classifier" too.
HEAD_SLOTS = {
    "classifier": lambda model: dense_slots("classifier", model.get_layer("classifier")),
    "regressor": lambda model: dense_slots("classifier", model.get_layer("regressor")),
    "pretrainer": pretrainer_slots,
}
