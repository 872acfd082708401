"""The encoder: Config → a functional Keras model (paper, section 3)."""

from __future__ import annotations

from typing import Any

import keras

from keras_bert.batch import INPUT_NAMES
from keras_bert.config import Config
from keras_bert.layers import AttentionBias, Block, Embeddings, Pooler
from keras_bert.layers.checks import clear_errors


def build_encoder(
    config: Config, *, attention_scores: bool = False, dtype: str | None = None, name: str = "encoder"
) -> keras.Model:
    """BERT's encoder with fresh weights, as a functional model.

    Inputs, int32 [B,S]: `input_word_ids`, `input_mask` (1 = real token; None: every id but the pad id is real) and
    `input_type_ids` (None: all 0).
    Outputs: `sequence_output` [B,S,H], `pooled_output` [B,H], `encoder_outputs` (a list of L, each [B,S,H]) and, with
    `attention_scores`, the attention probabilities under that name (a list of L, each [B,A,S,S]).

    Args:
        config: the numbers of the model; honoured whole.
        attention_scores: also give the attention probabilities.
        dtype: "float32", "mixed_bfloat16" or "mixed_float16"; None is Keras's own policy.
        name: the model's name, by which a head's `get_layer` finds it.

    Raises:
        ValueError: when called or fitted, an id, a type or the length is beyond its table.
    """
    inputs = encoder_inputs()
    ids, mask, types = (inputs[key] for key in INPUT_NAMES)
    bias = AttentionBias(config, name="attention_bias", dtype=dtype)(ids, mask)
    x = Embeddings(config, name="embeddings", dtype=dtype)(ids, types)
    states: list[keras.KerasTensor] = []
    scores: list[keras.KerasTensor] = []
    for index in range(config.num_hidden_layers):
        block = Block(config, attention_scores, name=f"block_{index}", dtype=dtype)
        x, *probabilities = block(x, bias) if attention_scores else [block(x, bias)]
        states.append(x)
        scores.extend(probabilities)
    outputs: dict[str, Any] = {
        "sequence_output": x,
        "pooled_output": Pooler(config, name="pooler", dtype=dtype)(x),
        "encoder_outputs": states,
    }
    if attention_scores:
        outputs["attention_scores"] = scores
    return Encoder(inputs, outputs, name=name)


def encoder_inputs() -> dict[str, keras.KerasTensor]:
    """The three symbolic inputs, int32 [B,S]; mask and types may be None."""
    return {key: keras.Input((None,), dtype="int32", name=key, optional=key != "input_word_ids") for key in INPUT_NAMES}


class CheckedModel(keras.Model):
    """A functional model whose fit, evaluate and predict report bad ids and lengths as one ValueError."""

    def fit(self, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        try:
            with clear_errors():
                return super().fit(*args, **kwargs)
        except Exception:
            # Half traced: kept, it would refuse to create the optimiser's variables when fit is called on good rows.
            self.train_function = None
            raise

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        with clear_errors():
            return super().evaluate(*args, **kwargs)

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        with clear_errors():
            return super().predict(*args, **kwargs)


@keras.saving.register_keras_serializable("keras_bert")
class Encoder(CheckedModel):
    """A functional model that knows its Config."""

    @property
    def config(self) -> Config:
        return self.get_layer("embeddings").config
