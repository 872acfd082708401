"""Regenerates the shipped Unicode table from the running Python: `python -m keras_bert.text.make_tables DIRECTORY`.

The table pins what google-research/bert's tokenization.py asks of `unicodedata` and `str`, so that ids do not depend on
the interpreter: Python 3.11 gives Unicode 14.0.0, the one shipped. Rows are `property<TAB>first<TAB>last<TAB>value`,
code points in hexadecimal, `first..last` inclusive, a value being code points joined by `-` (or a number, for `order`).
"""

from __future__ import annotations

import gzip
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

CHINESE = (  # google-research/bert, BasicTokenizer._is_chinese_char: blocks, not a property
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
SCALARS = (*range(0xD800), *range(0xE000, 0x110000))


def is_dropped(c: str) -> bool:
    """Removed by _clean_text: NUL, the replacement character, and controls that are not white space."""
    return c not in "\t\n\r" and (c in "\0\ufffd" or unicodedata.category(c) in ("Cc", "Cf"))


def is_space(c: str) -> bool:
    """Separates words: by _is_whitespace, or (the line and paragraph separators) by str.split."""
    return c in "\t\n\r" or (c.isspace() and not is_dropped(c))


def is_punctuation(c: str) -> bool:
    """A word of its own: ASCII symbols count as punctuation."""
    o = ord(c)
    return 33 <= o <= 47 or 58 <= o <= 64 or 91 <= o <= 96 or 123 <= o <= 126 or unicodedata.category(c)[0] == "P"


def is_chinese(c: str) -> bool:
    return any(first <= ord(c) <= last for first, last in CHINESE)


def is_cased(c: str) -> bool:
    """Makes a following capital sigma final; str.lower() knows it, unicodedata does not tell."""
    return (c + "Σ").lower().endswith("ς")


def is_ignorable(c: str) -> bool:
    """Looked through when str.lower() asks what stands before a capital sigma."""
    return not is_cased(c) and ("A" + c + "Σ").lower().endswith("ς")


SETS: dict[str, Callable[[str], bool]] = {
    "drop": is_dropped,
    "space": is_space,
    "punctuation": is_punctuation,
    "chinese": is_chinese,
    "mark": lambda c: unicodedata.category(c) == "Mn",
    "cased": is_cased,
    "ignorable": is_ignorable,
}
MAPS: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "decompose": lambda c: unicodedata.normalize("NFD", c),
}


def runs(values: dict[int, str]) -> Iterator[tuple[int, int, str]]:
    """Consecutive code points of one value, as (first, last, value); code points ascend."""
    first = last = -2
    value = ""
    for o, v in values.items():
        if (o, v) != (last + 1, value):
            if first >= 0:
                yield first, last, value
            first, value = o, v
        last = o
    if first >= 0:
        yield first, last, value


def rows() -> Iterator[str]:
    """The table's lines, in a fixed order."""
    columns: dict[str, dict[int, str]] = {
        name: {o: "" for o in SCALARS if belongs(chr(o))} for name, belongs in SETS.items()
    }
    for name, image in MAPS.items():
        columns[name] = {
            o: "-".join(f"{ord(d):04X}" for d in image(chr(o))) for o in SCALARS if image(chr(o)) != chr(o)
        }
    columns["order"] = {o: str(unicodedata.combining(chr(o))) for o in SCALARS if unicodedata.combining(chr(o))}
    for name, values in columns.items():
        yield from (f"{name}\t{first:04X}\t{last:04X}\t{value}\n" for first, last, value in runs(values))


def write(directory: str | Path) -> Path:
    """Writes the table of this Python's Unicode version and returns its path."""
    path = Path(directory) / f"unicode-{unicodedata.unidata_version}.tsv.gz"
    path.write_bytes(gzip.compress("".join(rows()).encode("ascii"), mtime=0))
    return path


if __name__ == "__main__":
    print(write(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "tables"))
