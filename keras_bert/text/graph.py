"""The tokenizer as TensorFlow ops: clean-up, FastBertNormalize with our own table, FastWordpieceTokenizeWithOffsets.

Besides these two of tf.text, core ops only, so that a stock TensorFlow Serving runs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.text.base import MAX_WORD_CHARS, BaseTokenizer, Pieces
from keras_bert.text.cleaning import (
    HOLE,
    TYPED,
    Cleaner,
    all_but,
    all_match,
    as_bytes_tensor,
    cut_characters,
    import_tensorflow_text,
)
from keras_bert.text.normalizer import unicode_tables
from keras_bert.text.vocabulary import UNK, Vocabulary

LONG = "\x01"  # behind the normaliser, which drops it: this word is too long
BREAKS = " \t\n\r"  # some of the spaces, enough to see at a glance that no word of an ordinary text is too long
MAX_WORD_BYTES = 4 * MAX_WORD_CHARS  # tf.text counts bytes: this never fires before our own rule does


class TokenizerGraph:
    """The ops of one tokenizer.

    tf.text cuts words at spaces, punctuation and Chinese characters by its own, newer Unicode. The normaliser puts
    spaces at all the right places, and OTHER for characters where it would cut on its own. Where that cannot do (the
    vocabulary has such a character, or Chinese is not to be split), words are cut first, by core ops: slower.
    """

    def __init__(self, tokenizer: BaseTokenizer) -> None:
        import_tensorflow_text()  # first of all: it says what to do where it is not installed
        self.special_tokens = tokenizer.special_tokens
        refuse_reordered(tokenizer)
        tokens = servable_tokens(tokenizer.vocabulary, tokenizer.special_tokens)
        self.words_first = not tokenizer.split_chinese or not cut_characters().isdisjoint(map(ord, "".join(tokens)))
        options = (tokenizer.lower_case, tokenizer.strips_accents, tokenizer.split_chinese)
        cleaner = Cleaner(*options, self.special_tokens, mark_other=not self.words_first)
        self.clean, self.normalizer = cleaner.clean, cleaner.normalizer
        self.wordpiece = self.build_wordpiece(tokens)
        typed = TYPED[: len(self.special_tokens)]
        watched = cleaner.watched | set(map(ord, BREAKS)) | set(map(ord, f"[{typed}" if typed else ""))
        short = f"[{all_but(watched)}]{{0,{MAX_WORD_CHARS // cleaner.longest}}}"
        self.ordinary = f"(?:{short}[{BREAKS}])*{short}"
        self.typed_lengths = np.ones(256, np.int32)  # of what a byte of the cleaned text stands for, in characters
        self.typed_lengths[list(typed.encode())] = [len(token) for token in self.special_tokens]

    def build_wordpiece(self, tokens: list[str]) -> Any:  # a tensorflow_text.FastWordpieceTokenizer
        from tensorflow_text.core.pybinds import pywrap_fast_wordpiece_tokenizer_model_builder as builder

        try:
            model = builder.build_fast_wordpiece_model(tokens, MAX_WORD_BYTES, "##", UNK, self.words_first, False)
        except RuntimeError as error:
            raise ValueError(f"tensorflow-text cannot serve this vocabulary ({error}); PythonTokenizer can") from error
        text = import_tensorflow_text()
        return text.FastWordpieceTokenizer(model_buffer=as_bytes_tensor(model), token_out_type=tf.int32)

    def ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Strings [B] → ids [B,(T)]."""
        half = tf.size(texts) // 2  # the two halves run side by side
        return tf.concat([self.half_ids(texts[:half]), self.half_ids(texts[half:])], axis=0)

    def half_ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        if not self.words_first:
            normal = tf.cond(
                all_match(texts, self.ordinary),
                lambda: self.normalizer.normalize(texts),
                lambda: mark_long_words(self.normalizer.normalize(self.clean(texts))),
            )
            return self.wordpiece.tokenize(normal)
        words = tf.strings.split(self.normalizer.normalize(self.clean(texts)), sep=" ")
        ids = self.wordpiece.tokenize(hide_long_words(words.values))
        return tf.RaggedTensor.from_row_splits(ids.values, tf.gather(ids.row_splits, words.row_splits), validate=False)

    def pieces(self, texts: tf.Tensor) -> Pieces:
        """Strings [B] → ids, starts and ends [B,(T)], in characters of the text without broken UTF-8."""
        cleaned = self.clean(texts)
        normal, sources = self.normalizer.normalize_with_offsets(cleaned)
        ids, starts, ends = (self.cut_pieces if self.words_first else self.marked_pieces)(normal)
        row = ids.value_rowids()
        row_begins = tf.gather(byte_starts(cleaned), row)
        row_sources = tf.gather(sources.row_starts(), row)
        characters = character_numbers(cleaned)

        def source(byte: tf.Tensor) -> tf.Tensor:  # byte of a normal text → byte of all cleaned texts
            return row_begins + tf.cast(tf.gather(sources.values, row_sources + byte), tf.int64)

        # all bytes of a replaced character point to its first one
        first, last = source(starts), source(ends - 1)
        before = tf.gather(characters, row_begins)
        starts, ends = tf.gather(characters, first) - before, tf.gather(characters, last) - before + 1
        if self.special_tokens:
            ends += tf.gather(self.typed_lengths, tf.cast(tf.gather(all_bytes(cleaned), last), tf.int32)) - 1
        return Pieces(ids, ids.with_values(starts), ids.with_values(ends))

    def marked_pieces(self, normal: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Ids [B,(T)]; their first bytes and the bytes behind their last in the normal text, int64 [T in all]."""
        marked = mark_long_words(normal)
        ids, starts, ends = self.wordpiece.tokenize_with_offsets(marked)
        begins = tf.gather(byte_starts(marked), ids.value_rowids())
        is_mark = tf.cast(tf.equal(all_bytes(marked), ord(LONG)), tf.int64)
        marks = tf.concat([[0], tf.cumsum(is_mark)], 0)  # [i]: before byte i

        def unmarked(byte: tf.Tensor) -> tf.Tensor:
            return byte - (tf.gather(marks, begins + byte) - tf.gather(marks, begins))

        starts, ends = (tf.cast(x.values, tf.int64) for x in (starts, ends))
        return ids, unmarked(starts), unmarked(ends)

    def cut_pieces(self, normal: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """As `marked_pieces`, words cut first."""
        words = tf.strings.split(normal, sep=" ")
        lengths = tf.cast(tf.strings.length(words.values), tf.int64)
        begins = tf.cumsum(lengths + 1, exclusive=True)
        begins -= tf.gather(tf.concat([begins, [0]], 0), tf.gather(words.row_splits, words.value_rowids()))
        shown = hide_long_words(words.values)
        ids, starts, ends = self.wordpiece.tokenize_with_offsets(shown)
        word = ids.value_rowids()
        whole = tf.gather(tf.not_equal(shown, words.values), word)
        starts, ends = (tf.cast(x.values, tf.int64) for x in (starts, ends))
        ends = tf.where(whole, tf.gather(lengths, word), ends)
        rows = tf.RaggedTensor.from_row_splits(ids.values, tf.gather(ids.row_splits, words.row_splits), validate=False)
        return rows, tf.gather(begins, word) + starts, tf.gather(begins, word) + ends


def mark_long_words(normal: tf.Tensor) -> tf.Tensor:
    """LONG before every word of more than 200 characters: no token begins so, and the word is [UNK]."""
    # bound to a space, RE2's automaton stays small
    return tf.strings.regex_replace(normal, f"(^| )([^ ]{{{MAX_WORD_CHARS + 1},}})", rf"\1{LONG}\2")


def hide_long_words(words: tf.Tensor) -> tf.Tensor:
    return tf.where(tf.strings.length(words, unit="UTF8_CHAR") > MAX_WORD_CHARS, LONG, words)


def all_bytes(texts: tf.Tensor) -> tf.Tensor:
    """The bytes of all texts, one after the other, uint8."""
    return tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)


def byte_starts(texts: tf.Tensor) -> tf.Tensor:
    """Where each text begins in `all_bytes`, int64 [B]."""
    return tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64), exclusive=True)


def character_numbers(texts: tf.Tensor) -> tf.Tensor:
    """For each byte of all valid UTF-8 texts the number of its character, int32."""
    begins = tf.not_equal(tf.bitwise.bitwise_and(all_bytes(texts), 0xC0), 0x80)
    return tf.cumsum(tf.cast(begins, tf.int32))


def servable_tokens(vocabulary: Vocabulary, special_tokens: Iterable[str]) -> list[str]:
    """The tokens for tf.text, in place. What no word can hold (a space, a control, nothing) makes way for a hole."""
    t = unicode_tables()
    impossible = t.drop | t.space
    tokens = list(vocabulary.tokens)
    for number, token in enumerate(tokens):
        body = token.removeprefix("##")
        if not body or len(body) > MAX_WORD_CHARS or not impossible.isdisjoint(map(ord, body)):
            tokens[number] = f"{HOLE}{number}"
    for token, sign in zip(special_tokens, TYPED, strict=False):
        if token != UNK:  # the sign of [UNK] is unknown anyway
            tokens[vocabulary.index[token]] = sign
    return tokens


def refuse_reordered(tokenizer: BaseTokenizer) -> None:
    """The 25 marks that NFD would put in another order: an op that maps character by character cannot."""
    reordered = unicode_tables().reordered
    if not tokenizer.strips_accents or reordered.isdisjoint(map(ord, set("".join(tokenizer.vocabulary.tokens)))):
        return
    for line, token in enumerate(tokenizer.vocabulary.tokens, start=1):
        if not reordered.isdisjoint(map(ord, token)):
            raise ValueError(
                f"vocabulary line {line}: {token!r} has a mark whose place NFD changes, which strip_accents in the "
                "graph cannot follow; use PythonTokenizer, or strip_accents=False"
            )
