"""Load, save and predict: the same answers after a round trip, and choices that are said aloud."""

from __future__ import annotations

import dataclasses
import json
import logging
import resource
import subprocess
import sys
import time

import numpy as np
import pytest
import small
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import keras_bert as kb
from keras_bert.checkpoint import collect

HEADS = [None, "classifier", "regressor", "pretrainer"]


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    folder = tmp_path_factory.mktemp("body") / "model"
    small.saved(folder)
    return folder


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier") / "model"
    small.saved(folder, "classifier")
    return folder


@pytest.mark.parametrize("head", HEADS)
def test_what_is_saved_loads_as_the_same_to_the_bit(tmp_path, head):
    made = dataclasses.replace(small.bert(head), info={"paired": True, "metrics": {"accuracy": 0.5}}, max_length=7)
    kb.save(made, tmp_path / "model")
    found = kb.load(tmp_path / "model")
    assert (found.head, found.labels, found.max_length, found.config) == (head, made.labels, 7, made.config)
    assert found.fresh == ()
    assert found.info["paired"] is True
    assert found.info["metrics"] == {"accuracy": 0.5}
    assert found.tokenizer.get_config() == made.tokenizer.get_config()
    weights = collect(made.model)
    for name, value in collect(found.model).items():
        np.testing.assert_array_equal(value, weights[name])


def test_tokenizer_options_survive(tmp_path):
    made = small.bert()
    options = {"lower_case": False, "strip_accents": True, "split_chinese": False, "special_tokens_in_text": True}
    kb.save(dataclasses.replace(made, tokenizer=kb.Tokenizer(small.TOKENS, **options)), tmp_path / "model")
    assert kb.load(tmp_path / "model").tokenizer.get_config() == {"vocabulary": list(small.TOKENS), **options}
    lowered = kb.load(tmp_path / "model", lower_case=True).tokenizer
    assert (lowered.lower_case, lowered.strips_accents, lowered.split_chinese) == (True, True, False)


def test_accents_that_a_checkpoint_keeps_stay_whatever_is_said_of_letters(tmp_path):  # PAIN 2, 10
    tokenizer = kb.Tokenizer(small.TOKENS, lower_case=True, strip_accents=False)
    kb.save(dataclasses.replace(small.bert(), tokenizer=tokenizer), tmp_path / "model")
    for lower_case in (None, True, False):
        assert kb.load(tmp_path / "model", lower_case=lower_case).tokenizer.strip_accents is False


def test_dropout_of_a_head_survives(tmp_path):
    made = small.bert("classifier")
    model = kb.build_classifier(made.encoder, 3, dropout=0.3)
    kb.save(dataclasses.replace(made, model=model), tmp_path / "model")
    assert json.loads((tmp_path / "model" / "config.json").read_text())["classifier_dropout"] == 0.3
    assert kb.load(tmp_path / "model").model.get_layer("head_dropout").rate == 0.3


FRESH = """
import json, sys, keras_bert as kb
source, target, texts = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
bert = kb.load(source)
print(json.dumps(bert.predict(texts)), flush=True)
bias, pooler = bert.model.get_layer("classifier").bias, bert.encoder.get_layer("pooler").dense.bias
for step in range(10**9):
    bias.assign([step] * 3), pooler.assign([step] * 12)
    kb.save(bert, target)
"""


