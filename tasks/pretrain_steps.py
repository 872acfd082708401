"""One step of pre-training, and one of its evaluation: masks drawn, losses, gradients and update in one graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert.batch import INPUT_NAMES
from keras_bert.optimization import AdamW
from keras_bert.tasks.devices import Devices
from keras_bert.tasks.steps import inner
from keras_bert.text import Vocabulary, mask_tokens
from keras_bert.text.masking import Masked

EVALUATION_SEED = 2**31 - 1  # of its masks, the same in every evaluation of every run


@dataclass(frozen=True)
class Objective:
    """What is learnt from a batch.

    Attributes:
        nsp: next sentence too, beside the tokens.
        left_to_right: every token from those before it, nothing masked, instead of the masked ones.
        seed: of the masks, with the step.
        rate, max_predictions, mask_share, random_share, whole_word: as `mask_tokens` takes them.
    """

    vocabulary: Vocabulary
    nsp: bool
    left_to_right: bool
    seed: int
    rate: float
    max_predictions: int | None
    mask_share: float
    random_share: float
    whole_word: bool

    def draw(self, ids: tf.Tensor, mask: tf.Tensor, seed: tuple[Any, Any], first_row: Any, num_rows: int) -> Masked:
        """Ids [B,S], rows of a batch of `num_rows` from `first_row` on → what the model reads, and what it predicts."""
        if self.left_to_right:
            places = tf.range(ids.shape[1] - 1, dtype=tf.int32)
            weights = tf.cast(mask[:, 1:], tf.float32)
            return Masked(ids, tf.broadcast_to(places, tf.shape(weights)), ids[:, 1:], weights)
        return mask_tokens(
            ids,
            seed,
            self.vocabulary,
            rate=self.rate,
            max_predictions=self.max_predictions,
            mask_share=self.mask_share,
            random_share=self.random_share,
            whole_word=self.whole_word,
            first_row=first_row,
            num_rows=num_rows,
        )


class Sums(NamedTuple):
    """What a step adds up over a global batch; float32 scalars."""

    mlm_loss: Any  # over predicted tokens
    mlm_correct: Any
    predictions: Any  # how many tokens were predicted
    nsp_loss: Any  # over rows
    nsp_correct: Any
    rows: Any
    tokens: Any  # real ones, without padding


class Batch(NamedTuple):
    """A global batch, padded with empty rows to a multiple of replicas and parts: int32 [B,S] three times, [B]."""

    ids: Any
    mask: Any
    types: Any
    labels: Any


def pad_rows(inputs: dict[str, np.ndarray], labels: np.ndarray, multiple: int, pad_id: int) -> Batch:
    """A batch whose rows are a multiple of something; those added are all padding, and count for nothing."""
    missing = -len(labels) % multiple
    ids, mask, types = (
        np.pad(inputs[name], [(0, missing), (0, 0)], constant_values=pad_id if name == INPUT_NAMES[0] else 0)
        for name in INPUT_NAMES
    )
    return Batch(ids, mask, types, np.pad(labels, (0, missing)))


def trained_variables(model: keras.Model, nsp: bool) -> list[Any]:
    """All trainable ones; without next sentence none of the pooler and of its head, which nothing would move."""
    idle = [] if nsp else [model.encoder.get_layer("pooler"), model.get_layer("next_sentence")]
    left_out = {id(variable) for layer in idle for variable in layer.trainable_variables}
    return [variable for variable in model.trainable_variables if id(variable) not in left_out]


def make_step(
    model: keras.Model,
    optimizer: Any,
    objective: Objective,
    devices: Devices,
    num_rows: int,
    parts: int = 1,
    jit_compile: bool = False,
) -> Callable[[Batch, int], Sums]:
    """A function that takes one optimiser step on a global batch: (batch, step's number, from 0) → its sums.

    Args:
        model: from `build_pretrainer`, made in the devices' scope.
        num_rows: of the global batch, without rows that only pad it.
        parts: each replica computes its rows in so many parts, one after the other, in that much less memory.
        jit_compile: by XLA, the step whole; with several replicas, each one's gradients.
    """
    variables = trained_variables(model, objective.nsp)
    ours = isinstance(inner(optimizer), AdamW)
    if ours:  # else Keras's optimiser sums over replicas, as it always does
        inner(optimizer).reduces = False

    def gradients(batch: Batch, masked: Masked, predictions: tf.Tensor, rows: tf.Tensor) -> tuple[list[Any], Sums]:
        with tf.GradientTape() as tape:
            found = forward(model, batch, masked, objective.nsp, training=True)
            loss = found.mlm_loss / tf.maximum(predictions, 1)
            if objective.nsp:
                loss += found.nsp_loss / tf.maximum(rows, 1)
            scaled = optimizer.scale_loss(loss)
        given = tape.gradient(scaled, [variable.value for variable in variables])
        return [tf.convert_to_tensor(gradient) for gradient in given], found

    def in_parts(batch: Batch, masked: Masked, predictions: tf.Tensor, rows: tf.Tensor) -> tuple[list[Any], Sums]:
        if parts == 1:
            return gradients(batch, masked, predictions, rows)
        size = batch.ids.shape[0] // parts
        cut = tf.nest.map_structure(lambda x: tf.reshape(x, [parts, size, *x.shape[1:]]), (batch, masked))

        def add(part: tf.Tensor, sums: Any) -> tuple[tf.Tensor, Any]:
            one, its_masks = tf.nest.map_structure(lambda x: x[part], cut)
            found = gradients(one, its_masks, predictions, rows)
            return part + 1, tf.nest.map_structure(tf.add, sums, found)

        zeros = ([tf.zeros(variable.shape) for variable in variables], Sums(*[tf.zeros(())] * len(Sums._fields)))
        return tf.while_loop(lambda part, _: part < parts, add, (0, zeros), maximum_iterations=parts)[1]

    compute = (
        tf.function(in_parts, jit_compile=True, autograph=False) if jit_compile and devices.replicas > 1 else in_parts
    )

    def replica(batch: Batch, step: tf.Tensor) -> Sums:
        first_row = devices.replica() * batch.ids.shape[0]
        masked = objective.draw(batch.ids, batch.mask, (objective.seed, step), first_row, num_rows)
        counts = tf.stack([tf.reduce_sum(masked.weights), tf.reduce_sum(tf.cast(batch.mask[:, 0], tf.float32))])
        predictions, rows = tf.unstack(devices.total(counts))
        given, found = compute(batch, masked, predictions, rows)
        if ours:  # before float16's scaling looks whether they are finite: each replica must see the same
            given = devices.total(given)
        optimizer.apply(given, variables)
        return Sums(*tf.unstack(devices.total(tf.stack(found))))

    @tf.function(jit_compile=jit_compile and devices.replicas == 1, autograph=False)
    def whole(batch: Batch, step: tf.Tensor) -> Sums:
        return devices.run(replica, (batch, step))

    return lambda batch, step: whole(Batch(*devices.split(list(batch))), tf.constant(step, tf.int64))


def make_evaluation(model: keras.Model, objective: Objective) -> Callable[[Batch, int], tuple[Sums, tf.Tensor]]:
    """A function of (batch, its number) → its sums, and how often each token was to be predicted, int32 [V].

    The masks depend on the batch's number alone, so that evaluations can be held against each other.
    """
    size = model.config.vocab_size

    @tf.function(autograph=False)
    def evaluate(batch: Batch, number: tf.Tensor) -> tuple[Sums, tf.Tensor]:
        masked = objective.draw(batch.ids, batch.mask, (EVALUATION_SEED, number), 0, batch.ids.shape[0])
        labels = tf.boolean_mask(masked.labels, masked.weights > 0)
        found = forward(model, batch, masked, objective.nsp, training=False)
        return found, tf.math.bincount(labels, minlength=size, maxlength=size)

    return lambda batch, number: evaluate(batch, tf.constant(number, tf.int64))


def forward(model: keras.Model, batch: Batch, masked: Masked, nsp: bool, training: bool) -> Sums:
    """The model on some rows, and the sums of its losses (paper, 3.1: each loss is a mean; the means are added up)."""
    inputs = dict(zip(INPUT_NAMES, (masked.input_word_ids, batch.mask, batch.types), strict=True))
    outputs = model({**inputs, "masked_lm_positions": masked.positions}, training=training)
    real = tf.cast(batch.mask[:, 0], tf.float32)  # rows that only pad the batch do not count
    tokens = tf.reduce_sum(tf.cast(batch.mask, tf.float32))
    mlm_loss, mlm_correct = weighed(outputs["mlm_logits"], masked.labels, masked.weights)
    zero = tf.zeros(())
    nsp_loss, nsp_correct = weighed(outputs["nsp_logits"], batch.labels, real) if nsp else (zero, zero)
    predictions = tf.reduce_sum(masked.weights)
    return Sums(mlm_loss, mlm_correct, predictions, nsp_loss, nsp_correct, tf.reduce_sum(real), tokens)


def weighed(logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The sum of the cross-entropies, and how many are right."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    right = tf.cast(tf.argmax(logits, -1, tf.int32) == labels, tf.float32)
    return tf.reduce_sum(losses * weights), tf.reduce_sum(right * weights)


def added(sums: Sequence[Sums]) -> Sums:
    """Totals, exact to the last bit."""
    columns = zip(*sums, strict=True)
    return Sums(*[math.fsum(map(float, column)) for column in columns])
