"""A block → its records: text to ids, ids to pairs or rows, and those as TFRecord holds them."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import random
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
import tensorflow as tf

from keras_bert.batch import IS_NEXT
from keras_bert.options import Group, at_least_1, option, required
from keras_bert.tasks.blocks import digest
from keras_bert.tasks.corpus import Piece, chunks
from keras_bert.tasks.records import Shard, serialize
from keras_bert.text.cleaning import import_tensorflow_text
from keras_bert.text.directory import looks_lower_cased, read_settings
from keras_bert.text.pairs import SPECIAL, Document, Pair, make_pairs, make_rows
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary

CHUNK = 1 << 20  # bytes of text that are tokenized together
BATCH = 4096  # records that are packed together

Item = TypeVar("Item")


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

    records: Counter[int] = field(default_factory=Counter)  # a shard each
    pieces: int = 0
    single: int = 0  # pieces of one sentence
    sentences: int = 0
    tokens: int = 0  # of records, [CLS] and [SEP] counted
    positives: int = 0
    hash: int = 0  # of the set of records, whatever their order

    def add(self, other: Stats) -> None:
        self.records.update(other.records)
        for name in ("pieces", "single", "sentences", "tokens", "positives"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.hash = (self.hash + other.hash) % 2**128


class Maker:
    """Makes blocks into records.

    Args:
        options: how.
        reserve: pieces of other documents, for a block that holds one document alone.
    """

    def __init__(self, options: PairOptions, reserve: Sequence[Piece]) -> None:
        self.options, self.reserve = options, reserve
        self.tokenizer = options.tokenizer
        self.read = make_reader(self.tokenizer)

    def records(self, pieces: Iterable[Piece], stats: Stats) -> Iterator[list[bytes]]:
        """A block's records, serialized, in random order, a list each time that its text is used; counts into `stats`.

        Args:
            pieces: the block's, in an order that is always the same.

        Raises:
            ValueError: there is no other document, not even in reserve.
        """
        block = self.read(pieces)
        stats.pieces += len(block.documents)
        stats.single += sum(len(document) == 1 for document in block.documents)
        stats.sentences += sum(map(len, block.documents))
        if self.options.no_nsp:
            yield self.finished(self.rows(block), stats, 0)
            return
        others = block
        if len({document.key for document in block.documents}) < 2:
            others = block.with_more(self.read(self.reserve))
        for round in range(self.options.dupe_factor):
            yield self.finished(self.pairs(block, others, round), stats, round)

    def pairs(self, block: Block, others: Block, round: int) -> Iterator[Shard]:
        options, vocabulary = self.options, self.tokenizer.vocabulary

        def every() -> Iterator[Pair]:
            for number, document in enumerate(block.documents):
                draw = random.Random(digest("pairs", options.seed, round, document.key, number))
                yield from make_pairs(document, others.documents, options.max_length, options.short_rate, draw)

        for some in batched(every()):
            yield packed_pairs(others.ids, some, vocabulary.cls_id, vocabulary.sep_id)

    def rows(self, block: Block) -> Iterator[Shard]:
        options, vocabulary = self.options, self.tokenizer.vocabulary
        across = options.packing == "full"
        rows = make_rows(block.documents, block.ids, options.max_length, vocabulary.sep_id, across)
        for some in batched(rows):
            yield packed_rows(some, vocabulary.cls_id, vocabulary.sep_id)

    def finished(self, shards: Iterable[Shard], stats: Stats, round: int) -> list[bytes]:
        records, total = [], 0
        for shard in shards:
            records += serialize(shard)
            stats.tokens += len(shard.ids)
            stats.positives += 0 if shard.labels is None else int((shard.labels == IS_NEXT).sum())
        for record in records:
            total += int.from_bytes(hashlib.blake2b(record, digest_size=16).digest(), "big")
        stats.hash = (stats.hash + total) % 2**128
        random.Random(digest("order", self.options.seed, round, total)).shuffle(records)
        return records


@dataclass(frozen=True)
class Block:
    """Text as ids, int32, and where in them the documents stand."""

    ids: np.ndarray
    documents: list[Document]

    def with_more(self, other: Block) -> Block:
        """The two together."""
        end = len(self.ids)
        moved = [Document(d.key, array("i", [end + start for start in d.starts])) for d in other.documents]
        return Block(np.concatenate([self.ids, other.ids]), self.documents + moved)


def make_reader(tokenizer: Tokenizer) -> Callable[[Iterable[Piece]], Block]:
    """Pieces → documents of ids, in order; empty sentences, and pieces without any other, are gone."""
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

    def read(pieces: Iterable[Piece]) -> Block:
        all_ids, documents, size = [np.zeros(0, np.int32)], [], 0
        of_a_kind = (group for _, group in itertools.groupby(pieces, key=lambda piece: piece.broken))
        for chunk in (chunk for group in of_a_kind for chunk in chunks(group, CHUNK, Piece.size)):
            lines = [line for piece in chunk for line in piece.lines]
            ids, tokens, sentences = (value.numpy() for value in graphs[chunk[0].broken](tf.constant(lines)))
            line_ends = np.cumsum([len(piece.lines) for piece in chunk])
            sentence_ends = np.concatenate([[0], np.cumsum(sentences)])[line_ends].tolist()
            token_ends = (size + np.concatenate([[0], np.cumsum(tokens)])).astype(np.int32)
            for piece, begin, end in zip(chunk, [0, *sentence_ends], sentence_ends):
                ends = token_ends[begin : end + 1]
                starts = ends[np.append(ends[1:] > ends[:-1], True)]
                if len(starts) > 1:
                    documents.append(Document(piece.document, array("i", starts.tobytes())))
            all_ids.append(ids)
            size += len(ids)
        return Block(np.concatenate(all_ids), documents)

    return read


def batched(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Items, BATCH at a time."""
    left = iter(items)
    while some := list(itertools.islice(left, BATCH)):
        yield some


def packed_pairs(ids: np.ndarray, pairs: Sequence[Pair], cls_id: int, sep_id: int) -> Shard:
    """`[CLS] A [SEP] B [SEP]` of each pair."""
    flat = np.fromiter(itertools.chain.from_iterable(pairs), np.int64, len(Pair._fields) * len(pairs))
    a_begins, a_ends, b_begins, b_ends, labels = flat.reshape(len(pairs), -1).T
    a, b = a_ends - a_begins, b_ends - b_begins
    starts = np.concatenate([[0], np.cumsum(a + b + SPECIAL)])
    a_at = starts[:-1] + 1
    b_at = a_at + a + 1
    packed = np.full(starts[-1], sep_id, np.int32)
    packed[starts[:-1]] = cls_id
    packed[runs(a_at, a)] = ids[runs(a_begins, a)]
    packed[runs(b_at, b)] = ids[runs(b_begins, b)]
    return Shard(packed, starts, (a + 2).astype(np.int32), labels.astype(np.int32))


def packed_rows(rows: Sequence[np.ndarray], cls_id: int, sep_id: int) -> Shard:
    """`[CLS] row [SEP]` of each row."""
    cls, sep = (np.array([token], np.int32) for token in (cls_id, sep_id))
    lengths = np.array([len(row) + 2 for row in rows])
    packed = np.concatenate([part for row in rows for part in (cls, row, sep)])
    return Shard(packed, np.concatenate([[0], np.cumsum(lengths)]), lengths.astype(np.int32), None)


def runs(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The places begin, begin + 1, … of every run, one run after the other."""
    ends = np.cumsum(lengths)
    return np.repeat(begins - ends + lengths, lengths) + np.arange(ends[-1])
