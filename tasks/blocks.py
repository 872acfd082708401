"""Text → blocks: every piece of a document falls into one, by a hash of the seed and of what the piece is.

A block is made into pairs as a whole. How many there are follows from the size of the input, so that neither workers
nor shards, nor the order of files, change which pairs there are.
"""

from __future__ import annotations

import dataclasses
import hashlib
import heapq
import os
import pickle
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_bert.tasks.corpus import CorpusOptions, Counts, Piece, read_pieces
from keras_bert.tasks.progress import say
from keras_bert.tasks.readers.tfds import PREFIX

BLOCK = 1 << 25  # bytes of text that are made into pairs together
HELD = 1 << 26  # bytes of text that wait in memory to be written to their blocks
RESERVE, RESERVE_BYTES = 8, 1 << 16  # documents for blocks that hold one alone, and how much of each
GZIP = 4  # a gzipped file holds about so many times its size


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
    sources: Sequence[str], options: CorpusOptions, seed: int, work: Path, blocks: int
) -> tuple[Counts, tuple[Piece, ...]]:
    """Writes every piece to its block's file; returns what there was, and pieces for blocks of one document alone."""
    counts, reserve, said = Counts(), Reserve(seed), time.monotonic()
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
            held.setdefault(block_of(piece, seed, blocks), []).append(pickle.dumps(piece))
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


def pieces_of(path: Path) -> list[Piece]:
    """A block's pieces, in an order that does not depend on that of the files."""
    pieces = []
    if path.exists():
        with open(path, "rb") as file:
            while file.peek(1):
                pieces.append(pickle.load(file))
    return sorted(pieces, key=lambda piece: piece.key)
