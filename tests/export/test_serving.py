"""Requests as strangers send them: an answer or a clean error, and the next request is answered as if nothing was."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from small_models import LABELS, TEXTS

from keras_bert.batch import INPUT_NAMES

# Each is one request; all are answered, in this process and in C.
ODD_TEXTS = {
    "empty batch": [],
    "a megabyte of one word": [b"a" * 1_000_000],
    "a megabyte of words": [b"cats sat " * 111_111],
    "no UTF-8": [b"\xff\xfe cat \xc3\x28 \xed\xa0\x80 sat \xf8"],
    "NUL": [b"\x00", b"cat\x00 sat", b"\x00" * 1000],
    "controls and astral": ["\x07\u200b\U0001f600\ufffd\U0010ffff".encode()],
    "a megabyte beside an empty text": [b"", b"word " * 200_000],
}
ODD_NAMES = list(ODD_TEXTS)


@pytest.fixture(scope="module")
def expected(classifier):
    return classifier.bert.predict(TEXTS)


def check(label: list[str], probabilities, expected) -> None:
    assert label == [row["label"] for row in expected]
    wanted = [[row["probabilities"][name] for name in LABELS] for row in expected]
    np.testing.assert_allclose(probabilities, wanted, atol=1e-5)


class TestInC:
    """A host without Python: host.c over TensorFlow's own library."""

    def test_it_answers_as_python_does(self, host, classifier, expected):
        (reply,) = host(classifier.directory, [{"text": [text.encode() for text in TEXTS]}])
        check(reply["answer"]["label"], reply["answer"]["probabilities"], expected)

    def test_pairs(self, host, pair_regressor):
        texts, pairs = ([text.encode() for text in column] for column in (TEXTS, TEXTS[1:] + TEXTS[:1]))
        (reply,) = host(pair_regressor.directory, [{"text_pair": pairs, "text": texts}])
        served = pair_regressor.signatures["serving_default"](text=tf.constant(texts), text_pair=tf.constant(pairs))
        np.testing.assert_allclose(reply["answer"]["score"], served["score"], atol=1e-6)

    def test_odd_requests_are_answered_or_refused_and_the_next_is_answered(self, host, classifier, expected):
        good = {"text": [text.encode() for text in TEXTS]}
        odd = [{"text": texts} for texts in ODD_TEXTS.values()]
        wrong = [{"text": 2}, {"text": 0}, {}]
        replies = host(classifier.directory, [request for bad in [*odd, *wrong] for request in (bad, good)])
        assert len(replies) == 2 * (len(odd) + len(wrong))
        for reply in replies[1::2]:
            check(reply["answer"]["label"], reply["answer"]["probabilities"], expected)
        for texts, reply in zip(ODD_TEXTS.values(), replies[::2], strict=False):
            answer = classifier.signatures["serving_default"](text=tf.constant(texts, tf.string))
            np.testing.assert_allclose(
                np.reshape(reply["answer"]["probabilities"], (-1, len(LABELS))), answer["probabilities"], atol=1e-6
            )
        for reply in replies[-6:-2:2]:
            assert "string" in reply["error"]
            assert "int32" in reply["error"]
        assert "missing" in replies[-2]["error"]

    def test_lengths_of_pairs_that_differ_are_an_error_and_the_next_is_answered(self, host, pair_regressor):
        good = {"text": [b"cat", b"mat"], "text_pair": [b"sat", b"on"]}
        first, bad, second = host(pair_regressor.directory, [good, {**good, "text_pair": [b"sat"]}, good])
        assert "error" in bad
        assert first == second


class TestInPython:
    """The loaded signature, in one process."""

    @pytest.fixture(autouse=True)
    @staticmethod
    def next_request_is_answered(classifier, expected):
        yield
        answer = classifier.signatures["serving_default"](text=tf.constant(TEXTS))
        check([label.decode() for label in answer["label"].numpy()], answer["probabilities"], expected)

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_texts_are_answered(self, classifier, name):
        texts = ODD_TEXTS[name]
        answer = classifier.signatures["serving_default"](text=tf.constant(texts, tf.string))
        probabilities = answer["probabilities"].numpy()
        assert probabilities.shape == (len(texts), len(LABELS))
        assert np.isfinite(probabilities).all()

    @pytest.mark.parametrize(
        "wrong", [tf.constant([1, 2]), tf.constant([1.5]), tf.constant(["a"])[0], tf.constant([["a"]])]
    )
    def test_a_wrong_type_or_shape_is_refused(self, classifier, wrong):
        with pytest.raises((TypeError, ValueError, tf.errors.InvalidArgumentError)):
            classifier.signatures["serving_default"](text=wrong)

    @pytest.mark.parametrize("size, told", [(100_000, "vocab_size"), (-1, "vocab_size")])
    def test_an_id_that_is_in_no_table_is_refused(self, classifier, size, told):
        ids = dict.fromkeys(INPUT_NAMES, tf.ones([2, 5], tf.int32)) | {"input_word_ids": tf.fill([2, 5], size)}
        with pytest.raises(tf.errors.InvalidArgumentError, match=told):
            classifier.signatures["ids"](**ids)

    def test_more_ids_than_positions_are_refused(self, classifier):
        with pytest.raises(tf.errors.InvalidArgumentError, match="max_position_embeddings 40"):
            classifier.signatures["ids"](**dict.fromkeys(INPUT_NAMES, tf.ones([2, 41], tf.int32)))

    def test_no_ids_at_all_have_logits(self, classifier):
        logits = classifier.signatures["ids"](**dict.fromkeys(INPUT_NAMES, tf.ones([0, 5], tf.int32)))["logits"]
        assert logits.shape == (0, len(LABELS))
