"""Raw text for pre-training: documents out of files, piece by piece, in memory that no file's size moves.

A piece is a run of a document's sentences or paragraphs of at most PIECE bytes. It knows its document by what the
document begins with, not by where it was found: the order and the names of files decide nothing.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from keras_bert.options import Group, option, required
from keras_bert.tasks.readers import Layout, find_sources
from keras_bert.tasks.readers.json_lines import read_jsonl
from keras_bert.tasks.readers.lines import Invalid, decode, read_raw_lines
from keras_bert.tasks.readers.tfds import PREFIX, read_tfds

PIECE = 1 << 20  # bytes
SPACE = ord(" ")
ASCII_SPACES = bytes(code for code in range(128) if chr(code).isspace())
DOCUMENT, KEY = 16, 20  # bytes that say which document, and with the part which piece
PARAGRAPH = 1 << 14  # bytes; a longer one, or a longer sentence, is cut at a line's end, else at a space

Item = TypeVar("Item")
Kind = Literal["sentences", "text", "jsonl", "tfds"]


@dataclass(frozen=True, kw_only=True)
class CorpusOptions(Group):
    """The text:"""

    input: str = required("text: a file (.gz too), a folder with all that is in it, a glob, or tfds://name:split")
    format: Literal["auto", "sentences", "text", "jsonl"] = option(
        "auto",
        "sentences: one a line, an empty line between documents; text: running text, a document a file; jsonl: running "
        "text, a document a row. auto: jsonl and tfds by the name, else sentences",
    )
    text_column: str = option("text", "the text's key in JSON lines, or its feature in TFDS")
    invalid_utf8: Literal["error", "replace"] = option("error", "what to do with bytes that are not UTF-8")

    def sources(self) -> list[str]:
        """The files, or the one name of TFDS."""
        return find_sources(self.input)

    def kind_of(self, source: str) -> Kind:
        if source.startswith(PREFIX):
            return "tfds"
        if self.format != "auto":
            return self.format
        return "jsonl" if source.removesuffix(".gz").endswith((".jsonl", ".ndjson")) else "sentences"


@dataclass(frozen=True)
class Piece:
    """Some of a document, in the order of the text.

    Attributes:
        document: DOCUMENT bytes, the same for all pieces of a document.
        part: which of the document's pieces this is, from 0.
        lines: UTF-8, without line ends; there are some, not one is empty.
        broken: the lines are sentences; otherwise they are paragraphs, to be broken into sentences.
    """

    document: bytes
    part: int
    lines: tuple[bytes, ...]
    broken: bool

    @property
    def key(self) -> bytes:
        return self.document + self.part.to_bytes(4, "big")

    def size(self) -> int:
        return sum(map(len, self.lines))

    def to_bytes(self) -> bytes:
        return b"%b%c%b" % (self.key, self.broken, b"\n".join(self.lines))

    @classmethod
    def from_bytes(cls, data: bytes) -> Piece:
        """What `to_bytes` gave."""
        part = int.from_bytes(data[DOCUMENT:KEY], "big")
        return cls(data[:DOCUMENT], part, tuple(data[KEY + 1 :].split(b"\n")), bool(data[KEY]))


def read_pieces(source: str, options: CorpusOptions) -> Iterator[Piece]:
    """The pieces of a source's documents; documents without text are passed over.

    Raises:
        ValueError: a line that is no text, or is too long; a row without the column; with file and line.
        FileNotFoundError: there is no such file.
    """
    kind = options.kind_of(source)
    for document in DOCUMENTS[kind](source, options):
        yield from cut(document, broken=kind == "sentences")


def cut(lines: Iterable[bytes], broken: bool) -> Iterator[Piece]:
    """A document's lines in pieces."""
    document, part, size = b"", 0, 0
    held: list[bytes] = []

    def piece() -> Piece:
        nonlocal document
        if part == 0:
            document = hashlib.blake2b(b"\n".join(held), digest_size=DOCUMENT).digest()
        return Piece(document, part, tuple(held), broken)

    for line in lines:
        if held and size + len(line) > PIECE:
            yield piece()
            held, size, part = [], 0, part + 1
        held.append(line)
        size += len(line)
    if held:
        yield piece()


def by_sentences(source: str, options: CorpusOptions) -> Iterator[Iterator[bytes]]:
    """Documents between empty lines."""
    for has_text, lines in itertools.groupby(stripped(source, options.invalid_utf8), key=bool):
        if has_text:
            yield (part for line in lines for part in shortened(line))


def by_file(source: str, options: CorpusOptions) -> Iterator[Iterator[bytes]]:
    yield paragraphs(stripped(source, options.invalid_utf8))


def by_row(source: str, options: CorpusOptions) -> Iterator[Iterator[bytes]]:
    read = read_tfds if source.startswith(PREFIX) else read_jsonl
    for row in read(source, [Layout(options.text_column)], options.invalid_utf8):
        yield paragraphs(line.strip().encode() for line in row.text.split("\n"))


DOCUMENTS: dict[str, Any] = {"sentences": by_sentences, "text": by_file, "jsonl": by_row, "tfds": by_row}


def stripped(path: str, invalid: Invalid) -> Iterator[bytes]:
    """A file's lines without the spaces around them.

    Raises:
        ValueError: not text; with file and line.
    """
    for number, line in read_raw_lines(path):
        if b"\0" in line:
            raise ValueError(f"{path} line {number}: holds NUL, as only binary files do; leave it out of --input")
        # spaces as str.strip knows them, without the detour for plain ASCII
        yield line.strip(ASCII_SPACES) if line.isascii() else decode(line, invalid, path, number).strip().encode()


def paragraphs(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines joined to what stands between empty lines, at most PARAGRAPH bytes each."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        for part in shortened(line):
            if held and (not line or size + len(part) > PARAGRAPH):
                yield b" ".join(held)
                held, size = [], 0
            if part:
                held.append(part)
                size += len(part) + 1
    if held:
        yield b" ".join(held)


def shortened(line: bytes) -> Sequence[bytes]:
    """A line in parts of at most PARAGRAPH bytes, cut at spaces where there are any, never within a character."""
    if len(line) <= PARAGRAPH:
        return [line]
    parts, begin = [], 0
    while len(line) - begin > PARAGRAPH:
        end = line.rfind(b" ", begin + 1, begin + PARAGRAPH)
        if end < 0:
            end = begin + PARAGRAPH
            while line[end] & 0xC0 == 0x80:
                end -= 1
        parts.append(line[begin:end])
        begin = end
        while line[begin] == SPACE:
            begin += 1
    return [*parts, line[begin:]]


def chunks(items: Iterable[Item], limit: int, size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Items in order, about `limit` bytes at a time."""
    held: list[Item] = []
    total = 0
    for item in items:
        held.append(item)
        total += size(item)
        if total >= limit:
            yield held
            held, total = [], 0
    if held:
        yield held


@dataclass
class Counts:
    """What was read of a corpus, for progress and reports."""

    documents: int = 0
    pieces: int = 0
    bytes: int = 0

    def add(self, piece: Piece) -> None:
        self.documents += piece.part == 0
        self.pieces += 1
        self.bytes += piece.size()
