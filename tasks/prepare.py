"""`keras-bert prepare`: text → pre-training records, in bounded memory, the same for any number of workers and shards.

Every piece of a document falls into a block, by a hash of the seed and of what the piece is. A block is made into pairs
as a whole: a random B comes from the block's other documents. The number of blocks follows from the size of the input,
so that neither workers nor shards, nor the order of files, change which pairs there are.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import heapq
import itertools
import json
import os
import pickle
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from keras_bert.batch import IS_NEXT
from keras_bert.files import atomic_directory, refuse_existing
from keras_bert.options import Group, at_least_1, option, parse, required
from keras_bert.tasks.corpus import CorpusOptions, Counts, Piece, chunks, read_pieces
from keras_bert.tasks.progress import finish, say
from keras_bert.tasks.readers.tfds import PREFIX
from keras_bert.tasks.records import FORMAT, META, Shard, serialize
from keras_bert.tasks.workers import run_all
from keras_bert.text.cleaning import import_tensorflow_text
from keras_bert.text.directory import looks_lower_cased, read_settings, save_tokenizer
from keras_bert.text.pairs import SPECIAL, Document, make_pairs, make_rows
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary

BLOCK = 1 << 25  # bytes of text that are made into pairs together
HELD = 1 << 26  # bytes of text that wait in memory to be written to their blocks
CHUNK = 1 << 20  # bytes of text that are tokenized together
RESERVE, RESERVE_BYTES = 8, 1 << 16  # documents for blocks that hold one alone, and how much of each
GZIP = 4  # a gzipped file holds about so many times its size


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


@dataclass(frozen=True, kw_only=True)
class PrepareOptions(CorpusOptions, PairOptions):
    """Makes text into records for `keras-bert pretrain`."""

    output: str = required("directory for the records")
    overwrite: bool = option(False, "replace what is in --output")
    shards: int | None = option(None, "files to spread the records over; not given: by the size of the input")
    workers: int = option(os.cpu_count() or 1, "processes")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_1(self, "shards", "workers")


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


def main(argv: list[str]) -> int:
    """The command.

    Raises:
        ValueError, OSError: bad input, in one line; nothing is left where the output would be.
    """
    options = parse(PrepareOptions, argv, "prepare")
    refuse_existing(options.output, options.overwrite)
    started = time.monotonic()
    tokenizer = options.tokenizer
    sources = options.sources()
    blocks = num_blocks(sources, options)
    shards = options.shards or blocks
    with atomic_directory(options.output, options.overwrite) as draft:
        work = draft / "work"
        work.mkdir()
        counts, reserve = partition(sources, options, work, blocks)
        check_corpus(counts, reserve, options)
        workers = min(options.workers, blocks)
        jobs = [Job(options, work, number, workers, blocks, shards, reserve) for number in range(workers)]
        stats = Stats([0] * shards)
        for part in run_all(make_records, jobs):
            stats += part
            done = time.monotonic() - started
            say(
                f"{sum(stats.records):,} records, {stats.tokens:,} tokens; {counts.bytes / done / 1e6:.1f} MB/s of text"
            )
        names = join_shards(work, draft, shards, workers)
        shutil.rmtree(work)
        meta = describe(options, tokenizer, counts, stats, names)
        save_tokenizer(tokenizer, draft, model_max_length=options.max_length)
        (draft / META).write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")
    return finish(summary(meta, options.output, time.monotonic() - started))


def num_blocks(sources: Sequence[str], options: CorpusOptions) -> int:
    """How many blocks, from the size of the input."""
    size = 0
    for source in sources:
        if source.startswith(PREFIX):
            size += sum(piece.size() for piece in read_pieces(source, options))
        else:
            size += os.path.getsize(source) * (GZIP if source.endswith(".gz") else 1)
    return max(1, -(-size // BLOCK))


def partition(
    sources: Sequence[str], options: PrepareOptions, work: Path, blocks: int
) -> tuple[Counts, tuple[Piece, ...]]:
    """Writes every piece to its block's file; returns what there was, and pieces for blocks of one document alone."""
    counts, reserve, said = Counts(), Reserve(options.seed), time.monotonic()
    held: dict[int, list[bytes]] = {}
    size = 0

    def flush() -> None:
        for block, pieces in held.items():
            with open(work / f"block-{block}", "ab") as file:
                file.writelines(pieces)
        held.clear()

    for source in sources:
        for piece in read_pieces(source, options):
            counts.add(piece)
            reserve.add(piece)
            held.setdefault(block_of(piece, options.seed, blocks), []).append(pickle.dumps(piece))
            size += piece.size()
            if size > HELD:
                flush()
                size = 0
            if time.monotonic() - said > 10:
                said = time.monotonic()
                say(f"read {counts.bytes / 1e6:,.0f} MB, {counts.documents:,} documents")
    flush()
    return counts, reserve.pieces()


def digest(*parts: Any) -> int:
    """A number of 64 bits that depends on its arguments alone."""
    text = b"\0".join(part if isinstance(part, bytes) else str(part).encode() for part in parts)
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def block_of(piece: Piece, seed: int, blocks: int) -> int:
    return digest("block", seed, piece.key) % blocks


