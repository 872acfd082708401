"""Pre-training records: rows of ids in TFRecord shards, unmasked, beside a meta.json that says what they are.

A record is a tf.train.Example of integers: `input_word_ids` (packed, without padding), `first_length` (tokens of type 0
at its start) and, of pairs, `next_sentence_label`. The order in which a run reads them is a function of its seed and of
the place alone, so that the place is found at once, wherever it is: shards in random order, records in random order
within each.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.batch import INPUT_NAMES, IS_NEXT
from keras_bert.tasks.batches import shuffled
from keras_bert.text.directory import read_object, read_settings
from keras_bert.text.tokenizer import Tokenizer

META = "meta.json"
FORMAT = 1


@dataclass(frozen=True)
class Shard:
    """Some records: their ids one after the other, int32; per record where it starts ([N+1]), how many tokens of type 0
    it begins with, and its next-sentence label (None where there are none)."""

    ids: np.ndarray
    starts: np.ndarray
    first_lengths: np.ndarray
    labels: np.ndarray | None

    def __len__(self) -> int:
        return len(self.first_lengths)


def serialize(shard: Shard) -> list[bytes]:
    """Each record's bytes: a tf.train.Example, its features in the order of their names.

    Written by hand, since protobuf takes ten times as long to make an Example of a record as everything else here.
    """
    packed, ends = varints(shard.ids)
    ends = ends[shard.starts].tolist()
    labels = [b""] * len(shard) if shard.labels is None else shard.labels.tolist()
    records = []
    for begin, end, first, label in zip(ends[:-1], ends[1:], shard.first_lengths.tolist(), labels, strict=True):
        head = first_entry(first) + opening(end - begin)
        tail = label if shard.labels is None else LABELS[label]
        records.append(outer(len(head) + end - begin + len(tail)) + head + packed[begin:end] + tail)
    return records


# What stands around the ids depends on a few small numbers, and is made once for each.


@functools.lru_cache(1 << 16)
def outer(size: int) -> bytes:
    """What begins an Example whose features have so many bytes."""
    return field(1, bytes(size))[:-size]


@functools.lru_cache(1 << 16)
def opening(size: int) -> bytes:
    """What begins the feature of ids that have so many bytes."""
    return entry(b"input_word_ids", bytes(size))[:-size]


@functools.lru_cache(1 << 16)
def first_entry(length: int) -> bytes:
    return entry(b"first_length", varints(np.array([length]))[0])


def entry(name: bytes, packed: bytes) -> bytes:
    """A feature of integers: Features.feature {key, Feature {int64_list {value}}}."""
    return field(1, field(1, name) + field(2, field(3, field(1, packed))))


def field(number: int, content: bytes) -> bytes:
    """A protobuf field that has a length."""
    size, length = len(content), bytearray([number << 3 | 2])
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    length.append(size)
    return bytes(length) + content


LABELS = [entry(b"next_sentence_label", bytes([label])) for label in (0, 1)]


def varints(values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Protobuf's integers for values from 0 to 2**28 - 1, one after the other, and where each begins: [N+1]."""
    table = np.arange(int(values.max(initial=0)) + 1, dtype=np.uint32)  # ids are few: each is encoded once
    lengths = np.ones(len(table), np.uint8)
    coded = table & 127
    for place in range(1, 4):
        longer = table >> 7 * place > 0
        lengths += longer
        coded |= longer * np.uint32(128) << 8 * (place - 1) | (table >> 7 * place & 127) << 8 * place
    used = lengths[values]
    ends = np.concatenate([[0], np.cumsum(used, dtype=np.int64)])
    four = coded.astype("<u4")[values].view(np.uint8).reshape(-1, 4)
    return four[np.arange(4, dtype=np.uint8) < used[:, None]].tobytes(), ends


def read_shard(path: str, count: int, nsp: bool) -> Shard:
    """Reads a shard whole.

    Raises:
        ValueError: it is cut short or damaged, or holds another number of records than meta.json says.
        FileNotFoundError: it is not there.
    """
    features: dict[str, Any] = {
        "input_word_ids": tf.io.RaggedFeature(tf.int64),
        "first_length": tf.io.FixedLenFeature([], tf.int64),
    }
    if nsp:
        features["next_sentence_label"] = tf.io.FixedLenFeature([], tf.int64)
    try:
        raw = next(iter(tf.data.TFRecordDataset(path).batch(max(1, count) + 1)), None)
        size = 0 if raw is None else int(tf.size(raw))
        if size == count:
            found = tf.io.parse_example(raw, features)
    except tf.errors.NotFoundError:
        raise FileNotFoundError(f"{path}: meta.json names it, but it is not there; prepare the records anew") from None
    except tf.errors.OpError as error:
        said = str(error.message).split(";")[0]
        raise ValueError(f"{path} is cut short or damaged ({said}); prepare the records anew") from None
    if size != count:
        raise ValueError(f"{path} holds {size} records, expected {count} by meta.json; prepare the records anew")
    ids = found["input_word_ids"]
    return Shard(
        ids.values.numpy().astype(np.int32),
        ids.row_splits.numpy(),
        found["first_length"].numpy().astype(np.int32),
        found["next_sentence_label"].numpy().astype(np.int32) if nsp else None,
    )


