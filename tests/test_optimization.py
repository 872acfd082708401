"""AdamW and its schedule: worked out by hand, against Adam's own formulas, and what each option does."""

from __future__ import annotations

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_bert as kb
from keras_bert.optimization import depth_of
from reference import SMALL, batch_for


@given(warmup=st.integers(0, 50), rest=st.integers(1, 50), peak=st.floats(1e-6, 1.0))
@settings(max_examples=30, deadline=None)
def test_the_rate_rises_from_0_to_its_peak_and_falls_to_0(warmup, rest, peak):
    rate = kb.warmup_then_linear(peak, warmup, warmup + rest)
    steps = np.arange(warmup + rest + 2)
    found = np.array([float(rate(step)) for step in steps])
    expected = np.where(steps < warmup, steps / max(1, warmup), np.maximum(0, (warmup + rest - steps) / rest)) * peak
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)


def test_a_warm_up_longer_than_the_training_is_refused():
    with pytest.raises(ValueError, match="warmup_steps 11 and total_steps 10"):
        kb.warmup_then_linear(1.0, 11, 10)
    with pytest.raises(ValueError, match="needs total_steps"):
        kb.adamw(1e-3, warmup_steps=5)


def numpy_adamw(weight, gradients, rate=0.01, decay=0.01, correct=True, epsilon=1e-6):
    """Loshchilov and Hutter, algorithm 2, in float64."""
    weight, first, second = weight.astype(np.float64), 0.0, 0.0
    for step, gradient in enumerate(gradients, 1):
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        ours, theirs = (1 - 0.9**step, 1 - 0.999**step) if correct else (1.0, 1.0)
        weight = weight * (1 - rate * decay) - rate * (first / ours) / (np.sqrt(second / theirs) + epsilon)
    return weight


@pytest.mark.parametrize("correct", [True, False])
@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_the_fused_kernel_is_adamw(correct, scale):
    random = np.random.RandomState(0)
    start = random.standard_normal((5, 4)).astype(np.float32)
    gradients = random.standard_normal((6, 5, 4)).astype(np.float32) * scale
    kernel, bias = keras.Variable(start, name="kernel"), keras.Variable(start, name="bias")
    optimizer = kb.adamw(0.01, clip_norm=None, bias_correction=correct)
    for gradient in gradients:
        optimizer.apply([tf.constant(gradient)] * 2, [kernel, bias])
    np.testing.assert_allclose(kernel.numpy(), numpy_adamw(start, gradients, correct=correct), atol=2e-6)
    np.testing.assert_allclose(bias.numpy(), numpy_adamw(start, gradients, decay=0.0, correct=correct), atol=2e-6)


def test_gradients_are_clipped_by_their_global_norm():
    sizes = []
    for clip in (None, 1.0):
        weight, other = keras.Variable(np.zeros(2, "f"), name="bias"), keras.Variable(np.zeros(2, "f"), name="bias")
        optimizer = kb.adamw(1.0, clip_norm=clip, epsilon=1.0)  # a large epsilon keeps Adam from normalising
        optimizer.apply([tf.constant([3.0, 0.0]), tf.constant([0.0, 4.0])], [weight, other])
        sizes.append(-weight.numpy()[0])
    np.testing.assert_allclose(sizes, [3 / 4, 0.6 / 1.6], rtol=1e-5)


def test_decay_spares_layer_norms_and_biases_and_nothing_else():
    model = kb.build_classifier(kb.build_encoder(kb.Config(**SMALL)), 2)
    optimizer = kb.adamw(1e-3)
    optimizer.build(model.trainable_variables)
    spared = {v.path for v, decay in zip(model.trainable_variables, optimizer.decays) if not decay}
    assert len(spared) == 2 * 8 + 2 + 2  # a block: four biases, two norms of two; the first norm; pooler and head
    assert all(path.endswith(("/bias", "/gamma", "/beta")) for path in spared)


def test_layer_decay_gives_each_layer_its_rate():
    model = kb.build_classifier(kb.build_encoder(kb.Config(**SMALL)), 2)
    optimizer = kb.adamw(1e-3, layer_decay=0.5)
    optimizer.build(model.trainable_variables)
    scales = {v.path: scale for v, scale in zip(model.trainable_variables, optimizer.scales)}
    of = {
        part: {s for path, s in scales.items() if part in path}
        for part in ("classifier/k", "pooler", "block_1", "block_0", "embeddings/")
    }
    assert of == {"classifier/k": {1.0}, "pooler": {1.0}, "block_1": {0.5}, "block_0": {0.25}, "embeddings/": {0.125}}
    assert depth_of("classifier/kernel", 3) == 3
    with pytest.raises(ValueError, match="layer_decay must be above 0 and at most 1: got 1.5"):
        kb.adamw(layer_decay=1.5)


def test_accumulated_small_batches_equal_the_large_one():
    batch, labels = batch_for(SMALL, rows=4), np.array([0, 1, 1, 0])
    ends = []
    for parts in (1, 2):
        keras.utils.set_random_seed(3)
        model = kb.build_classifier(kb.build_encoder(kb.Config(**SMALL)), 2)
        optimizer = kb.adamw(
            1e-3, total_steps=5, warmup_steps=1, gradient_accumulation_steps=None if parts == 1 else parts
        )
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(batch, labels, batch_size=4 // parts, epochs=3, shuffle=False, verbose=0)
        ends.append([weight.numpy() for weight in model.trainable_weights])
    for whole, accumulated in zip(*ends):
        # Where a gradient is rounding alone (a key's bias) Adam makes whole steps of it: twice the summed rate at most.
        np.testing.assert_allclose(accumulated, whole, atol=2e-5 if not is_key_bias(whole) else 4e-3)


def is_key_bias(weight: np.ndarray) -> bool:
    return weight.shape == (3 * SMALL["hidden_size"],)


def test_an_optimizer_saved_with_its_model_goes_on_in_a_fresh_process(tmp_path):
    keras.utils.set_random_seed(4)
    model = kb.build_classifier(kb.build_encoder(kb.Config(**SMALL)), 2)
    model.compile(
        kb.adamw(1e-2, total_steps=9, warmup_steps=2), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    batch, labels = batch_for(SMALL), np.array([0, 1, 1])
    model.fit(batch, labels, verbose=0)
    model.save(tmp_path / "m.keras")
    np.savez(tmp_path / "batch.npz", labels=labels, **batch)
    model.fit(batch, labels, verbose=0)
    subprocess.run([sys.executable, "-c", GO_ON, str(tmp_path)], check=True)
    np.testing.assert_allclose(np.load(tmp_path / "logits.npy"), model(batch), atol=1e-6)


GO_ON = """
import sys
import keras_bert
import keras, numpy as np
batch = dict(np.load(f"{sys.argv[1]}/batch.npz"))
labels = batch.pop("labels")
model = keras.models.load_model(f"{sys.argv[1]}/m.keras")
model.fit(batch, labels, verbose=0)
np.save(f"{sys.argv[1]}/logits.npy", np.array(model(batch)))
"""
