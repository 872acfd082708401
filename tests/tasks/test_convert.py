"""`keras-bert convert`: from every format to every other, without a number changed on the way."""

from __future__ import annotations

import json

import numpy as np
import pytest
import small

import keras_bert as kb
from keras_bert.checkpoint import collect
from keras_bert.convert import google
from keras_bert.tasks.convert import main

FORMATS = ["transformers", "google", "keras_hub", "keras_bert"]


def convert(capsys, *argv: str) -> dict:
    assert main([str(word) for word in argv]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def check_same(one: kb.Bert, other: kb.Bert) -> None:
    assert (one.head, one.labels, one.config) == (other.head, other.labels, other.config)
    assert one.tokenizer.get_config() == other.tokenizer.get_config()
    weights = collect(one.model)
    for name, value in collect(other.model).items():
        np.testing.assert_array_equal(value, weights[name])


@pytest.mark.parametrize("first", FORMATS)
@pytest.mark.parametrize("second", FORMATS)
def test_a_body_goes_through_two_formats_and_stays_the_same(tmp_path, capsys, first, second):
    bert = small.saved(tmp_path / "start", hidden_act="gelu_new")
    told = convert(capsys, "--model", tmp_path / "start", "--to", first, "--output", tmp_path / "first")
    assert told["weights"] == bert.model.count_params()
    assert told["differences"] == []
    convert(capsys, "--model", tmp_path / "first", "--to", second, "--output", tmp_path / "second")
    check_same(kb.load(tmp_path / "second"), bert)


@pytest.mark.parametrize("head", ["classifier", "regressor", "pretrainer"])
def test_a_head_goes_to_google_and_back_with_its_labels_and_length(tmp_path, capsys, head):
    bert = small.saved(tmp_path / "start", head)
    convert(capsys, "--model", tmp_path / "start", "--to", "google", "--output", tmp_path / "google")
    told = convert(capsys, "--model", tmp_path / "google", "--to", "transformers", "--output", tmp_path / "back")
    assert told["head"] == head
    back = kb.load(tmp_path / "back")
    check_same(back, bert)
    assert back.max_length == bert.max_length


def test_a_head_that_the_format_has_no_place_for_is_left_out_only_when_told(tmp_path, capsys):
    small.saved(tmp_path / "start", "classifier")
    words = ("--model", tmp_path / "start", "--to", "keras_hub", "--output", tmp_path / "preset")
    with pytest.raises(ValueError, match="no place for the classifier: give --body_only"):
        convert(capsys, *words)
    assert [path.name for path in tmp_path.iterdir()] == ["start"]
    told = convert(capsys, *words, "--body_only")
    assert told["head"] is None
    assert told["differences"] == [
        "hidden_act is the exact gelu: KerasHub computes it by tanh (outputs differ by about 2e-3)"
    ]


def test_what_google_computes_otherwise_is_said(tmp_path, capsys):
    small.saved(tmp_path / "start", layer_norm_eps=1e-5)
    told = convert(capsys, "--model", tmp_path / "start", "--to", "google", "--output", tmp_path / "google")
    assert len(told["differences"]) == 2


def test_an_output_is_replaced_only_when_told(tmp_path, capsys):
    small.saved(tmp_path / "start")
    small.saved(tmp_path / "there", "classifier")
    words = ("--model", tmp_path / "start", "--to", "google", "--output", tmp_path / "there")
    with pytest.raises(FileExistsError, match="--overwrite"):
        convert(capsys, *words)
    with pytest.raises(FileExistsError, match="--overwrite"):  # told before the model is looked for
        convert(capsys, "--model", tmp_path / "absent", *words[2:])
    assert kb.load(tmp_path / "there").head == "classifier"
    convert(capsys, *words, "--overwrite")
    assert not (tmp_path / "there" / "model.safetensors").exists()
    assert kb.load(tmp_path / "there").head is None


def test_flags_reach_the_model(tmp_path, capsys):
    small.saved(tmp_path / "start")
    words = ("--model", tmp_path / "start", "--to", "transformers", "--output", tmp_path / "out")
    convert(capsys, *words, "--nolower_case", "--hidden_act", "relu")
    bert = kb.load(tmp_path / "out")
    assert (bert.tokenizer.lower_case, bert.config.hidden_act) == (False, "relu")


def test_bad_words_are_told_apart(tmp_path, capsys):
    small.saved(tmp_path / "start")
    words = ["--model", tmp_path / "start", "--output", tmp_path / "out"]
    for given, told in (([], "--to is missing"), (["--to", "onnx"], "onnx")):
        with pytest.raises(ValueError, match=told):
            convert(capsys, *words, *given)
    with pytest.raises(ValueError, match="hidden_act must be one of"):
        convert(capsys, *words, "--to", "google", "--hidden_act", "geglu")


def test_a_conversion_that_loses_a_number_leaves_nothing(tmp_path, capsys, monkeypatch):
    small.saved(tmp_path / "start")
    monkeypatch.setattr(google, "from_canonical", lambda weights, rows: {"bert/pooler/dense/bias": np.ones(12, "f")})
    with pytest.raises(AssertionError, match="39 weights were not written as they are"):
        convert(capsys, "--model", tmp_path / "start", "--to", "google", "--output", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["start"]
