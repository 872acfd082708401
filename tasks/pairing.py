"""A block → its records: text to ids, ids to pairs or rows, and those as TFRecord holds them."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from keras_bert.batch import IS_NEXT
from keras_bert.options import Group, at_least_1, option, required
from keras_bert.tasks.blocks import digest
from keras_bert.tasks.corpus import Piece, chunks
from keras_bert.tasks.records import Shard, serialize
from keras_bert.text.cleaning import import_tensorflow_text
from keras_bert.text.directory import looks_lower_cased, read_settings
from keras_bert.text.pairs import SPECIAL, Document, make_pairs, make_rows
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary

CHUNK = 1 << 20  # bytes of text that are tokenized together


@dataclass(frozen=True, kw_only=True)
class PairOptions(Group):
    """The records:"""

    vocab: str = required("vocab.txt, or a directory that holds one with its tokenizer_config.json")
    lower_case: bool | None = option(None, "an uncased vocabulary; not given: as its files say")
    max_length: int = option(128, "tokens a record has at most, [CLS] and [SEP] counted")
    short_rate: float = option(0.1, "share of pairs that are made shorter, of a random length")
    dupe_factor: int = option(1, "times that the text is made into pairs, other ones each time")
    no_nsp: bool = option(False, "no pairs: rows of one text, for pre-training without next-sentence prediction")
    packing: Literal["full", "doc_sentences"] = option(
        "full", "with --no_nsp: rows go on with the next document after a [SEP], or end with their document"
    )
    seed: int = option(42, "of all that is drawn")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_1(self, "dupe_factor")
        if self.max_length < SPECIAL + 2:
            raise ValueError(f"--max_length must be at least {SPECIAL + 2}: got {self.max_length}")
        if not 0 <= self.short_rate <= 1:
            raise ValueError(f"--short_rate must lie from 0 to 1: got {self.short_rate}")

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that --vocab and --lower_case name; a second to build."""
        if os.path.isdir(self.vocab):
            settings = read_settings(self.vocab)
        else:
            vocabulary = Vocabulary.from_file(self.vocab)
            settings = {"vocabulary": vocabulary, "lower_case": looks_lower_cased(vocabulary)}
        if self.lower_case is not None:
            settings["lower_case"] = self.lower_case
        return Tokenizer(**settings)

    def __getstate__(self) -> dict[str, Any]:
        """The flags alone: a tokenizer's graph does not go to another process, which builds its own."""
        return {name: value for name, value in vars(self).items() if name != "tokenizer"}


@dataclass
class Stats:
    """What became of some blocks."""

    records: list[int]  # a shard each
    sentences: int = 0
    tokens: int = 0  # of records, [CLS] and [SEP] counted
    positives: int = 0
    hash: int = 0  # of the set of records, whatever their order

    def __add__(self, other: Stats) -> Stats:
        return Stats(
            [a + b for a, b in zip(self.records, other.records, strict=True)],
            self.sentences + other.sentences,
            self.tokens + other.tokens,
            self.positives + other.positives,
            (self.hash + other.hash) % 2**128,
        )


def block_records(
    pieces: Sequence[Piece],
    reserve: Sequence[Piece],
    read: Callable[[Sequence[Piece]], list[Document]],
    vocabulary: Vocabulary,
    options: PairOptions,
    stats: Stats,
) -> Iterator[bytes]:
    """A block's records, serialized, in random order; adds what they are to `stats`."""
    cls, sep = (np.array([number], np.int32) for number in (vocabulary.cls_id, vocabulary.sep_id))
    documents = [document for document in read(pieces) if len(document)]
    stats.sentences += sum(map(len, documents))
    parts: list[np.ndarray] = [cls[:0]]  # [CLS] A [SEP] B [SEP] [CLS] …
    lengths, first_lengths, labels = [], [], []
    if options.no_nsp:
        for row in make_rows(documents, options.max_length, vocabulary.sep_id, options.packing == "full"):
            parts += [cls, row, sep]
            lengths.append(len(row) + 2)
        first_lengths = lengths
    else:
        others = documents
        if len({document.key for document in documents}) < 2:
            others = documents + [document for document in read(reserve) if len(document)]
        for round in range(options.dupe_factor):
            for number, document in enumerate(documents):
                draw = random.Random(digest("pairs", options.seed, round, document.key, number))
                for pair in make_pairs(document, others, options.max_length, options.short_rate, draw):
                    parts += [cls, pair.a, sep, pair.b, sep]
                    first_lengths.append(len(pair.a) + 2)
                    lengths.append(len(pair.a) + len(pair.b) + SPECIAL)
                    labels.append(pair.label)
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    stats.tokens += int(starts[-1])
    stats.positives += labels.count(IS_NEXT)
    label_array = None if options.no_nsp else np.array(labels, np.int32)
    shard = Shard(np.concatenate(parts), starts, np.array(first_lengths, np.int32), label_array)
    records = serialize(shard)
    for record in records:
        stats.hash += int.from_bytes(hashlib.blake2b(record, digest_size=16).digest(), "big")
    stats.hash %= 2**128
    random.Random(digest("order", options.seed, stats.hash)).shuffle(records)
    yield from records


def make_reader(tokenizer: Tokenizer) -> Callable[[Sequence[Piece]], list[Document]]:
    """Pieces → documents of ids, in order; empty sentences are gone."""
    breaker = import_tensorflow_text().StateBasedSentenceBreaker()

    def lengths(lines: tf.Tensor, broken: bool) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        if broken:
            counts, sentences = tf.ones_like(lines, tf.int64), lines
        else:
            parts = breaker.break_sentences(lines)
            counts, sentences = parts.row_lengths(), parts.values
        ids = tokenizer(sentences)
        return ids.values, ids.row_lengths(), counts

    signature = [tf.TensorSpec([None], tf.string)]
    graphs = {
        broken: tf.function(functools.partial(lengths, broken=broken), input_signature=signature, autograph=False)
        for broken in (False, True)
    }

    def read(pieces: Sequence[Piece]) -> list[Document]:
        documents = []
        of_a_kind = (group for _, group in itertools.groupby(pieces, key=lambda piece: piece.broken))
        for chunk in (chunk for group in of_a_kind for chunk in chunks(group, CHUNK, Piece.size)):
            lines = [line for piece in chunk for line in piece.lines]
            ids, tokens, sentences = (value.numpy() for value in graphs[chunk[0].broken](tf.constant(lines)))
            line_ends = np.cumsum([len(piece.lines) for piece in chunk])
            sentence_ends = np.concatenate([[0], np.cumsum(sentences)])[line_ends]
            token_ends = np.concatenate([[0], np.cumsum(tokens)])
            begin = 0
            for piece, end in zip(chunk, sentence_ends.tolist(), strict=True):
                starts = np.unique(token_ends[begin : end + 1])  # once each: empty sentences are gone
                first, last = (int(starts[0]), int(starts[-1])) if len(starts) else (0, 0)
                documents.append(Document(piece.document, ids[first:last], (starts - first).tolist() or [0]))
                begin = end
        return documents

    return read
