"""PythonTokenizer: the same ids without tensorflow-text, outside the graph: slow and plain, step by step as BERT's.

It shares the pinned table with the graph and nothing else, so tests hold the two against each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_bert.text.base import MAX_WORD_CHARS, BaseTokenizer, Pieces
from keras_bert.text.normalizer import unicode_tables

Word = list[tuple[str, int]]  # characters, each with the number of the text's character that it comes from


class Piece(NamedTuple):
    """A token's id and its span of characters in the text."""

    id: int
    start: int
    end: int


@keras.saving.register_keras_serializable(package="keras_bert")
class PythonTokenizer(BaseTokenizer):
    """As `Tokenizer`, with the same results, without tensorflow-text; slow, and not inside tf.data or a SavedModel."""

    def __init__(self, vocabulary: Any, **options: Any) -> None:
        super().__init__(vocabulary, **options)
        self.tables = unicode_tables()
        self.longest = max(map(len, self.vocabulary.tokens))
        self.typed = re.compile("|".join(map(re.escape, self.special_tokens)) or r"(?!)")

    def ids_of(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self.pieces_of(texts).ids

    def pieces_of(self, texts: tf.Tensor) -> Pieces:
        if not tf.is_tensor(texts) or not hasattr(texts, "numpy"):
            raise ValueError("PythonTokenizer needs texts at hand; in tf.data, a tf.function or a model use Tokenizer")
        rows = [self.pieces(text.decode("utf-8", "ignore")) for text in texts.numpy()]
        splits = tf.cumsum([0, *map(len, rows)])
        flat = [piece for row in rows for piece in row]
        columns = [tf.constant([piece[i] for piece in flat], tf.int32) for i in range(3)]
        return Pieces(*(tf.RaggedTensor.from_row_splits(c, tf.cast(splits, tf.int64)) for c in columns))

    def pieces(self, text: str) -> list[Piece]:
        """Ids with offsets of one text."""
        pieces, done = [], 0
        for match in self.typed.finditer(text):
            pieces += self.plain_pieces(text[done : match.start()], done)
            pieces.append(Piece(self.vocabulary.index[match[0]], match.start(), match.end()))
            done = match.end()
        return pieces + self.plain_pieces(text[done:], done)

    def plain_pieces(self, text: str, begin: int) -> list[Piece]:
        return [
            Piece(number, min(sources), max(sources) + 1)
            for token in self.cut(text, begin)
            for word in self.cut_punctuation(self.strip(self.lower(token)))
            for number, sources in self.cut_pieces(word)
        ]

    def cut(self, text: str, begin: int) -> Iterator[Word]:
        """Clean, and cut at spaces and Chinese characters."""
        t = self.tables
        word: Word = []
        for source, c in enumerate(text, start=begin):
            alone = self.split_chinese and ord(c) in t.chinese
            if ord(c) in t.drop:
                continue
            if alone or ord(c) in t.space:
                yield word
                word = []
            if alone:
                yield [(c, source)]
            elif ord(c) not in t.space:
                word.append((c, source))
        yield word

    def lower(self, word: Word) -> Word:
        if not self.lower_case:
            return word
        return [
            (d, source)
            for i, (c, source) in enumerate(word)
            for d in ("ς" if c == "Σ" and self.is_final(word, i) else self.tables.lower.get(ord(c), c))
        ]

    def is_final(self, word: Word, i: int) -> bool:
        """Whether lower case of the Σ at i is ς: after a cased letter, before none, ignorable characters apart."""
        before, after = (
            next((ord(c) for c, _ in side if ord(c) not in self.tables.ignorable), -1)
            for side in (reversed(word[:i]), word[i + 1 :])
        )
        return before in self.tables.cased and after not in self.tables.cased

    def strip(self, word: Word) -> Word:
        """NFD without its non-spacing marks."""
        if not self.strips_accents:
            return word
        t = self.tables
        word = [(d, source) for c, source in word for d in t.decompose.get(ord(c), c)]
        ordered: Word = []
        run: Word = []  # marks that follow one another: NFD sorts them by class
        for c, source in word:
            if ord(c) not in t.order:
                ordered += sorted(run, key=lambda item: t.order[ord(item[0])])
                run = []
                ordered.append((c, source))
            else:
                run.append((c, source))
        ordered += sorted(run, key=lambda item: t.order[ord(item[0])])
        return [(c, source) for c, source in ordered if ord(c) not in t.mark]

    def cut_punctuation(self, word: Word) -> Iterator[Word]:
        part: Word = []
        for c, source in word:
            if ord(c) in self.tables.punctuation:
                yield part
                yield [(c, source)]
                part = []
            else:
                part.append((c, source))
        yield part

    def cut_pieces(self, word: Word) -> list[tuple[int, list[int]]]:
        """WordPiece: ever the longest token that fits; [UNK] for the word when one place has none."""
        if not word:
            return []
        text = "".join(c for c, _ in word)
        sources = [source for _, source in word]
        unknown = [(self.vocabulary.unk_id, sources)]
        if len(text) > MAX_WORD_CHARS:
            return unknown
        pieces, start = [], 0
        while start < len(text):
            prefix = "##" if start else ""
            for end in range(min(len(text), start + self.longest), start, -1):
                number = self.vocabulary.index.get(prefix + text[start:end])
                if number is not None:
                    break
            else:
                return unknown
            pieces.append((number, sources[start:end]))
            start = end
        return pieces
