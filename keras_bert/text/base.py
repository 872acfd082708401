"""What the graph's and the plain-Python tokenizer have in common: options, how texts come in, how settings are kept."""

from __future__ import annotations

import abc
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import tensorflow as tf

from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary

MAX_WORD_CHARS = 200  # google-research/bert: a longer word is [UNK]

Texts: TypeAlias = "str | bytes | Sequence[str] | Sequence[bytes] | np.ndarray | tf.Tensor"


class Pieces(NamedTuple):
    """Ids of texts and where each stands in its text: `text[start:end]`, in characters, as Python counts them."""

    ids: tf.RaggedTensor  # int32 [B,(T)]
    starts: tf.RaggedTensor  # int32 [B,(T)]
    ends: tf.RaggedTensor  # int32 [B,(T)]


class BaseTokenizer(abc.ABC):
    """Texts to ids, without [CLS] and [SEP]: BasicTokenizer and WordpieceTokenizer of google-research/bert.

    Args:
        vocabulary: a Vocabulary, its tokens, or the path of vocab.txt.
        lower_case: the vocabulary is an uncased one.
        strip_accents: write é as e; None does what lower_case says, as BERT does.
        split_chinese: every Chinese character is a word.
        special_tokens_in_text: a typed [MASK] ([PAD], [UNK], [CLS], [SEP]) is the token. Off, it is text like any
            other, as in the reference: leave it off for text from strangers.

    Raises:
        ValueError: the vocabulary is none, or the tokenizer cannot serve one of its tokens.
    """

    def __init__(
        self,
        vocabulary: Vocabulary | Sequence[str] | str | os.PathLike[str],
        *,
        lower_case: bool = True,
        strip_accents: bool | None = None,
        split_chinese: bool = True,
        special_tokens_in_text: bool = False,
    ) -> None:
        if isinstance(vocabulary, str | os.PathLike):
            vocabulary = Vocabulary.from_file(vocabulary)
        self.vocabulary = vocabulary if isinstance(vocabulary, Vocabulary) else Vocabulary(vocabulary)
        self.lower_case = lower_case
        self.strip_accents = strip_accents
        self.split_chinese = split_chinese
        self.special_tokens_in_text = special_tokens_in_text

    @property
    def strips_accents(self) -> bool:
        """What `strip_accents` comes to."""
        return strips_accents(self.lower_case, self.strip_accents)

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """The tokens that may be typed."""
        return SPECIAL_TOKENS if self.special_tokens_in_text else ()

    def __call__(self, texts: Texts) -> tf.RaggedTensor:
        """Ids, int32 [B,(T)]; one text is a batch of one.

        Text is UTF-8; bytes that are not are left out, as by Python's decode("utf-8", "ignore").

        Raises:
            ValueError: something that is no text, or not a flat list.
        """
        return self.ids_of(as_strings(texts))

    def with_offsets(self, texts: Texts) -> Pieces:
        """Ids, and for each the span of characters of its text that it comes from.

        A piece begins at the first character that contributes to it and ends after the last: accents and controls that
        were removed belong to it only between these. [UNK] has its whole word. Where a text has bytes that are not
        UTF-8, offsets are those of the text without them.

        Raises:
            ValueError: something that is no text, or not a flat list.
        """
        return self.pieces_of(as_strings(texts))

    @abc.abstractmethod
    def ids_of(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """`__call__` for a string tensor [B]."""

    @abc.abstractmethod
    def pieces_of(self, texts: tf.Tensor) -> Pieces:
        """`with_offsets` for a string tensor [B]."""

    def get_config(self) -> dict[str, Any]:
        """All that `from_config` needs, the vocabulary included, as JSON can hold it."""
        return {
            "vocabulary": list(self.vocabulary.tokens),
            "lower_case": self.lower_case,
            "strip_accents": self.strip_accents,
            "split_chinese": self.split_chinese,
            "special_tokens_in_text": self.special_tokens_in_text,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The tokenizer whose `get_config` this is."""
        return cls(**config)

    def save(self, directory: str | os.PathLike[str], *, model_max_length: int = 512) -> None:
        """Writes vocab.txt and tokenizer_config.json, transformers' own files, into a directory."""
        from keras_bert.text.directory import save_tokenizer

        save_tokenizer(self, directory, model_max_length=model_max_length)

    @classmethod
    def from_directory(cls, directory: str | os.PathLike[str], **options: bool | None) -> Self:
        """The tokenizer of a checkpoint directory; `options` go before what the directory says.

        Raises:
            FileNotFoundError: there is no vocabulary in it.
            ValueError: its files ask for something that this tokenizer does not do.
        """
        from keras_bert.text.directory import read_settings

        return cls(**(read_settings(directory) | options))

    def __repr__(self) -> str:
        options = {name: value for name, value in self.get_config().items() if name != "vocabulary"}
        return f"{type(self).__name__}({self.vocabulary!r}, " + ", ".join(f"{n}={v}" for n, v in options.items()) + ")"


def strips_accents(lower_case: bool, strip_accents: bool | None) -> bool:
    """Whether é becomes e: as `strip_accents` says; None does what `lower_case` says, as BERT does."""
    return lower_case if strip_accents is None else strip_accents


def as_strings(texts: Any) -> tf.Tensor:
    """Whatever texts come as, a string tensor [B].

    Raises:
        ValueError: expected and got, with the position of the item that is no text.
    """
    if isinstance(texts, str | bytes):
        texts = [texts]
    if isinstance(texts, tf.Tensor):
        return as_vector(texts)
    if isinstance(texts, np.ndarray) or (hasattr(texts, "__array__") and not isinstance(texts, np.generic)):
        texts = np.asarray(texts)
        if texts.ndim > 1:
            raise ValueError(
                f"expected a text or a flat list of texts, got an array of shape {texts.shape}; flatten it"
            )
        texts = texts.reshape(-1).tolist()
    if not isinstance(texts, list | tuple):
        raise ValueError(f"expected a text or a list of texts, got {short(texts)}")
    encoded = np.empty(len(texts), dtype=object)  # a string array proper would lose a NUL at the end
    for position, text in enumerate(texts):
        if isinstance(text, tf.Tensor) and text.shape.rank == 0 and hasattr(text, "numpy"):
            text = text.numpy()
        if not isinstance(text, str | bytes):
            raise ValueError(f"expected texts, got {short(text)} at position {position}; give a text for every row")
        encoded[position] = encode(text) if isinstance(text, str) else bytes(text)
    return tf.constant(encoded, dtype=tf.string)


def as_vector(texts: tf.Tensor) -> tf.Tensor:
    """A string tensor of rank 0 or 1 as one of rank 1."""
    if texts.dtype != tf.string:
        raise ValueError(f"expected texts (dtype string), got a tensor of dtype {texts.dtype.name}")
    if texts.shape.rank not in (0, 1):
        raise ValueError(
            f"expected a text or a vector of texts [B], got a tensor of shape {texts.shape}; "
            'reshape it to one dimension (in a Keras model: keras.Input(shape=(), dtype="string"))'
        )
    return texts if texts.shape.rank == 1 else tf.reshape(texts, [1])


def encode(text: str) -> bytes:
    """UTF-8. A lone surrogate, which has none, becomes a character that is in no vocabulary, so its word is [UNK]."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return re.sub("[\ud800-\udfff]", "\ufdd0", text).encode("utf-8")


def short(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 40 else text[:40] + '…'} ({type(value).__name__})"
