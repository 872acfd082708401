"""The same numbers as transformers: recorded ones in every run, live ones (fixture `peers`) where it is installed."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
import reference_pretraining as pretraining
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import keras_bert as kb
import reference
from keras_bert import checkpoint

STATES = 1e-5
GRADIENTS = 1e-4  # relative to the weight's own largest gradient
STEPS = 1e-4
LOSSES = 1e-3  # relative, over fifty steps of pre-training


@pytest.mark.parametrize("case", reference.CASES)
def test_states_logits_gradients_and_steps_equal_the_recorded_ones(case):
    config = {**reference.SMALL, **reference.CASES[case]}
    with np.load(reference.FOLDER / f"{case}.npz") as found:
        recorded = dict(found)
    model = classifier(config)
    batch = reference.batch_for(config)
    check_outputs(model, batch, recorded)
    check_gradients(model, batch, reference.LABELS, reference.starting("gradient/", recorded))
    check_steps(model, [reference.batch_for(config, seed=seed) for seed in range(3)], reference.LABELS, recorded)


def test_the_real_checkpoint_equals_the_recorded_states(minilm):
    with np.load(reference.FOLDER / "minilm.npz") as found:
        recorded = dict(found)
    batch = {"input_word_ids": recorded["ids"], "input_mask": recorded["mask"], "input_type_ids": None}
    answer = kb.load(minilm).encoder(batch)
    for index, state in enumerate(answer["encoder_outputs"]):
        close_where_real(np.array(state)[..., ::16], recorded[f"state_{index}"], recorded["mask"])
    np.testing.assert_allclose(answer["pooled_output"], recorded["pooled_output"], atol=STATES)


@pytest.mark.parametrize("padded", [True, False])
def test_every_layer_of_the_real_checkpoint_equals_transformers(minilm, peers, padded):
    texts = reference.SENTENCES if padded else reference.SENTENCES[:1] * 2
    encoder = kb.load(minilm).encoder
    tokenizer = peers.transformers.AutoTokenizer.from_pretrained(minilm)
    given_ids = tokenizer(texts, padding=True, return_tensors="np")
    batch = {
        "input_word_ids": given_ids["input_ids"].astype(np.int32),
        "input_mask": given_ids["attention_mask"].astype(np.int32),
        "input_type_ids": given_ids["token_type_ids"].astype(np.int32),
    }
    assert (batch["input_mask"] == 0).any() == padded
    model = kb.build_classifier(with_scores(encoder), 2)
    theirs = torch_twin(model)
    check_outputs(model, batch, reference.torch_outputs(theirs, batch))


def test_gradients_of_fine_tuning_the_real_checkpoint_equal_torchs(minilm, peers):
    model = kb.build_classifier(with_scores(kb.load(minilm).encoder, dropout=0.0), 3)
    batch = reference.batch_for(model.config.to_dict(), length=13)
    theirs = reference.torch_gradients(torch_twin(model), batch, reference.LABELS)
    check_gradients(model, batch, reference.LABELS, theirs)


def test_three_steps_on_the_real_checkpoint_follow_torchs(minilm, peers, tmp_path):
    model = kb.build_classifier(with_scores(kb.load(minilm).encoder, dropout=0.0), 3)
    config = model.config.to_dict()
    batches = [reference.batch_for(config, length=13, seed=seed) for seed in range(3)]
    theirs = reference.steps_in_a_process(
        tmp_path, {**config, "num_labels": 3}, checkpoint.collect(model), batches, reference.LABELS, 5e-5
    )
    before = checkpoint.collect(model)
    check_steps(model, batches, reference.LABELS, {f"stepped/{name}": value for name, value in theirs.items()}, 5e-5)
    assert np.max(np.abs(before["classifier.weight"] - theirs["classifier.weight"])) > STEPS  # they did move


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    layers=st.integers(1, 3),
    heads=st.sampled_from([1, 2, 3, 4, 6]),
    act=st.sampled_from(["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh"]),
    eps=st.sampled_from([1e-12, 1e-6, 1e-3]),
    types=st.integers(1, 3),
    length=st.integers(1, 9),
)
def test_random_configs_equal_transformers(peers, layers, heads, act, eps, types, length):
    changes = {"num_hidden_layers": layers, "num_attention_heads": heads, "hidden_act": act}
    config = {**reference.SMALL, **changes, "layer_norm_eps": eps, "type_vocab_size": types}
    model = classifier(config)
    batch = reference.batch_for(config, length=length)
    check_outputs(model, batch, reference.torch_outputs(torch_twin(model), batch))


@pytest.mark.parametrize("act", ["gelu", "gelu_new"])
def test_the_pretraining_heads_equal_transformers(peers, act):
    config = {**reference.SMALL, "hidden_act": act}
    model = kb.build_pretrainer(kb.build_encoder(kb.Config(**config)))
    checkpoint.assign(model, reference.weights_for(shapes(model)))
    theirs = reference.torch_model("BertForPreTraining", config, checkpoint.collect(model))
    batch = reference.batch_for(config)
    positions = np.array([[0, 2], [1, 1], [6, 3]], np.int32)
    with peers.torch.no_grad():
        expected = theirs(**reference.torch_inputs(batch))
    found = model({**batch, "masked_lm_positions": positions})
    every = expected.prediction_logits.numpy()
    np.testing.assert_allclose(found["mlm_logits"], every[np.arange(3)[:, None], positions], atol=STATES)
    np.testing.assert_allclose(found["nsp_logits"], expected.seq_relationship_logits.numpy(), atol=STATES)


def test_fifty_steps_of_pretraining_follow_the_recorded_losses():
    ours, _ = pretraining.our_losses(pretraining.small_pretrainer(), pretraining.CONFIG["max_position_embeddings"])
    with np.load(pretraining.FILE) as found:
        np.testing.assert_allclose(ours, found["losses"], rtol=LOSSES)
    first, last = ours[:5].sum(1).mean(), ours[-5:].sum(1).mean()
    assert last < first - 0.5  # it did learn


def test_fifty_steps_of_pretraining_follow_torchs_losses(peers):
    check_pretraining(pretraining.small_pretrainer(), pretraining.CONFIG["max_position_embeddings"], pretraining.RATE)


def test_fifty_steps_of_pretraining_the_real_checkpoint_on_follow_torchs_losses(minilm, peers):
    encoder = kb.load(minilm).encoder
    keras.utils.set_random_seed(0)  # of the two heads
    check_pretraining(kb.build_pretrainer(with_scores(encoder, dropout=0.0)), 12, 1e-4)  # the paper's rate


def check_pretraining(model: keras.Model, length: int, rate: float) -> None:
    config, weights = model.config.to_dict(), checkpoint.collect(model)
    ours, given = pretraining.our_losses(model, length, rate)
    np.testing.assert_allclose(ours, pretraining.torch_losses(config, weights, given, rate), rtol=LOSSES)


@pytest.mark.parametrize("length", [1, 4, 9])
def test_causal_attention_equals_transformers_decoder(peers, length):
    model = classifier({**reference.SMALL, "attention": "causal"})
    theirs = reference.torch_model(
        "BertModel", {**reference.SMALL, "is_decoder": True}, reference.starting("bert.", checkpoint.collect(model))
    )
    batch = reference.batch_for(reference.SMALL, length=length)
    with peers.torch.no_grad():
        expected = theirs(**reference.torch_inputs(batch), output_hidden_states=True, use_cache=False)
    answer = model.encoder(batch)
    for ours, states in zip(answer["encoder_outputs"], expected.hidden_states[1:], strict=True):
        close_where_real(ours, states, batch["input_mask"])


def classifier(config: dict, num_labels: int = 3) -> keras.Model:
    model = kb.build_classifier(kb.build_encoder(kb.Config(**config), attention_scores=True), num_labels)
    checkpoint.assign(model, reference.weights_for(shapes(model)))
    return model


def shapes(model: keras.Model) -> dict[str, tuple[int, ...]]:
    return {name: value.shape for name, value in checkpoint.collect(model).items()}


def with_scores(encoder: keras.Model, dropout: float | None = None) -> keras.Model:
    """The same weights in an encoder that also gives attention probabilities."""
    keys = encoder.config.to_dict()
    if dropout is not None:
        keys |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    other = kb.build_encoder(kb.Config(**keys), attention_scores=True)
    checkpoint.assign(other, checkpoint.collect(encoder))
    return other


def torch_twin(model: keras.Model):
    weights = checkpoint.collect(model)
    config = {**model.config.to_dict(), "num_labels": weights["classifier.bias"].size}
    return reference.torch_model("BertForSequenceClassification", config, weights)


def check_outputs(model: keras.Model, batch: dict, expected: dict) -> None:
    answer = model.encoder(batch)
    for index, state in enumerate(answer["encoder_outputs"]):
        close_where_real(state, expected[f"state_{index}"], batch["input_mask"])
    for index, scores in enumerate(answer["attention_scores"]):
        close_where_real(
            np.moveaxis(scores, 1, 2), np.moveaxis(expected[f"attention_{index}"], 1, 2), batch["input_mask"]
        )
    np.testing.assert_allclose(answer["pooled_output"], expected["pooled_output"], atol=STATES)
    np.testing.assert_allclose(model(batch), expected["logits"], atol=STATES)


def close_where_real(ours, theirs, mask) -> None:
    np.testing.assert_allclose(np.array(ours)[mask > 0], np.array(theirs)[mask > 0], atol=STATES, rtol=0)


def check_gradients(model: keras.Model, batch: dict, labels: np.ndarray, expected: dict) -> None:
    values = [weight.value for weight in model.trainable_weights]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(batch)))
    gradients = [tf.convert_to_tensor(gradient).numpy() for gradient in tape.gradient(loss, values)]
    ours = under_canonical_names(model, gradients)
    assert set(ours) == set(expected)
    for name, theirs in expected.items():
        # A key's bias shifts all scores of a row alike: its gradient is exactly 0, and what is computed is rounding.
        # It is held against the size of its neighbour's.
        size = np.abs(expected[name.replace("key.bias", "query.bias")]).max()
        assert np.abs(ours[name] - theirs).max() <= GRADIENTS * size, name


def under_canonical_names(model: keras.Model, gradients: list[np.ndarray]) -> dict[str, np.ndarray]:
    kept = [weight.numpy() for weight in model.trainable_weights]
    for weight, gradient in zip(model.trainable_weights, gradients):
        weight.assign(gradient)
    named = checkpoint.collect(model)
    for weight, value in zip(model.trainable_weights, kept):
        weight.assign(value)
    return named


def check_steps(
    model: keras.Model, batches: list, labels, expected: dict, rate: float = reference.LEARNING_RATE
) -> None:
    model.compile(kb.adamw(rate), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    for batch in batches:
        model.fit(batch, labels, batch_size=len(labels), shuffle=False, verbose=0)
    ours, theirs = checkpoint.collect(model), reference.starting("stepped/", expected)
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        if not name.endswith("key.bias"):  # its gradient is rounding alone, and Adam makes whole steps of that
            np.testing.assert_allclose(ours[name], value, atol=STEPS, rtol=0, err_msg=name)


def test_the_recorded_files_are_the_ones_the_script_names():
    assert {path.stem for path in Path(reference.FOLDER).glob("*.npz")} == {
        *(*reference.CASES, "minilm", "checkpoints", "pretraining"),
    }
