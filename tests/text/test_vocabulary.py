"""Vocabulary files: kept to the byte, and what is wrong with one is said by line number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert.text import SPECIAL_TOKENS, Vocabulary

TOKEN = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n\r"), max_size=4)
TOKENS = st.lists(TOKEN.filter(bool), unique=True, max_size=6)
HARD = ["a\u2028b", "\u2028", " a", "a ", "\x85", "\x0b", "a\rb", "\r", "\ufeff", "\0"]


@given(added=TOKENS, line_end=st.sampled_from(["\n", "\r\n"]), last=st.booleans())
def test_a_saved_file_equals_the_one_that_was_read_to_the_byte(tmp_path_factory, added, line_end, last):
    tokens = list(dict.fromkeys([*SPECIAL_TOKENS, *HARD, *added]))
    read, written = (tmp_path_factory.mktemp("v") / name for name in ("read", "written"))
    read.write_bytes((line_end.join(tokens) + line_end * last).encode())
    vocabulary = Vocabulary.from_file(read)
    vocabulary.save(written)
    assert written.read_bytes() == read.read_bytes()
    assert Vocabulary.from_file(written) == vocabulary
    assert list(vocabulary.tokens) == tokens


@pytest.mark.parametrize(
    "name, size",
    [
        ("vocab/bert-base-uncased-vocab.txt", 30522),
        ("vocab/bert-base-cased-vocab.txt", 28996),
        ("vocab/bert-base-chinese-vocab.txt", 21128),
        ("vocab/bert-base-multilingual-cased-vocab.txt", 119547),
        ("checkpoints/google_tiny/vocab.txt", 15),
        ("checkpoints/hf_xsmall/vocab.txt", 250),
    ],
)
def test_published_vocabularies_load_whole(shared: Path, name: str, size: int):
    path = shared / "data" / name
    vocabulary = Vocabulary.from_file(path)
    assert len(vocabulary) == size
    assert vocabulary.to_bytes() == path.read_bytes()


def test_only_the_line_end_is_stripped(tmp_path: Path):  # PAIN 11
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SPECIAL_TOKENS, "a", "b ", "c", "b"]) + "\n")
    assert Vocabulary.from_file(path).tokens[5:] == ("a", "b ", "c", "b")


def test_the_chinese_vocabulary_keeps_its_line_separators(shared: Path):
    vocabulary = Vocabulary.from_file(shared / "data" / "vocab" / "bert-base-chinese-vocab.txt")
    assert vocabulary.index["\u2028"] == 343
    assert vocabulary.index["##\u2028"] == 13502


def test_a_duplicate_is_told_by_both_lines(tmp_path: Path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SPECIAL_TOKENS, "a", "b", "a"]))
    with pytest.raises(ValueError, match=rf"{re.escape(str(path))} line 8: the token 'a' is already on line 6"):
        Vocabulary.from_file(path)


def test_missing_special_tokens_are_named():
    with pytest.raises(ValueError, match=r"has no \[UNK\], \[MASK\] among its 4 tokens"):
        Vocabulary(["[PAD]", "[CLS]", "[SEP]", "a"])


def test_what_is_no_vocabulary_is_told(tmp_path: Path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"[PAD]\n\xff\n")
    with pytest.raises(ValueError, match="line 2: not UTF-8"):
        Vocabulary.from_file(path)
    path.write_bytes(b"\xef\xbb\xbf[PAD]\n")
    with pytest.raises(ValueError, match="line 1: begins with a byte-order mark"):
        Vocabulary.from_file(path)
    path.write_bytes(b"[PAD]\n[UNK]\r\n")
    with pytest.raises(ValueError, match="line 2: ends with CR LF and other lines with LF"):
        Vocabulary.from_file(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"has no \[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\] among its 0 tokens"):
        Vocabulary.from_file(path)
    with pytest.raises(FileNotFoundError):
        Vocabulary.from_file(tmp_path / "none")
    with pytest.raises(ValueError, match="expected a list of tokens, got the text 'vocab.txt'"):
        Vocabulary("vocab.txt")
    with pytest.raises(ValueError, match=r"line 6: expected a text, got None"):
        Vocabulary([*SPECIAL_TOKENS, None])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="line break inside"):
        Vocabulary([*SPECIAL_TOKENS, "a\nb"])


def test_special_tokens_may_stand_anywhere():
    vocabulary = Vocabulary(["a", *reversed(SPECIAL_TOKENS)])
    ids = (vocabulary.mask_id, vocabulary.sep_id, vocabulary.cls_id, vocabulary.unk_id, vocabulary.pad_id)
    assert ids == (1, 2, 3, 4, 5)


def test_the_hash_tells_vocabularies_apart_and_not_their_line_ends():
    tokens = [*SPECIAL_TOKENS, "a"]
    assert Vocabulary(tokens).content_hash() == Vocabulary(tokens, line_end="\r\n").content_hash()
    assert Vocabulary(tokens).content_hash() != Vocabulary([*tokens, "b"]).content_hash()
