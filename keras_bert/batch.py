"""What a batch holds: the three input tensors under TF Hub's names, and the next-sentence labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import tensorflow as tf

IS_NEXT = 0  # B follows A: the label 0 of google-research/bert and of transformers
NOT_NEXT = 1

INPUT_NAMES = ("input_word_ids", "input_mask", "input_type_ids")


class Inputs(TypedDict):
    """An encoder's inputs, int32 [B, S] each (TF Hub's text API): token ids, 1 for a real token, segment."""

    input_word_ids: tf.Tensor
    input_mask: tf.Tensor | None
    input_type_ids: tf.Tensor | None
