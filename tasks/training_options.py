"""The flags of every command that trains: the recipe, and where the results go."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from keras_bert.options import Group, at_least_1, option, required


@dataclass(frozen=True, kw_only=True)
class DtypeOptions(Group):
    """The numbers:"""

    dtype: Literal["auto", "float32", "mixed_bfloat16", "mixed_float16"] = option(
        "auto", "type the layers compute in; auto is float32, which keeps the published numbers"
    )

    @property
    def compute_dtype(self) -> str:
        return "float32" if self.dtype == "auto" else self.dtype


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(Group):
    """The devices:"""

    strategy: Literal["one_device", "mirrored"] = option("one_device", "how to spread the work")


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Group):
    """The training:"""

    epochs: int = option(3, "times over the train rows")
    steps: int | None = option(None, "stop after this many optimiser steps, whatever --epochs says")
    batch_size: int = option(32, "rows an optimiser step learns from")
    accumulation_steps: int = option(1, "compute each batch in this many parts: the same step in less memory")
    learning_rate: float = option(5e-5, "peak learning rate, reached after warm-up")
    warmup_share: float = option(0.1, "share of all steps over which the rate rises from 0, to fall again to 0")
    weight_decay: float = option(0.01, "decoupled weight decay; none on LayerNorm and biases")
    clip_norm: float = option(1.0, "global norm that gradients are scaled down to")
    dropout: float | None = option(None, "rate of every dropout; not given: as the checkpoint's config says (0.1)")
    layer_decay: float = option(1.0, "each layer's rate is that of the layer above times this")
    freeze_layers: int = option(0, "leave the embeddings and the first N blocks as they are")
    bucket: bool = option(True, "batches of rows of like length: less padding")
    seed: int = option(42, "of the new head, the order of rows and dropout")
    keep: Literal["best", "last"] = option("best", "which epoch's weights to keep, by the evaluation's first metric")
    early_stop: int = option(0, "stop after this many epochs without a better evaluation; 0: never")
    strategy: Literal["one_device"] = option("one_device", "how to spread the work")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_1(self, "epochs", "steps", "batch_size", "accumulation_steps")
        for name in ("freeze_layers", "early_stop", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"--{name} must not be below 0: got {getattr(self, name)}")
        for name in ("learning_rate", "clip_norm"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"--{name} must be above 0: got {getattr(self, name)}")
        if not 0 <= self.warmup_share <= 1:
            raise ValueError(f"--warmup_share must lie from 0 to 1: got {self.warmup_share}")
        if not 0 < self.layer_decay <= 1:
            raise ValueError(f"--layer_decay must be above 0 and at most 1: got {self.layer_decay}")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout must lie from 0 up to, not including, 1: got {self.dropout}")
        if self.accumulation_steps > self.batch_size:
            raise ValueError(f"--accumulation_steps {self.accumulation_steps} exceeds --batch_size {self.batch_size}")


@dataclass(frozen=True, kw_only=True)
class OutputOptions(Group):
    """The output:"""

    output: str = required("directory for the checkpoint, metrics.json, history.csv, predictions and report")
    overwrite: bool = option(False, "replace what another run left in --output")
    log_every: int = option(50, "steps between two lines of progress, and two rows of history.csv")
    save_every: int | None = option(None, "steps between two saves of the state (one is made at every epoch's end too)")
    save_seconds: int = option(600, "the same in seconds, where --save_every is not given")
    tensorboard: bool = option(False, "also write the history for TensorBoard, to OUTPUT/tensorboard")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_1(self, "log_every", "save_every")
        if self.save_seconds < 0:
            raise ValueError(f"--save_seconds must not be below 0: got {self.save_seconds}")
