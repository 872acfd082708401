"""AdamW as BERT is fine-tuned with it, and its learning-rate schedule (paper, appendix A.2 and A.3)."""

from __future__ import annotations

import re
from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("keras_bert")
class WarmupThenLinear(keras.optimizers.schedules.LearningRateSchedule):
    """See `warmup_then_linear`."""

    def __init__(self, peak: float, warmup_steps: int, total_steps: int) -> None:
        if total_steps < 1 or warmup_steps < 0 or warmup_steps > total_steps:
            raise ValueError(
                f"warmup_steps must lie from 0 to total_steps, and total_steps be at least 1: "
                f"got warmup_steps {warmup_steps} and total_steps {total_steps}"
            )
        self.peak, self.warmup_steps, self.total_steps = peak, warmup_steps, total_steps

    def __call__(self, step: tf.Tensor | int) -> tf.Tensor:
        step = tf.cast(step, tf.float32)
        rising = step / max(1, self.warmup_steps)
        falling = (self.total_steps - step) / max(1, self.total_steps - self.warmup_steps)
        return self.peak * tf.maximum(0.0, tf.where(step < self.warmup_steps, rising, falling))

    def get_config(self) -> dict:
        return {"peak": self.peak, "warmup_steps": self.warmup_steps, "total_steps": self.total_steps}


def warmup_then_linear(
    peak: float, warmup_steps: int, total_steps: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Learning rate by step (optimiser updates, not batches): 0 → peak → 0, linear on both sides (paper, A.2).

    Raises:
        ValueError: warmup_steps exceeds total_steps.
    """
    return WarmupThenLinear(peak, warmup_steps, total_steps)


@keras.saving.register_keras_serializable("keras_bert")
class AdamW(keras.optimizers.Optimizer):
    """See `adamw`, which makes one with BERT's numbers."""

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 5e-5,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        bias_correction: bool = True,
        layer_decay: float = 1.0,
        name: str = "adamw",
        **kwargs: Any,
    ) -> None:
        if not 0 < layer_decay <= 1:
            raise ValueError(f"layer_decay must be above 0 and at most 1: got {layer_decay}")
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.decay_rate = weight_decay  # not `weight_decay`: Keras would decay in a pass of its own
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.bias_correction, self.layer_decay = bias_correction, layer_decay
        self.reduces = True  # gradients over replicas; False: whoever calls `apply` has summed them up

    def build(self, variables: list[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self.momentums, self.velocities = self.add_optimizer_variables(variables, ["momentum", "velocity"])
        paths = [variable.path for variable in variables]
        depth = 2 + max((block_of(path) or 0 for path in paths), default=0)
        self.decays = [0.0 if NO_DECAY.search(path) else self.decay_rate for path in paths]
        self.scales = [self.layer_decay ** (depth - depth_of(path, depth)) for path in paths]

    def _get_current_learning_rate(self) -> tf.Tensor | keras.Variable:
        if isinstance(self._learning_rate, keras.optimizers.schedules.LearningRateSchedule):
            return self._learning_rate(self.iterations)  # updates; Keras 3.15 counts the batches that it accumulates
        return super()._get_current_learning_rate()

    def _clip_gradients(self, gradients: list[tf.Tensor | None]) -> list[tf.Tensor | None]:
        # Dense first: the norm of the word table's slices counts a token apart each time it stands in the batch.
        gradients = [gradient if gradient is None else tf.convert_to_tensor(gradient) for gradient in gradients]
        gradients = self._sum_over_replicas(gradients)
        if not self.global_clipnorm:
            return gradients
        norm = tf.linalg.global_norm([gradient for gradient in gradients if gradient is not None])
        scale = self.global_clipnorm / tf.maximum(norm, self.global_clipnorm)
        return [gradient if gradient is None else gradient * tf.cast(scale, gradient.dtype) for gradient in gradients]

    def _sum_over_replicas(self, gradients: list[tf.Tensor | None]) -> list[tf.Tensor | None]:
        # Before they are clipped: Keras clips each replica's own, and the step would depend on how many there are.
        # With one replica there is nothing to sum, and TensorFlow's all_reduce registers a gradient function for good,
        # which keeps the graph and its variables: memory would grow with every model that is fitted.
        if not self.reduces or tf.distribute.get_strategy().num_replicas_in_sync == 1:
            return gradients
        given = [gradient for gradient in gradients if gradient is not None]
        summed = iter(tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, given))
        return [gradient if gradient is None else next(summed) for gradient in gradients]

    def _all_reduce_sum_gradients(self, grads_and_vars: list[tuple]) -> list[tuple]:
        return grads_and_vars  # summed before they were clipped

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor) -> None:
        index = self._get_variable_index(variable)
        handle = variable.handle
        dtype = variable.dtype
        rate = tf.cast(learning_rate, dtype) * self.scales[index]
        if self.decays[index]:
            # Scaled down before the Adam step, as Loshchilov and Hutter decouple it (arXiv 1711.05101) and torch does.
            with tf.control_dependencies([gradient]):  # never for a step whose forward pass fails on bad ids
                variable.assign(variable * (1 - rate * self.decays[index]))
        step = tf.cast(self.iterations + 1, dtype)
        power_1, power_2 = tf.pow(tf.cast(self.beta_1, dtype), step), tf.pow(tf.cast(self.beta_2, dtype), step)
        if not self.bias_correction:
            power_1 = power_2 = tf.zeros((), dtype)
        # The kernel adds epsilon to the root of the uncorrected second moment; scaling it puts it beside the corrected.
        tf.raw_ops.ResourceApplyAdam(
            var=handle,
            m=self.momentums[index].value.handle,
            v=self.velocities[index].value.handle,
            beta1_power=power_1,
            beta2_power=power_2,
            lr=rate,
            beta1=tf.cast(self.beta_1, dtype),
            beta2=tf.cast(self.beta_2, dtype),
            epsilon=self.epsilon * tf.sqrt(1 - power_2),
            grad=tf.cast(gradient, dtype),
            use_locking=False,
        )

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "weight_decay": self.decay_rate,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "bias_correction": self.bias_correction,
            "layer_decay": self.layer_decay,
        }


