"""The heads: one function each, which puts a task's last layer on an encoder (paper, section 4 and appendix A)."""

from __future__ import annotations

import keras

from keras_bert.config import Config
from keras_bert.encoder import CheckedModel
from keras_bert.layers import MaskedLM
from keras_bert.layers.base import dense


@keras.saving.register_keras_serializable("keras_bert")
class HeadModel(CheckedModel):
    """A functional model of an encoder under a head: `.encoder`, `.config` and the head's name, `.head`."""

    @property
    def encoder(self) -> keras.Model:
        return self.get_layer("encoder")

    @property
    def config(self) -> Config:
        return self.encoder.config

    @property
    def head(self) -> str:
        return self.name


def build_classifier(encoder: keras.Model, num_labels: int, dropout: float | None = None) -> keras.Model:
    """One label for a text or pair, from the pooled [CLS] state: inputs [B,S] → logits [B,K] (paper, 4.1).

    Args:
        encoder: from `build_encoder`; shared, not copied.
        num_labels: K.
        dropout: on the pooled state while training; None is the config's hidden_dropout_prob.

    Raises:
        ValueError: fewer than two labels.
    """
    if num_labels < 2:
        raise ValueError(f"num_labels must be at least 2: got {num_labels}; for one number a text use build_regressor")
    logits = dense(encoder.config, num_labels, "classifier", encoder_dtype(encoder))(pooled(encoder, dropout))
    return HeadModel(encoder.input, as_float32(logits, "logits"), name="classifier")


def build_regressor(encoder: keras.Model, dropout: float | None = None) -> keras.Model:
    """One number for a text or pair, from the pooled [CLS] state: inputs [B,S] → scores [B] (paper, 4.1: STS-B)."""
    score = dense(encoder.config, 1, "regressor", encoder_dtype(encoder))(pooled(encoder, dropout))
    score = keras.layers.Reshape((), name="flat", dtype=encoder_dtype(encoder))(score)
    return HeadModel(encoder.input, as_float32(score, "score"), name="regressor")


def build_pretrainer(encoder: keras.Model) -> keras.Model:
    """Masked LM and next sentence (paper, 3.1): inputs [B,S], `masked_lm_positions` [B,M] → two logits.

    Outputs: `mlm_logits` [B,M,V], tied to the word table; `nsp_logits` [B,2], IS_NEXT = 0.
    """
    config, dtype = encoder.config, encoder_dtype(encoder)
    ids = encoder.input["input_word_ids"]
    table = encoder.get_layer("embeddings")(ids, word_table=True)
    body = type(encoder)(encoder.input, {**encoder.output, "word_table": table}, name="encoder")
    positions = keras.Input((None,), dtype="int32", name="masked_lm_positions")
    x = body(body.input)
    mlm = MaskedLM(config, name="masked_lm", dtype=dtype)(x["sequence_output"], positions, x["word_table"])
    nsp = dense(config, 2, "next_sentence", dtype)(x["pooled_output"])
    outputs = {"mlm_logits": as_float32(mlm, "mlm_logits"), "nsp_logits": as_float32(nsp, "nsp_logits")}
    return HeadModel({**body.input, "masked_lm_positions": positions}, outputs, name="pretrainer")


def pooled(encoder: keras.Model, dropout: float | None) -> keras.KerasTensor:
    """The encoder called as one layer, "encoder", so that it can be frozen, shared and found; its [B,H], dropped."""
    rate = encoder.config.hidden_dropout_prob if dropout is None else dropout
    x = encoder(encoder.input)["pooled_output"]
    return keras.layers.Dropout(rate, name="head_dropout", dtype=encoder_dtype(encoder))(x)


def encoder_dtype(encoder: keras.Model) -> keras.DTypePolicy:
    return encoder.get_layer("embeddings").dtype_policy


def as_float32(x: keras.KerasTensor, name: str) -> keras.KerasTensor:
    """Logits leave in float32 under every policy, so that losses and probabilities are computed in it."""
    return keras.layers.Activation("linear", dtype="float32", name=name)(x)
