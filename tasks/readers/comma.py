"""CSV as RFC 4180 has it: quoted fields may hold commas, line ends and doubled quotes."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

from keras_bert.tasks.readers.layout import Layout, Row, find_places
from keras_bert.tasks.readers.lines import Invalid, read_lines

FIELD_LIMIT = 2**30  # the csv module's own is 128 KiB, and one text may be longer


def read_csv(path: str, layouts: Sequence[Layout], invalid: Invalid = "error") -> Iterator[Row]:
    """The rows of a CSV file; a row's line is the one it ends on.

    Raises:
        ValueError: a column that is not there, a row with too few columns or more than the header, an unclosed quote;
            with file and line.
    """
    before = csv.field_size_limit(FIELD_LIMIT)
    try:
        reader = csv.reader((line for _, line in read_lines(path, invalid)), strict=True)
        places = None
        for cells in reader:
            if not cells:
                continue
            if places is None:
                places = find_places(cells, layouts, path)
                if places.header:
                    continue
            yield places.row(cells, reader.line_num, path)
    except csv.Error as error:
        raise ValueError(f"{path} line {reader.line_num}: {error}; correct it, or give --format tsv") from None
    finally:
        csv.field_size_limit(before)
