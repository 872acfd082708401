"""Ids, lengths and labels held against the tables that they index, in eager code and inside graphs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

FAILED = re.compile(r"assertion failed: \[(keras_bert: [^\]]*)\] \[(-?\d+)\](?: \[(-?\d+)\])?")
BAD_LABEL = re.compile(r"Received a label value of (-?\d+) which is outside the valid range of \[0, (\d+)\)")


@contextlib.contextmanager
def clear_errors() -> Iterator[None]:
    """Turns a check that failed inside a graph into a ValueError of one line, without the graph's own eighty."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found, label = FAILED.search(str(error)), BAD_LABEL.search(str(error))
        if label is not None:
            last = int(label[2]) - 1
            hint = "; labels counted from 1? subtract 1 from each" if int(label[1]) == last + 1 else ""
            raise ValueError(f"labels must lie from 0 to {last} ({last + 1} labels): got {label[1]}{hint}") from None
        if found is None:
            raise
        rule, *values = (part for part in found.groups() if part is not None)
        raise ValueError(f"{rule.removeprefix('keras_bert: ')} {' and '.join(values)}") from None


def check_ids(ids: tf.Tensor, name: str, limit: int, key: str, remedy: str) -> tf.Tensor:
    """The ids [B,S] unchanged, once none is below 0 or at least `limit` (a gather would crash, or read another row).

    Raises:
        ValueError: in eager code.
        tf.errors.InvalidArgumentError: when a graph runs (see `clear_errors`).
    """
    ids = tf.convert_to_tensor(ids)
    rule = f"{name} must lie from 0 to {limit - 1} ({key} {limit})"
    if tf.executing_eagerly():
        if tf.size(ids) and (worst := worst_id(ids.numpy(), limit)) is not None:
            raise ValueError(f"{rule}: got {worst}; {remedy}")
        return ids
    good = tf.reduce_all((ids >= 0) & (ids < limit))
    largest, smallest = tf.reduce_max(ids), tf.reduce_min(ids)
    told = [f"keras_bert: {rule}; {remedy}; largest and smallest in the batch:", largest, smallest]
    with tf.control_dependencies([tf.debugging.Assert(good, told)]):
        return tf.identity(ids)


def check_length(ids: tf.Tensor, limit: int) -> tf.Tensor:
    """The ids [B,S] unchanged, once S is no longer than there are positions.

    Raises:
        ValueError: in eager code, or while a graph of a known length is traced.
        tf.errors.InvalidArgumentError: when a graph of an unknown length runs.
    """
    remedy = f"truncate the texts to {limit} tokens, or cut them into overlapping windows"
    length = ids.shape[1]
    if length is not None:
        if length > limit:
            raise ValueError(f"length {length} is above max_position_embeddings {limit}; {remedy}")
        return ids
    length = tf.shape(ids)[1]
    told = [f"keras_bert: length is above max_position_embeddings {limit}; {remedy}; length of the batch:", length]
    with tf.control_dependencies([tf.debugging.Assert(length <= limit, told)]):
        return tf.identity(ids)


def worst_id(ids: np.ndarray, limit: int) -> int | None:
    """The first id outside 0..limit-1 in a numpy array, or None."""
    outside = ids[(ids < 0) | (ids >= limit)]
    return int(outside[0]) if outside.size else None
