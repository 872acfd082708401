"""KerasHub's BertBackbone, in memory or as a preset directory, both ways.

KerasHub always computes gelu's tanh approximation and LayerNorm with epsilon 1e-12: what comes from there has
`hidden_act: gelu_new`, and `differences` says what a model from elsewhere loses there.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_bert.checkpoint import Source, Weights
from keras_bert.config import Config
from keras_bert.convert.table import Row, dense, expand, from_canonical, norm, to_canonical
from keras_bert.convert.tokenizer_files import check_vocabulary
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    import keras

log = logging.getLogger("keras_bert")
TANH_GELU = ("gelu_new", "gelu_pytorch_tanh")


BLOCK, THEIR_BLOCK = "bert.encoder.layer.{i}", "transformer_layer_{i}"
ROWS = [
    Row("bert.embeddings.word_embeddings.weight", "token_embedding/embeddings"),
    Row("bert.embeddings.position_embeddings.weight", "position_embedding/embeddings"),
    Row("bert.embeddings.token_type_embeddings.weight", "segment_embedding/embeddings"),
    *norm("bert.embeddings.LayerNorm", "embeddings_layer_norm"),
    *dense(f"{BLOCK}.attention.self.query", f"{THEIR_BLOCK}/self_attention_layer/query"),
    *dense(f"{BLOCK}.attention.self.key", f"{THEIR_BLOCK}/self_attention_layer/key"),
    *dense(f"{BLOCK}.attention.self.value", f"{THEIR_BLOCK}/self_attention_layer/value"),
    *dense(f"{BLOCK}.attention.output.dense", f"{THEIR_BLOCK}/self_attention_layer/attention_output"),
    *norm(f"{BLOCK}.attention.output.LayerNorm", f"{THEIR_BLOCK}/self_attention_layer_norm"),
    *dense(f"{BLOCK}.intermediate.dense", f"{THEIR_BLOCK}/feedforward_intermediate_dense"),
    *dense(f"{BLOCK}.output.dense", f"{THEIR_BLOCK}/feedforward_output_dense"),
    *norm(f"{BLOCK}.output.LayerNorm", f"{THEIR_BLOCK}/feedforward_layer_norm"),
    *dense("bert.pooler.dense", "pooled_dense"),
]


def from_backbone(backbone: Any) -> tuple[Config, dict[str, np.ndarray]]:
    """A keras_hub BertBackbone's numbers and canonical weights.

    Raises:
        ValueError: it is no BertBackbone.
    """
    if type(backbone).__name__ != "BertBackbone":
        raise ValueError(
            f"expected a keras_hub BertBackbone, got {type(backbone).__name__}: only that is the same model"
        )
    config = Config(
        vocab_size=backbone.vocabulary_size,
        hidden_size=backbone.hidden_dim,
        num_hidden_layers=backbone.num_layers,
        num_attention_heads=backbone.num_heads,
        intermediate_size=backbone.intermediate_dim,
        hidden_act="gelu_new",
        hidden_dropout_prob=backbone.dropout,
        attention_probs_dropout_prob=backbone.dropout,
        max_position_embeddings=backbone.max_sequence_length,
        type_vocab_size=backbone.num_segments,
    )
    tensors = {
        variable.path: flat(variable.path, np.asarray(variable.value, np.float32)) for variable in backbone.weights
    }
    return config, to_canonical(tensors, expand(ROWS, config.num_hidden_layers))


def flat(path: str, value: np.ndarray) -> np.ndarray:
    """Heads and head size as one axis: a query's kernel [H,A,D] and an output's [A,D,H] → [H,H]; a bias [A,D] → [H]."""
    if value.ndim == 3:
        width = max(value.shape[0], value.shape[2])  # H is no less than D
        return value.reshape(width, width)
    return value.reshape(-1) if path.endswith("/bias") else value


def to_backbone(weights: Weights, config: Config) -> keras.Model:
    """A keras_hub BertBackbone with these weights.

    Raises:
        ValueError: KerasHub cannot compute the config's activation.
    """
    import keras_hub

    if config.hidden_act not in ("gelu", *TANH_GELU):
        raise ValueError(f"KerasHub computes gelu whatever the config says, expected that, got {config.hidden_act!r}")
    for note in differences(config):
        log.warning("%s", note)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        hidden_dim=config.hidden_size,
        intermediate_dim=config.intermediate_size,
        dropout=config.hidden_dropout_prob,
        max_sequence_length=config.max_position_embeddings,
        num_segments=config.type_vocab_size,
        dtype="float32",
    )
    tensors = from_canonical(weights, expand(ROWS, config.num_hidden_layers))
    for variable in backbone.weights:
        variable.assign(tensors[variable.path].reshape(variable.shape))
    return backbone


def differences(config: Config) -> list[str]:
    """What KerasHub computes otherwise than this config says."""
    notes = []
    if config.hidden_act not in TANH_GELU:
        notes.append("hidden_act is the exact gelu: KerasHub computes it by tanh (outputs differ by about 2e-3)")
    if config.layer_norm_eps != 1e-12:
        notes.append(f"layer_norm_eps is {config.layer_norm_eps}: KerasHub computes with 1e-12")
    if config.attention_probs_dropout_prob != config.hidden_dropout_prob:
        notes.append(f"KerasHub has one dropout rate: {config.hidden_dropout_prob} for attention too")
    return notes


def read(preset: str, where: str) -> Source:
    """A preset's backbone and tokenizer; its files come from KerasHub's cache, or from the network.

    KerasHub's tokenizer keeps accents where BERT's strips them: the tokenizer here is BERT's own.

    Raises:
        ValueError: it is no BERT preset.
        OSError: its files are neither here nor to be had.
    """
    import keras_hub

    config, weights = from_backbone(keras_hub.models.BertBackbone.from_preset(preset))
    theirs = keras_hub.models.BertTokenizer.from_preset(preset)
    vocabulary = Vocabulary(theirs.get_vocabulary())
    check_vocabulary(vocabulary, config, where)
    return Source(where, config, weights, Tokenizer(vocabulary, lower_case=bool(theirs.lowercase)))


def write(weights: Weights, config: Config, tokenizer: Tokenizer, folder: Path) -> None:
    """A preset directory: `keras_hub.models.BertBackbone.from_preset(folder)`, and BertTokenizer likewise."""
    import keras_hub

    lower_case = tokenizer.lower_case
    strip = lower_case if tokenizer.strip_accents is None else tokenizer.strip_accents
    to_backbone(weights, config).save_to_preset(str(folder))
    keras_hub.models.BertTokenizer(
        vocabulary=list(tokenizer.vocabulary.tokens), lowercase=lower_case, strip_accents=strip
    ).save_to_preset(str(folder))
