"""From a head's numbers to an answer a person can read, in graph: one copy for predict, scoring and serving."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def decode_classes(logits: tf.Tensor, labels: Sequence[str]) -> dict[str, tf.Tensor]:
    """The likeliest label of each row, and the probability of every label.

    Args:
        logits: [B, K], of any float type; B may be 0.
        labels: the K labels, in the order of the classifier's units.

    Returns:
        `label` string [B] (the first of equals) and `probabilities` float32 [B, K], rows adding up to 1.

    Raises:
        ValueError: the number of labels is not the number of units.
    """
    logits_BK = tf.cast(logits, tf.float32)
    if logits_BK.shape.rank != 2 or logits_BK.shape[1] not in (None, len(labels)):
        raise ValueError(
            f"expected logits [batch, {len(labels)}] for {len(labels)} labels, got shape {logits_BK.shape}"
        )
    label_B = tf.gather(tf.constant(list(labels), tf.string), tf.argmax(logits_BK, axis=1))
    return {"label": label_B, "probabilities": tf.nn.softmax(logits_BK)}


def decode_scores(scores: tf.Tensor) -> dict[str, tf.Tensor]:
    """A regressor's numbers as they are: `score` float32 [B], from [B] or [B, 1] of any float type."""
    return {"score": tf.reshape(tf.cast(scores, tf.float32), [-1])}
