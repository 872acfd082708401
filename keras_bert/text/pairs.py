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
    """A document, or a piece of one, as ids.

    Attributes:
        key: the document's; pieces of one document have one.
        ids: int32, all sentences one after the other, none of them empty.
        starts: int, where each sentence begins in `ids`, and their end: [N+1].
    """

    key: bytes
    ids: np.ndarray
    starts: Sequence[int]

    def __len__(self) -> int:
        return len(self.starts) - 1


class Pair(NamedTuple):
    """Ids of A and B, without special tokens, and whether B followed A: IS_NEXT or NOT_NEXT."""

    a: np.ndarray
    b: np.ndarray
    label: int


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
    starts, ids = document.starts, document.ids
    first = 0
    while first < len(document):
        target = 2 + below(room - 1, draw) if draw.random() < short_rate else room
        # the first sentence that fills the target, or the last one
        last = min(bisect.bisect_left(starts, starts[first] + target, first + 1), len(document))
        a_end = first + 1 + below(max(1, last - first - 1), draw)
        a = ids[starts[first] : starts[a_end]]
        if last - first == 1 or draw.random() < 0.5:
            b, label = random_run(stranger(document, others, draw), target - len(a), draw), NOT_NEXT
            first = a_end
        else:
            b, label = ids[starts[a_end] : starts[last]], IS_NEXT
            first = last
        yield Pair(*cut_to(a, b, room, draw), label)


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


def random_run(document: Document, length: int, draw: random.Random) -> np.ndarray:
    """Sentences of a document from a random one on, until they have `length` tokens; at least one."""
    first = below(len(document), draw)
    starts = document.starts
    last = min(bisect.bisect_left(starts, starts[first] + length, first + 1), len(document))
    return document.ids[starts[first] : starts[last]]


def cut_to(a: np.ndarray, b: np.ndarray, room: int, draw: random.Random) -> tuple[np.ndarray, np.ndarray]:
    """Two texts cut to `room` tokens together: the longer (B when equal) gives way, each token from a random end."""
    a_length = min(len(a), max(room - len(b), (room + 1) // 2))
    b_length = min(len(b), max(room - len(a), room // 2))
    return shorten(a, a_length, draw), shorten(b, b_length, draw)


def shorten(ids: np.ndarray, length: int, draw: random.Random) -> np.ndarray:
    surplus = len(ids) - length
    front = draw.getrandbits(surplus).bit_count() if surplus else 0
    return ids[front : front + length]


def make_rows(documents: Sequence[Document], max_length: int, sep_id: int, across: bool) -> Iterator[np.ndarray]:
    """Rows of `max_length` - 2 tokens, one after the other, for pre-training without next-sentence prediction.

    Args:
        across: a row goes on with the next document after a [SEP], so that all rows but the last are full; otherwise
            each document's last row is as long as what is left of it.
    """
    room = max_length - 2
    if not across:
        for document in documents:
            for begin in range(0, len(document.ids), room):
                yield document.ids[begin : begin + room]
        return
    held = np.zeros(0, np.int32)
    for before, document in zip([None, *documents], documents):
        joint = [] if before is None or before.key == document.key else [sep_id]
        held = np.concatenate([held, np.array(joint, np.int32), document.ids])
        for begin in range(0, len(held) - room + 1, room):
            yield held[begin : begin + room]
        held = held[len(held) // room * room :]
    if len(held):
        yield held
