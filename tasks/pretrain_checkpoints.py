"""The checkpoints of a pre-training: each a checkpoint directory that loads everywhere, with what it takes to go on."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.bert import Bert
from keras_bert.checkpoint import assign, slots
from keras_bert.convert import transformers
from keras_bert.files import atomic_directory
from keras_bert.saving import finite_weights, write_checkpoint
from keras_bert.tasks.state import load_state, snapshot, write_state

NAME = re.compile(r"step-(\d{8,})")
STATE = Path("state", "training.safetensors")


class Checkpoints:
    """`step-00001000/`, … in a folder; the last few are kept.

    A save copies the values and returns; a thread writes them, while the training goes on. Each directory appears whole
    or not at all.

    Args:
        folder: where they lie; made by the first save.
        bert: the model in training.
        optimizer: its variables, with dropout's seeds, are the state; the weights are read from model.safetensors.
        keep_last: how many are kept.
    """

    def __init__(self, folder: Path, bert: Bert, optimizer: Any, keep_last: int) -> None:
        self.folder, self.bert, self.keep_last = folder, bert, keep_last
        weights = {id(slot.variable) for slot in slots(bert.model)}
        self.state = [variable for variable in bert.model.variables if id(variable) not in weights]
        self.state += optimizer.variables
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self.writing: Future[None] | None = None

    def latest(self) -> Path | None:
        """The one with the highest step, or None."""
        found = steps_in(self.folder)
        return found[max(found)] if found else None

    def load(self, path: Path) -> dict[str, Any]:
        """Gives model and optimiser what a checkpoint holds; returns its position.

        Raises:
            ValueError: it is damaged, or of another model or optimiser.
            FileNotFoundError: a file of it is missing.
        """
        weights = transformers.read(path).weights
        assign(self.bert.model, weights, os.fspath(path))
        return load_state(path / STATE, self.state)

    def save(self, step: int, position: Mapping[str, Any]) -> None:
        """Copies the values, and has them written.

        Raises:
            ValueError: a weight is NaN or infinite.
            OSError: the one before could not be written.
        """
        weights = {name: own(value) for name, value in finite_weights(self.bert).items()}
        state, position = snapshot(self.state), dict(position)
        self.wait()
        self.writing = self.thread.submit(self.write, self.folder / f"step-{step:08}", weights, state, position)

    def write(
        self, path: Path, weights: dict[str, np.ndarray], state: dict[str, np.ndarray], position: dict[str, Any]
    ) -> None:
        with atomic_directory(path, overwrite=True) as folder:
            write_checkpoint(self.bert, weights, folder)
            (folder / STATE).parent.mkdir()
            write_state(folder / STATE, state, position)
        found = steps_in(self.folder)
        for old in sorted(found)[: -self.keep_last]:
            away = found[old].rename(self.folder / f".{found[old].name}.old")  # at once, so that none looks whole
            shutil.rmtree(away)
        for left in self.folder.glob(".step-*.old"):  # by a kill
            shutil.rmtree(left, ignore_errors=True)

    def wait(self) -> None:
        """Until what is being written is on the disk.

        Raises:
            OSError: it could not be.
        """
        if self.writing is not None:
            self.writing.result()

    def close(self) -> None:
        self.thread.shutdown()


def own(value: np.ndarray) -> np.ndarray:
    """The array, or a copy where it may be a view of a variable's memory."""
    return value if value.flags.owndata else value.copy()


def steps_in(folder: Path) -> dict[int, Path]:
    """The whole checkpoints of a folder, by step."""
    entries = list(folder.iterdir()) if folder.is_dir() else []
    found = {path: NAME.fullmatch(path.name) for path in entries}
    return {int(match[1]): path for path, match in found.items() if match and (path / transformers.CONFIG).is_file()}


def find_state(origin: str | os.PathLike[str]) -> Path:
    """The checkpoint with a state that `--continue_from` names: itself, or the last one of a run's output.

    Raises:
        FileNotFoundError: there is none.
    """
    path = Path(origin)
    if (path / STATE).is_file():
        return path
    found = steps_in(path / "checkpoints")
    if not found:
        raise FileNotFoundError(
            f"--continue_from {origin}: expected the output of a `keras-bert pretrain`, or a step-… folder of its "
            f"checkpoints, with {STATE}; to start from the weights alone give --model {origin}"
        )
    return found[max(found)]
