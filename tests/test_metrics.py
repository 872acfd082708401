"""Scores by hand, and where they are not defined."""

from __future__ import annotations

import pytest

from keras_bert.metrics import classification_scores, confusion, regression_scores


def test_classification_by_hand():
    gold, predicted = [0, 0, 1, 1, 1], [0, 1, 1, 1, 0]
    scores = classification_scores(gold, predicted, 2)
    assert scores["accuracy"] == pytest.approx(3 / 5)
    assert scores["f1"] == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert scores["matthews"] == pytest.approx((2 * 1 - 1 * 1) / (3 * 3 * 2 * 2) ** 0.5)
    assert confusion(gold, predicted, 2) == [[1, 1], [1, 2]]


@pytest.mark.parametrize("predicted", [[0, 0, 0], [1, 1, 1], [0, 0, 1]])
def test_constant_and_missing_classes_give_numbers_without_a_warning(predicted):
    scores = classification_scores([0, 1, 1], predicted, 3)
    assert all(-1 <= value <= 1 for value in scores.values())
    assert "f1" not in scores


def test_constant_predictions_have_no_correlation():
    scores = regression_scores([1.0, 2.0, 3.0], [0.7, 0.7, 0.7])
    assert (scores["pearson"], scores["spearman"]) == (0.0, 0.0)
    assert regression_scores([1.0, 2.0, 3.0], [0.7, 0.7, 0.7 + 1e-15])["pearson"] >= 0.0
    assert regression_scores([2.0], [1.0])["mean_squared_error"] == 1.0


def test_regression_by_hand():
    scores = regression_scores([1.0, 2.0, 3.0, 4.0], [1.0, 4.0, 9.0, 16.0])
    assert scores["spearman"] == pytest.approx(1.0)
    assert scores["pearson"] == pytest.approx(0.98437, abs=1e-5)
    assert scores["mean_absolute_error"] == pytest.approx((0 + 2 + 6 + 12) / 4)