def test_a_fresh_process_answers_the_same_and_killed_while_it_saves_leaves_a_whole_checkpoint(classifier, tmp_path):
    command = [sys.executable, "-c", FRESH, str(classifier), str(tmp_path / "model"), json.dumps(small.TEXTS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    there = json.loads(process.stdout.readline())
    while not (tmp_path / "model").exists():
        assert process.poll() is None
    time.sleep(0.1)
    process.kill()
    process.wait()
    process.stdout.close()
    for one, other in zip(there, kb.load(classifier).predict(small.TEXTS), strict=True):
        assert one["label"] == other["label"]
        np.testing.assert_allclose(
            list(one["probabilities"].values()), list(other["probabilities"].values()), atol=1e-6
        )
    weights = collect(kb.load(tmp_path / "model").model)
    assert {*weights["classifier.bias"]} == {*weights["bert.pooler.dense.bias"]}


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_a_mixed_model_has_the_same_weights_and_nearly_the_same_answers(classifier, dtype):
    mixed = kb.load(classifier, dtype=dtype)
    weights = collect(loaded(classifier).model)
    for name, value in collect(mixed.model).items():
        np.testing.assert_array_equal(value, weights[name])
    for one, other in zip(mixed.predict(small.TEXTS), loaded(classifier).predict(small.TEXTS), strict=True):
        np.testing.assert_allclose(
            list(one["probabilities"].values()), list(other["probabilities"].values()), atol=0.03
        )


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(len(small.TEXTS))), batch_size=st.integers(1, 5))
def test_an_answer_depends_neither_on_its_place_nor_on_its_batch(classifier, order, batch_size):
    bert = loaded(classifier)
    alone = [bert.predict([text])[0] for text in small.TEXTS]
    together = bert.predict([small.TEXTS[index] for index in order], batch_size=batch_size)
    assert len(together) == len(order)
    for index, answer in zip(order, together, strict=True):
        assert answer["label"] == alone[index]["label"]
        for label in small.LABELS:
            assert answer["probabilities"][label] == pytest.approx(alone[index]["probabilities"][label], abs=1e-5)


LOADED: dict = {}


def loaded(folder):
    if folder not in LOADED:
        LOADED[folder] = kb.load(folder)
    return LOADED[folder]


def test_answers_have_each_heads_form(body, classifier, tmp_path):
    (answer,) = loaded(classifier).predict("the cat")
    assert answer["label"] in small.LABELS
    assert list(answer["probabilities"]) == list(small.LABELS)
    assert sum(answer["probabilities"].values()) == pytest.approx(1)
    pooled = loaded(body).predict(small.TEXTS)["pooled_output"]
    inputs = loaded(body).preprocessor(small.TEXTS)
    np.testing.assert_allclose(pooled, loaded(body).encoder(inputs)["pooled_output"], atol=1e-6)
    small.saved(tmp_path / "regressor", "regressor")
    regressor = kb.load(tmp_path / "regressor")
    scores = [row["score"] for row in regressor.predict(small.TEXTS)]
    np.testing.assert_allclose(scores, regressor.model(regressor.preprocessor(small.TEXTS)), atol=1e-6)
    assert loaded(classifier).predict([]) == regressor.predict([]) == []
    assert loaded(body).predict([])["pooled_output"].shape == (0, 12)


def test_pairs_are_read_as_pairs_and_must_be_as_many(classifier):
    bert = loaded(classifier)
    single, paired = bert.predict(["the cat"])[0], bert.predict(["the cat"], ["a dog"])[0]
    assert single["probabilities"] != paired["probabilities"]
    with pytest.raises(ValueError, match="a pair for each of 2 texts, got 1"):
        bert.predict(["a", "b"], ["c"])
    with pytest.raises(ValueError, match=r"expected texts, got None .* at position 1"):
        bert.predict(["a", None])
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        bert.predict(["a"], batch_size=0)


def test_a_body_under_a_new_head_is_a_choice_and_says_what_is_fresh(body, caplog):
    with caplog.at_level(logging.INFO, "keras_bert"):
        bert = kb.load(body, head="classifier", labels=["a", "b"])
    assert bert.fresh == ("classifier.weight", "classifier.bias")
    assert bert.labels == ("a", "b")
    assert "classifier.weight, classifier.bias: they start fresh" in caplog.text
    assert kb.load(body, head="regressor").fresh == ("classifier.weight", "classifier.bias")
    assert kb.load(body, head="classifier", num_labels=2).labels == ("LABEL_0", "LABEL_1")
    with pytest.raises(ValueError, match="has no classifier: give labels or num_labels"):
        kb.load(body, head="classifier")
    for head in (None, "encoder", "regressor"):
        with pytest.raises(ValueError, match="are for a classifier"):
            kb.load(body, head=head, num_labels=3)
    with pytest.raises(ValueError, match="head must be one of"):
        kb.load(body, head="tagger")


