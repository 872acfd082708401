"""The encoder's laws: padding, batching, dtypes, bad ids, saving, memory. Parity is in test_encoder_parity.py."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import psutil
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_bert as kb
from reference import SMALL, batch_for

CONFIG = kb.Config(**SMALL)
DROPPING = kb.Config(**{**SMALL, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1})


@pytest.fixture(scope="module")
def encoder() -> keras.Model:
    keras.utils.set_random_seed(1)
    return kb.build_encoder(CONFIG, attention_scores=True)


@pytest.fixture(scope="module")
def causal() -> keras.Model:
    keras.utils.set_random_seed(1)
    return kb.build_encoder(kb.Config(**SMALL, attention="causal", initializer_range=0.3))


def test_outputs_are_named_and_shaped_as_promised(encoder):
    found = encoder(batch_for(SMALL))
    assert found["sequence_output"].shape == (3, 7, 12)
    assert found["pooled_output"].shape == (3, 12)
    assert [state.shape for state in found["encoder_outputs"]] == [(3, 7, 12)] * 2
    assert [scores.shape for scores in found["attention_scores"]] == [(3, 3, 7, 7)] * 2
    np.testing.assert_array_equal(found["encoder_outputs"][-1], found["sequence_output"])
    assert "attention_scores" not in kb.build_encoder(CONFIG).output


@settings(max_examples=20)
@given(place=st.integers(1, 8), token=st.integers(1, 22), seed=st.integers(0, 99))
def test_with_causal_attention_no_token_sees_a_later_one(causal, place, token, seed):
    """Paper, 5.1: the left-to-right model."""
    one = np.random.RandomState(seed).randint(1, 23, (1, 9))
    other = one.copy()
    other[:, place:] = (other[:, place:] + token - 1) % 22 + 1
    ours, theirs = (causal(inputs(ids))["sequence_output"].numpy() for ids in (one, other))
    np.testing.assert_allclose(ours[:, :place], theirs[:, :place], atol=1e-6)
    assert token == 22 or np.abs(ours[:, place:] - theirs[:, place:]).max() > 1e-4


@settings(max_examples=20, deadline=None)
@given(length=st.integers(1, 7), pad=st.integers(1, 2), neighbour=st.integers(1, 7), seed=st.integers(0, 99))
def test_padding_and_neighbours_do_not_change_a_rows_answer(encoder, length, pad, neighbour, seed):
    random = np.random.RandomState(seed)
    row, other = random.randint(1, 23, (1, length)), random.randint(1, 23, (1, neighbour))
    width = max(length, neighbour) + pad
    both = np.concatenate([np.pad(ids, ((0, 0), (0, width - ids.shape[1]))) for ids in (row, other)])
    alone, together = encoder(inputs(row)), encoder(inputs(both))
    np.testing.assert_allclose(together["sequence_output"][:1, :length], alone["sequence_output"], atol=1e-5)
    np.testing.assert_allclose(together["pooled_output"][:1], alone["pooled_output"], atol=1e-5)


def test_no_mask_means_the_pad_id_and_no_types_mean_zero():
    encoder = kb.build_encoder(kb.Config(**{**SMALL, "pad_token_id": 5}))
    ids = np.array([[3, 4, 6, 5, 5]], np.int32)
    given_all = encoder({"input_word_ids": ids, "input_mask": np.int32(ids != 5), "input_type_ids": np.zeros_like(ids)})
    given_ids = encoder({"input_word_ids": ids, "input_mask": None, "input_type_ids": None})
    np.testing.assert_allclose(given_ids["sequence_output"][:, :3], given_all["sequence_output"][:, :3], atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_every_dtype_trains_a_step_and_stays_finite_with_a_row_of_padding(dtype):
    model = kb.build_classifier(kb.build_encoder(DROPPING, dtype=dtype), 3)
    batch = batch_for(SMALL)
    for name in batch:
        batch[name][0] = 0
    optimizer: Any = kb.adamw(1e-3)
    if dtype == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    before = [weight.numpy() for weight in model.trainable_weights]
    history = model.fit(batch, np.array([0, 1, 2]), epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    assert all(np.isfinite(weight.numpy()).all() for weight in model.weights)
    assert any((weight.numpy() != old).any() for weight, old in zip(model.trainable_weights, before))
    assert {weight.dtype for weight in model.trainable_weights} == {"float32"}
    assert model(batch).dtype == tf.float32


BAD = [
    ({"input_word_ids": np.array([[1, 23]])}, "input_word_ids must lie from 0 to 22 .vocab_size 23.*23"),
    ({"input_word_ids": np.array([[1, -4]])}, "input_word_ids must lie from 0 to 22 .*-4"),
    ({"input_type_ids": np.array([[0, 2]])}, "input_type_ids must lie from 0 to 1 .type_vocab_size 2.*2"),
    ({"input_word_ids": np.ones((1, 10))}, "length.*max_position_embeddings 9; truncate.*"),
]


@pytest.mark.parametrize(("bad", "said"), BAD)
def test_bad_ids_and_lengths_are_told_in_eager_code_and_by_fit_before_a_weight_changes(bad, said):
    batch = inputs(np.ones_like(next(iter(bad.values())), np.int32)) | {k: v.astype(np.int32) for k, v in bad.items()}
    model = kb.build_classifier(kb.build_encoder(CONFIG), 2)
    with pytest.raises(ValueError, match=said):
        model(batch)
    model.compile(kb.adamw(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    before = [weight.numpy() for weight in model.trainable_weights]
    with pytest.raises(ValueError, match=said):
        model.fit(batch, np.array([1]), verbose=0)
    with pytest.raises(ValueError, match=said):  # of a length that the graph learns when it runs
        model.fit(ragged_dataset(batch), shuffle=False, verbose=0)
    assert all((weight.numpy() == old).all() for weight, old in zip(model.trainable_weights, before))


def test_a_keras_file_opens_in_a_fresh_process_after_import_keras_bert_alone(tmp_path):
    models = {
        "encoder": kb.build_encoder(CONFIG, attention_scores=True),
        "classifier": kb.build_classifier(kb.build_encoder(CONFIG, dtype="mixed_bfloat16"), 3),
        "regressor": kb.build_regressor(kb.build_encoder(CONFIG)),
        "pretrainer": kb.build_pretrainer(kb.build_encoder(CONFIG)),
    }
    batch = batch_for(SMALL)
    arrays = {}
    for name, model in models.items():
        model.save(tmp_path / f"{name}.keras")
        arrays[name] = first_output(model, batch)
    np.savez(tmp_path / "batch.npz", **batch)
    subprocess.run([sys.executable, "-c", REOPEN, str(tmp_path), *models], check=True)
    for name in models:
        np.testing.assert_allclose(np.load(tmp_path / f"{name}.npy"), arrays[name], atol=1e-6)


REOPEN = """
import sys
import keras_bert
import keras, numpy as np
folder, names = sys.argv[1], sys.argv[2:]
batch = dict(np.load(f"{folder}/batch.npz"))
for name in names:
    model = keras.models.load_model(f"{folder}/{name}.keras")
    assert model.config.hidden_size == 12
    assert name == "encoder" or (model.head == name and model.encoder.config == model.config)
    given = {**batch, "masked_lm_positions": np.array([[1, 2]] * 3)} if name == "pretrainer" else batch
    found = model(given)
    found = found if not isinstance(found, dict) else found[sorted(found)[-1]]
    np.save(f"{folder}/{name}.npy", np.array(found, "float32"))
