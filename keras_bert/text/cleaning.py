"""From raw text to clean words, in graph: all that BERT's tokenizer does before it looks at its vocabulary.

Besides FastBertNormalize with our own table, core ops only, so that a stock TensorFlow Serving runs it.
"""

from __future__ import annotations

import functools
import platform
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType

import numpy as np
import tensorflow as tf

from keras_bert.text.normalizer import model_buffer, re2_class, replacements, sigma_pattern, unicode_tables
from keras_bert.text.vocabulary import UNK

# Controls that the normaliser drops are in no text behind it, so we write our own signs with them, of one byte each.
FILL = "\x01"  # in a text before the normaliser: nothing
HOLE = "\x02"  # begins a token that no word can match
OTHER = "\x03"  # a character that tf.text would cut a word at and the reference does not
TYPED = "\x04\x05\x06\x07\x08"  # the special tokens, typed


class Cleaner:
    """Texts to words with spaces between them: cleaned, lowered, without accents, punctuation apart, as options say.

    Args:
        lower_case, strip_accents, split_chinese: as the tokenizer's.
        special_tokens: those that become signs where they are typed.
        mark_other: OTHER in place of characters at which tf.text cuts a word and the reference does not.
    """

    def __init__(
        self,
        lower_case: bool,
        strip_accents: bool,
        split_chinese: bool,
        special_tokens: Sequence[str] = (),
        mark_other: bool = False,
    ) -> None:
        self.lower_case = lower_case
        self.special_tokens = tuple(special_tokens)
        typed = TYPED[: len(self.special_tokens)]
        # `longest`: the most characters of one word that a character becomes
        table, self.longest = normalizer_table(lower_case, strip_accents, split_chinese, mark_other, typed)
        self.normalizer = import_tensorflow_text().FastBertNormalizer(model_buffer=as_bytes_tensor(table))
        self.sigma = sigma_pattern(word_ends=map(ord, typed))
        self.watched = {ord("Σ")} if lower_case else set()  # it has two small forms
        self.plain = f"[{all_but(self.watched)}]*"

    def clean(self, texts: tf.Tensor) -> tf.Tensor:
        """Without broken UTF-8; Σ at the end of a word is ς; typed special tokens are signs. Mostly nothing to do."""
        if self.special_tokens:
            texts = self.sign_special_tokens(texts)

        def thorough() -> tf.Tensor:
            valid = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="ignore")
            return tf.strings.regex_replace(valid, *self.sigma) if self.lower_case else valid

        return tf.cond(all_match(texts, self.plain), lambda: texts, thorough)

    def sign_special_tokens(self, texts: tf.Tensor) -> tf.Tensor:
        """Each typed special token to its sign, filled up to its length so that offsets stay."""
        texts = tf.strings.regex_replace(texts, f"[{re2_class(map(ord, TYPED))}]", FILL)
        for token, sign in zip(self.special_tokens, TYPED, strict=True):
            texts = tf.strings.regex_replace(texts, rf"\[{token[1:-1]}\]", sign + FILL * (len(token) - 1))
        return texts


def all_match(texts: tf.Tensor, pattern: str) -> tf.Tensor:
    return tf.reduce_all(tf.strings.regex_full_match(texts, pattern))


def all_but(excluded: Iterable[int]) -> str:
    """The inside of an RE2 class of all characters but some; explicit, as RE2's own classes let surrogates through."""
    spans, begin = [], 0
    for first, resume in sorted([*((o, o + 1) for o in excluded), (0xD800, 0xE000), (0x110000, 0)]):
        if begin < first:
            spans.append(rf"\x{{{begin:X}}}-\x{{{first - 1:X}}}")
        begin = resume
    return "".join(spans)


def as_bytes_tensor(data: bytes) -> tf.Tensor:
    return tf.constant(np.frombuffer(data, np.uint8))


@functools.lru_cache(maxsize=8)  # it takes most of a second, and a process loads several models
def normalizer_table(
    lower_case: bool, strip_accents: bool, split_chinese: bool, mark_other: bool, typed: str
) -> tuple[bytes, int]:
    """What the normaliser replaces, as it reads it; and the most characters of one word that a character becomes."""
    replaced = replacements(lower_case, strip_accents, split_chinese)
    if mark_other:
        replaced |= dict.fromkeys(cut_characters(), OTHER)
    replaced |= {ord(sign): f" {sign} " for sign in typed}
    return model_buffer(replaced), max(map(len, " ".join(replaced.values()).split(" ")))


@functools.cache
def cut_characters() -> frozenset[int]:
    """Characters at which tf.text cuts a word and the reference does not: newer punctuation, asked from tf.text."""
    from tensorflow_text.core.pybinds import pywrap_fast_wordpiece_tokenizer_model_builder as builder

    t = unicode_tables()
    unknown = np.ones(0x110000, bool)
    unknown[list(t.drop | t.space | t.punctuation | t.chinese)] = False
    unknown[0xD800:0xE000] = False  # surrogates are no characters
    candidates = np.flatnonzero(unknown).astype(np.int32)
    model = as_bytes_tensor(builder.build_fast_wordpiece_model([UNK, f"{HOLE}"], 1 << 20, "##", UNK, False, False))
    words = import_tensorflow_text().FastWordpieceTokenizer(model_buffer=model)

    def is_cut(groups: np.ndarray) -> np.ndarray:  # [N, n] characters → [N]: more than one word
        framed = np.pad(groups, ((0, 0), (1, 1)), constant_values=ord("a"))
        return words.tokenize(tf.strings.unicode_encode(tf.constant(framed), "UTF-8")).row_lengths().numpy() > 1

    padded = np.pad(candidates, (0, -len(candidates) % 256), constant_values=ord("a")).reshape(-1, 256)
    suspects = padded[is_cut(padded)].reshape(-1, 1)
    return frozenset(suspects[is_cut(suspects)].reshape(-1).tolist())


def import_tensorflow_text() -> ModuleType:
    """tensorflow_text, imported when the first tokenizer is built: it takes a second.

    Raises:
        ImportError: it is not installed; says what works without it.
    """
    try:
        import tensorflow_text
    except ImportError as error:
        raise ImportError(
            "keras_bert.Tokenizer needs tensorflow-text, which is not installed here "
            f"(Python {platform.python_version()}, {sys.platform} {platform.machine()}): {error}. "
            "It has wheels for Linux and for macOS on ARM: pip install tensorflow-text. Without it, all that takes "
            "ids works (models, training, checkpoints), and keras_bert.text.PythonTokenizer gives the same ids "
            "outside the graph."
        ) from error
    return tensorflow_text
