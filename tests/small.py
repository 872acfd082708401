"""Small models with known weights, for the checkpoint tests: uneven numbers, so that a swapped axis shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras_bert as kb
import reference
from keras_bert import checkpoint

WORDS = "the cat sat on mat a dog ran ##s ##ing walk quick ##ly , . ! is not"
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split()]
LABELS = ("no", "yes", "may be")
TEXTS = ["the cat sat on the mat .", "a dog", "the dog ran quickly , not walking !", "cats"]


def model(head: str | None, **changes: Any):
    """A head model of `reference.SMALL` with `reference.weights_for` its names."""
    config = kb.Config.from_dict({**reference.SMALL, **changes})
    encoder = kb.build_encoder(config)
    builders = {
        None: lambda: encoder,
        "classifier": lambda: kb.build_classifier(encoder, len(LABELS)),
        "regressor": lambda: kb.build_regressor(encoder),
        "pretrainer": lambda: kb.build_pretrainer(encoder),
    }
    built = builders[head]()
    shapes = {slot.name: slot.shape() for slot in checkpoint.slots(built)}
    checkpoint.assign(built, reference.weights_for(shapes))
    return built


def bert(head: str | None = None, **changes: Any) -> kb.Bert:
    built = model(head, **changes)
    labels = LABELS if head == "classifier" else None
    length = built.config.max_position_embeddings
    return kb.Bert(built, kb.Tokenizer(TOKENS), labels, max_length=length)


def saved(folder: Path, head: str | None = None, **changes: Any) -> kb.Bert:
    """The same, saved too."""
    made = bert(head, **changes)
    kb.save(made, folder)
    return made
