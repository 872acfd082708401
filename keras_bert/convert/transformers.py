"""The checkpoint directory, which is transformers' own layout: config.json, model.safetensors, vocab.txt, …

Beside transformers' files lies keras_bert.json, for what transformers has no key for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.checkpoint import Source, Weights
from keras_bert.config import Config
from keras_bert.convert.tokenizer_files import read_tokenizer
from keras_bert.safetensors_file import INDEX, read_shards, read_tensors
from keras_bert.text.directory import read_object

CONFIG, WEIGHTS, INFO = "config.json", "model.safetensors", "keras_bert.json"
FORMAT = 1
INFO_KINDS = {"format": int, "head": str, "labels": list, "max_length": int, "text": dict, "provenance": dict}
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.bin")
SAFE = (
    "import torch, safetensors.torch as s; w = torch.load('pytorch_model.bin', weights_only=True); "
    "s.save_file({k: v.clone() for k, v in w.items()}, 'model.safetensors')"
)
OTHER_WEIGHTS = ("tf_model.h5", "flax_model.msgpack", "model.h5")
BUFFERS = re.compile(r"^(bert\.)?embeddings\.(position_ids|token_type_ids)$")  # counts, not weights
# What transformers calls a model of each head, and the start of the weights that a head of each kind has.
ARCHITECTURES = {
    None: "BertModel",
    "classifier": "BertForSequenceClassification",
    "regressor": "BertForSequenceClassification",
    "pretrainer": "BertForPreTraining",
}
SEQUENCE = (None, "BertForSequenceClassification", "BertModel")


def read(directory: str | os.PathLike[str]) -> Source:
    """A checkpoint directory, ours or transformers' or sentence-transformers'.

    Raises:
        ValueError: a file is damaged, does not fit the others, or is of a kind that is refused; the message says which.
        FileNotFoundError: a file is missing.
    """
    folder = Path(directory)
    if not (folder / CONFIG).is_file():
        raise FileNotFoundError(
            f"{folder} has no {CONFIG}: expected a checkpoint directory with {CONFIG}, {WEIGHTS} and vocab.txt"
        )
    keys = read_object(folder / CONFIG)
    refuse_other_results(keys, folder / CONFIG)
    check_head_keys(keys, folder / CONFIG)
    config = Config.from_dict(keys, where=str(folder / CONFIG))
    info = read_info(folder)
    limit = config.max_position_embeddings
    if info.get("max_length") is not None and not 2 <= info["max_length"] <= limit:
        raise ValueError(
            f"{folder / INFO}: max_length is {info['max_length']}, expected from 2 to {limit} "
            f"(max_position_embeddings); correct it"
        )
    tokenizer = read_tokenizer(folder, config, info.get("text") or {})
    return Source(str(folder), config, read_weights(folder), tokenizer, keys, info)


def read_info(folder: Path) -> dict[str, Any]:
    """What keras_bert.json holds; empty where there is none.

    Raises:
        ValueError: it is damaged, or of a later format.
    """
    info = read_object(folder / INFO)
    labels = info.get("labels")
    if isinstance(labels, list) and not all(isinstance(label, str) for label in labels):
        raise ValueError(f"{folder / INFO}: labels is {labels!r}, expected texts; write it again")
    for key, kind in INFO_KINDS.items():
        if not isinstance(info.get(key), kind | None):
            raise ValueError(f"{folder / INFO}: {key} is {info[key]!r}, expected {kind.__name__}; write it again")
    if (info.get("format") or FORMAT) > FORMAT:
        raise ValueError(f"{folder / INFO}: format {info['format']!r}, expected at most {FORMAT}: update keras_bert")
    return info


def refuse_other_results(keys: Mapping[str, Any], path: Path) -> None:
    """Keys beyond Config's that would make the same weights give other numbers.

    Raises:
        ValueError: one is set.
    """
    for key in ("pruned_heads", "quantization_config"):
        if keys.get(key):
            raise ValueError(f"{path}: {key} is {keys[key]!r}, expected none: not supported; use the full model")


def check_head_keys(keys: Mapping[str, Any], path: Path) -> None:
    """The keys that tell of the head, in the forms that transformers writes.

    Raises:
        ValueError: one has another form.
    """
    names, dropout = keys.get("architectures"), keys.get("classifier_dropout")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError(f"{path}: architectures is {names!r}, expected a list of names; correct it")
    number = isinstance(dropout, int | float) and not isinstance(dropout, bool)
    if dropout is not None and not (number and 0 <= dropout < 1):
        raise ValueError(f"{path}: classifier_dropout is {dropout!r}, expected a number from 0 up to, not including, 1")


def read_weights(folder: Path) -> dict[str, np.ndarray]:
    """The weights of a directory under canonical names.

    Raises:
        ValueError: they are pickled, damaged, or of another library's format.
        FileNotFoundError: there are none.
    """
    if (folder / WEIGHTS).is_file():
        return canonical(read_tensors(folder / WEIGHTS), str(folder / WEIGHTS))
    if (folder / INDEX).is_file():
        return canonical(read_shards(folder / INDEX), str(folder / INDEX))
    for name in PICKLES:
        if (folder / name).is_file():
            raise ValueError(
                f"{folder / name} is a pickle, and loading a pickle may run any code that is in it: refused. Make a "
                f'{WEIGHTS} of it once, in that directory, with torch: python -c "{SAFE}"'
            )
    for name in OTHER_WEIGHTS:
        if (folder / name).is_file():
            raise ValueError(f"{folder / name}: not read here, expected {WEIGHTS}; re-save it with transformers")
    raise FileNotFoundError(f"{folder} has no weights: expected {WEIGHTS} or {INDEX} beside {CONFIG}")


def canonical(tensors: Weights, where: str) -> dict[str, np.ndarray]:
    """The same weights under today's names, all with the `bert.` prefix; copies of tied weights are left out.

    Raises:
        ValueError: two old names mean one weight.
    """
    found: dict[str, np.ndarray] = {}
    for old, value in tensors.items():
        if BUFFERS.match(old):
            continue
        name = re.sub(r"\.LayerNorm\.gamma$", ".LayerNorm.weight", old)
        name = re.sub(r"\.LayerNorm\.beta$", ".LayerNorm.bias", name)
        name = re.sub(r"^(embeddings|encoder|pooler)\.", r"bert.\1.", name)
        if name in found:
            raise ValueError(f"{where}: two of its names mean {name}, one of them {old}: remove one and save again")
        found[name] = value
    for copy, original in TIED.items():
        if copy not in found:
            continue
        if original not in found and original.startswith("cls."):
            found[original] = found.pop(copy)
        elif original in found and np.array_equal(found[copy], found[original]):
            del found[copy]
    return found


def check_tied(weights: Weights, where: str) -> None:
    """Raises ValueError where a pre-trainer's head has an output of its own; its body loads all the same."""
    for copy, original in TIED.items():
        if copy in weights and original in weights:
            raise ValueError(
                f"{where}: {copy} differs from {original}, expected equal values: BERT ties the two, and there is no "
                f"untied head here; give head='encoder' for the body"
            )


