"""TSV as GLUE writes it: a tab ends a column, LF or CRLF a line, quotes and everything else is text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keras_bert.tasks.readers.layout import Layout, Row, find_places
from keras_bert.tasks.readers.lines import Invalid, read_lines


def read_tsv(path: str, layouts: Sequence[Layout], invalid: Invalid = "error") -> Iterator[Row]:
    """The rows of a TSV file; columns beyond those asked for, and blank lines, are passed over.

    Raises:
        ValueError: a column that is not there, a line with too few columns or more than the header, a file that cannot
            be decoded.
    """
    places = None
    for number, line in read_lines(path, invalid):
        cells = line.removesuffix("\n").removesuffix("\r").split("\t")
        if cells == [""]:
            continue
        if places is None:
            places = find_places(cells, layouts, path)
            if places.header:
                continue
        yield places.row(cells, number, path)
