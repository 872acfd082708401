"""Config: the paper's sizes, and one clear error for numbers that make no BERT."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import keras_bert as kb
from reference import SMALL


def test_the_papers_sizes_have_the_papers_weight_counts():
    assert kb.Config.base().num_weights() == 109_482_240
    assert kb.Config.large().num_weights() == 335_141_888


@pytest.mark.parametrize("changes", [{}, {"type_vocab_size": 3, "num_hidden_layers": 3}, {"intermediate_size": 7}])
def test_the_exact_count_is_what_keras_counts(changes):
    config = kb.Config(**{**SMALL, **changes})
    assert config.num_weights() == sum(np.prod(weight.shape) for weight in kb.build_encoder(config).trainable_weights)


def test_a_config_survives_its_json_and_foreign_keys(tmp_path):
    config = kb.Config.tiny(hidden_act="gelu_new", layer_norm_eps=1e-6, type_vocab_size=1)
    keys = {**config.to_dict(), "model_type": "bert", "directionality": "bidi", "pooler_fc_size": 768}
    (tmp_path / "config.json").write_text(json.dumps(keys))
    assert kb.Config.from_json(tmp_path / "config.json") == config


def test_a_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        kb.Config().hidden_size = 3


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_size": 10, "num_attention_heads": 3}, "hidden_size must be a multiple.*10 and 3"),
        ({"vocab_size": 0}, "vocab_size must be a whole number of at least 1: got 0"),
        ({"num_hidden_layers": 2.0}, "num_hidden_layers must be a whole number.*2.0"),
        ({"hidden_act": "mish"}, "hidden_act must be one of gelu.*'mish'"),
        ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob must be a number from 0.*1.0"),
        ({"layer_norm_eps": 0}, "layer_norm_eps must be a number above 0"),
        ({"attention": "left"}, "attention must be one of full, causal: got 'left'"),
        ({"pad_token_id": 30522}, "pad_token_id must be a row of the vocabulary, 0 to 30521: got 30522"),
    ],
)
def test_numbers_that_make_no_bert_are_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        kb.Config(**changes)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"model_type": "roberta"}, "model_type is 'roberta', expected 'bert'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"add_cross_attention": True}, "add_cross_attention is True"),
    ],
)
def test_what_is_not_a_plain_bert_is_refused(keys, said):
    with pytest.raises(ValueError, match=said):
        kb.Config.from_dict({**SMALL, **keys})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "expected JSON"),
        ("[1]", "expected a JSON object"),
        ('{"hidden_size": 12}', "expected the keys of BERT's config.json, got none of intermediate_size, num_att"),
    ],
)
def test_a_broken_file_is_named(tmp_path, text, said):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=f"config.json: .*{said}"):
        kb.Config.from_json(tmp_path / "config.json")


def test_transformers_word_for_causal_attention_is_read():
    assert kb.Config.from_dict({**SMALL, "is_decoder": True}).attention == "causal"
    assert kb.Config.from_dict({**SMALL, "is_decoder": False}).attention == "full"