def test_a_classifier_goes_on_with_its_own_labels_or_none(classifier):
    assert kb.load(classifier, head="classifier").fresh == ()
    assert kb.load(classifier, head="classifier", labels=small.LABELS).fresh == ()
    with pytest.raises(ValueError, match=r"3 labels no, yes, may be, expected yes, no, may be; give fresh_head=True"):
        kb.load(classifier, head="classifier", labels=["yes", "no", "may be"])
    with pytest.raises(ValueError, match="expected 5; give fresh_head=True"):
        kb.load(classifier, head="classifier", num_labels=5)
    again = kb.load(classifier, head="classifier", labels=["1", "2"], fresh_head=True)
    assert again.fresh == ("classifier.weight", "classifier.bias")
    assert again.labels == ("1", "2")
    with pytest.raises(ValueError, match="its head has 3 labels, expected one number"):
        kb.load(classifier, head="regressor")
    assert kb.load(classifier, head="regressor", fresh_head=True).head == "regressor"


def test_a_pretrained_head_is_left_out_under_another(tmp_path, caplog):
    small.saved(tmp_path / "model", "pretrainer")
    with caplog.at_level(logging.INFO, "keras_bert"):
        bert = kb.load(tmp_path / "model", head="classifier", labels=["a", "b"])
    assert "left out 7 weights of another head (cls.predictions.bias" in caplog.text
    assert bert.fresh == ("classifier.weight", "classifier.bias")
    assert kb.load(tmp_path / "model", head="encoder").fresh == ()


def test_labels_must_be_one_for_each_unit(classifier):
    bert = loaded(classifier)
    for labels in (None, ("a", "b"), ("a", "b", "b")):
        with pytest.raises(ValueError, match="expected 3 different labels"):
            dataclasses.replace(bert, labels=labels)


def test_saving_over_a_checkpoint_replaces_its_files_and_keeps_others(tmp_path):
    folder = tmp_path / "model"
    small.saved(folder, "classifier")
    for name in ("metrics.json", "tokenizer.json", "model-00001-of-00002.safetensors", "pytorch_model.bin"):
        (folder / name).write_text("{}")
    small.saved(folder, "regressor")
    assert kb.load(folder).head == "regressor"
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json", "keras_bert.json", "metrics.json", "model.safetensors", "tokenizer_config.json", "vocab.txt"
    ]  # fmt: skip
    with pytest.raises(FileExistsError, match="overwrite"):
        kb.save(small.bert(), folder, overwrite=False)


def test_a_save_that_fails_leaves_the_old(tmp_path):
    """Weights that are not finite; and a disk that is full, for which a limit on the size of files stands."""
    folder = tmp_path / "model"
    made = small.saved(folder, "classifier")
    kernel = made.model.get_layer("classifier").kernel
    kernel.assign(np.full(kernel.shape, np.nan))
    with pytest.raises(ValueError, match=r"not saved: 1 weights hold NaN or infinity \(classifier\.weight\)"):
        kb.save(made, folder)
    kernel.assign(np.zeros(kernel.shape))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))
        with pytest.raises(OSError, match=r"model\.safetensors"):
            kb.save(made, folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert np.any(collect(kb.load(folder).model)["classifier.weight"])


def test_lengths_that_no_row_could_have_are_refused(body):
    for length in (0, 1, 99):
        with pytest.raises(ValueError, match="max_length must be from 2 to 9"):
            kb.load(body, max_length=length)


def test_the_real_checkpoint_answers(minilm):
    bert = kb.load(minilm)
    assert (bert.head, bert.max_length, bert.config.num_weights()) == (None, 512, bert.model.count_params())
    near, same, far = bert.predict(["A cat sleeps.", "A cat is sleeping.", "Interest rates rose."])["pooled_output"]
    assert np.linalg.norm(near - same) < np.linalg.norm(near - far)
