"""What a training will take, before it starts: memory by arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from keras_bert.config import Config

FLOAT = 4  # bytes


@dataclass(frozen=True)
class Memory:
    """Bytes that a training step holds at once.

    Attributes:
        weights: in float32, under every dtype.
        optimizer: AdamW's two moments, the gradients, and their sums where a batch is computed in parts.
        activations: what the backward pass needs of the forward pass, and the logits; an estimate.
    """

    weights: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        return self.weights + self.optimizer + self.activations


def pretraining_memory(
    config: Config, num_weights: int, rows: int, length: int, predictions: int, dtype: str, parts: int = 1
) -> Memory:
    """Memory of a pre-training step on one device.

    Args:
        num_weights: of the model with its heads.
        rows: that are computed at once.
        length: S.
        predictions: M.
    """
    size = FLOAT if dtype == "float32" else FLOAT // 2
    hidden, inner, heads = config.hidden_size, config.intermediate_size, config.num_attention_heads
    # a token's numbers in a block: query, key, value as they come and as they are multiplied, the mixed values, the two
    # outputs with their dropout and residual, both norms; twice the feed-forward's inside; scores, probabilities and
    # those after dropout
    block = 16 * hidden + 3 * inner + 3 * heads * length
    states = rows * length * (config.num_hidden_layers * block + 4 * hidden) * size
    logits = 3 * rows * predictions * config.vocab_size * FLOAT  # logits, probabilities, gradient
    copies = 3 if parts == 1 else 4
    return Memory(num_weights * FLOAT, copies * num_weights * FLOAT, states + logits)


def available_memory() -> int | None:
    """Bytes that this machine has left, or None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found = dict(line.split(":", 1) for line in file)
        return int(found["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def in_words(size: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
