"""A picture of a run's history. matplotlib is imported when one is drawn."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

from keras_bert.files import atomic_write

Row = Mapping[str, str]


def plot_history(path: str | os.PathLike[str], rows: Sequence[Row], panels: Mapping[str, Mapping[str, str]]) -> None:
    """Draws columns of a history against its steps, as a PNG.

    Args:
        path: the picture.
        rows: of history.csv.
        panels: title → the curves under it, each column with its name; empty cells, and columns without any cell, are
            left out.
    """
    from matplotlib.figure import Figure

    drawn = {title: curves for title, curves in panels.items() if any(filled(rows, column) for column in curves)}
    figure = Figure(figsize=(8, 2.6 * max(1, len(drawn))), layout="constrained")
    for number, (title, curves) in enumerate(drawn.items(), 1):
        axes = figure.add_subplot(len(drawn), 1, number)
        for column, name in curves.items():
            if found := filled(rows, column):
                axes.plot(*zip(*found, strict=True), marker="." if len(found) < 40 else None, label=name)
        axes.set_title(title)
        axes.grid(alpha=0.3)
        axes.legend()
    if drawn:
        axes.set_xlabel("step")
    picture = BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    with atomic_write(Path(path), "wb") as file:
        file.write(picture.getvalue())


def filled(rows: Sequence[Row], column: str) -> list[tuple[int, float]]:
    """(step, value) of the rows that have one."""
    return [(int(row["step"]), float(row[column])) for row in rows if row.get(column)]
