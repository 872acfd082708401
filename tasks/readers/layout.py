"""Where a row's text, pair and label stand, and the rows themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """The columns of text, pair and label, by name or by number (the first column is 0).

    A name asks for a header line; numbers alone mean that there is none, unless `header` says otherwise.
    """

    text: str
    pair: str | None = None
    label: str | None = None
    header: bool | None = None

    @property
    def named(self) -> bool:
        return any(not column.isdecimal() for column in self.columns())

    @property
    def has_header(self) -> bool:
        return self.named if self.header is None else self.header

    def columns(self) -> list[str]:
        """The columns asked for: text, then pair and label where wanted."""
        return [column for column in (self.text, self.pair, self.label) if column is not None]


@dataclass(frozen=True)
class Row:
    """One row as it stands in the file; the label is a string always."""

    line: int
    text: str
    pair: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Rows:
    """All rows of a source, column by column; `pairs` and `labels` are None when not asked for.

    A source of several files (a folder, a glob) has `files`: the index of each one's first row, and its name.
    """

    source: str
    texts: list[str]
    pairs: list[str] | None
    labels: list[str] | None
    lines: list[int]
    files: tuple[tuple[int, str], ...] = ()

    def __len__(self) -> int:
        return len(self.texts)

    def where(self, index: int) -> str:
        """The place of row `index`, for an error."""
        file = next((name for first, name in reversed(self.files) if first <= index), self.source)
        return f"{file} line {self.lines[index]}"

    def with_labels(self, labels: list[str]) -> Rows:
        return dataclasses.replace(self, labels=labels)


@dataclass(frozen=True)
class Places:
    """A layout found in a file: positions instead of names."""

    text: int
    pair: int | None
    label: int | None
    header: bool
    columns: int | None  # how many the header names; None where they are told by number

    def row(self, cells: Sequence[str], line: int, source: str) -> Row:
        """A file's row at these positions.

        Raises:
            ValueError: the row has too few columns, or more than the header names.
        """
        needed = 1 + max(place for place in (self.text, self.pair, self.label) if place is not None)
        if len(cells) < needed:
            raise ValueError(
                f"{source} line {line}: expected at least {needed} columns, got {len(cells)}: {shown(cells)}; "
                f"correct the line (in TSV a tab ends a column and quotes are text)"
            )
        if self.columns is not None and any(cells[self.columns :]):
            raise ValueError(
                f"{source} line {line}: expected {self.columns} columns, as the header names them, got {len(cells)}: "
                f"{shown(cells)}; correct the line (in TSV a tab ends a column and quotes are text)"
            )
        pair = None if self.pair is None else cells[self.pair]
        label = None if self.label is None else cells[self.label]
        return Row(line, cells[self.text], pair, label)


def find_places(first: Sequence[str], layouts: Sequence[Layout], source: str) -> Places:
    """The first of the layouts that the file's first line allows.

    Raises:
        ValueError: none fits, or a name stands there twice; the message lists the columns that are there.
    """
    for layout in layouts:
        spots = [position(column, first, layout.has_header) for column in (layout.text, layout.pair, layout.label)]
        wanted = [column is not None for column in (layout.text, layout.pair, layout.label)]
        if all(spot is not None or not want for spot, want in zip(spots, wanted, strict=True)):
            text, pair, label = spots
            assert text is not None
            if twice := [column for column in layout.columns() if layout.has_header and first.count(column) > 1]:
                raise ValueError(
                    f"{source}: {twice[0]!r} names more than one column: {shown(first)}; rename one, or give "
                    f"the columns by number with --header"
                )
            named = layout.has_header and not all(column.isdecimal() for column in layout.columns())
            return Places(text, pair, label, layout.has_header, len(first) if named else None)
    raise ValueError(no_column(first, layouts, source))


def position(column: str | None, first: Sequence[str], header: bool) -> int | None:
    """A column's position; None when it is not wanted or not there."""
    if column is None:
        return None
    if header and column in first:
        return list(first).index(column)
    if column.isdecimal() and int(column) < len(first):
        return int(column)
    return None


def no_column(first: Sequence[str], layouts: Sequence[Layout], source: str) -> str:
    """The error's words: what was looked for, what is there."""
    wanted = " or ".join(", ".join(layout.columns()) for layout in layouts)
    if any(layout.named for layout in layouts):
        return (
            f"{source}: expected the columns {wanted}; its first line has {len(first)}: {shown(first)}. Name them with "
            f"--text_column, --pair_column and --label_column: header names, or numbers counted from 0 (no header)"
        )
    return (
        f"{source} line 1: expected the columns {wanted}, counted from 0; the line has {len(first)} "
        f"(0 to {len(first) - 1}): {shown(first)}"
    )


def shown(cells: Sequence[str], limit: int = 12) -> str:
    """Cells for an error: each cut short, so that one line stays one line."""
    short = [cell if len(cell) <= 24 else cell[:23] + "…" for cell in cells[:limit]]
    return " | ".join(repr(cell)[1:-1] for cell in short) + (" | …" if len(cells) > limit else "")
