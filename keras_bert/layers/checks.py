"""Ids and lengths held against the tables that they index, in eager code and inside graphs."""

from __future__ import annotations

import tensorflow as tf


def check_ids(ids: tf.Tensor, name: str, limit: int, key: str, remedy: str) -> tf.Tensor:
    """The ids [B,S] unchanged, once none is below 0 or at least `limit` (a gather would crash, or read another row).

    Raises:
        ValueError: in eager code.
        tf.errors.InvalidArgumentError: when a graph runs.
    """
    ids = tf.convert_to_tensor(ids)
    rule = f"{name} must lie from 0 to {limit - 1} ({key} {limit})"
    if tf.executing_eagerly():
        if tf.size(ids) and (worst := worst_id(ids.numpy(), limit)) is not None:
            raise ValueError(f"{rule}: got {worst}; {remedy}")
        return ids
    good = tf.reduce_all((ids >= 0) & (ids < limit))
    largest, smallest = tf.reduce_max(ids), tf.reduce_min(ids)
    told = [f"{rule}; {remedy}. Largest and smallest got:", largest, smallest]
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
    told = [f"length is above max_position_embeddings {limit}; {remedy}. Length got:", length]
    with tf.control_dependencies([tf.debugging.Assert(length <= limit, told)]):
        return tf.identity(ids)


def worst_id(ids, limit: int) -> int | None:
    """The first id outside 0..limit-1 in a numpy array, or None."""
    outside = ids[(ids < 0) | (ids >= limit)]
    return int(outside[0]) if outside.size else None
