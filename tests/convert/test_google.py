"""Google's TF1 checkpoints come in whole, with the pre-training heads; what goes out is google-research/bert's own."""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil

import numpy as np
import pytest
import small
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_bert as kb
import reference
from keras_bert.checkpoint import collect
from keras_bert.convert import google
from keras_bert.convert.table import expand, from_canonical, to_canonical

HEADS = [None, "classifier", "regressor", "pretrainer"]


@pytest.fixture(scope="module")
def tiny(shared):
    return shared / "data" / "checkpoints" / "google_tiny"


def written(folder, head=None, **changes) -> kb.Bert:
    bert = small.bert(head, **changes)
    folder.mkdir()
    google.write(collect(bert.model), bert.config, folder)
    bert.tokenizer.save(folder)
    return bert


def read_as_tf1(folder) -> dict[str, np.ndarray]:
    """As tf.train.init_from_checkpoint sees it: the reader that google-research/bert uses."""
    reader = tf.train.load_checkpoint(str(folder))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def test_googles_own_file_loads_with_both_heads_and_without_adams_moments(tiny):
    bert = kb.load(tiny)
    assert (bert.head, bert.fresh, bert.config.vocab_size) == ("pretrainer", (), 15)
    theirs = read_as_tf1(tiny / "bert_model.ckpt")
    weights = collect(bert.model)
    assert len(weights) == sum(not google.NOT_WEIGHTS.search(name) for name in theirs)
    layer = "bert/encoder/layer_1"
    kernel = np.array(bert.encoder.get_layer("block_1").attention.qkv.kernel.value)
    three = [theirs[f"{layer}/attention/self/{part}/kernel"] for part in ("query", "key", "value")]
    np.testing.assert_array_equal(kernel, np.concatenate(three, axis=1))
    inner = np.array(bert.encoder.get_layer("block_1").feed_forward.inner.kernel.value)
    np.testing.assert_array_equal(inner, theirs[f"{layer}/intermediate/dense/kernel"])
    np.testing.assert_array_equal(weights["cls.seq_relationship.weight"], theirs["cls/seq_relationship/output_weights"])
    np.testing.assert_array_equal(weights["cls.predictions.bias"], theirs["cls/predictions/output_bias"])
    assert bert.info["provenance"] == {"origin": str(tiny), "global_step": 20}
    assert bert.tokenizer.lower_case


