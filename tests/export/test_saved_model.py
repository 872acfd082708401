"""An exported model answers as the Python model does, with nothing but TensorFlow and tensorflow_text beside it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import LABELS, MAX_LENGTH, TEXTS, small_bert

import keras_bert as kb
from keras_bert.batch import INPUT_NAMES
from keras_bert.export import saved_model
from keras_bert.export.serving_ops import graph_ops, outside_core

CHARACTERS = st.characters(codec="utf-8") | st.sampled_from("the cat")
SOME_TEXTS = st.lists(st.text(CHARACTERS, max_size=40), min_size=1, max_size=20)


def ask(served, **columns):
    tensors = {name: tf.constant(texts, tf.string) for name, texts in columns.items()}
    return {name: value.numpy() for name, value in served.signatures["serving_default"](**tensors).items()}


@settings(max_examples=25)
@given(texts=SOME_TEXTS)
def test_it_answers_as_the_python_model_does(classifier, texts):
    answer, expected = ask(classifier, text=texts), classifier.bert.predict(texts)
    probabilities = [[row["probabilities"][label] for label in LABELS] for row in expected]
    np.testing.assert_allclose(answer["probabilities"], probabilities, atol=1e-5)
    assert [label.decode() for label in answer["label"]] == [row["label"] for row in expected]


def test_pairs_are_scored_as_the_python_model_does_in_float32(pair_regressor, tmp_path):
    pairs = TEXTS[2:] + TEXTS[:2]
    kb.save(pair_regressor.bert, tmp_path / "checkpoint")
    expected = [row["score"] for row in kb.load(tmp_path / "checkpoint").predict(TEXTS, pairs)]
    np.testing.assert_allclose(ask(pair_regressor, text=TEXTS, text_pair=pairs)["score"], expected, atol=1e-5)
    swapped = ask(pair_regressor, text=pairs, text_pair=TEXTS)["score"]
    assert np.abs(swapped - expected).max() > 1e-3, "text and text_pair are told apart"


def test_ids_give_the_models_logits(classifier):
    inputs = classifier.bert.preprocessor(TEXTS)
    logits = classifier.signatures["ids"](**{name: inputs[name] for name in INPUT_NAMES})["logits"]
    np.testing.assert_allclose(logits, classifier.bert.model(inputs), atol=1e-5)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 40])
def test_any_number_of_rows(classifier, size):
    answer = ask(classifier, text=(TEXTS * 6)[:size])
    assert answer["label"].shape == (size,)
    assert answer["probabilities"].shape == (size, len(LABELS))


def test_a_row_is_answered_alike_alone_and_beside_longer_ones(classifier):
    alone = np.concatenate([ask(classifier, text=[text])["probabilities"] for text in TEXTS])
    np.testing.assert_allclose(ask(classifier, text=TEXTS)["probabilities"], alone, atol=1e-5)
    assert np.abs(alone[0] - alone[2]).max() > 1e-3, "the weights tell texts apart"


def test_a_batch_is_padded_to_its_longest_and_a_long_text_cut(classifier):
    one_word, cut = ask(classifier, text=["cat"]), ask(classifier, text=["cat " * 2000])
    ids = classifier.bert.preprocessor(["cat " * 2000])["input_word_ids"]
    assert ids.shape[1] == MAX_LENGTH
    np.testing.assert_allclose(cut["probabilities"], ask(classifier, text=["cat " * 22])["probabilities"], atol=1e-6)
    assert not np.allclose(one_word["probabilities"], cut["probabilities"])


def test_the_vocabulary_and_the_labels_lie_in_the_assets(classifier, pair_regressor, tmp_path):
    classifier.bert.tokenizer.vocabulary.save(tmp_path / "vocab.txt")
    assets = classifier.directory / "assets"
    assert (assets / "vocab.txt").read_bytes() == (tmp_path / "vocab.txt").read_bytes()
    assert (assets / "labels.txt").read_text("utf-8").splitlines() == list(LABELS)
    assert [path.name for path in (pair_regressor.directory / "assets").iterdir()] == ["vocab.txt"]


def test_the_weights_are_there_once_in_float32_and_nothing_of_keras(pair_regressor):
    folder = pair_regressor.directory
    kinds = {dtype for name, dtype in variables(folder).items() if "OBJECT_GRAPH" not in name}
    assert kinds == {tf.float32}
    weights = 4 * sum(int(np.prod(weight.shape)) for weight in pair_regressor.bert.model.weights)
    stored = sum(path.stat().st_size for path in (folder / "variables").glob("*.data*"))
    assert weights <= stored < weights + 20_000  # beside the weights, the names of the objects
    assert not list(folder.rglob("*keras*"))


def variables(folder: Path) -> dict[str, tf.DType]:
    return tf.train.load_checkpoint(str(folder / "variables" / "variables")).get_variable_to_dtype_map()


def test_no_file_names_a_place_on_the_machine_that_built_it(classifier, root):
    places = [root, Path.home(), Path(sys.prefix), Path(tf.__file__).parent, classifier.directory, "/tmp"]
    for path in classifier.directory.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert not [place for place in places if str(place).encode() in content], path


def test_outside_core_there_are_two_ops_and_none_calls_python(classifier, pair_regressor):
    for served in (classifier, pair_regressor):
        ops = graph_ops(served.directory)
        assert outside_core(ops) == ["FastBertNormalize", "FastWordpieceTokenizeWithOffsets"]
        assert not [op for op in ops if "PyFunc" in op]
        assert served.report["ops_outside_core"] == outside_core(ops)


def test_the_report_tells_size_difference_and_latency(classifier):
    report = classifier.report
    assert report["max_difference"] <= 1e-5
    assert report["rows"] == 12
    assert report["bytes"] == sum(path.stat().st_size for path in classifier.directory.rglob("*") if path.is_file())
    assert all(report[key][size] > 0 for key in ("milliseconds", "python_milliseconds") for size in ("1", "32"))


def test_saved_model_cli_shows_it(classifier):
    program = Path(sys.executable).with_name("saved_model_cli")
    command = [program, "show", "--dir", classifier.directory, "--all"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for name in ("serving_default", "ids", "label", "probabilities", "logits", *INPUT_NAMES):
        assert f"['{name}']" in done.stdout


def test_its_readme_runs_as_printed_in_a_fresh_process(pair_regressor):
    readme = (pair_regressor.directory / "README.md").read_text("utf-8")
    code = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert code is not None
    command = [sys.executable, "-P", "-c", code[1] + "\nimport sys; assert 'keras_bert' not in sys.modules"]
    done = subprocess.run(command, cwd=pair_regressor.directory, capture_output=True, text=True, check=True)
    score = re.search(r"array\(\[(.*?)\]", done.stdout) or re.search(r"numpy=\[(.*?)\]", done.stdout)
    expected = ask(pair_regressor, text=["A text."], text_pair=["Its pair."])["score"]
    assert score is not None, done.stdout
    np.testing.assert_allclose(float(score[1]), expected[0], atol=1e-5)
    assert '{"instances": [{"text": "A text.", "text_pair": "Its pair."}]}' in readme


def test_real_weights(minilm, tmp_path):
    """The size that users have: six layers, 30,522 words; a fresh head, so that the answers are arbitrary."""
    bert = kb.load(minilm, head="classifier", labels=["no", "yes"], max_length=64)
    report = saved_model.export(bert, tmp_path / "served")
    assert report["max_difference"] <= 1e-5
    weights = 4 * sum(int(np.prod(weight.shape)) for weight in bert.model.weights)
    assert report["bytes"] < weights + 4_000_000  # vocabulary, twice, and the normaliser's table


def test_small_berts_texts_have_answers_of_their_own():
    answers = small_bert().predict(TEXTS)
    assert len({round(row["probabilities"][LABELS[0]], 5) for row in answers}) >= len(TEXTS) - 2