TIED = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}


def detect_head(source: Source) -> str | None:
    """The head a checkpoint has: what keras_bert.json says, else by the config's architecture and the weights' names.

    Raises:
        ValueError: it has a head that is not built here.
    """
    if "head" in source.info:
        if source.info["head"] not in ARCHITECTURES:
            known = ", ".join(str(head) for head in ARCHITECTURES)
            raise ValueError(f"{source.where}: {INFO} has the head {source.info['head']!r}, expected one of {known}")
        return source.info["head"]
    heads = {name.partition(".")[0] for name in source.weights if not name.startswith("bert.")}
    architecture = next(iter(source.keys.get("architectures") or []), None)
    if heads == {"cls"}:
        return "pretrainer"
    if heads == {"classifier"} and architecture in SEQUENCE:
        problem = source.keys.get("problem_type")
        units = num_units(source.weights)
        wrong = problem == "multi_label_classification" or (problem == "regression" and units > 1)
        if not wrong:
            return "regressor" if units == 1 else "classifier"
        architecture = f"{architecture} with problem_type {problem} and {units} labels"
    elif not heads:
        if architecture in (ARCHITECTURES["classifier"], ARCHITECTURES["pretrainer"]):
            raise ValueError(
                f"{source.where}: {CONFIG} promises a {architecture}, but there are no head weights; expected both or "
                f"neither; give head='encoder' for the body, or head='classifier' and the labels for a fresh head"
            )
        return None
    raise ValueError(
        f"{source.where}: the head is {architecture or 'unknown'} ({', '.join(sorted(heads))}), expected a classifier, "
        f"a regressor, a pre-trainer or none; give head='encoder' to load the body and leave the head out"
    )


