"""history.csv, row by row, and the same for TensorBoard."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_bert.files import atomic_write

# what tf.summary.scalar writes too, but that one wants the package tensorboard to be installed where the training runs
SCALAR = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"}, data_class="DATA_CLASS_SCALAR")


class Board:
    """Scalars for TensorBoard, in a folder; without one, nothing."""

    def __init__(self, folder: Path | None) -> None:
        self.writer = tf.summary.create_file_writer(str(folder)) if folder is not None else None

    def write(self, step: int, values: Mapping[str, float]) -> None:
        if self.writer is None:
            return
        with self.writer.as_default(step=step):
            for name, value in values.items():
                tf.summary.write(name, tf.constant(value, tf.float32), metadata=SCALAR)
        self.writer.flush()

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


class History:
    """A CSV file that grows by a row at a time, so that a run of any length writes each row once.

    Args:
        path: the file; `open_at` makes it.
        columns: names of a row's cells, `step` first.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path, self.columns = path, tuple(columns)

    def open_at(self, step: int) -> None:
        """Leaves the rows up to a step, from which the run goes on; a row that a kill cut short goes too."""
        rows = [row for row in self.read() if int(row["step"]) <= step]
        with atomic_write(self.path) as file:
            writer = csv.DictWriter(file, self.columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def read(self) -> list[dict[str, str]]:
        """The whole rows; none where there is no file, or one with other columns."""
        if not self.path.is_file():
            return []
        text = self.path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1].splitlines()
        rows = list(csv.DictReader(whole))
        return rows if whole and whole[0].split(",") == list(self.columns) else []

    def append(self, row: Mapping[str, Any]) -> None:
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, self.columns, lineterminator="\n").writerow(row)


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
