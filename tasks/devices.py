"""Where a training runs: one device, all of this machine, several machines or a TPU; one code path for each of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf


class Devices:
    """A `tf.distribute` strategy, and what a loop of our own needs of it.

    A replica is one device with its own copy of the model; it works on its share of the rows of a global batch.
    """

    def __init__(self, strategy: tf.distribute.Strategy | None = None) -> None:
        self.strategy = tf.distribute.get_strategy() if strategy is None else strategy
        self.replicas: int = self.strategy.num_replicas_in_sync

    @classmethod
    def open(cls, name: str) -> Devices:
        """The devices that `--strategy` names.

        Raises:
            ValueError: there are none of that kind.
        """
        return cls(STRATEGIES[name]())

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Models and optimisers made inside it have their variables on every replica."""
        return self.strategy.scope()

    @property
    def accelerated(self) -> bool:
        """Whether the work is done by GPUs or TPUs, for which XLA compiles a step that is faster."""
        return any(tf.config.list_logical_devices(kind) for kind in ("GPU", "TPU"))

    def split(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        """Arrays of all rows → what `run` takes: each replica's rows, which are as many for each."""
        if self.replicas == 1:
            return tuple(tf.convert_to_tensor(array) for array in arrays)
        return tuple(self.split_one(array) for array in arrays)

    def split_one(self, array: np.ndarray) -> Any:
        size = len(array) // self.replicas

        def rows(context: Any) -> tf.Tensor:
            first = context.replica_id_in_sync_group * size
            return tf.convert_to_tensor(array[first : first + size])

        return self.strategy.experimental_distribute_values_from_function(rows)

    def run(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """In a graph: the function on every replica; returns what the first one here gave."""
        if self.replicas == 1:
            return function(*arguments)
        given = self.strategy.run(function, args=tuple(arguments))
        return tf.nest.map_structure(lambda value: self.strategy.experimental_local_results(value)[0], given)

    def replica(self) -> int | tf.Tensor:
        """Inside `run`: this replica's number."""
        return 0 if self.replicas == 1 else tf.distribute.get_replica_context().replica_id_in_sync_group

    def total(self, values: Any) -> Any:
        """Inside `run`: tensors' sums over all replicas."""
        if self.replicas == 1:
            return values
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)


def mirrored() -> tf.distribute.Strategy:
    """All GPUs of this machine; without any, its logical CPUs."""
    devices = [device.name for device in tf.config.list_logical_devices("GPU")]
    devices = devices or [device.name for device in tf.config.list_logical_devices("CPU")]
    return tf.distribute.MirroredStrategy(devices)


STRATEGIES: dict[str, Callable[[], tf.distribute.Strategy | None]] = {
    "one_device": lambda: None,
    "mirrored": mirrored,
}
