"""KerasHub's BertBackbone, both ways: the same numbers where it computes what the config says, and said where not."""

from __future__ import annotations

import logging
from pathlib import Path

import keras_hub
import numpy as np
import pytest
import small
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_bert as kb
import reference
from keras_bert.checkpoint import assign, collect
from keras_bert.convert import keras_hub as converter
from keras_bert.convert.table import expand


def backbone(**changes):
    numbers = {"num_layers": 2, "num_heads": 3, "hidden_dim": 12, "intermediate_dim": 20, "max_sequence_length": 9}
    built = keras_hub.models.BertBackbone(**{"vocabulary_size": 23, **numbers, **changes}, dtype="float32")
    random = np.random.RandomState(0)
    for variable in built.weights:
        variable.assign(random.standard_normal(variable.shape) * 0.3)
    return built


def their_answers(theirs, batch):
    names = {"token_ids": "input_word_ids", "padding_mask": "input_mask", "segment_ids": "input_type_ids"}
    return theirs({name: batch[ours] for name, ours in names.items()})


def check_answers(encoder, theirs, atol=1e-5) -> float:
    batch = reference.batch_for(encoder.config.to_dict())
    ours, found = encoder(batch), their_answers(theirs, batch)
    real = batch["input_mask"] > 0
    difference = np.max(np.abs(np.array(ours["sequence_output"]) - np.array(found["sequence_output"]))[real])
    assert difference <= atol
    np.testing.assert_allclose(ours["pooled_output"], found["pooled_output"], atol=atol)
    return float(difference)


@settings(deadline=None, max_examples=5)
@given(layers=st.integers(1, 3), heads=st.sampled_from([1, 2, 3, 4]), segments=st.integers(1, 3))
def test_a_backbone_in_memory_gives_the_same_numbers_here_and_comes_back_to_the_bit(layers, heads, segments):
    theirs = backbone(num_layers=layers, num_heads=heads, num_segments=segments)
    config, weights = converter.from_backbone(theirs)
    assert (config.hidden_act, config.num_attention_heads, config.type_vocab_size) == ("gelu_new", heads, segments)
    encoder = kb.build_encoder(config)
    assign(encoder, weights)
    check_answers(encoder, theirs)
    back = converter.to_backbone(collect(encoder), config)
    for one, other in zip(theirs.weights, back.weights, strict=True):
        np.testing.assert_array_equal(np.array(one.value), np.array(other.value))


def test_every_variable_of_a_backbone_is_in_the_table_once():
    rows = expand(converter.ROWS, 2)
    assert sorted(row.theirs for row in rows) == sorted(variable.path for variable in backbone().weights)
    assert len({row.canonical for row in rows}) == len(rows)


def test_ours_gives_the_same_numbers_there(caplog):
    bert = small.bert(hidden_act="gelu_new", layer_norm_eps=1e-12)
    with caplog.at_level(logging.WARNING, "keras_bert"):
        theirs = converter.to_backbone(collect(bert.model), bert.config)
    assert caplog.text == ""
    check_answers(bert.encoder, theirs)


def test_where_kerashub_computes_otherwise_it_is_said(caplog):
    """KerasHub has one activation and one epsilon, whatever a config says: shown by numbers, then told in words."""
    bert = small.bert(hidden_act="gelu", attention_probs_dropout_prob=0.2, layer_norm_eps=1e-3)
    with caplog.at_level(logging.WARNING, "keras_bert"):
        theirs = converter.to_backbone(collect(bert.model), bert.config)
    assert check_answers(bert.encoder, theirs, atol=1.0) > 1e-5
    for told in ("hidden_act is the exact gelu", "layer_norm_eps is 0.001", "one dropout rate"):
        assert told in caplog.text
    with pytest.raises(ValueError, match="KerasHub computes gelu whatever the config says, expected that, got 'relu'"):
        converter.to_backbone({}, kb.Config(hidden_act="relu"))


def test_another_backbone_is_refused():
    with pytest.raises(ValueError, match="expected a keras_hub BertBackbone, got DistilBertBackbone"):
        converter.from_backbone(type("DistilBertBackbone", (), {})())


@pytest.fixture(scope="module")
def preset(tmp_path_factory) -> Path:
    """A preset as KerasHub itself writes one."""
    folder = tmp_path_factory.mktemp("preset") / "bert_small"
    backbone().save_to_preset(str(folder))
    keras_hub.models.BertTokenizer(vocabulary=small.TOKENS, lowercase=True).save_to_preset(str(folder))
    return folder


@pytest.mark.parametrize("way", ["directory", "keras_hub://"])
def test_a_preset_directory_loads(preset, way):
    bert = kb.load(preset if way == "directory" else f"keras_hub://{preset}")
    check_answers(bert.encoder, keras_hub.models.BertBackbone.from_preset(str(preset)))
    assert bert.tokenizer.vocabulary.tokens == tuple(small.TOKENS)
    assert bert.head is None
    assert bert.tokenizer.lower_case


@pytest.mark.parametrize("lower_case", [True, False])
def test_a_written_preset_opens_in_kerashub_with_its_tokenizer(tmp_path, lower_case):
    bert = small.bert(hidden_act="gelu_new")
    tokenizer = kb.Tokenizer(small.TOKENS, lower_case=lower_case)
    converter.write(collect(bert.model), bert.config, tokenizer, tmp_path / "preset")
    check_answers(bert.encoder, keras_hub.models.BertBackbone.from_preset(str(tmp_path / "preset")))
    theirs = keras_hub.models.BertTokenizer.from_preset(str(tmp_path / "preset"))
    for text in ("the cat sat quickly , not á dog !", "The Cat"):
        assert list(theirs(text)) == list(tokenizer(text)[0])
    back = kb.load(tmp_path / "preset")
    assert back.config == bert.config
    assert back.tokenizer.get_config() == tokenizer.get_config()


def test_a_damaged_preset_is_told_in_one_line(preset, tmp_path):
    for path in preset.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes()[:-200] if path.suffix == ".h5" else path.read_bytes())
    with pytest.raises(ValueError, match="no BERT preset that keras_hub can load") as caught:
        kb.load(tmp_path)
    assert "\n" not in str(caught.value)
