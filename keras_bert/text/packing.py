"""Packing: ids to what BERT reads, `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`, cut and padded to one length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import tensorflow as tf

from keras_bert.batch import Inputs
from keras_bert.text.vocabulary import Vocabulary

Ids: TypeAlias = "tf.RaggedTensor | tf.Tensor | Sequence[Sequence[int]]"


def pack(
    ids_a: Ids,
    ids_b: Ids | None,
    sequence_length: int | None,
    vocabulary: Vocabulary,
    *,
    max_length: int | None = None,
) -> Inputs:
    """Ids without special tokens, ragged int32 [B,(T)] or lists, to the encoder's inputs, int32 [B,S] each.

    Where a row is too long, the longer of its two texts loses its last ids, one at a time, the second when they are
    equal (google-research/bert, _truncate_seq_pair). Core ops only, gathers from the flat ids: no ragged slicing.

    Args:
        ids_a: the first texts.
        ids_b: the second texts, of as many rows, or None.
        sequence_length: S; None makes it that of the batch's longest row.
        vocabulary: whose [CLS], [SEP] and [PAD] are written.
        max_length: with `sequence_length=None`, the S that rows are cut to.

    Raises:
        ValueError: lengths that have no room for the special tokens, or texts and pairs that differ in number.
    """
    limit = check_lengths(sequence_length, max_length, num_special=2 if ids_b is None else 3)
    a = as_ragged(ids_a)
    b = None if ids_b is None else as_ragged(ids_b)
    a_lengths = row_lengths(a)  # [B,1], as all lengths here
    if b is None:
        if limit is not None:
            a_lengths = tf.minimum(a_lengths, limit - 2)
        totals = a_lengths + 2
        values, b_lengths = a.values, None
    else:
        check_rows(a, b)
        b_lengths = row_lengths(b)
        if limit is not None:
            a_lengths, b_lengths = cut_longest_first(a_lengths, b_lengths, limit - 3)
        totals = a_lengths + b_lengths + 3
        values = tf.concat([a.values, b.values], 0)
    length = tf.reduce_max(tf.concat([totals, [[2]]], 0)) if sequence_length is None else sequence_length
    position = tf.range(length, dtype=tf.int32)[tf.newaxis, :]  # [1,S]
    cls, sep, pad = (tf.size(values) + i for i in range(3))  # where these are in the table of all ids
    second_begins = a_lengths + 2
    index = tf.where(position <= a_lengths, begins(a) + position - 1, pad)
    if b is not None and b_lengths is not None:
        in_b = (position >= second_begins) & (position < totals)
        index = tf.where(in_b, tf.size(a.values) + begins(b) + position - second_begins, index)
    index = tf.where((position == a_lengths + 1) | (position == totals - 1), sep, index)
    index = tf.where(position == 0, cls, index)
    special = [vocabulary.cls_id, vocabulary.sep_id, vocabulary.pad_id]
    ids = tf.gather(tf.concat([values, tf.constant(special, tf.int32)], 0), index)
    mask = tf.cast(position < totals, tf.int32)
    types = tf.zeros_like(mask) if b is None else tf.cast(position >= second_begins, tf.int32) * mask
    return {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}


def cut_longest_first(a_lengths: tf.Tensor, b_lengths: tf.Tensor, room: int) -> tuple[tf.Tensor, tf.Tensor]:
    """What is left of two lengths when the longer (the second when equal) gives way one by one until both fit."""
    return (
        tf.minimum(a_lengths, tf.maximum(room - b_lengths, (room + 1) // 2)),
        tf.minimum(b_lengths, tf.maximum(room - a_lengths, room // 2)),
    )


def check_lengths(sequence_length: int | None, max_length: int | None, num_special: int) -> int | None:
    """The length that rows are cut to, or None."""
    if sequence_length is not None and max_length is not None:
        raise ValueError(
            f"sequence_length={sequence_length} and max_length={max_length} exclude each other: "
            "max_length is for sequence_length=None"
        )
    limit = max_length if sequence_length is None else sequence_length
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < num_special):
        raise ValueError(
            f"expected a length of at least {num_special}, for [CLS] and {num_special - 1} [SEP]: got {limit!r}"
        )
    return limit


def as_ragged(ids: Ids) -> tf.RaggedTensor:
    if isinstance(ids, tf.RaggedTensor):
        return ids if ids.dtype == tf.int32 else tf.cast(ids, tf.int32)
    if isinstance(ids, tf.Tensor):
        return tf.RaggedTensor.from_tensor(tf.cast(ids, tf.int32))
    return tf.ragged.constant(ids, dtype=tf.int32, ragged_rank=1, row_splits_dtype=tf.int64)


def check_rows(a: tf.RaggedTensor, b: tf.RaggedTensor) -> None:
    rows_a, rows_b = (tf.get_static_value(x.nrows()) for x in (a, b))
    if rows_a is not None and rows_b is not None:
        if rows_a != rows_b:
            raise ValueError(f"expected a second text for every first: got {rows_a} texts and {rows_b} pairs")
        return
    message = "expected a second text for every first"
    with tf.control_dependencies([tf.debugging.assert_equal(a.nrows(), b.nrows(), message=message)]):
        pass


def row_lengths(ids: tf.RaggedTensor) -> tf.Tensor:
    return tf.cast(ids.row_lengths(), tf.int32)[:, tf.newaxis]


def begins(ids: tf.RaggedTensor) -> tf.Tensor:
    """Where each row begins in the flat ids, int32 [B,1]."""
    return tf.cast(ids.row_starts(), tf.int32)[:, tf.newaxis]
