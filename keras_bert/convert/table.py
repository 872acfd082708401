"""A foreign format as a table of rows (canonical name, their name, transposed), read both ways."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np


class Row(NamedTuple):
    """`{i}` in both names stands for the number of a block; transposed: the two hold each other's transpose."""

    canonical: str
    theirs: str
    transposed: bool = False


def dense(canonical: str, theirs: str) -> list[Row]:
    """A dense layer's rows, where they name it as Keras does."""
    return [Row(f"{canonical}.weight", f"{theirs}/kernel", True), Row(f"{canonical}.bias", f"{theirs}/bias")]


def norm(canonical: str, theirs: str) -> list[Row]:
    """A LayerNorm's rows, likewise."""
    return [Row(f"{canonical}.weight", f"{theirs}/gamma"), Row(f"{canonical}.bias", f"{theirs}/beta")]


def expand(rows: Iterable[Row], num_layers: int) -> list[Row]:
    """The rows with each `{i}` written out for every block."""
    found = []
    for row in rows:
        for index in range(num_layers) if "{i}" in row.canonical else (0,):
            canonical, theirs = (name.replace("{i}", str(index)) for name in row[:2])
            found.append(Row(canonical, theirs, row.transposed))
    return found


def to_canonical(tensors: Mapping[str, np.ndarray], rows: Sequence[Row]) -> dict[str, np.ndarray]:
    """Those of their tensors that the rows name, under canonical names."""
    return {row.canonical: turn(tensors[row.theirs], row) for row in rows if row.theirs in tensors}


def from_canonical(weights: Mapping[str, np.ndarray], rows: Sequence[Row]) -> dict[str, np.ndarray]:
    """The canonical weights that the rows name, under their names."""
    return {row.theirs: turn(weights[row.canonical], row) for row in rows if row.canonical in weights}


def turn(value: np.ndarray, row: Row) -> np.ndarray:
    return np.ascontiguousarray(value.T) if row.transposed else value
