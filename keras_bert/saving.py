"""`save`: a Bert as a checkpoint directory, or as another library's; written whole or not at all."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.bert import Bert
from keras_bert.checkpoint import Weights, collect, some
from keras_bert.convert import google, transformers
from keras_bert.files import atomic_directory

OWN_FILES = re.compile(
    r"(config|keras_bert|tokenizer|tokenizer_config|special_tokens_map|added_tokens)\.json|vocab\.txt"
    r"|model.*\.safetensors(\.index\.json)?|pytorch_model.*|tf_model\.h5|flax_model\.msgpack"
)


def save(bert: Bert, directory: str | os.PathLike[str], overwrite: bool = True) -> None:
    """Writes the checkpoint directory, which transformers loads too. A reader sees the old one or the new one.

    Files of other programs in a directory that is replaced stay in it.

    Raises:
        FileExistsError: `overwrite` is off and there is something.
        ValueError: a weight is NaN or infinite; what was in the directory stays.
        OSError: it cannot be written; what was in the directory stays.
    """
    weights = finite_weights(bert)
    with atomic_directory(directory, overwrite, keep=lambda name: not OWN_FILES.fullmatch(name)) as folder:
        write_checkpoint(bert, weights, folder)


def finite_weights(bert: Bert) -> Weights:
    weights = collect(bert.model)
    bad = [name for name, value in weights.items() if not np.isfinite(value).all()]
    if bad:
        raise ValueError(f"not saved: {len(bad)} weights hold NaN or infinity ({some(bad)}); lower the learning rate")
    return weights


def write_checkpoint(bert: Bert, weights: Weights, folder: Path) -> None:
    """transformers' layout, with keras_bert.json beside; config.json last."""
    dropout = bert.model.get_layer("head_dropout").rate if bert.head in ("classifier", "regressor") else None
    keys = transformers.config_keys(bert.config, bert.head, bert.labels, dropout)
    transformers.write_weights(weights, bert.head, folder / transformers.WEIGHTS)
    write_text_files(bert, folder)
    write_json(folder / transformers.CONFIG, keys)


def write_google(bert: Bert, weights: Weights, folder: Path) -> None:
    """google-research/bert's layout; keras_bert.json and tokenizer_config.json beside, which its code passes over.

    Raises:
        ValueError: attention is causal, of which that code knows nothing.
    """
    refuse_causal(bert, "google-research/bert")
    step = (bert.info.get("provenance") or {}).get("global_step", 0)
    google.write(weights, bert.config, folder, step)
    write_text_files(bert, folder)


def write_keras_hub(bert: Bert, weights: Weights, folder: Path) -> None:
    """A KerasHub preset: BertBackbone and BertTokenizer.

    Raises:
        ValueError: there is a head, for which a backbone has no place, or attention is causal.
    """
    from keras_bert.convert import keras_hub

    refuse_causal(bert, "KerasHub's BertBackbone")
    if bert.head is not None:
        raise ValueError(f"KerasHub's BertBackbone has no place for the {bert.head}: give --body_only (head='encoder')")
    keras_hub.write(weights, bert.config, bert.tokenizer, folder)


def refuse_causal(bert: Bert, format: str) -> None:
    if bert.config.attention == "causal":
        raise ValueError(
            f"{format} attends to all tokens and would give other numbers, this model to earlier ones only: save it as "
            f"transformers', which has is_decoder for that"
        )


FORMATS: dict[str, Callable[[Bert, Weights, Path], None]] = {
    "transformers": write_checkpoint,
    "keras_bert": write_checkpoint,  # the same layout
    "google": write_google,
    "keras_hub": write_keras_hub,
}


def write_text_files(bert: Bert, folder: Path) -> None:
    bert.tokenizer.save(folder, model_max_length=bert.max_length)
    text = {**(bert.info.get("text") or {}), "special_tokens_in_text": bert.tokenizer.special_tokens_in_text}
    own = {"format": transformers.FORMAT, "head": bert.head, "labels": bert.labels, "max_length": bert.max_length}
    write_json(folder / transformers.INFO, {"paired": False, **bert.info, **own, "text": text})


def write_json(path: Path, keys: dict[str, Any]) -> None:
    path.write_text(json.dumps(keys, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