"""


def test_attention_scores_are_probabilities_over_real_tokens(encoder):
    batch = batch_for(SMALL)
    for scores in encoder(batch)["attention_scores"]:
        np.testing.assert_allclose(np.sum(scores, -1), 1, atol=1e-5)
        assert np.max(np.array(scores) * (1 - batch["input_mask"])[:, None, None]) < 1e-6


def test_memory_does_not_grow_over_a_thousand_predict_calls():
    model = kb.build_classifier(kb.build_encoder(CONFIG), 2)
    batch = batch_for(SMALL)
    for _ in range(50):
        model.predict(batch, verbose=0)
    before = resident()
    for _ in range(1000):
        model.predict(batch, verbose=0)
    assert resident() - before < 30e6


def test_memory_returns_after_five_rounds_of_build_fit_delete():
    config = kb.Config.tiny()  # 4.4 million weights: 18 MB, 53 with the moments
    sizes = []
    for _ in range(7):
        model = kb.build_classifier(kb.build_encoder(config), 2)
        model.compile(kb.adamw(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(batch_for(SMALL), np.array([0, 1, 1]), verbose=0)
        del model
        keras.backend.clear_session()
        gc.collect()
        sizes.append(resident())
    assert sizes[-1] - sizes[1] < 50e6, sizes  # five rounds: less than one model of growth


def inputs(ids: np.ndarray) -> dict[str, np.ndarray]:
    ids = ids.astype(np.int32)
    return {"input_word_ids": ids, "input_mask": np.int32(ids != 0), "input_type_ids": np.zeros_like(ids)}


def ragged_dataset(batch: dict[str, np.ndarray]) -> tf.data.Dataset:
    spec = {name: tf.TensorSpec((None, None), tf.int32) for name in batch}

    def rows() -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
        yield batch, np.array([1], np.int64)

    return tf.data.Dataset.from_generator(rows, output_signature=(spec, tf.TensorSpec((None,), tf.int64)))


def first_output(model: keras.Model, batch: dict[str, np.ndarray]) -> np.ndarray:
    needs_positions = isinstance(model.input, dict) and "masked_lm_positions" in model.input
    found = model({**batch, "masked_lm_positions": np.array([[1, 2]] * 3)} if needs_positions else batch)
    found = found if not isinstance(found, dict) else found[sorted(found)[-1]]
    return np.array(found, np.float32)


def resident() -> int:
    return psutil.Process().memory_info().rss