class Reserve:
    """The beginnings of the RESERVE documents with the least hashes: the same ones in whatever order they come."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.heap: list[tuple[int, bytes, Piece]] = []

    def add(self, piece: Piece) -> None:
        entry = -digest("reserve", self.seed, piece.document), piece.document
        if piece.part or entry in [held[:2] for held in self.heap]:
            return
        if len(self.heap) < RESERVE:
            heapq.heappush(self.heap, (*entry, beginning(piece)))
        elif entry > self.heap[0][:2]:
            heapq.heapreplace(self.heap, (*entry, beginning(piece)))

    def pieces(self) -> tuple[Piece, ...]:
        return tuple(piece for _, _, piece in sorted(self.heap, key=lambda held: held[:2]))


def beginning(piece: Piece) -> Piece:
    size, lines = 0, []
    for line in piece.lines:
        lines.append(line)
        size += len(line)
        if size > RESERVE_BYTES:
            break
    return dataclasses.replace(piece, lines=tuple(lines))


def check_corpus(counts: Counts, reserve: Sequence[Piece], options: PrepareOptions) -> None:
    """Raises ValueError where nothing can be made of the text; warns where what is made is not what was meant."""
    if not counts.documents:
        raise ValueError(f"--input {options.input}: holds no text")
    say(f"{counts.documents:,} documents, {counts.bytes / 1e6:,.1f} MB of text")
    if options.no_nsp:
        return
    if len(reserve) < 2:
        raise ValueError(
            f"--input {options.input} holds one document ({counts.documents:,} times), expected at least two: a random "
            f"second text never comes from the first one's own document. {FORMATS_ADVICE}"
        )
    if counts.single > 0.5 * counts.documents:
        say(
            f"warning: {counts.single / counts.documents:.0%} of the documents are one sentence long, and give no pair "
            f"whose second text follows; an empty line ends a document. {FORMATS_ADVICE}"
        )


FORMATS_ADVICE = "Is --format right? sentences: a sentence a line, text: a document a file, jsonl: a document a row"


@dataclass(frozen=True)
class Job:
    """What one worker does: the blocks whose number is its own, modulo the number of workers."""

    options: PrepareOptions
    work: Path
    number: int
    workers: int
    blocks: int
    shards: int
    reserve: tuple[Piece, ...]


def make_records(job: Job) -> Iterator[Stats]:
    """Makes a worker's blocks into records, in files of its own for every shard; after each block says what came of it.

    Raises:
        OSError: the disk is full, …
    """
    tokenizer = job.options.tokenizer
    read = make_reader(tokenizer)
    writers: dict[int, tf.io.TFRecordWriter] = {}
    try:
        for block in range(job.number, job.blocks, job.workers):
            stats = Stats([0] * job.shards)
            place = digest("shard", job.options.seed, block)
            pieces = pieces_of(job.work / f"block-{block}")
            for record in block_records(pieces, job.reserve, read, tokenizer.vocabulary, job.options, stats):
                shard = place % job.shards
                if shard not in writers:
                    writers[shard] = tf.io.TFRecordWriter(os.fspath(job.work / part_name(shard, job.number)))
                writers[shard].write(record)
                stats.records[shard] += 1
                place += 1
            for writer in writers.values():
                writer.flush()
            yield stats
        for writer in writers.values():
            writer.close()
    except tf.errors.OpError as error:
        raise OSError(f"{job.work.parent}: the records could not be written ({error.message})") from None


def part_name(shard: int, worker: int) -> str:
    return f"shard-{shard}-{worker}"


def pieces_of(path: Path) -> list[Piece]:
    """A block's pieces, in an order that does not depend on that of the files."""
    pieces = []
    if path.exists():
        with open(path, "rb") as file:
            while file.peek(1):
                pieces.append(pickle.load(file))
    return sorted(pieces, key=lambda piece: piece.key)


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


def join_shards(work: Path, draft: Path, shards: int, workers: int) -> list[str]:
    """Puts the workers' parts of each shard together; returns the shards' names."""
    names = []
    for shard in range(shards):
        names.append(f"records-{shard:05}-of-{shards:05}.tfrecord")
        with open(draft / names[-1], "wb") as out:
            for worker in range(workers):
                part = work / part_name(shard, worker)
                if part.exists():
                    with open(part, "rb") as file:
                        shutil.copyfileobj(file, out, 1 << 20)
                    part.unlink()
    return names


def describe(
    options: PrepareOptions, tokenizer: Tokenizer, counts: Counts, stats: Stats, names: Sequence[str]
) -> dict[str, Any]:
    """What meta.json holds."""
    records = sum(stats.records)
    kept = ("max_length", "short_rate", "dupe_factor", "packing", "seed")
    return {
        "format": FORMAT,
        "nsp": not options.no_nsp,
        "records": records,
        "tokens": stats.tokens,
        "padding_share": round(1 - stats.tokens / max(1, records * options.max_length), 4),
        "positives_share": None if options.no_nsp else round(stats.positives / max(1, records), 4),
        "documents": counts.documents,
        "sentences": stats.sentences,
        "bytes": counts.bytes,
        **{key: getattr(options, key) for key in kept},
        "vocabulary": tokenizer.vocabulary.content_hash(),
        "hash": f"{stats.hash:032x}",
        "shards": [{"file": name, "records": count} for name, count in zip(names, stats.records, strict=True)],
    }


def summary(meta: dict[str, Any], output: str, seconds: float) -> dict[str, Any]:
    kept = ("records", "tokens", "padding_share", "positives_share", "documents", "sentences", "bytes", "hash")
    speed = {"seconds": round(seconds, 2), "tokens_per_second": round(meta["tokens"] / seconds)}
    return {key: meta[key] for key in kept} | {"shards": len(meta["shards"]), **speed, "output": output}