class Records:
    """The records of a directory that `keras-bert prepare` wrote.

    Args:
        directory: with meta.json, its shards, vocab.txt and tokenizer_config.json.

    Raises:
        FileNotFoundError: there is no meta.json.
        ValueError: it is damaged, or its vocabulary is not the one that the records were made with.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        self.meta = read_meta(self.directory)
        self.tokenizer = Tokenizer(**read_settings(self.directory))
        found = self.tokenizer.vocabulary.content_hash()
        if found != self.meta["vocabulary"]:
            raise ValueError(
                f"{self.directory}: its vocab.txt ({found[:12]}) is not the vocabulary that the records were made with "
                f"({self.meta['vocabulary'][:12]}); prepare the records anew"
            )
        self.nsp: bool = self.meta["nsp"]
        self.max_length: int = self.meta["max_length"]
        self.counts = np.array([shard["records"] for shard in self.meta["shards"]], np.int64)
        self.cache: dict[int, Future[Shard]] = {}
        # of the shard in use and of all shards; drawn for each batch, they would be a tenth of a small model's step
        self.order = functools.lru_cache(2)(shuffled)
        self.reader = ThreadPoolExecutor(1, thread_name_prefix="shard")

    def __len__(self) -> int:
        return int(self.counts.sum())

    def batch(self, place: int, size: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray, list[str]]:
        """`size` records from the `place`-th of the endless order on.

        Inputs int32 [B,S], labels int32 [B], and each one's name. It goes through all records, each time in another
        way.
        """
        inputs = {name: np.zeros((size, self.max_length), np.int32) for name in INPUT_NAMES}
        inputs["input_word_ids"][:] = self.tokenizer.vocabulary.pad_id
        labels, names = np.zeros(size, np.int32), []
        row = 0
        for number, records in self.walk(place, seed):
            shard = self.shard(number)
            for record in records[: size - row].tolist():
                begin, end = shard.starts[record], shard.starts[record + 1]
                inputs["input_word_ids"][row, : end - begin] = shard.ids[begin:end]
                inputs["input_mask"][row, : end - begin] = 1
                inputs["input_type_ids"][row, shard.first_lengths[record] : end - begin] = 1
                labels[row] = IS_NEXT if shard.labels is None else shard.labels[record]
                names.append(f"{self.meta['shards'][number]['file']}:{record}")
                row += 1
            if row == size:
                return inputs, labels, names
        raise AssertionError("the order has no end")

    def walk(self, place: int, seed: int) -> Iterator[tuple[int, np.ndarray]]:
        """(shard, numbers of its records) in order, from a place on; without end."""
        epoch, offset = divmod(place, len(self))
        while True:
            order = self.order(len(self.counts), seed, epoch, "rows")
            ends = np.cumsum(self.counts[order])
            index = int(np.searchsorted(ends, offset, side="right"))
            while index < len(order):
                number = int(order[index])
                begin = offset - (int(ends[index]) - int(self.counts[number]))
                following = order[index + 1] if index + 1 < len(order) else None
                self.load(number, None if following is None else int(following))
                yield number, self.order(int(self.counts[number]), seed + number, epoch, "batches")[begin:]
                offset = int(ends[index])
                index += 1
            epoch, offset = epoch + 1, 0

    def load(self, number: int, following: int | None) -> None:
        """Begins to read a shard and the one after it; forgets the others."""
        wanted = {number} | ({following} if following is not None else set())
        for other in set(self.cache) - wanted:
            del self.cache[other]
        for shard in sorted(wanted - set(self.cache), key=lambda n: n != number):
            entry = self.meta["shards"][shard]
            path = os.fspath(self.directory / entry["file"])
            self.cache[shard] = self.reader.submit(read_shard, path, entry["records"], self.nsp)

    def shard(self, number: int) -> Shard:
        return self.cache[number].result()


def read_meta(directory: Path) -> dict[str, Any]:
    """What meta.json says.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is damaged, of a later format, or names no records.
    """
    path = directory / META
    if not path.is_file():
        raise FileNotFoundError(f"{directory} has no {META}: expected a directory that `keras-bert prepare` wrote")
    meta = read_object(path)
    try:
        if meta["format"] > FORMAT:
            raise ValueError(f"{path}: format {meta['format']}, expected at most {FORMAT}: update keras_bert")
        shards = [(str(shard["file"]), int(shard["records"])) for shard in meta["shards"]]
        [meta[key] for key in ("vocabulary", "nsp", "max_length", "seed", "hash")]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error!r}); prepare the records anew") from None
    if not sum(count for _, count in shards):
        raise ValueError(f"{path}: there are no records; prepare them anew")
    return meta
