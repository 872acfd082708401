"""What transformers writes for each kind of model, and what that model answers, recorded for the runs without it.

    python tests/reference_checkpoints.py      writes tests/reference/checkpoints.npz anew (needs the extra `peers`)

Weights come from names and a fixed generator (`reference.weights_for`), so that the file holds names and answers only.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import reference

FILE = reference.FOLDER / "checkpoints.npz"
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "encoder": ("BertModel", {"hidden_act": "gelu_new"}),
    "pretrainer": ("BertForPreTraining", {"layer_norm_eps": 1e-6}),
    "classifier": (
        "BertForSequenceClassification",
        {"id2label": {0: "no", 1: "yes", 2: "may be"}, "label2id": {"no": 0, "yes": 1, "may be": 2}},
    ),
    "regressor": (
        "BertForSequenceClassification",
        {"num_labels": 1, "type_vocab_size": 3, "problem_type": "regression"},
    ),
}
BATCH = reference.batch_for(reference.SMALL)
ANSWERS = {
    "encoder": ("last_hidden_state", "pooler_output"),
    "pretrainer": ("prediction_logits", "seq_relationship_logits"),
    "classifier": ("logits",),
    "regressor": ("logits",),
}


def record() -> None:
    arrays = {}
    for head, (kind, changes) in KINDS.items():
        config, shapes, answers = from_transformers(kind, {**reference.SMALL, **changes}, ANSWERS[head])
        told = json.dumps({"config": config, "shapes": shapes})
        arrays |= {f"{head}/told": np.array(told)} | {f"{head}/{name}": value for name, value in answers.items()}
    np.savez_compressed(FILE, **arrays)
    print(f"{FILE}: {FILE.stat().st_size:,} bytes")


def from_transformers(kind: str, config: dict[str, Any], names: tuple[str, ...]) -> tuple[dict, dict, dict]:
    """The config.json and the names and shapes that save_pretrained writes, and the answers to BATCH."""
    import torch
    import transformers
    from safetensors.numpy import load_file, save_file

    cls = getattr(transformers, kind)
    with tempfile.TemporaryDirectory() as folder:
        cls(transformers.BertConfig(**config)).save_pretrained(folder)
        written = Path(folder, "model.safetensors")
        shapes = {name: list(value.shape) for name, value in load_file(written).items()}
        save_file(reference.weights_for({n: tuple(s) for n, s in shapes.items()}), written, metadata={"format": "pt"})
        model = cls.from_pretrained(folder).eval()
        with torch.no_grad():
            found = model(**reference.torch_inputs(BATCH))
        keys = json.loads(Path(folder, "config.json").read_text())
    return keys, shapes, {name: getattr(found, name).numpy() for name in names}


if __name__ == "__main__":
    record()
