"""Readers: rows of text, pair and label out of a file, whatever its format; one file here a format.

`read_rows` picks the format by the name's end (`.tsv`, `.txt`, `.csv`, `.jsonl`, each also `.gz`; `tfds://name:split`)
and the columns by a layout. Errors name the file and the line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from keras_bert.inputs import find_files
from keras_bert.tasks.readers.comma import read_csv
from keras_bert.tasks.readers.json_lines import read_jsonl
from keras_bert.tasks.readers.layout import Layout, Row, Rows
from keras_bert.tasks.readers.lines import Invalid
from keras_bert.tasks.readers.tabs import read_tsv
from keras_bert.tasks.readers.tfds import PREFIX, read_tfds

__all__ = ["FORMATS", "Invalid", "Layout", "Row", "Rows", "find_sources", "format_of", "read_rows"]

FORMATS: dict[str, Callable[[str, Sequence[Layout], Invalid], Iterator[Row]]] = {
    "tsv": read_tsv,
    "csv": read_csv,
    "jsonl": read_jsonl,
    "tfds": read_tfds,
}
ENDINGS = {".tsv": "tsv", ".txt": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".json": "jsonl", ".ndjson": "jsonl"}


def read_rows(
    source: str | os.PathLike[str], layouts: Sequence[Layout], *, format: str = "auto", invalid: Invalid = "error"
) -> Rows:
    """All rows of a file, of all files of a folder or a glob, or of a TFDS split.

    Args:
        source: a path, a glob, or `tfds://name:split`.
        layouts: where text, pair and label may stand; the first that the file's columns allow is taken.
        format: a key of FORMATS, or "auto": by the name's end.
        invalid: what to do with bytes that are not UTF-8: "error", or "replace" by U+FFFD.

    Raises:
        ValueError: a wrong row, with file and line; a column that is not there, with those that are; no rows at all.
        FileNotFoundError: there is no such file.
    """
    name = os.fspath(source)
    rows: list[Row] = []
    files: list[tuple[int, str]] = []
    for file in find_sources(name):
        files.append((len(rows), file))
        rows += FORMATS[format_of(file) if format == "auto" else format](file, layouts, invalid)
    if not rows:
        raise ValueError(f"{name} holds no rows; expected at least one")
    return Rows(
        source=name,
        texts=[row.text for row in rows],
        pairs=None if rows[0].pair is None else [row.pair or "" for row in rows],
        labels=None if rows[0].label is None else [row.label or "" for row in rows],
        lines=[row.line for row in rows],
        files=tuple(files),
    )


def find_sources(name: str) -> list[str]:
    """The files that a path, a folder or a glob names, or the one name of a TFDS split.

    Raises:
        FileNotFoundError: there is none.
    """
    return [name] if name.startswith(PREFIX) else find_files(name)


def format_of(name: str) -> str:
    """The format that a name's end tells.

    Raises:
        ValueError: the name's end is not known.
    """
    if name.startswith(PREFIX):
        return "tfds"
    ending = os.path.splitext(name.removesuffix(".gz"))[1].lower()
    if ending not in ENDINGS:
        raise ValueError(
            f"{name}: cannot tell the format by the name; expected one of {', '.join(ENDINGS)} (or these with .gz), "
            f"or give --format tsv|csv|jsonl"
        )
    return ENDINGS[ending]
