"""Decoding: scipy's softmax and numpy's argmax say what the right answer is."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from keras_bert import decoding

LABELS = ("no", "je ne sais pas", "是")
FINITE = st.floats(-50, 50, width=32)


@given(arrays.arrays(np.float32, st.tuples(st.integers(0, 4), st.just(3)), elements=FINITE))
def test_classes_are_scipys_softmax_and_numpys_argmax(logits):
    answer = decoding.decode_classes(tf.constant(logits), LABELS)
    np.testing.assert_allclose(answer["probabilities"], scipy.special.softmax(logits, axis=1), atol=1e-6)
    assert [label.decode() for label in answer["label"].numpy()] == [LABELS[i] for i in logits.argmax(axis=1)]


def test_half_precision_logits_give_float32_probabilities():
    answer = decoding.decode_classes(tf.constant([[1.0, 2.0, 3.0]], tf.bfloat16), LABELS)
    assert answer["probabilities"].dtype == tf.float32
    np.testing.assert_allclose(tf.reduce_sum(answer["probabilities"]), 1.0, rtol=1e-6)


def test_labels_that_do_not_fit_the_units_are_refused():
    with pytest.raises(
        ValueError,
        match=r"expected logits \[batch, 2\] for 2 labels, got shape \(1, 3\)",
    ):
        decoding.decode_classes(tf.zeros([1, 3]), LABELS[:2])


@pytest.mark.parametrize("shape", [[3], [3, 1]])
def test_scores_come_flat_and_unchanged(shape):
    answer = decoding.decode_scores(tf.reshape(tf.constant([-1.5, 0.0, 4.25], tf.bfloat16), shape))
    assert answer["score"].dtype == tf.float32
    np.testing.assert_array_equal(answer["score"], [-1.5, 0.0, 4.25])
