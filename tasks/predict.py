"""`keras-bert predict`: lines or JSON lines in, JSON lines out, in order, while they come."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, BinaryIO, Literal

import keras_bert as kb
from keras_bert.files import atomic_write, refuse_existing
from keras_bert.inputs import find_files
from keras_bert.options import Group, at_least_1, option, parse, required
from keras_bert.tasks.progress import finish, say
from keras_bert.tasks.readers.lines import open_binary, parse_json, refuse_utf16
from keras_bert.tasks.show_tokens import batches


@dataclass(frozen=True, kw_only=True)
class PredictOptions(Group):
    """Answers of a trained checkpoint for each line, as a JSON line: label and probabilities, or score."""

    model: str = required("a trained checkpoint directory")
    input: str = option("-", "file (.gz too), folder or glob; - is stdin")
    format: Literal["auto", "lines", "jsonl", "tsv"] = option(
        "auto",
        "of the input: a text a line; objects with text, for pairs text_pair, and an id that is given back; text and "
        "pair with a tab between. auto: jsonl where the first line is such an object, else tsv for a model of pairs, "
        "else lines",
    )
    output: str | None = option(None, "file for the answers; not given: stdout")
    overwrite: bool = option(False, "replace --output")
    max_length: int | None = option(None, "tokens a row has at most; not given: as the model was trained")
    batch_size: int = option(64, "rows computed at a time")
    dtype: Literal["float32", "mixed_bfloat16", "mixed_float16"] = option("float32", "type the layers compute in")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_1(self, "max_length", "batch_size")


@dataclass(frozen=True)
class Item:
    """One line read: text and pair, with what identifies it."""

    text: str | bytes
    pair: str | bytes | None
    extra: dict[str, Any]


def main(argv: list[str]) -> int:
    """The command; one answer for every line, the empty ones too (but not between JSON lines).

    Raises:
        ValueError: a line that cannot be read, with file and line; pairs for a model of single texts, or the reverse.
    """
    options = parse(PredictOptions, argv, "predict")
    bert = kb.load(options.model, max_length=options.max_length, dtype=options.dtype)
    if bert.head not in ("classifier", "regressor"):
        raise ValueError(f"{options.model} has no head that answers; train one with `keras-bert classify` or `regress`")
    started, count = time.monotonic(), 0
    if options.output is None:
        count = predict(bert, options, sys.stdout)
    else:
        refuse_existing(options.output, options.overwrite)
        with atomic_write(options.output) as file:
            count = predict(bert, options, file)
    seconds = time.monotonic() - started
    result = {"rows": count, "seconds": round(seconds, 2), "rows_per_second": round(count / max(seconds, 1e-9), 1)}
    if options.output is None:
        say(json.dumps(result))  # stdout holds the answers
        return 0
    return finish({**result, "output": options.output})


def predict(bert: Any, options: PredictOptions, out: IO[str]) -> int:
    """Writes the answers batch by batch; returns how many."""
    count = 0
    paired = bool(bert.info.get("paired"))
    for source in find_files(options.input):
        refuse_table(source, options.format, paired)
        for items in read(source, options, paired):
            has_pairs = items[0].pair is not None
            answers = bert.predict(
                [item.text for item in items],
                [item.pair for item in items] if has_pairs else None,
                batch_size=options.batch_size,
            )
            for item, answer in zip(items, answers, strict=True):
                out.write(json.dumps({**item.extra, **answer}, ensure_ascii=False) + "\n")
            out.flush()
            count += len(items)
    return count


def refuse_table(source: str, format: str, paired: bool) -> None:
    """A table's header and labels would be answered as texts, and nobody would see it."""
    kind = source.removesuffix(".gz").rpartition(".")[2]
    if format == "auto" and (kind == "csv" or (kind == "tsv" and not paired)):
        raise ValueError(
            f"--input {source} is a table by its name, expected a text a line or JSON lines: write its text column "
            f"alone to a file, or give --format lines to have each line answered whole"
        )


def read(source: str, options: PredictOptions, paired: bool) -> Iterator[list[Item]]:
    """A source's items, as many at a time as have come."""
    if source == "-":
        yield from read_stream(sys.stdin.buffer, "stdin", options.format, paired)
    else:
        with open_binary(source) as file:
            yield from read_stream(file, source, options.format, paired)


def read_stream(stream: BinaryIO, name: str, format: str, paired: bool) -> Iterator[list[Item]]:
    number = 0
    for lines in batches(stream):
        if number == 0:
            refuse_utf16(lines[0], name)
        if number == 0 and format == "auto":
            first = next((line for line in lines if line.strip()), b"")
            format = "jsonl" if is_object(first) else "tsv" if paired else "lines"
        items = []
        for line in lines:
            number += 1
            item = item_of(line, format, f"{name} line {number}")
            if item is not None:
                if (item.pair is not None) != paired:
                    raise ValueError(f"{name} line {number}: {wrong_pair(paired, format)}")
                items.append(item)
        if items:
            yield items


def item_of(line: bytes, format: str, where: str) -> Item | None:
    """What a line holds; None for an empty line between JSON lines.

    Raises:
        ValueError: the line is not of the format.
    """
    if format == "lines":
        return Item(line, None, {})
    if format == "tsv":
        text, tab, pair = line.partition(b"\t")
        return Item(text, pair if tab else None, {})
    if not line.strip():
        return None
    item = parse_json(line, where)
    if not isinstance(item, dict) or not isinstance(item.get("text"), str):
        raise ValueError(f'{where}: expected an object such as {{"text": "…"}}, got {line[:60]!r}')
    other = item.get("text_pair")
    if other is not None and not isinstance(other, str):
        raise ValueError(f"{where}: text_pair must be a string, got {json.dumps(other)[:40]}")
    return Item(item["text"], other, {"id": item["id"]} if "id" in item else {})


def is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def wrong_pair(paired: bool, format: str) -> str:
    if not paired:
        return "the model was trained on single texts, and this line has a pair"
    how = (
        'give objects with "text_pair"' if format == "jsonl" else "give lines with a tab between the two (--format tsv)"
    )
    return f"the model was trained on pairs, and this line has none; {how}"
