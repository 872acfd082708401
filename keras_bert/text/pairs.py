"""Next-sentence pairs, and rows without them: what pre-training reads, out of tokenized documents (paper, 3.1 and A.2).

The rules are google-research/bert's (create_pretraining_data.py), but for two: a random B never comes from A's own
document, and whether a pair is a short one is drawn for every pair, not for a document, so that a long one does not
give a thousand short pairs. Randomness is an argument.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from keras_bert.batch import IS_NEXT, NOT_NEXT

SPECIAL = 3  # [CLS] and two [SEP]


@dataclass(frozen=True)
class Document:
    """A document, or a piece of one, by its place in an array of ids that all documents of a block share.

    Attributes:
        key: the document's; pieces of one document have one.
        starts: where each sentence begins in the array, and where the last one ends: [N+1], rising.
    """

    key: bytes
    starts: Sequence[int]

    def __len__(self) -> int:
        return len(self.starts) - 1


class Pair(NamedTuple):
    """Where A and B stand in the array of ids, without special tokens, and whether B followed A."""

    a_begin: int
    a_end: int
    b_begin: int
    b_end: int
    label: int  # IS_NEXT or NOT_NEXT


def make_pairs(
    document: Document, others: Sequence[Document], max_length: int, short_rate: float, draw: random.Random
) -> Iterator[Pair]:
    """The pairs of a document, each of at most `max_length` tokens with [CLS] and two [SEP].

    Sentences are taken until they fill the target length, which is `max_length`, or, at `short_rate`, a random shorter
    one. A is the first few of them, B the rest (half of the time, and never of a single sentence), or comes from a
    random place of a random document; then the rest is put back. What is too long loses tokens in front or at the end,
    one at a time, of the longer of the two.

    Args:
        others: what a random B is taken from; those with the document's own key are passed over.
        draw: decides.

    Raises:
        ValueError: there is no other document.
    """
    if all(other.key == document.key for other in others):
        raise ValueError("there is one document alone, expected at least two: a random B is never of A's own document")
    room = max_length - SPECIAL
    starts, count = document.starts, len(document)
    first = 0
    while first < count:
        target = 2 + below(room - 1, draw) if draw.random() < short_rate else room
        # the first sentence that fills the target, or the last one
        a_begin = starts[first]
        last = min(bisect.bisect_left(starts, a_begin + target, first + 1), count)
        a_last = first + 1 + below(max(1, last - first - 1), draw)
        a_end = starts[a_last]
        if last - first == 1 or draw.random() < 0.5:
            label = NOT_NEXT
            b_begin, b_end = random_run(stranger(document, others, draw), target - (a_end - a_begin), draw)
            first = a_last
        else:
            label, b_begin, b_end = IS_NEXT, a_end, starts[last]
            first = last
        yield Pair(*cut_to(a_begin, a_end, b_begin, b_end, room, draw), label)


def stranger(document: Document, others: Sequence[Document], draw: random.Random) -> Document:
    """One of the others, each that has not the document's key as likely."""
    for _ in range(20):
        other = others[below(len(others), draw)]
        if other.key != document.key:
            return other
    strangers = [other for other in others if other.key != document.key]
    return strangers[below(len(strangers), draw)]


def below(end: int, draw: random.Random) -> int:
    """A whole number from 0 up to, not including, `end`; in half the time that randrange takes."""
    return int(draw.random() * end)


def random_run(document: Document, length: int, draw: random.Random) -> tuple[int, int]:
    """Sentences of a document from a random one on, until they have `length` tokens; at least one."""
    starts, count = document.starts, len(document)
    first = below(count, draw)
    begin = starts[first]
    return begin, starts[min(bisect.bisect_left(starts, begin + length, first + 1), count)]


def cut_to(
    a_begin: int, a_end: int, b_begin: int, b_end: int, room: int, draw: random.Random
) -> tuple[int, int, int, int]:
    """Two texts cut to `room` tokens together: the longer (B when equal) gives way, each token from a random end."""
    a, b = a_end - a_begin, b_end - b_begin
    if a + b > room:
        a_left = min(a, max(room - b, (room + 1) // 2))
        b_left = room - a_left
        if a > a_left:
            a_begin += draw.getrandbits(a - a_left).bit_count()
            a_end = a_begin + a_left
        if b > b_left:
            b_begin += draw.getrandbits(b - b_left).bit_count()
            b_end = b_begin + b_left
    return a_begin, a_end, b_begin, b_end


def make_rows(
    documents: Sequence[Document], ids: np.ndarray, max_length: int, sep_id: int, across: bool
) -> Iterator[np.ndarray]:
    """Rows of `max_length` - 2 tokens, one after the other, for pre-training without next-sentence prediction.

    Args:
        ids: int32, the array that the documents share.
        across: a row goes on with the next document after a [SEP], so that all rows but the last are full; otherwise
            each document's last row is as long as what is left of it.
    """
    room = max_length - 2
    held = ids[:0]
    before = None
    for document in documents:
        joint: list[int] = [sep_id] if across and before is not None and before != document.key else []
        held = np.concatenate([held, np.array(joint, ids.dtype), ids[document.starts[0] : document.starts[-1]]])
        full = len(held) // room * room
        for begin in range(0, full if across else len(held), room):
            yield held[begin : begin + room]
        held = held[full if across else len(held) :]
        before = document.key
    if len(held):
        yield held
