"""BERT's tokenizer as its own code defines it, over the running Python's Unicode, with its three steps optional.

Written for tests from the description in google-research/bert's tokenization.py; WordPiece is shared by several tests.
"""

from __future__ import annotations

import unicodedata

from keras_bert.text.make_tables import is_chinese, is_dropped, is_punctuation, is_space


def words(text: str, lower_case: bool, strip_accents: bool, split_chinese: bool) -> list[str]:
    """BasicTokenizer: what WordPiece is given."""
    text = "".join(" " if is_space(c) else "" if is_dropped(c) else c for c in text)
    if split_chinese:
        text = "".join(f" {c} " if is_chinese(c) else c for c in text)
    result = []
    for token in text.split():
        if lower_case:
            token = token.lower()
        if strip_accents:
            token = "".join(c for c in unicodedata.normalize("NFD", token) if unicodedata.category(c) != "Mn")
        result += "".join(f" {c} " if is_punctuation(c) else c for c in token).split()
    return result


def wordpiece(word: str, index: dict[str, int], max_chars: int = 200) -> list[int]:
    """Longest match first; the whole word is [UNK] when one place has no match, or it is too long."""
    ids, start = [], 0
    while start < len(word) <= max_chars:
        for end in range(len(word), start, -1):
            number = index.get(("##" if start else "") + word[start:end])
            if number is not None:
                break
        else:
            return [index["[UNK]"]]
        ids.append(number)
        start = end
    return ids if start == len(word) else [index["[UNK]"]]