def test_its_masked_words_are_guessed_as_by_transformers(tiny, peers):
    """The head is not only there, it answers: the same weights in transformers give the same logits."""
    bert = kb.load(tiny)
    config = bert.config.to_dict()
    model = reference.torch_model("BertForPreTraining", config, collect(bert.model))
    batch = reference.batch_for(config, length=9)
    positions = np.tile(np.arange(9, dtype=np.int32), (3, 1))
    ours = bert.model({**batch, "masked_lm_positions": positions})
    theirs = model(**reference.torch_inputs(batch))
    real = batch["input_mask"] > 0
    mlm = theirs.prediction_logits.detach().numpy()
    np.testing.assert_allclose(np.array(ours["mlm_logits"])[real], mlm[real], atol=1e-5)
    np.testing.assert_allclose(ours["nsp_logits"], theirs.seq_relationship_logits.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("way", ["directory", "prefix", "index file"])
def test_a_checkpoint_is_found_by_directory_and_by_prefix(tiny, way):
    places = {"directory": tiny, "prefix": tiny / "bert_model.ckpt", "index file": tiny / "bert_model.ckpt.index"}
    assert not (tiny / "checkpoint").exists()
    assert kb.load(places[way], head="encoder").config.hidden_size == 4


@pytest.mark.parametrize("head", HEADS)
def test_what_is_written_has_googles_names_and_shapes(tmp_path, head):
    bert = written(tmp_path / "model", head)
    found = {name: value.shape for name, value in read_as_tf1(tmp_path / "model").items()}
    assert found == tf1_shapes(bert.config, head)
    assert (tmp_path / "model" / "bert_model.ckpt.data-00000-of-00001").is_file()
    assert tf.train.latest_checkpoint(str(tmp_path / "model")) == str(tmp_path / "model" / "bert_model.ckpt")


def tf1_shapes(config: kb.Config, head: str | None) -> dict[str, tuple[int, ...]]:
    """The variables that google-research/bert's modeling.py, run_pretraining.py and run_classifier.py make."""
    hidden, inner = config.hidden_size, config.intermediate_size

    def dense(name, rows, columns):
        return {f"{name}/kernel": (rows, columns), f"{name}/bias": (columns,)}

    def norm(name):
        return {f"{name}/beta": (hidden,), f"{name}/gamma": (hidden,)}

    shapes = {
        "global_step": (),
        "bert/embeddings/word_embeddings": (config.vocab_size, hidden),
        "bert/embeddings/token_type_embeddings": (config.type_vocab_size, hidden),
        "bert/embeddings/position_embeddings": (config.max_position_embeddings, hidden),
        **norm("bert/embeddings/LayerNorm"),
        **dense("bert/pooler/dense", hidden, hidden),
    }
    for layer in range(config.num_hidden_layers):
        scope = f"bert/encoder/layer_{layer}"
        for part in ("self/query", "self/key", "self/value", "output/dense"):
            shapes |= dense(f"{scope}/attention/{part}", hidden, hidden)
        shapes |= norm(f"{scope}/attention/output/LayerNorm") | norm(f"{scope}/output/LayerNorm")
        shapes |= dense(f"{scope}/intermediate/dense", hidden, inner) | dense(f"{scope}/output/dense", inner, hidden)
    if head == "pretrainer":
        shapes |= dense("cls/predictions/transform/dense", hidden, hidden)
        shapes |= norm("cls/predictions/transform/LayerNorm")
        shapes |= {"cls/predictions/output_bias": (config.vocab_size,)}
        shapes |= {"cls/seq_relationship/output_weights": (2, hidden), "cls/seq_relationship/output_bias": (2,)}
    units = {"classifier": 3, "regressor": 1}.get(head or "")
    return shapes | ({"output_weights": (units, hidden), "output_bias": (units,)} if units else {})


@pytest.mark.parametrize("head", HEADS)
def test_there_and_back_is_the_same_to_the_bit(tmp_path, head):
    bert = written(tmp_path / "model", head)
    back = kb.load(tmp_path / "model")
    assert (back.head, back.config) == (head, bert.config)
    weights = collect(bert.model)
    for name, value in collect(back.model).items():
        np.testing.assert_array_equal(value, weights[name])


@settings(deadline=None, max_examples=30)
@given(layers=st.integers(1, 12), present=st.data())
def test_the_table_reads_both_ways(layers, present):
    rows = expand(google.ROWS, layers)
    assert len({row.canonical for row in rows}) == len({row.theirs for row in rows}) == len(rows)
    chosen = present.draw(st.lists(st.sampled_from(rows), unique=True, max_size=9))
    tensors = {row.theirs: np.arange(6.0).reshape(2, 3) + index for index, row in enumerate(chosen)}
    back = from_canonical(to_canonical(tensors, rows), rows)
    assert set(back) == set(tensors)
    for name, value in tensors.items():
        np.testing.assert_array_equal(back[name], value)


def test_the_tiny_file_survives_there_and_back(tiny, tmp_path):
    bert = kb.load(tiny)
    (tmp_path / "model").mkdir()
    google.write(collect(bert.model), bert.config, tmp_path / "model", global_step=20)
    theirs, ours = read_as_tf1(tiny / "bert_model.ckpt"), read_as_tf1(tmp_path / "model")
    assert set(ours) == {name for name in theirs if name == "global_step" or not google.NOT_WEIGHTS.search(name)}
    for name, value in ours.items():
        assert value.dtype == theirs[name].dtype
        np.testing.assert_array_equal(value, theirs[name])
    ours_config = json.loads((tmp_path / "model" / "bert_config.json").read_text())
    theirs_config = json.loads((tiny / "bert_config.json").read_text())
    assert ours_config == {key: theirs_config[key] for key in ours_config}


@pytest.mark.parametrize("act", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "tanh"])
def test_config_keys_that_google_has_no_word_for_survive(tmp_path, act, caplog):
    with caplog.at_level(logging.WARNING, "keras_bert"):
        bert = written(tmp_path / "model", hidden_act=act, layer_norm_eps=1e-5, pad_token_id=3)
    assert kb.load(tmp_path / "model").config == bert.config
    keys = json.loads((tmp_path / "model" / "bert_config.json").read_text())
    assert keys["hidden_act"] in ("gelu", "relu", "tanh")
    assert ("exact gelu" in caplog.text) == (act == "gelu")
    assert "layer_norm_eps is 1e-05" in caplog.text


