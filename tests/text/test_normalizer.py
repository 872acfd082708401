"""What becomes of each character: the shipped table, the reference, and the flatbuffer that holds it."""

from __future__ import annotations

import gzip
import itertools
import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keras_bert.text
from keras_bert.text import UNICODE_VERSION, make_tables
from keras_bert.text.normalizer import double_array, replacements, unicode_tables


def golden_rows(golden: Path, mode: str) -> Iterator[tuple[range, str, str]]:
    with gzip.open(golden / "codepoints.tsv.gz", "rt", encoding="ascii") as lines:
        for line in lines:
            row_mode, first, last, action, value = line.rstrip("\n").split("\t")
            if row_mode == mode:
                text = "".join(chr(int(o, 16)) for o in value.split("-") if o)
                yield range(int(first, 16), int(last, 16) + 1), action, text


@pytest.mark.parametrize("mode, lower_case", [("u", True), ("c", False)])
def test_every_assigned_character_becomes_what_the_reference_makes_of_it(golden: Path, mode: str, lower_case: bool):
    got = replacements(lower_case, lower_case, True)
    for code_points, action, value in golden_rows(golden, mode):
        for o in code_points:
            text = value or chr(o)
            want = {"map": text, "drop": "", "space": " ", "isolate": f" {text} "}[action]
            assert got.pop(o, chr(o)) == want, (hex(o), action)
    # what is left are Chinese blocks' places that Unicode 14 leaves free
    assert got.keys() <= unicode_tables().chinese
    assert all(unicodedata.category(chr(o)) == "Cn" for o in got) or unicodedata.unidata_version != UNICODE_VERSION


def test_the_shipped_table_is_what_its_script_writes(tmp_path: Path):
    written = make_tables.write(tmp_path)
    shipped = Path(keras_bert.text.__file__).parent / "tables" / f"unicode-{UNICODE_VERSION}.tsv.gz"
    if unicodedata.unidata_version == UNICODE_VERSION:
        assert gzip.decompress(written.read_bytes()) == gzip.decompress(shipped.read_bytes())
    else:  # a newer Unicode has more characters and gives the old ones the same treatment
        assert cells(shipped) <= cells(written)


def cells(table: Path) -> set[tuple[str, int, str]]:
    rows = (line.split("\t") for line in gzip.decompress(table.read_bytes()).decode().splitlines())
    return {(name, o, value) for name, first, last, value in rows for o in range(int(first, 16), int(last, 16) + 1)}


def test_final_sigma_sets_are_the_golden_ones(golden: Path):
    want = json.loads((golden / "sigma_context.json").read_text())
    t = unicode_tables()
    assert want["unicode"] == UNICODE_VERSION
    assert expand(want["cased_not_ignorable"]) == t.cased
    assert expand(want["case_ignorable"]) == t.ignorable


def expand(spans: list[str]) -> frozenset[int]:
    pairs = (span.split("-") for span in spans)
    return frozenset(o for pair in pairs for o in range(int(pair[0], 16), int(pair[-1], 16) + 1))


@given(
    keys=st.sets(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=40),
    other=st.characters(exclude_categories=("Cs",), exclude_characters="\0"),
)
def test_the_double_array_finds_its_keys_and_no_other(keys: set[str], other: str):
    encoded = sorted(key.encode() for key in keys)
    units = double_array(encoded, list(range(1, len(encoded) + 1)))
    for number, key in enumerate(encoded, start=1):
        assert look_up(units, key) == number
        assert look_up(units, key[:-1]) is None
    if other not in keys:
        assert look_up(units, other.encode()) is None


def look_up(units: np.ndarray, key: bytes) -> int | None:
    """As Darts-clone reads a double array."""
    node, unit = 0, int(units[0])
    for byte in key:
        node ^= ((unit >> 10) << ((unit & 0x200) >> 6)) ^ byte
        unit = int(units[node])
        if unit & 0x800000FF != byte:
            return None
    if not unit & 0x100:
        return None
    return int(units[node ^ ((unit >> 10) << ((unit & 0x200) >> 6))]) & 0x7FFFFFFF


def test_every_key_of_every_table_is_found():
    for options in itertools.product((True, False), repeat=3):
        keys = sorted(chr(o).encode() for o in replacements(*options) if o)
        units = double_array(keys, list(range(len(keys))))
        sample = range(0, len(keys), 97)
        assert [look_up(units, keys[i]) for i in sample] == list(sample), options
