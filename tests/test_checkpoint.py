"""Our variables and canonical names: every weight once, there and back to the bit, and nothing half-assigned."""

from __future__ import annotations

import numpy as np
import pytest
import small
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_bert as kb
from keras_bert.checkpoint import assign, collect, slots

HEADS = [None, "classifier", "regressor", "pretrainer"]


@pytest.mark.parametrize("head", HEADS)
def test_every_number_of_a_model_has_one_canonical_place(head):
    model = small.model(head)
    weights = collect(model)
    assert sum(value.size for value in weights.values()) == model.count_params()
    assert len(weights) == len(slots(model))
    assert {slot.name: slot.shape() for slot in slots(model)} == {name: value.shape for name, value in weights.items()}


@settings(deadline=None, max_examples=6)
@given(layers=st.integers(1, 3), heads=st.sampled_from([1, 2, 3]), inner=st.integers(1, 7), types=st.integers(1, 3))
def test_there_and_back_is_the_same_to_the_bit(layers, heads, inner, types):
    changes = {"num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": inner}
    one = small.model("classifier", type_vocab_size=types, **changes)
    other = kb.build_classifier(kb.build_encoder(one.config), len(small.LABELS))
    weights = collect(one)
    assert any(not np.array_equal(value, weights[name]) for name, value in collect(other).items())
    assign(other, weights)
    for name, value in collect(other).items():
        np.testing.assert_array_equal(value, weights[name])
        assert value.dtype == np.float32


def test_query_key_and_value_are_thirds_of_one_kernel_in_that_order():
    encoder = small.model(None)
    width = encoder.config.hidden_size
    attention = encoder.get_layer("block_1").attention
    weights = collect(encoder)
    for third, part in enumerate(("query", "key", "value")):
        columns = slice(third * width, (third + 1) * width)
        name = f"bert.encoder.layer.1.attention.self.{part}"
        np.testing.assert_array_equal(weights[f"{name}.weight"], np.array(attention.qkv.kernel.value)[:, columns].T)
        np.testing.assert_array_equal(weights[f"{name}.bias"], np.array(attention.qkv.bias.value)[columns])


QUERY, POOLER = "bert.encoder.layer.0.attention.self.query.weight", "bert.pooler.dense.bias"
SPOILT = {
    "missing": (lambda weights: weights.pop(POOLER), r"1 missing \(bert\.pooler\.dense\.bias\)"),
    "unused": (lambda weights: weights.update({"bert.extra": np.ones(1)}), r"1 unused \(bert\.extra\)"),
    "misshaped": (
        lambda weights: weights.update({QUERY: weights[QUERY][:5]}),
        r"query\.weight has shape \[5, 12\], expected \[12, 12\].*not of one model",
    ),
    "not finite": (lambda weights: weights.update({POOLER: np.full(12, np.nan, "f")}), "12 values that are NaN"),
    "infinite": (lambda weights: weights.update({POOLER: np.full(12, np.inf, "f")}), "12 values that are NaN"),
    "whole numbers": (lambda weights: weights.update({POOLER: np.ones(12, np.int64)}), "type int64"),
}


@pytest.mark.parametrize("fault", SPOILT)
def test_weights_that_do_not_fit_are_named_and_change_nothing(fault):
    spoil, told = SPOILT[fault]
    encoder = small.model(None)
    before = collect(encoder)
    weights = {name: value + 1 for name, value in before.items()}
    spoil(weights)
    with pytest.raises(ValueError, match=rf"^the file: .*{told}"):
        assign(encoder, weights, "the file")
    for name, value in collect(encoder).items():
        np.testing.assert_array_equal(value, before[name])


def test_only_the_first_few_names_are_told():
    with pytest.raises(ValueError, match=r"39 missing \(([\w.]+, ){3}…\)") as caught:
        assign(small.model(None), {})
    assert len(str(caught.value)) < 300
