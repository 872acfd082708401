"""Packing is the plain loop: cut longest first, special tokens and types in place, padded."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_bert.batch import INPUT_NAMES
from keras_bert.text import SPECIAL_TOKENS, Vocabulary, pack

VOCABULARY = Vocabulary(["first", *reversed(SPECIAL_TOKENS), *map(str, range(90))])  # [PAD] is not 0
IDS = st.lists(st.integers(6, 90), max_size=9)


def truncated(a: list[int], b: list[int], room: int) -> tuple[list[int], list[int]]:
    """One id at a time, as google-research/bert's _truncate_seq_pair."""
    a, b = list(a), list(b)
    while len(a) + len(b) > room:
        (a if len(a) > len(b) else b).pop()
    return a, b


def packed(a: list[int], b: list[int] | None, limit: int | None) -> tuple[list[int], list[int]]:
    """A row's ids and types, before padding, in plain Python."""
    v = VOCABULARY
    if b is None:
        kept = a if limit is None else a[: limit - 2]
        return [v.cls_id, *kept, v.sep_id], [0] * (len(kept) + 2)
    if limit is not None:
        a, b = truncated(a, b, limit - 3)
    return [v.cls_id, *a, v.sep_id, *b, v.sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 1)


def check(inputs, rows: list[tuple[list[int], list[int]]], length: int) -> None:
    for name, values, padding in (
        ("input_word_ids", [ids for ids, _ in rows], VOCABULARY.pad_id),
        ("input_mask", [[1] * len(ids) for ids, _ in rows], 0),
        ("input_type_ids", [types for _, types in rows], 0),
    ):
        want = [row + [padding] * (length - len(row)) for row in values]
        np.testing.assert_array_equal(inputs[name], np.array(want).reshape(len(rows), length))
        assert inputs[name].dtype == tf.int32
    assert tuple(inputs) == INPUT_NAMES


@given(
    rows=st.lists(st.tuples(IDS, IDS), max_size=4),
    paired=st.booleans(),
    length=st.integers(3, 22),
    fixed=st.sampled_from(["sequence_length", "max_length", "longest"]),
)
def test_packing_is_the_plain_loop(rows, paired, length, fixed):
    a, b = [x for x, _ in rows], [y for _, y in rows] if paired else None
    limit = None if fixed == "longest" else length
    want = [packed(x, y if paired else None, limit) for x, y in rows]
    if fixed == "sequence_length":
        inputs = pack(a, b, length, VOCABULARY)
    else:
        inputs = pack(a, b, None, VOCABULARY, max_length=limit)
        length = max((len(ids) for ids, _ in want), default=2)
    if rows:
        check(inputs, want, length)
    else:
        assert inputs["input_word_ids"].shape[0] == 0


def test_lengths_by_hand():
    inputs = pack([[10, 11, 12, 13], [20]], [[30, 31, 32], [40, 41, 42, 43]], 8, VOCABULARY)
    cls, sep, pad = VOCABULARY.cls_id, VOCABULARY.sep_id, VOCABULARY.pad_id
    assert inputs["input_word_ids"].numpy().tolist() == [
        [cls, 10, 11, 12, sep, 30, 31, sep],
        [cls, 20, sep, 40, 41, 42, 43, sep],
    ]
    assert pack([[10]], None, 4, VOCABULARY)["input_word_ids"].numpy().tolist() == [[cls, 10, sep, pad]]


def test_dense_and_int64_ids_are_taken():
    ragged = tf.ragged.constant([[7, 8], [9, 10]], dtype=tf.int64)
    for ids in (ragged, ragged.to_tensor(), [[7, 8], [9, 10]]):
        assert pack(ids, None, 4, VOCABULARY)["input_word_ids"].numpy()[:, 1:3].tolist() == [[7, 8], [9, 10]]


@pytest.mark.parametrize("length, paired", [(1, False), (2, True), (0, False), (True, False), (7.5, False)])
def test_a_length_without_room_is_refused(length, paired):
    with pytest.raises(ValueError, match=rf"expected a length of at least {2 + paired}.*got {length}"):
        pack([[7]], [[8]] if paired else None, length, VOCABULARY)


def test_both_lengths_are_refused():
    with pytest.raises(ValueError, match="sequence_length=8 and max_length=9 exclude each other"):
        pack([[7]], None, 8, VOCABULARY, max_length=9)


def test_unequal_numbers_of_texts_and_pairs_are_refused():
    with pytest.raises(ValueError, match="got 2 texts and 1 pairs"):
        pack([[7], [8]], [[9]], 8, VOCABULARY)
    spec = tf.RaggedTensorSpec([None, None], tf.int32)
    graph = tf.function(lambda a, b: pack(a, b, 8, VOCABULARY)["input_word_ids"], input_signature=[spec, spec])
    with pytest.raises(tf.errors.InvalidArgumentError, match="a second text for every first"):
        graph(tf.ragged.constant([[7], [8]], dtype=tf.int32), tf.ragged.constant([[9]], dtype=tf.int32))


def test_the_graph_gathers_from_dense_tensors_only():
    spec = tf.RaggedTensorSpec([None, None], tf.int32)
    graph = tf.function(lambda a, b: pack(a, b, 8, VOCABULARY), input_signature=[spec, spec]).get_concrete_function()
    ops = {op.type for op in graph.graph.get_operations()}
    assert not [op for op in ops if "Ragged" in op or "PyFunc" in op or "While" in op], ops
    assert graph.structured_outputs["input_mask"].shape[1] == 8
