"""`keras-bert prepare`: text → pre-training records, in bounded memory, whatever the workers and the shards."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_bert.files import atomic_directory, refuse_existing
from keras_bert.options import at_least_1, option, parse, required
from keras_bert.tasks.blocks import digest, num_blocks, partition, pieces_of
from keras_bert.tasks.corpus import CorpusOptions, Counts, Piece
from keras_bert.tasks.pairing import PairOptions, Stats, block_records, make_reader
from keras_bert.tasks.progress import finish, say
from keras_bert.tasks.records import FORMAT, META
from keras_bert.tasks.workers import run_all
from keras_bert.text.directory import save_tokenizer
from keras_bert.text.tokenizer import Tokenizer


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
        counts, reserve = partition(sources, options, options.seed, work, blocks)
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
