"""A run's state, in `state/` of its output: what it is a run of, where it stands, and what it takes to go on.

`run.json` names everything that decides the result; another command, model or data in the same output is refused.
`latest.safetensors` holds every variable of model and optimiser, dropout's seeds included, and the position; it is
replaced whole, so that a run killed at any moment goes on from the one before or the one after. Pre-training keeps its
states elsewhere, in checkpoints (`pretrain_checkpoints.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.files import atomic_write

REPORTS = (
    *("metrics.json", "history.csv", "predictions.tsv", "predictions_mismatched.tsv", "report.md", "tensorboard"),
    *("curves.png", "checkpoints"),
)


class Run:
    """The directory of one run. `with Run.open(...) as run:` holds it against other processes."""

    def __init__(self, output: Path, identity: dict[str, Any]) -> None:
        self.output, self.identity = output, identity
        self.folder = output / "state"
        self.latest, self.best = self.folder / "latest.safetensors", self.folder / "best.safetensors"

    @classmethod
    @contextlib.contextmanager
    def open(cls, output: str | os.PathLike[str], identity: dict[str, Any], overwrite: bool) -> Iterator[Run]:
        """Takes the output for this run: fresh, to go on with, or finished (`run.finished`).

        Args:
            output: the directory; made when it is not there.
            identity: name → value (JSON), everything that decides the result.
            overwrite: replace another run's output, or a finished one's; an unfinished one of this run goes on all the
                same, so that the same command can be given again.

        Raises:
            FileExistsError: the output holds another run, or something else; the message names the differences.
            ValueError: what says which run it holds is damaged.
            BlockingIOError: another process is at work there.
        """
        run = cls(Path(output), json.loads(json.dumps(identity)))
        if run.output.exists() and not run.output.is_dir():
            raise FileExistsError(f"--output {output} is a file; give a directory")
        before = run.read_identity()
        foreign = before is None and run.output.is_dir() and any(run.output.iterdir())
        if foreign and not overwrite:
            raise FileExistsError(f"--output {output} holds something else; give another, or --overwrite to replace it")
        run.folder.mkdir(parents=True, exist_ok=True)
        with run.lock():
            run.remove_drafts()
            if before is not None and before["identity"] != run.identity and not run.begun:
                run.clear()  # it failed before it had anything to keep
            elif before is not None and before["identity"] != run.identity:
                if not overwrite:
                    raise FileExistsError(refusal(output, before["identity"], run.identity))
                run.clear()
            elif foreign or (run.finished and overwrite):
                run.clear()
            if not run.finished:
                run.write_identity(finished=False)
            yield run

    @property
    def begun(self) -> bool:
        """Whether there is work that a new run would take the place of."""
        kept = [
            self.latest,
            self.best,
            self.output / "metrics.json",
            self.output / "config.json",
            *self.output.glob("checkpoints/step-*"),
        ]
        return any(path.exists() for path in kept)

    def remove_drafts(self) -> None:
        """What a killed process was writing; while the lock is held, no other one is."""
        for folder in (self.output, self.folder, self.output / "checkpoints"):
            for draft in folder.glob(".*.????????????.draft"):
                shutil.rmtree(draft, ignore_errors=True) if draft.is_dir() else draft.unlink(missing_ok=True)

    @property
    def finished(self) -> bool:
        before = self.read_identity()
        return before is not None and before["finished"] and (self.output / "metrics.json").is_file()

    def read_identity(self) -> dict[str, Any] | None:
        path = self.folder / "run.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:
            found = None
        if not isinstance(found, dict) or not {"identity", "finished"} <= found.keys():
            raise ValueError(f"{path} is damaged; {start_anew(path)}")
        return found

    def write_identity(self, finished: bool) -> None:
        with atomic_write(self.folder / "run.json") as file:
            json.dump({"identity": self.identity, "finished": finished}, file, indent=1, ensure_ascii=False)

    def clear(self) -> None:
        """Forgets the run that was here; the checkpoint it left stays until this one's takes its place."""
        for name in ("run.json", "latest.safetensors", "best.safetensors"):
            (self.folder / name).unlink(missing_ok=True)
        for name in REPORTS:
            path = self.output / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def finish(self) -> None:
        """Marks the run as finished and lets its state go: the checkpoint and the reports are whole."""
        self.write_identity(finished=True)
        self.latest.unlink(missing_ok=True)
        self.best.unlink(missing_ok=True)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Held by one process at a time; the system lets it go when that process dies."""
        try:
            import fcntl
        except ImportError:  # Windows
            yield
            return
        with open(self.folder / "lock", "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BlockingIOError(
                    f"another process is at work in {self.output}; wait, or give another --output"
                ) from None
            yield


def refusal(output: str | os.PathLike[str], before: dict[str, Any], now: dict[str, Any]) -> str:
    """One line: what differs between the run in the output and this one."""
    names = [*now, *(name for name in before if name not in now)]
    changed = [name for name in names if before.get(name) != now.get(name)]
    told = "; ".join(f"{name} was {short(before.get(name))}, is {short(now.get(name))}" for name in changed[:5])
    more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
    return (
        f"--output {output} holds another run: {told}{more}; give the same command to go on with it, another --output "
        f"for a new run, or --overwrite to start anew here"
    )


def short(value: Any, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def save_state(path: Path, variables: Sequence[Any], position: Mapping[str, Any]) -> None:
    """Writes variables' values and a position (JSON) to one file, which takes the place of the old one whole."""
    write_state(path, snapshot(variables), position)


def snapshot(variables: Sequence[Any]) -> dict[str, np.ndarray]:
    """Copies of variables' values, by name."""
    return {name: np.array(value_of(variable), order="C") for name, variable in zip(names_of(variables), variables)}


def value_of(variable: Any) -> np.ndarray:
    """A Keras variable's value; of one that has a copy on each of several devices, the first one's."""
    return tf.convert_to_tensor(variable).numpy()


def write_state(path: Path, tensors: Mapping[str, np.ndarray], position: Mapping[str, Any]) -> None:
    from safetensors.numpy import save

    data = save(dict(tensors), {"position": json.dumps(position)})
    with atomic_write(path, "wb") as file:
        file.write(data)


def load_state(path: Path, variables: Sequence[Any]) -> dict[str, Any]:
    """Gives variables the values that `save_state` wrote, and returns the position.

    Raises:
        ValueError: the file is damaged, or holds other variables than these.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            names = names_of(variables)
            if sorted(names) != sorted(file.keys()):
                raise ValueError(f"{path} is of another version of this library; {start_anew(path)}")
            for name, variable in zip(names, variables):
                variable.assign(file.get_tensor(name).reshape(variable.shape))
            return json.loads(file.metadata()["position"])
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged ({error}); {start_anew(path)}") from None


def start_anew(path: Path) -> str:
    """The way out of a state that cannot be read; --overwrite alone would go on with it."""
    return f"delete {path.parent} and give --overwrite: the run starts from its beginning"


def names_of(variables: Sequence[Any]) -> list[str]:
    """A name each: its number, and its path without the counts that Keras adds to a second model's in one process."""
    return [f"{index}:{re.sub(r'_[0-9]+(?=/|$)', '', variable.path)}" for index, variable in enumerate(variables)]
