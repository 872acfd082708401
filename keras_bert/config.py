"""Config: every number that makes one BERT differ from another, under the names of BERT's own config.json."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ATTENTIONS = ("full", "causal")
HIDDEN_ACTS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish", "tanh")


@dataclass(frozen=True, kw_only=True)
class Config:
    """BERT's numbers (paper, section 3), named as in the released config.json; the defaults are BERT-base, uncased.

    Raises:
        ValueError: a number is out of its range, or two of them do not fit each other.
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0
    attention: str = "full"  # or "causal": each token sees those before it (paper, 5.1; transformers' is_decoder)

    def __post_init__(self) -> None:
        for name in COUNTS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"{name} must be a whole number of at least 1: got {value!r}; correct it in the config"
                )
        for name in RATES:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
                raise ValueError(f"{name} must be a number from 0 up to, not including, 1: got {value!r}")
        for name in ("initializer_range", "layer_norm_eps"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ValueError(f"{name} must be a number above 0: got {value!r}")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size must be a multiple of num_attention_heads: got {self.hidden_size} and "
                f"{self.num_attention_heads}; change one of them in the config"
            )
        if self.hidden_act not in HIDDEN_ACTS:
            raise ValueError(f"hidden_act must be one of {', '.join(HIDDEN_ACTS)}: got {self.hidden_act!r}")
        if self.attention not in ATTENTIONS:
            raise ValueError(f"attention must be one of {', '.join(ATTENTIONS)}: got {self.attention!r}")
        pad = self.pad_token_id
        if isinstance(pad, bool) or not isinstance(pad, int) or not 0 <= pad < self.vocab_size:
            raise ValueError(
                f"pad_token_id must be a row of the vocabulary, 0 to {self.vocab_size - 1}: got {self.pad_token_id!r}"
            )

    @classmethod
    def base(cls, **changes: Any) -> Config:
        """BERT-base, uncased: 12 layers, 768 wide, 12 heads; 109,482,240 weights (paper, section 3)."""
        return cls(**changes)

    @classmethod
    def large(cls, **changes: Any) -> Config:
        """BERT-large, uncased: 24 layers, 1024 wide, 16 heads; 335,141,888 weights (paper, section 3)."""
        numbers = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
        return cls(**(numbers | changes))

    @classmethod
    def tiny(cls, **changes: Any) -> Config:
        """BERT-tiny: 2 layers, 128 wide, 2 heads (Turc et al., arXiv 1908.08962), for tests and first tries."""
        numbers = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512}
        return cls(**(numbers | changes))

    @classmethod
    def from_dict(cls, keys: Mapping[str, Any], where: str = "config") -> Config:
        """A Config from the keys of a config.json; keys that do not change the encoder are passed over.

        Raises:
            ValueError: a key asks for a model that is not BERT, or a needed key is missing.
        """
        for key, plain in NOT_BERT_UNLESS.items():
            if key in keys and keys[key] not in plain:
                expected = " or ".join(repr(value) for value in plain)
                raise ValueError(
                    f"{where}: {key} is {keys[key]!r}, expected {expected}: this is not a plain BERT encoder and "
                    f"would give other numbers here; use a checkpoint with model_type 'bert' and absolute positions"
                )
        known = {field.name for field in dataclasses.fields(cls)}
        missing = sorted(set(COUNTS) - {"type_vocab_size", "max_position_embeddings"} - set(keys))
        if missing:
            raise ValueError(f"{where}: expected the keys of BERT's config.json, got none of {', '.join(missing)}")
        if keys.get("is_decoder"):
            keys = {**keys, "attention": "causal"}
        try:
            return cls(**{key: value for key, value in keys.items() if key in known and value is not None})
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """A Config from a config.json (transformers) or bert_config.json (Google).

        Raises:
            ValueError: the file is not JSON, or not a BERT's; the message names the file and the key.
            FileNotFoundError: there is no such file.
        """
        with open(path, encoding="utf-8") as file:
            try:
                keys = json.load(file)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{os.fspath(path)}: expected JSON, {error}") from None
        if not isinstance(keys, dict):
            raise ValueError(f"{os.fspath(path)}: expected a JSON object of config keys, got {type(keys).__name__}")
        return cls.from_dict(keys, where=os.fspath(path))

    def to_dict(self) -> dict[str, Any]:
        """The keys of a config.json, as plain Python values."""
        return dataclasses.asdict(self)

    def num_weights(self) -> int:
        """The exact count of the encoder's weights: embeddings, blocks and pooler, without any head."""
        hidden, inner = self.hidden_size, self.intermediate_size
        rows = self.vocab_size + self.max_position_embeddings + self.type_vocab_size
        block = 4 * (hidden * hidden + hidden) + 2 * hidden * inner + inner + hidden + 4 * hidden
        return rows * hidden + 2 * hidden + self.num_hidden_layers * block + hidden * hidden + hidden

    def estimated_num_weights(self) -> int:
        """The usual rule of thumb, V·H + 12·L·H² (it takes F = 4H and leaves out positions, types, biases, pooler)."""
        return self.vocab_size * self.hidden_size + 12 * self.num_hidden_layers * self.hidden_size**2


COUNTS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
RATES = ("hidden_dropout_prob", "attention_probs_dropout_prob")
NOT_BERT_UNLESS: dict[str, tuple[Any, ...]] = {
    "model_type": ("bert", None),
    "position_embedding_type": ("absolute", None),
    "add_cross_attention": (False, None),
}
