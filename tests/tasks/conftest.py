"""A checkpoint and rows so small that a whole training takes a moment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_bert as kb

GOOD, BAD = ["good", "fine", "liked"], ["bad", "poor", "hated"]
OTHERS = ["film", "book", "a", "the", "very", "not", ",", ".", "it", "was", "i"]
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *GOOD, *BAD, *OTHERS, "##s", "##ly"]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> Path:
    """A checkpoint directory: 3 layers, 12 wide, 3 heads, 24 tokens, no head."""
    keras.utils.set_random_seed(1)
    config = kb.Config(
        vocab_size=len(TOKENS),
        hidden_size=12,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=40,
        initializer_range=0.2,
    )
    folder = tmp_path_factory.mktemp("tiny") / "model"
    kb.save(kb.Bert(kb.build_encoder(config), kb.Tokenizer(TOKENS), max_length=40), folder)
    return folder


@pytest.fixture(scope="session")
def rows(tmp_path_factory) -> Callable[..., str]:
    """`rows(70, seed=1)` writes a TSV file of that many sentences, whose label depends on their words."""
    folder = tmp_path_factory.mktemp("rows")

    def write(count: int, seed: int = 0, score: bool = False, pair: bool = False) -> str:
        rng = np.random.default_rng(seed)
        lines = ["text\tpair\tlabel" if pair else "text\tlabel"]
        for _ in range(count):
            good = rng.random() < 0.6
            words = [*rng.choice(GOOD if good else BAD, rng.integers(1, 4)), *rng.choice(OTHERS, rng.integers(0, 15))]
            words = rng.permutation(words)
            value = sum(word in GOOD for word in words) - sum(word in BAD for word in words)
            cells = [" ".join(words)] + ([" ".join(rng.permutation(words))] if pair else [])
            lines.append("\t".join([*cells, f"{value:.1f}" if score else ("pos" if good else "neg")]))
        path = folder / f"{count}-{seed}-{score}-{pair}.tsv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def last_line(capsys) -> Callable[[], dict]:
    """The JSON line that a command ended with."""

    def read() -> dict:
        return json.loads(capsys.readouterr().out.strip().splitlines()[-1])

    return read
