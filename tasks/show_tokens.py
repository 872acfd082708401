"""`keras-bert tokenize`: lines in, JSON lines of tokens, ids and offsets out."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from keras_bert.inputs import find_files
from keras_bert.options import option, parse, required
from keras_bert.tasks.readers.lines import open_binary
from keras_bert.text import PythonTokenizer, Tokenizer
from keras_bert.text.base import BaseTokenizer

CHUNK = 1 << 18  # bytes read at once, and tokenized as one batch


@dataclass(frozen=True, kw_only=True)
class Options:
    """Shows what a BERT reads: each line's tokens, ids and [start, end) offsets in characters, as a JSON line."""

    vocab: str = required("vocab.txt of the model")
    lower_case: bool = option(True, "the vocabulary is an uncased one")
    special_tokens_in_text: bool = option(False, "a typed [MASK] is the token, not text")
    input: str = option("-", "UTF-8 lines: file (.gz too), folder or glob; - is stdin")


def main(argv: list[str]) -> int:
    options = parse(Options, argv, "tokenize")
    tokenizer = build(options)
    for name in find_files(options.input):
        with contextlib.nullcontext(sys.stdin.buffer) if name == "-" else open_binary(name) as lines:
            show(lines, tokenizer)
    return 0


def build(options: Options) -> BaseTokenizer:
    settings = {"lower_case": options.lower_case, "special_tokens_in_text": options.special_tokens_in_text}
    try:
        return Tokenizer(options.vocab, **settings)
    except ImportError as error:
        print(f"keras-bert tokenize: slowly, in plain Python: {error}", file=sys.stderr)
        return PythonTokenizer(options.vocab, **settings)


def show(stream: BinaryIO, tokenizer: BaseTokenizer) -> None:
    """Writes a batch as soon as it has been read, so that a pipe or a person who types gets the answer at once."""
    tokens = tokenizer.vocabulary.tokens
    for lines in batches(stream):
        pieces = tokenizer.with_offsets(lines)
        splits = pieces.ids.row_splits.numpy().tolist()
        ids = pieces.ids.values.numpy().tolist()
        offsets = list(zip(pieces.starts.values.numpy().tolist(), pieces.ends.values.numpy().tolist()))
        for begin, end in itertools.pairwise(splits):
            row = ids[begin:end]
            answer = {"tokens": [tokens[i] for i in row], "ids": row, "offsets": offsets[begin:end]}
            sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
        sys.stdout.flush()


def batches(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The stream's lines without their ends, LF or CR LF, as many at a time as there are."""
    rest: list[bytes] = []  # of a line whose end has not come yet
    read = getattr(stream, "read1", stream.read)
    while chunk := read(CHUNK):
        first, *lines = chunk.split(b"\n")
        rest.append(first)
        if lines:
            yield [line.removesuffix(b"\r") for line in [b"".join(rest), *lines[:-1]]]
            rest = [lines[-1]]
    if last := b"".join(rest):
        yield [last]
