"""`keras-bert classify`: fine-tune and evaluate a model that gives a text, or a pair of texts, one of K labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_bert.options import option, parse
from keras_bert.tasks.data import label_names, label_numbers, read_data
from keras_bert.tasks.evaluate import Classes
from keras_bert.tasks.fine_tune import FineTuneOptions, Goal, fine_tune
from keras_bert.tasks.steps import Loss


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions(FineTuneOptions):
    """Fine-tunes a model to give a text, or a pair of texts, one label; evaluates, and saves a checkpoint."""

    label_smoothing: float = option(0.0, "share of the target that is spread over all labels alike")
    class_weights: tuple[str, ...] = option(
        (), "how much rows count by label: balanced (rarer labels more), or label=weight,label=weight,…"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"--label_smoothing must lie from 0 up to, not including, 1: got {self.label_smoothing}")


def main(argv: list[str]) -> int:
    """The command.

    Raises:
        ValueError, OSError: bad input, in one line.
    """
    options = parse(ClassifyOptions, argv, "classify")
    data = read_data(options, scores=False)
    labels = label_names(options, data)
    goal = Goal(
        command="classify",
        kind=Classes(labels, data.task.metrics if data.task else ()),
        loss=cross_entropy(len(labels), options.label_smoothing),
        numbers=lambda rows: np.array(label_numbers(rows, labels), np.int32),
        weights=lambda targets: row_weights(targets, labels, options.class_weights),
        head={"head": "classifier", "labels": labels},
    )
    return fine_tune(options, data, goal)


def cross_entropy(num_labels: int, smoothing: float) -> Loss:
    """The loss of logits [B,K] and label numbers [B], a row each: [B]."""

    def loss(logits: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        if not smoothing:
            return tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
        wanted = tf.one_hot(targets, num_labels, 1 - smoothing + smoothing / num_labels, smoothing / num_labels)
        return tf.nn.softmax_cross_entropy_with_logits(wanted, logits)

    return loss


def row_weights(targets: np.ndarray, labels: Sequence[str], given: Sequence[str]) -> np.ndarray:
    """How much each row counts, float32 [N], from --class_weights.

    Raises:
        ValueError: a part that is not label=number, a label that is not there, or a weight below 0.
    """
    weights = np.ones(len(labels))
    if tuple(given) == ("balanced",):
        counts = np.maximum(np.bincount(targets, minlength=len(labels)), 1)
        weights = len(targets) / (len(labels) * counts)
    else:
        for part in given:
            label, _, number = part.rpartition("=")
            if label not in labels:
                known = ", ".join(labels)
                raise ValueError(f"--class_weights: expected balanced, or label=weight (labels {known}): got {part!r}")
            weights[list(labels).index(label)] = weight_of(part, number)
    if not weights[targets].any():
        raise ValueError("--class_weights: no training row has a weight above 0, so that nothing would be learnt")
    return weights[targets].astype(np.float32)


def weight_of(part: str, number: str) -> float:
    try:
        weight = float(number)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < float("inf"):
        raise ValueError(f"--class_weights: expected a number from 0 after the label: got {part!r}")
    return weight
