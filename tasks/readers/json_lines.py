"""JSON lines: an object a line, columns by key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from keras_bert.tasks.readers.layout import Layout, Row
from keras_bert.tasks.readers.lines import Invalid, parse_json, read_lines


def read_jsonl(path: str, layouts: Sequence[Layout], invalid: Invalid = "error") -> Iterator[Row]:
    """The rows of a JSON-lines file; blank lines are passed over.

    Texts are strings; a label may be a string, a number or a boolean, and is kept as its JSON text.

    Raises:
        ValueError: not JSON, not an object, a missing key (with those that are there), a text that is not a string.
    """
    for number, line in read_lines(path, invalid):
        if not line.strip():
            continue
        where = f"{path} line {number}"
        # numbers stay as written: "1.50" is a label's name
        item = parse_json(line, where, parse_float=Number, parse_int=Number)
        if not isinstance(item, dict):
            raise ValueError(f'{where}: expected an object such as {{"text": "…"}}, got {line.strip()[:40]}')
        yield pick(item, layouts, number, where)


class Number(str):
    """A JSON number as it was written."""


def pick(item: dict[str, Any], layouts: Sequence[Layout], number: int, where: str) -> Row:
    """The row of an object, by the first layout whose keys it has."""
    for layout in layouts:
        if all(column in item for column in layout.columns()):
            return Row(
                number,
                text_of(item, layout.text, where),
                None if layout.pair is None else text_of(item, layout.pair, where),
                None if layout.label is None else label_of(item, layout.label, where),
            )
    wanted = " or ".join(", ".join(layout.columns()) for layout in layouts)
    raise ValueError(
        f"{where}: expected the keys {wanted}; the object has {', '.join(item) or 'none'}. "
        f"Name them with --text_column, --pair_column and --label_column"
    )


def text_of(item: dict[str, Any], key: str, where: str) -> str:
    value = item[key]
    if not isinstance(value, str) or isinstance(value, Number):
        raise ValueError(f"{where}: {key!r} must be a string, got {json.dumps(value)[:40]}")
    return value


def label_of(item: dict[str, Any], key: str, where: str) -> str:
    value = item[key]
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return json.dumps(value)
    raise ValueError(f"{where}: {key!r} must be a string, a number or a boolean, got {json.dumps(value)[:40]}")
