"""`keras-bert convert`: a checkpoint of any origin, written as transformers', Google's or KerasHub's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

import keras_bert as kb
from keras_bert.checkpoint import Weights, some
from keras_bert.convert import google
from keras_bert.files import atomic_directory, refuse_existing
from keras_bert.options import option, parse, required
from keras_bert.origins import read_directory
from keras_bert.saving import FORMATS, finite_weights
from keras_bert.tasks.progress import finish, say


@dataclass(frozen=True, kw_only=True)
class ConvertOptions:
    """Between transformers, Google TF1, KerasHub and this library, both ways."""

    model: str = required(
        "what to convert: a checkpoint directory of any origin, a Google zip, hf://org/name or keras_hub://preset"
    )
    to: Literal["transformers", "google", "keras_hub", "keras_bert"] = required(
        "the format to write; transformers and keras_bert are one layout"
    )
    output: str = required("the directory to write")
    body_only: bool = option(False, "leave the head out")
    lower_case: bool | None = option(None, "an uncased model; not given: as the checkpoint says")
    hidden_act: str | None = option(None, "what the weights were trained with; not given: as the checkpoint says")
    overwrite: bool = option(False, "replace the output where there is one")


def main(argv: list[str]) -> int:
    """The command.

    Raises:
        ValueError: the model is damaged, or the format has no place for what it holds.
        FileExistsError: there is something at the output, and --overwrite was not given.
    """
    options = parse(ConvertOptions, argv, "convert")
    refuse_existing(options.output, options.overwrite)
    head = "encoder" if options.body_only else None
    say(f"reading {options.model}")
    bert = kb.load(options.model, head=head, lower_case=options.lower_case, hidden_act=options.hidden_act)
    weights = finite_weights(bert)
    say(f"writing {options.output}")
    with atomic_directory(options.output, options.overwrite) as folder:
        FORMATS[options.to](bert, weights, folder)
        check_written(weights, folder)
    return finish(
        {
            "model": options.model,
            "to": options.to,
            "output": options.output,
            "head": bert.head,
            "weights": sum(int(value.size) for value in weights.values()),
            "fresh": list(bert.fresh),
            "differences": differences(bert.config, options.to),  # the writer has said them
        }
    )


def differences(config: kb.Config, to: str) -> list[str]:
    """What the other library computes otherwise than the config says."""
    if to == "keras_hub":
        from keras_bert.convert import keras_hub

        return keras_hub.differences(config)
    return google.differences(config) if to == "google" else []


def check_written(weights: Weights, folder: Path) -> None:
    """What was written is read again before it takes the output's place."""
    written = read_directory(folder).weights
    wrong = sorted(name for name in {*weights, *written} if not equal(weights.get(name), written.get(name)))
    assert not wrong, f"{len(wrong)} weights were not written as they are: {some(wrong)}"


def equal(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is not None and other is not None and np.array_equal(one, other)