def adamw(
    learning_rate: float = 5e-5,
    *,
    total_steps: int | None = None,
    warmup_steps: int = 0,
    weight_decay: float = 0.01,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
    clip_norm: float | None = 1.0,
    bias_correction: bool = True,
    layer_decay: float = 1.0,
    gradient_accumulation_steps: int | None = None,
) -> keras.optimizers.Optimizer:
    """Adam with decoupled weight decay, as BERT uses it: no decay on LayerNorm and biases, gradients clipped.

    Args:
        learning_rate: the peak (paper: 5e-5, 4e-5, 3e-5 or 2e-5 for fine-tuning, 1e-4 for pre-training).
        total_steps: optimiser updates until the rate has fallen to 0; None keeps the rate constant after warm-up.
        warmup_steps: updates over which the rate rises from 0.
        weight_decay: share of a weight taken off per update, times the rate.
        beta_1, beta_2, epsilon: Adam's numbers; epsilon is google-research/bert's.
        clip_norm: the global norm that gradients are scaled down to; None does not clip.
        bias_correction: Adam's own correction of young moments; google-research/bert's optimiser leaves it out.
        layer_decay: the rate of a layer is that of the layer above it times this (1.0: one rate for all);
            the head has the full rate, the last block the next, the embeddings the smallest.
        gradient_accumulation_steps: batches whose mean gradient makes one update; None is 1.

    Raises:
        ValueError: a number out of its range.
    """
    rate: float | keras.optimizers.schedules.LearningRateSchedule = learning_rate
    if total_steps is not None:
        rate = warmup_then_linear(learning_rate, warmup_steps, total_steps)
    elif warmup_steps:
        raise ValueError(f"warmup_steps {warmup_steps} needs total_steps, the number of updates to the end of training")
    return AdamW(
        learning_rate=rate,
        weight_decay=weight_decay,
        beta_1=beta_1,
        beta_2=beta_2,
        epsilon=epsilon,
        global_clipnorm=clip_norm,
        bias_correction=bias_correction,
        layer_decay=layer_decay,
        gradient_accumulation_steps=gradient_accumulation_steps,
    )


NO_DECAY = re.compile(r"(^|/)(bias|gamma|beta)$")  # biases and LayerNorm (google-research/bert: optimization.py)
BLOCK = re.compile(r"(^|/)block_(\d+)/")


def block_of(path: str) -> int | None:
    """The number of the block that a variable's path lies in, or None."""
    found = BLOCK.search(path)
    return int(found[2]) if found else None


def depth_of(path: str, depth: int) -> int:
    """How far up a variable lies: embeddings 0, block i at i + 1, pooler and head at `depth`."""
    block = block_of(path)
    if block is not None:
        return block + 1
    return 0 if re.search(r"(^|/)embeddings/", path) else depth
