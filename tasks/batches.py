"""Rows as token ids, encoded once, and the plan of batches: which rows together, in which order, in which epoch.

The plan is a function of the row lengths, the seed and the epoch, so that a stopped run finds its place at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_bert.batch import INPUT_NAMES
from keras_bert.tasks.readers import Rows
from keras_bert.text import Tokenizer, pack

CHUNK = 1024  # rows tokenised at a time: memory stays bounded whatever the file's size
POOL = 64  # batches' worth of shuffled rows that are sorted by length together
MULTIPLE = 8  # batches are padded to a multiple of this: fewer different shapes, for which kernels are prepared anew


@dataclass(frozen=True)
class Encoded:
    """N packed rows without padding: `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`.

    Attributes:
        ids: int32, all rows one after the other.
        starts: int64 [N+1], where each row begins in `ids`.
        first_lengths: int32 [N], tokens of type 0 at the start of each row.
        full_lengths: int32 [N], tokens that the row would have had uncut.
        unknown: int32 [N], [UNK] tokens among them.
    """

    ids: np.ndarray
    starts: np.ndarray
    first_lengths: np.ndarray
    full_lengths: np.ndarray
    unknown: np.ndarray

    def __len__(self) -> int:
        return len(self.first_lengths)

    @property
    def lengths(self) -> np.ndarray:
        """int64 [N], tokens of each row."""
        return np.diff(self.starts)

    def batch(self, rows: np.ndarray, multiple: int = MULTIPLE) -> dict[str, np.ndarray]:
        """The three inputs, int32 [len(rows), S]: S is the longest row's length, rounded up."""
        lengths = self.lengths[rows]
        width = -(-int(lengths.max()) // multiple) * multiple
        places = np.arange(width)
        real = places < lengths[:, None]
        spots = np.minimum(self.starts[rows][:, None] + places, len(self.ids) - 1)
        ids = np.where(real, self.ids[spots], 0).astype(np.int32)
        types = (real & (places >= self.first_lengths[rows][:, None])).astype(np.int32)
        return dict(zip(INPUT_NAMES, (ids, real.astype(np.int32), types), strict=True))


def encode_all(tokenizer: Tokenizer, parts: Mapping[str, Rows], max_length: int) -> dict[str, Encoded]:
    """Tokenises and packs the rows of every part, all with pairs or all without; pairs are cut longest first.

    Args:
        max_length: tokens a row has at most, [CLS] and [SEP] counted.
    """
    pack_rows = make_packer(tokenizer, any(rows.pairs is not None for rows in parts.values()), max_length)
    return {name: encode(pack_rows, rows) for name, rows in parts.items()}


def make_packer(tokenizer: Tokenizer, paired: bool, max_length: int) -> Callable[..., tuple[tf.Tensor, ...]]:
    """Texts, and pairs if `paired`, string [B] → the fields of Encoded, with lengths in place of starts; one graph."""
    unk = tokenizer.vocabulary.unk_id
    specials = 3 if paired else 2

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)] * (specials - 1), autograph=False)
    def run(*columns: tf.Tensor) -> tuple[tf.Tensor, ...]:
        ragged = [tokenizer(column) for column in columns]
        second = ragged[1] if len(ragged) == 2 else None
        inputs = pack(ragged[0], second, None, tokenizer.vocabulary, max_length=max_length)
        real = tf.cast(inputs["input_mask"], tf.bool)
        lengths = tf.reduce_sum(inputs["input_mask"], 1)
        full = tf.add_n([tf.cast(part.row_lengths(), tf.int32) for part in ragged]) + specials
        unknown = tf.add_n([tf.reduce_sum(tf.cast(part == unk, tf.int32), 1) for part in ragged])
        first = lengths - tf.reduce_sum(inputs["input_type_ids"], 1)
        return tf.boolean_mask(inputs["input_word_ids"], real), lengths, first, full, unknown

    return run


def encode(pack_rows: Callable[..., tuple[tf.Tensor, ...]], rows: Rows) -> Encoded:
    """Rows as ids, a chunk at a time, so that memory stays bounded."""
    parts = []
    for start in range(0, len(rows), CHUNK):
        columns = [column[start : start + CHUNK] for column in (rows.texts, rows.pairs) if column is not None]
        parts.append([value.numpy() for value in pack_rows(*[tf.constant(column, tf.string) for column in columns])])
    ids, lengths, first, full, unknown = (np.concatenate(column) for column in zip(*parts, strict=True))
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return Encoded(ids, starts, first, full, unknown)


def plan_epoch(lengths: np.ndarray, batch_size: int, seed: int, epoch: int, buckets: bool = True) -> list[np.ndarray]:
    """The batches of one epoch: row numbers, each row exactly once; the last rows may make a smaller batch.

    Args:
        lengths: [N], tokens of each row.
        buckets: rows of like length share a batch, so that less is padded; rows and batches stay shuffled.
    """
    order = shuffled(len(lengths), seed, epoch, "rows")
    if not buckets:
        return split(order, batch_size)
    batches = []
    for pool in split(order, batch_size * POOL):
        # longest first: the smaller batch, if any, holds the shortest rows
        batches += split(pool[np.argsort(-lengths[pool], kind="stable")], batch_size)
    return [batches[index] for index in shuffled(len(batches), seed, epoch, "batches")]


def plan_evaluation(lengths: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """All rows once, longest first: the largest batch comes first, so that memory runs out then or never."""
    return split(np.argsort(-lengths, kind="stable"), batch_size)


def split(rows: np.ndarray, size: int) -> list[np.ndarray]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def shuffled(count: int, seed: int, epoch: int, what: str) -> np.ndarray:
    """A permutation that depends on its arguments alone: Philox's bits, which no release of numpy changes."""
    stream = {"rows": 0, "batches": 1}[what]
    key = np.array([seed % 2**64, epoch * 2 + stream], np.uint64)
    return np.argsort(np.random.Philox(key=key).random_raw(count), kind="stable")


def padding_share(encoded: Encoded, batches: Sequence[np.ndarray]) -> float:
    """The share of all positions that padding takes in these batches."""
    lengths = encoded.lengths
    cells = sum(len(rows) * -(-int(lengths[rows].max()) // MULTIPLE) * MULTIPLE for rows in batches)
    real = sum(int(lengths[rows].sum()) for rows in batches)
    return 1 - real / max(1, cells)
