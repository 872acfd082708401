"""Every assigned character of Unicode 14.0, three times: alone, inside a word and between words. No sample: all."""

from __future__ import annotations

import gzip
import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path

import bert_reference
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.text import Tokenizer, Vocabulary
from keras_bert.text.cleaning import cut_characters
from keras_bert.text.normalizer import unicode_tables

FORMS: dict[str, Callable[[str], list[list[str]]]] = {  # words of "X", "aXb" and "a X b"
    "map": lambda v: [[v], [f"a{v}b"], ["a", v, "b"]],
    "drop": lambda v: [[], ["ab"], ["a", "b"]],
    "space": lambda v: [[], ["a", "b"], ["a", "b"]],
    "isolate": lambda v: [[v], ["a", v, "b"], ["a", v, "b"]],
}


def golden_words(golden: Path, mode: str, code_points: np.ndarray) -> list[list[str]]:
    """What the reference's BasicTokenizer makes of the three strings of each character."""
    known: dict[int, tuple[str, str]] = {}
    with gzip.open(golden / "codepoints.tsv.gz", "rt", encoding="ascii") as lines:
        for row_mode, first, last, action, value in (line.rstrip("\n").split("\t") for line in lines):
            if row_mode == mode:
                text = "".join(chr(int(o, 16)) for o in value.split("-") if o)
                known.update((o, (action, text or chr(o))) for o in range(int(first, 16), int(last, 16) + 1))
    rows: list[list[str]] = []
    for o in code_points.tolist():
        action, text = known.get(o, ("map", chr(o)))
        rows += FORMS[action](text)
    return rows


def three_strings(code_points: np.ndarray) -> tf.Tensor:
    a, b, space = (np.full_like(code_points, ord(c)) for c in "ab ")
    alone = tf.strings.unicode_encode(code_points[:, None], "UTF-8")
    inside = tf.strings.unicode_encode(np.stack([a, code_points, b], 1), "UTF-8")
    between = tf.strings.unicode_encode(np.stack([a, space, code_points, space, b], 1), "UTF-8")
    return tf.reshape(tf.stack([alone, inside, between], 1), [-1])


def expected_ids(rows: list[list[str]], index: dict[str, int]) -> tuple[list[int], list[int]]:
    piece = cache(lambda word: bert_reference.wordpiece(word, index))
    ids = [[i for word in row for i in piece(word)] for row in rows]
    return [i for row in ids for i in row], [len(row) for row in ids]


def compare(tokenizer: Tokenizer, code_points: np.ndarray, rows: list[list[str]]) -> None:
    got = tokenizer(three_strings(code_points))
    values, lengths = expected_ids(rows, tokenizer.vocabulary.index)
    wrong = np.flatnonzero(got.row_lengths().numpy() != lengths) // 3
    assert not len(wrong), [f"U+{code_points[i]:04X}" for i in wrong[:9]]
    row_of = got.value_rowids().numpy()
    wrong = row_of[got.values.numpy() != values] // 3
    assert not len(wrong), [f"U+{code_points[i]:04X}" for i in wrong[:9]]


@pytest.fixture(scope="module")
def assigned(golden: Path) -> np.ndarray:
    """Unicode 14's characters, by any Python: those it does not know yet are in the table of versions or identity."""
    newer = {0x2B739}  # of Unicode 15, inside a Chinese range: isolated, and no golden row says so
    known = (o for o in range(0x110000) if unicodedata.category(chr(o)) not in ("Cn", "Cs"))
    return np.array([o for o in known if o not in newer], np.int32)


@pytest.mark.parametrize("mode", ["u", "c"])
def test_every_assigned_character_gets_the_reference_ids(golden, tokenizers, assigned, mode):
    compare(tokenizers[mode == "c"], assigned, golden_words(golden, mode, assigned))


@pytest.mark.parametrize("mode", ["u", "c"])
def test_characters_newer_than_the_table_are_part_of_their_word(tokenizers, assigned, mode):
    """As in the reference under Unicode 14, where tf.text's own Unicode would cut at newer punctuation."""
    tokenizer, t = tokenizers[mode == "c"], unicode_tables()
    scalars = np.setdiff1d(np.arange(0x110000), np.arange(0xD800, 0xE000))
    free = np.setdiff1d(np.setdiff1d(scalars, assigned), np.fromiter(t.chinese, int)).astype(np.int32)
    free = free[(free < 0x20000) | (free % 16 == 0)]  # behind that all is private, Chinese, or not given away yet
    framed = np.pad(free[:, None], ((0, 0), (1, 1)), constant_values=ord("a"))
    got = tokenizer(tf.strings.unicode_encode(framed, "UTF-8"))
    assert np.all(got.row_lengths().numpy() == 1)
    assert np.all(got.values.numpy() == tokenizer.vocabulary.unk_id)


@pytest.mark.parametrize("mode", ["u", "c"])
def test_nothing_is_hidden_by_unknown_words(golden, assigned, mode):
    """A vocabulary of all characters, so that every one that is kept, lost or changed shows in the ids."""
    sample = np.random.default_rng(0).choice(assigned, len(assigned) // 20, replace=False)
    rows = golden_words(golden, mode, sample)
    characters = sorted({c for row in rows for word in row for c in word} - set(map(chr, cut_characters())))
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters, *(f"##{c}" for c in characters)]
    refused = set(map(chr, unicode_tables().reordered))
    vocabulary = Vocabulary(token for token in tokens if not refused & set(token))
    compare(Tokenizer(vocabulary, lower_case=mode == "u"), sample, rows)