def test_an_activation_that_google_does_not_have_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no 'silu', expected gelu"):
        written(tmp_path / "model", hidden_act="silu")


def test_gelu_is_the_exact_one_unless_told_otherwise(tiny):
    assert kb.load(tiny, head="encoder").config.hidden_act == "gelu"
    assert kb.load(tiny, head="encoder", hidden_act="gelu_new").config.hidden_act == "gelu_new"


@pytest.fixture
def copy(tiny, tmp_path):
    for path in tiny.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_a_fine_tuned_directory_of_several_steps_needs_its_checkpoint_file(copy):
    for step in (100, 200):
        for path in copy.glob("bert_model.ckpt.*"):
            shutil.copy(path, copy / path.name.replace("bert_model.ckpt", f"model.ckpt-{step}"))
    with pytest.raises(ValueError, match=r"has 3 checkpoints: give one of them, as .*bert_model\.ckpt"):
        kb.load(copy)
    (copy / "checkpoint").write_text('model_checkpoint_path: "/home/them/model.ckpt-200"\n')
    assert google.find_prefix(copy) == copy / "model.ckpt-200"
    assert kb.load(copy / "model.ckpt-100").head == "pretrainer"


def add_variable(folder, name) -> None:
    bert = small.bert()
    weights = collect(bert.model)
    tensors = from_canonical(weights, expand(google.ROWS, 2)) | {name: np.ones(2, np.float32)}
    for path in folder.glob("bert_model.ckpt*"):
        path.unlink()
    google.write(weights, bert.config, folder)
    bert.tokenizer.save(folder)
    names = sorted(tensors)
    values = [tf.constant(tensors[key]) for key in names]
    tf.raw_ops.SaveV2(
        prefix=str(folder / "bert_model.ckpt"), tensor_names=names, shape_and_slices=[""] * len(names), tensors=values
    )


def cut(path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])


WRONG = {
    "data cut short": (lambda f: cut(f / "bert_model.ckpt.data-00000-of-00001", 900), "damaged or not whole"),
    "index cut short": (lambda f: cut(f / "bert_model.ckpt.index", 900), "damaged or not whole"),
    "no data": (lambda f: (f / "bert_model.ckpt.data-00000-of-00001").unlink(), "holds no checkpoint"),
    "no config": (lambda f: (f / "bert_config.json").unlink(), r"no bert_config\.json beside the checkpoint"),
    "no vocabulary": (lambda f: (f / "vocab.txt").unlink(), "has no vocabulary"),
    "a stranger's variable": (lambda f: add_variable(f, "lstm/kernel"), r"1 variables are not .*\(lstm/kernel\)"),
    "a TF2 checkpoint": (
        lambda f: add_variable(f, "model/layer/kernel/.ATTRIBUTES/VARIABLE_VALUE"),
        "a TF2 object checkpoint; expected TF1 names",
    ),
    "a config of fewer layers": (
        lambda f: change_config(f, num_hidden_layers=1),
        r"16 unused \(bert\.encoder\.layer\.1",
    ),
    "a config of other widths": (lambda f: change_config(f, intermediate_size=9), r"expected \[9, 4\] from the config"),
    "a vocabulary too long": (lambda f: change_config(f, vocab_size=9), "15 tokens, expected at most 9"),
}


def change_config(folder, **changes) -> None:
    path = folder / "bert_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("fault", WRONG)
def test_what_does_not_fit_is_told_in_one_line(copy, fault):
    spoil, told = WRONG[fault]
    spoil(copy)
    with pytest.raises((ValueError, FileNotFoundError), match=told) as caught:
        kb.load(copy)
    assert str(copy) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_cased_vocabulary_is_not_lowered(tmp_path):
    bert = small.bert(vocab_size=24)
    bert = dataclasses.replace(bert, tokenizer=kb.Tokenizer([*small.TOKENS, "The"], lower_case=False))
    (tmp_path / "model").mkdir()
    google.write(collect(bert.model), bert.config, tmp_path / "model")
    bert.tokenizer.vocabulary.save(tmp_path / "model" / "vocab.txt")  # as Google publishes: nothing else says it
    assert kb.load(tmp_path / "model").tokenizer.lower_case is False
    assert kb.load(tmp_path / "model", lower_case=True).tokenizer.lower_case is True
