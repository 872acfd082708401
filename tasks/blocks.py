"""Text → blocks: every piece of a document falls into one, by a hash of the seed and of what the piece is.

A block is made into pairs as a whole. How many there are follows from the size of the text, so that neither workers nor
shards, nor the order of files, change which pairs there are.
"""

from __future__ import annotations

import dataclasses
import hashlib
import heapq
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert.tasks.corpus import KEY, CorpusOptions, Counts, Piece, read_pieces
from keras_bert.tasks.progress import say
from keras_bert.tasks.readers.lines import open_binary
from keras_bert.tasks.readers.tfds import PREFIX

BLOCK = 1 << 24  # bytes of text that are made into pairs together
HELD = 1 << 25  # bytes of text that wait in memory to be written to their blocks
RESERVE, RESERVE_BYTES = 8, 1 << 16  # documents for blocks that hold one alone, and how much of each


@dataclass(frozen=True)
class Plan:
    """Which blocks go into which shards. What is made at one go is a unit: one block, or one shard.

    So each shard is written by one worker alone, and comes out the same to the byte whoever that is.
    """

    blocks: int
    shards: int

    @property
    def units(self) -> int:
        return min(self.blocks, self.shards)

    def blocks_of(self, unit: int) -> range:
        return share(unit, self.units, self.blocks)

    def shards_of(self, unit: int) -> range:
        return share(unit, self.units, self.shards)


def share(part: int, parts: int, whole: int) -> range:
    return range(part * whole // parts, (part + 1) * whole // parts)


def num_blocks(sources: Sequence[str], options: CorpusOptions) -> int:
    """How many blocks: by the bytes of all files, gzipped ones unpacked (so that they make the same pairs)."""
    return max(1, -(-sum(size_of(source, options) for source in sources) // BLOCK))


def size_of(source: str, options: CorpusOptions) -> int:
    """Bytes of a source; what does not say its size is read through.

    Raises:
        ValueError: a damaged gzip file, a data set that cannot be loaded.
        FileNotFoundError: there is no such file.
    """
    if source.startswith(PREFIX):
        return sum(piece.size() for piece in read_pieces(source, options))
    if not source.endswith(".gz"):
        return os.path.getsize(source)
    with open_binary(source) as file:
        return sum(map(len, iter(lambda: file.read(1 << 20), b"")))


def partition(
    sources: Sequence[str], options: CorpusOptions, seed: int, work: Path, blocks: int
) -> tuple[Counts, tuple[Piece, ...]]:
    """Writes every piece to its block's file; returns what there was, and pieces for blocks of one document alone."""
    counts, reserve, said = Counts(), Reserve(seed), time.monotonic()
    held: dict[int, list[bytes]] = {}
    size = 0

    def flush() -> None:
        for block, pieces in held.items():
            with open(block_path(work, block), "ab") as file:
                for data in pieces:
                    file.write(len(data).to_bytes(LENGTH, "big"))
                    file.write(data)
        held.clear()

    for source in sources:
        for piece in read_pieces(source, options):
            counts.add(piece)
            reserve.add(piece)
            data = piece.to_bytes()
            held.setdefault(block_of(piece, seed, blocks), []).append(data)
            size += len(data)
            if size > HELD:
                flush()
                size = 0
            if time.monotonic() - said > 10:
                said = time.monotonic()
                say(f"read {counts.bytes / 1e6:,.0f} MB, {counts.documents:,} documents")
    flush()
    return counts, reserve.pieces()


LENGTH = 4  # bytes in which a piece's size stands before it


def block_path(work: Path, block: int) -> Path:
    return work / f"block-{block}"


def read_block(work: Path, block: int) -> Iterator[Piece]:
    """A block's pieces, one at a time, in an order that does not depend on that of the files."""
    path = block_path(work, block)
    if not path.exists():  # a hash fell on none
        return
    with open(path, "rb") as file:
        places = []
        while head := file.read(LENGTH + KEY):
            size = int.from_bytes(head[:LENGTH], "big")
            places.append((head[LENGTH:], file.tell() - KEY, size))
            file.seek(size - KEY, os.SEEK_CUR)
        for _, place, size in sorted(places):
            file.seek(place)
            yield Piece.from_bytes(file.read(size))


def digest(*parts: Any) -> int:
    """A number of 64 bits that depends on its arguments alone."""
    text = b"\0".join(part if isinstance(part, bytes) else str(part).encode() for part in parts)
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def block_of(piece: Piece, seed: int, blocks: int) -> int:
    return digest("block", seed, piece.key) % blocks


class Reserve:
    """The beginnings of the RESERVE documents with the least hashes: the same ones in whatever order they come."""

    def __init__(self, seed: int, pieces: Iterable[Piece] = ()) -> None:
        self.seed = seed
        self.heap: list[tuple[int, bytes, Piece]] = []
        for piece in pieces:
            self.add(piece)

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
