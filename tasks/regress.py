"""`keras-bert regress`: fine-tune and evaluate a model that gives a text, or a pair of texts, a number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_bert.options import parse
from keras_bert.tasks.data import read_data, scores_of
from keras_bert.tasks.evaluate import Scores
from keras_bert.tasks.fine_tune import FineTuneOptions, Goal, fine_tune


@dataclass(frozen=True, kw_only=True)
class RegressOptions(FineTuneOptions):
    """Fine-tunes a model to give a text, or a pair of texts, a number; evaluates, and saves a checkpoint."""


def main(argv: list[str]) -> int:
    """The command.

    Raises:
        ValueError, OSError: bad input, in one line.
    """
    options = parse(RegressOptions, argv, "regress")
    if options.labels:
        raise ValueError("--labels names classes: use `keras-bert classify`, or leave it out to learn numbers")
    data = read_data(options, scores=True)
    goal = Goal(
        command="regress",
        kind=Scores(data.task.metrics if data.task else ()),
        loss=squared_error,
        numbers=lambda rows: np.array(scores_of(rows), np.float32),
        weights=lambda targets: np.ones(len(targets), np.float32),
        head={"head": "regressor"},
    )
    return fine_tune(options, data, goal)


def squared_error(scores: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """The loss of scores [B] and numbers [B], a row each: [B]."""
    return tf.square(scores - targets)
