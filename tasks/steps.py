"""One optimiser step: what is trained, by which optimiser, in one graph for every batch size and length."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.batch import INPUT_NAMES
from keras_bert.optimization import adamw
from keras_bert.tasks.batches import Encoded
from keras_bert.tasks.training_options import TrainingOptions

Loss = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]  # outputs and targets [B] → loss [B]


@dataclass(frozen=True)
class TrainSet:
    """N encoded rows with what to learn: `targets` [N], and `weights` float32 [N] (how much a row counts)."""

    rows: Encoded
    targets: np.ndarray
    weights: np.ndarray


def prepare(model: keras.Model, options: TrainingOptions) -> None:
    """Freezes layers and sets dropout, before the first graph is traced.

    Raises:
        ValueError: more blocks to freeze than there are.
    """
    blocks = model.config.num_hidden_layers
    if options.freeze_layers > blocks:
        raise ValueError(f"--freeze_layers {options.freeze_layers} exceeds the model's {blocks} blocks")
    if options.freeze_layers:
        names = ["embeddings", *(f"block_{index}" for index in range(options.freeze_layers))]
        for name in names:
            model.encoder.get_layer(name).trainable = False
    if options.dropout is not None:
        for layer in model._flatten_layers():
            if isinstance(layer, keras.layers.Dropout):
                layer.rate = options.dropout
                if options.dropout and not hasattr(layer, "seed_generator"):
                    layer.seed_generator = keras.random.SeedGenerator(options.seed)


def make_optimizer(model: keras.Model, options: TrainingOptions, total: int) -> Any:
    optimizer = adamw(
        options.learning_rate,
        total_steps=total,
        warmup_steps=int(options.warmup_share * total),
        weight_decay=options.weight_decay,
        clip_norm=options.clip_norm,
        layer_decay=options.layer_decay,
    )
    if model.get_layer("encoder").get_layer("embeddings").compute_dtype == "float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    return optimizer


def inner(optimizer: Any) -> Any:
    return getattr(optimizer, "inner_optimizer", optimizer)


def make_step(
    model: keras.Model, loss: Loss, optimizer: Any, parts: int, targets: tf.DType, jit_compile: bool | None = None
) -> Callable[[TrainSet, np.ndarray], float]:
    """One optimiser step on the rows of a batch, in one part or several; returns the batch's mean loss.

    One graph serves every batch size and length. A row's share of the loss is its weight by the whole batch's weight,
    so that parts add up to the same gradient.
    """
    variables = model.trainable_variables
    signature = [tf.TensorSpec([None, None], tf.int32)] * 3
    signature += [tf.TensorSpec([None], targets), tf.TensorSpec([None], tf.float32)]

    def gradients(*batch: tf.Tensor) -> tuple[tf.Tensor, list[Any]]:
        *inputs, targets, shares = batch
        with tf.GradientTape() as tape:
            outputs = model(dict(zip(INPUT_NAMES, inputs, strict=True)), training=True)
            value = tf.reduce_sum(loss(outputs, targets) * shares)
            scaled = optimizer.scale_loss(value)
        return value, tape.gradient(scaled, [variable.value for variable in variables])

    # XLA, which jit_compile=True would ask for, makes a step on CPUs 40 % slower (benchmarks/train_step.py)
    @tf.function(input_signature=None if jit_compile else signature, jit_compile=jit_compile, autograph=False)
    def whole(*batch: tf.Tensor) -> tf.Tensor:
        value, found = gradients(*batch)
        optimizer.apply(found, variables)
        return value

    if parts == 1:
        return lambda data, rows: float(whole(*arrays(data, rows, rows)))

    sums = [tf.Variable(tf.zeros(variable.shape), trainable=False) for variable in variables]

    @tf.function(input_signature=signature, autograph=False)
    def add(*batch: tf.Tensor) -> tf.Tensor:
        value, found = gradients(*batch)
        for total, gradient in zip(sums, found, strict=True):
            total.assign_add(tf.convert_to_tensor(gradient))
        return value

    @tf.function(input_signature=[], autograph=False)
    def apply() -> None:
        optimizer.apply([tf.identity(total) for total in sums], variables)
        for total in sums:
            total.assign(tf.zeros_like(total))

    def step(data: TrainSet, rows: np.ndarray) -> float:
        value = sum(float(add(*arrays(data, part, rows))) for part in np.array_split(rows, parts) if len(part))
        apply()
        return value

    return step


def arrays(data: TrainSet, part: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
    """A part of the batch `rows`: inputs, targets, and each row's share of the batch's loss."""
    inputs = data.rows.batch(part)
    total = float(data.weights[rows].sum()) or 1.0
    return [*(inputs[name] for name in INPUT_NAMES), data.targets[part], data.weights[part] / np.float32(total)]


def check_finite(value: float, step: int, optimizer: Any) -> None:
    if not math.isfinite(value):
        raise ValueError(
            f"the loss is {value} at step {step}: training stops, nothing was saved since the last good state; lower "
            f"--learning_rate (5e-5 to 2e-5 is usual), lengthen --warmup_share, or use --dtype float32, with another "
            f"--output or --overwrite"
        )
    scale = getattr(optimizer, "dynamic_scale", None)
    if scale is not None and float(scale) < 1:
        raise ValueError(
            f"float16's loss scale fell to {float(scale)} at step {step}: gradients overflow at every scale; "
            f"use --dtype mixed_bfloat16 or float32"
        )
