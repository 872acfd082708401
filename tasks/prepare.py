"""`keras-bert prepare`: text → pre-training records, in bounded memory, whatever the workers and the shards."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import tensorflow as tf

from keras_bert.batch import IS_NEXT
from keras_bert.files import atomic_directory, refuse_existing
from keras_bert.options import at_least_1, option, parse, required
from keras_bert.tasks.blocks import Plan, digest, num_blocks, partition, read_block
from keras_bert.tasks.corpus import CorpusOptions, Counts, Piece
from keras_bert.tasks.pairing import Maker, PairOptions, Stats
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
    shards: int | None = option(
        None, "files to spread the records over, each by one worker; not given: by the size of the input"
    )
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
    plan = Plan(blocks, options.shards or blocks)
    with atomic_directory(options.output, options.overwrite) as draft:
        work = draft / "work"
        work.mkdir()
        counts, reserve = partition(sources, options, options.seed, work, blocks)
        check_corpus(counts, len(reserve), options)
        workers = min(options.workers, plan.units)
        stats = Stats()
        for part in run_all(make_shards, [Job(options, plan, work, n, workers, reserve) for n in range(workers)]):
            stats.add(part)
            speed = counts.bytes * stats.pieces / counts.pieces / (time.monotonic() - started) / 1e6
            say(f"{stats.pieces / counts.pieces:.0%}: {stats.records.total():,} records, {speed:.1f} MB/s of text")
        shutil.rmtree(work)
        meta = describe(options, tokenizer, counts, stats, plan)
        save_tokenizer(tokenizer, draft, model_max_length=options.max_length)
        (draft / META).write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")
    check_pairs(meta, stats)
    return finish(summary(meta, options.output, time.monotonic() - started))


def check_corpus(counts: Counts, documents: int, options: PrepareOptions) -> None:
    """Looks at the text before it is made into records.

    Args:
        documents: how many different ones there are, as far as that matters: at least two, or not.

    Raises:
        ValueError: nothing can be made of it.
    """
    if not counts.documents:
        raise ValueError(f"--input {options.input}: holds no text")
    say(f"{counts.documents:,} documents, {counts.bytes / 1e6:,.1f} MB of text")
    if documents < 2 and not options.no_nsp:
        raise ValueError(
            f"--input {options.input} holds one document ({counts.documents:,} times), expected at least two: a random "
            f"second text never comes from the first one's own document. {FORMATS_ADVICE}"
        )


def check_pairs(meta: dict[str, Any], stats: Stats) -> None:
    """Looks at what was made of the text; warns where that is not what was meant."""
    share = meta["positives_share"]
    if share is None or share > FEW_POSITIVES:
        return
    single = stats.single / max(1, stats.pieces)
    cause = (
        f"{single:.0%} of the documents are one sentence long. {FORMATS_ADVICE}"
        if single > 0.3
        else f"most sentences fill a record alone. Give more than --max_length {meta['max_length']}, or shorter lines"
    )
    say(
        f"warning: in {share:.1%} of the pairs the second text follows the first (label {IS_NEXT}), expected about "
        f"50%: {cause}"
    )


FEW_POSITIVES = 0.35
FORMATS_ADVICE = (
    "Is --format right? sentences: a sentence a line and an empty line between documents, text: a document a file, "
    "jsonl: a document a row"
)


@dataclass(frozen=True)
class Job:
    """What one worker does: the units whose number is its own, modulo the number of workers."""

    options: PrepareOptions
    plan: Plan
    work: Path
    number: int
    workers: int
    reserve: tuple[Piece, ...]


def make_shards(job: Job) -> Iterator[Stats]:
    """Makes a worker's blocks into shards; after each block says what came of it.

    Raises:
        OSError: the disk is full, …
    """
    maker = Maker(job.options, job.reserve)
    for unit in range(job.number, job.plan.units, job.workers):
        with ShardWriters(job.work.parent, job.plan, unit) as writers:
            for block in job.plan.blocks_of(unit):
                stats = Stats()
                for records in maker.records(read_block(job.work, block), stats):
                    stats.records.update(writers.write(records, digest("shard", job.options.seed, block)))
                yield stats


class ShardWriters:
    """The files of a unit's shards. `with ShardWriters(…) as writers:` makes them, empty ones too."""

    def __init__(self, directory: str | os.PathLike[str], plan: Plan, unit: int) -> None:
        self.directory, self.shards = os.fspath(directory), plan.shards_of(unit)
        self.paths = [os.path.join(self.directory, shard_name(shard, plan.shards)) for shard in self.shards]

    def __enter__(self) -> Self:
        with self.told():
            self.files = [tf.io.TFRecordWriter(path) for path in self.paths]
        return self

    def write(self, records: Sequence[bytes], place: int) -> Counter[int]:
        """Writes records, one after the other to each shard, from any place on; how many went to each."""
        counts: Counter[int] = Counter()
        with self.told():
            for index, shard in enumerate(self.shards):
                own = records[(index - place) % len(self.shards) :: len(self.shards)]
                for record in own:
                    self.files[index].write(record)
                counts[shard] = len(own)
                self.files[index].flush()
        return counts

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self.told() if kind is None else contextlib.suppress(tf.errors.OpError):
            for file in self.files:
                file.close()

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """TensorFlow's errors as the system's own."""
        try:
            yield
        except tf.errors.OpError as error:
            raise OSError(f"{self.directory}: the records could not be written ({error.message})") from None


def shard_name(shard: int, shards: int) -> str:
    return f"records-{shard:05}-of-{shards:05}.tfrecord"


def describe(options: PrepareOptions, tokenizer: Tokenizer, counts: Counts, stats: Stats, plan: Plan) -> dict[str, Any]:
    """What meta.json holds."""
    records = stats.records.total()
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
        "shards": [
            {"file": shard_name(shard, plan.shards), "records": stats.records[shard]} for shard in range(plan.shards)
        ],
    }


def summary(meta: dict[str, Any], output: str, seconds: float) -> dict[str, Any]:
    kept = ("records", "tokens", "padding_share", "positives_share", "documents", "sentences", "bytes", "hash")
    speed = {"seconds": round(seconds, 2), "tokens_per_second": round(meta["tokens"] / seconds)}
    return {key: meta[key] for key in kept} | {"shards": len(meta["shards"]), **speed, "output": output}