def num_units(weights: Weights) -> int:
    """How many units a classifier or regressor has, by its weights; 0 where there is none."""
    parts = (weights[name] for name in ("classifier.weight", "classifier.bias") if name in weights)
    return next((len(np.atleast_1d(part)) for part in parts), 0)


def labels_of(source: Source, count: int) -> tuple[str, ...]:
    """A classifier's labels in the order of its units: id2label, as transformers has it, else LABEL_0, LABEL_1, …

    Raises:
        ValueError: there are not as many as units, or two are the same.
    """
    by_id = source.keys.get("id2label")
    if not by_id:
        return tuple(source.info.get("labels") or (f"LABEL_{index}" for index in range(count)))
    try:
        labels = {int(index): str(label) for index, label in by_id.items()}
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"{source.where}: id2label is {by_id!r}, expected numbers to labels") from None
    if sorted(labels) != list(range(count)):
        raise ValueError(
            f"{source.where}: id2label numbers {sorted(labels)}, but the classifier has {count} units; correct {CONFIG}"
        )
    if len(set(labels.values())) < count:
        raise ValueError(
            f"{source.where}: id2label is {by_id!r}, expected a name of its own for each unit; correct {CONFIG}"
        )
    return tuple(labels[index] for index in range(count))


def config_keys(
    config: Config, head: str | None, labels: tuple[str, ...] | None, dropout: float | None
) -> dict[str, Any]:
    """The keys of a config.json by which transformers builds the same model."""
    keys: dict[str, Any] = {"architectures": [ARCHITECTURES[head]], "model_type": "bert", **config.to_dict()}
    keys["is_decoder"] = keys.pop("attention") == "causal"
    if dropout is not None and dropout != config.hidden_dropout_prob:
        keys["classifier_dropout"] = dropout
    if head == "classifier":
        keys["id2label"] = {str(index): label for index, label in enumerate(labels or ())}
        keys["label2id"] = {label: index for index, label in enumerate(labels or ())}
        keys["problem_type"] = "single_label_classification"
    if head == "regressor":
        keys |= {
            "id2label": {"0": "LABEL_0"},
            "label2id": {"LABEL_0": 0},
            "num_labels": 1,
            "problem_type": "regression",
        }
    return keys


def write_weights(weights: Weights, head: str | None, path: Path) -> None:
    """model.safetensors, under the names transformers itself writes: without the `bert.` prefix for a bare body.

    Raises:
        OSError: the disk is full, …
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    named = {name.removeprefix("bert.") if head is None else name: value for name, value in weights.items()}
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(named, path, metadata={"format": "pt"})
        path.chmod(mode)  # as the system gives every new file; safetensors lets nobody else read its own
    except SafetensorError as error:
        raise OSError(f"{path}: could not be written ({error})") from None
