"""Pairs: google-research/bert's rules, one by one, and a random B that is never of A's own document."""

from __future__ import annotations

import itertools
import random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.batch import IS_NEXT, NOT_NEXT
from keras_bert.text.pairs import Document, cut_to, make_pairs, make_rows


def corpus(*lengths: list[int], first: int = 0) -> tuple[np.ndarray, list[Document]]:
    """Documents of sentences of so many tokens: token t of sentence s of document d is d·10,000 + s·100 + t."""
    ids: list[int] = []
    documents = []
    for number, row in enumerate(lengths, first):
        starts = [len(ids) + start for start in (0, *itertools.accumulate(row))]
        ids += [number * 10_000 + s * 100 + t for s, length in enumerate(row) for t in range(length)]
        documents.append(Document(str(number).encode(), starts))
    return np.array(ids, np.int32), documents


class Texts(NamedTuple):
    """A pair's texts, in place of where they stand."""

    a: np.ndarray
    b: np.ndarray
    label: int


def pairs_of(ids, document, others, *how) -> list[Texts]:
    found = make_pairs(document, others, *how)
    return [Texts(ids[pair.a_begin : pair.a_end], ids[pair.b_begin : pair.b_end], pair.label) for pair in found]


LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=9)


@settings(max_examples=200)
@given(st.lists(LENGTHS, min_size=2, max_size=4), st.integers(5, 40), st.sampled_from([0.0, 0.1, 1.0]), st.integers())
def test_what_holds_of_every_pair(lengths, max_length, short_rate, seed):
    all_ids, documents = corpus(*lengths)
    for own in documents:
        seen = set()
        for pair in pairs_of(all_ids, own, documents, max_length, short_rate, random.Random(seed)):
            assert len(pair.a) >= 1
            assert len(pair.b) >= 1
            assert len(pair.a) + len(pair.b) + 3 <= max_length
            for ids in (pair.a, pair.b):  # a run of one document's text
                assert len({int(token) // 10_000 for token in ids}) == 1
                text = [token for token in all_ids.tolist() if token // 10_000 == ids[0] // 10_000]
                begin = text.index(int(ids[0]))
                assert ids.tolist() == text[begin : begin + len(ids)]
            assert {int(token) // 10_000 for token in pair.a} == {int(own.key)}
            assert (int(pair.b[0]) // 10_000 == int(own.key)) == (pair.label == IS_NEXT)
            if pair.label == IS_NEXT:
                assert pair.b[0] > pair.a[-1]
                seen |= {int(token) // 100 for token in pair.b}
            seen |= {int(token) // 100 for token in pair.a}
        if short_rate == 0 and max(lengths[int(own.key)]) + 3 <= max_length:
            # nothing that fits is left out: unused sentences are put back, but for what the end of a target cuts off
            assert len(seen) >= 1


def test_a_pair_worked_out_by_hand():
    """Sentences of 4 tokens, room for 12: three make a pair, cut after the first or the second."""
    ids, (own, other) = corpus([4] * 30, [4] * 30)
    *pairs, _ = pairs_of(ids, own, [own, other], 15, 0.0, random.Random(3))
    for pair in pairs:
        if pair.label == IS_NEXT:
            assert (len(pair.a), len(pair.b)) in {(4, 8), (8, 4)}
            assert pair.b[0] - (pair.a[-1] - 3) == 100  # the sentence after A's last one
        elif len(pair.a) in (4, 8):
            assert len(pair.b) == 12 - len(pair.a) or pair.b[-1] // 100 % 100 == 29  # or the other's end


def test_half_follow_and_unused_sentences_are_put_back():
    ids, (own, other) = corpus([5] * 4000, [5] * 50)
    pairs = pairs_of(ids, own, [own, other], 64, 0.0, random.Random(0))
    share = sum(pair.label == IS_NEXT for pair in pairs) / len(pairs)
    assert abs(share - 0.5) < 4 * 0.5 / len(pairs) ** 0.5
    covered = set()
    for pair in pairs:
        covered |= {int(token) for token in pair.a} | (
            {int(token) for token in pair.b} if pair.label == IS_NEXT else set()
        )
    assert len(covered) > 0.93 * 5 * 4000  # the rest was cut off: of 13 sentences, 65 tokens, 61 fit


def test_short_pairs_are_as_many_as_asked_for():
    ids, (own, other) = corpus([3] * 3000, [3] * 3000)
    for rate in (0.0, 0.3, 1.0):
        pairs = pairs_of(ids, own, [own, other], 64, rate, random.Random(1))
        short = sum(len(pair.a) + len(pair.b) < 55 for pair in pairs[:-1]) / len(pairs)
        assert abs(short - rate * 50 / 60) < 0.06


def test_one_sentence_never_has_a_next():
    _, (own, other) = corpus([7], [7, 7])
    assert [pair.label for pair in make_pairs(own, [own, other], 32, 0.0, random.Random(1))] == [NOT_NEXT]


def test_one_document_alone_is_an_error():  # PAIN 15, 17
    _, (own, more) = corpus([3, 3], [9, 9, 9])
    more = Document(own.key, more.starts)
    for others in ([], [own], [own, more]):  # whatever is drawn
        with pytest.raises(ValueError, match="one document alone, expected at least two"):
            list(make_pairs(own, others, 32, 0.1, random.Random(1)))


def test_strangers_are_found_among_many_of_ones_own():
    ids, (own, other) = corpus([3] * 20, [3], first=1)
    others = [own] * 1000 + [other]
    pairs = pairs_of(ids, own, others, 16, 0.0, random.Random(1))
    assert {int(pair.b[0]) // 10_000 for pair in pairs if pair.label == NOT_NEXT} == {2}


@given(st.integers(1, 20), st.integers(1, 20), st.integers(2, 40), st.integers())
def test_cutting_is_the_plain_loop(a, b, room, seed):
    """google-research/bert, truncate_seq_pair: lengths as by the loop, what is left is a run of the text."""
    left = [a, b]
    while sum(left) > room:
        left[0 if left[0] > left[1] else 1] -= 1
    spans = cut_to(100, 100 + a, 200, 200 + b, room, random.Random(seed))
    assert [spans[1] - spans[0], spans[3] - spans[2]] == left
    assert 100 <= spans[0] < spans[1] <= 100 + a
    assert 200 <= spans[2] < spans[3] <= 200 + b


def test_tokens_go_from_both_ends_alike():
    fronts = [cut_to(0, 60, 90, 91, 21, random.Random(seed))[0] for seed in range(400)]
    assert abs(np.mean(fronts) - 20) < 4 * (40 / 4) ** 0.5 / 400**0.5
    assert {0, 40}.isdisjoint(fronts)


@given(st.lists(LENGTHS, min_size=1, max_size=5), st.integers(3, 40))
def test_rows_without_pairs_hold_every_token_once_and_are_full(lengths, max_length):
    ids, documents = corpus(*lengths)
    across = list(make_rows(documents, ids, max_length, sep_id=-1, across=True))
    assert all(len(row) == max_length - 2 for row in across[:-1])
    joined = np.concatenate(across).tolist()
    assert [token for token in joined if token != -1] == ids.tolist()
    assert joined.count(-1) == len(documents) - 1
    within = list(make_rows(documents, ids, max_length, sep_id=-1, across=False))
    assert np.concatenate(within).tolist() == ids.tolist()
    assert all(len({int(token) // 10_000 for token in row}) == 1 for row in within)
    assert sum(len(row) < max_length - 2 for row in within) <= len(documents)


def test_pieces_of_one_document_go_on_without_a_sep():
    ids, (one, other) = corpus([3, 3], [2])
    rows = list(make_rows([one, one, other], ids, 100, sep_id=-1, across=True))
    assert rows[0].tolist() == [*ids[:6].tolist(), *ids[:6].tolist(), -1, 10_000, 10_001]
