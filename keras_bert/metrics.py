"""Scores of predictions, computed by scikit-learn and scipy (imported when called): what GLUE reports, and more."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np


def classification_scores(gold: Sequence[int], predicted: Sequence[int], num_labels: int) -> dict[str, float]:
    """Accuracy, F1 and Matthews correlation.

    `f1` is of label 1 where there are two labels (GLUE: MRPC, QQP), `f1_macro` the mean over the labels. With constant
    predictions Matthews is 0 by definition, and F1 of a label that is never predicted is 0.

    Args:
        gold, predicted: [N] label numbers, N at least 1.
        num_labels: K.
    """
    from sklearn import metrics

    every = list(range(num_labels))
    scores = {
        "accuracy": metrics.accuracy_score(gold, predicted),
        "f1_macro": metrics.f1_score(gold, predicted, labels=every, average="macro", zero_division=0),
        "matthews": metrics.matthews_corrcoef(gold, predicted) if not constant(predicted) else 0.0,
    }
    if num_labels == 2:
        scores["f1"] = metrics.f1_score(gold, predicted, labels=every, pos_label=1, zero_division=0)
    return {name: float(value) for name, value in scores.items()}


def confusion(gold: Sequence[int], predicted: Sequence[int], num_labels: int) -> list[list[int]]:
    """[K][K] counts: a row a gold label, a column a predicted one."""
    from sklearn import metrics

    return metrics.confusion_matrix(gold, predicted, labels=list(range(num_labels))).tolist()


def regression_scores(gold: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    """Pearson and Spearman correlation, mean squared and absolute error; correlations with a constant are 0.

    Args:
        gold, predicted: [N] numbers, N at least 1.
    """
    from scipy import stats
    from sklearn import metrics

    pearson = spearman = 0.0
    if not constant(gold) and not constant(predicted):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nearly constant predictions: what is not a number becomes 0 below
            pearson = stats.pearsonr(gold, predicted).statistic
            spearman = stats.spearmanr(gold, predicted).statistic
    scores = {
        "pearson": pearson if np.isfinite(pearson) else 0.0,
        "spearman": spearman if np.isfinite(spearman) else 0.0,
        "mean_squared_error": metrics.mean_squared_error(gold, predicted),
        "mean_absolute_error": metrics.mean_absolute_error(gold, predicted),
    }
    return {name: float(value) for name, value in scores.items()}


def constant(values: Sequence[float]) -> bool:
    """All the same, which no correlation is defined for."""
    return len(values) == 0 or bool(np.all(np.asarray(values) == values[0]))
