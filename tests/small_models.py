"""Models of two layers with lively weights, and texts as strangers send them, for tests that export and serve."""

from __future__ import annotations

import string

from keras_bert.bert import Bert
from keras_bert.config import Config
from keras_bert.encoder import build_encoder
from keras_bert.heads import build_classifier, build_regressor
from keras_bert.text.tokenizer import Tokenizer

LABELS = ('très "bon"', "neg", "中 立")  # in no order
LETTERS = [*string.ascii_lowercase, *string.digits, *",.!?;:'[]-"]
WORDS = ["the", "cat", "sat", "on", "mat", "and", "un", "##able", "##ing", "word", "##at"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{c}" for c in LETTERS[:36]), *WORDS]
MAX_LENGTH = 24
# Empty, blank, unknown, typed special tokens, far beyond MAX_LENGTH.
TEXTS = ["the cat sat on the mat!", "", "unable", " \t\n", "中文 and ελληνικά", "[CLS] word [SEP]", "word cats " * 50]


def small_bert(head: str = "classifier", paired: bool = False, dtype: str = "float32") -> Bert:
    """12 wide; weights so large that every text gets an answer of its own."""
    config = Config(
        vocab_size=len(VOCABULARY),
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=40,
        initializer_range=0.7,
    )
    encoder = build_encoder(config, dtype=dtype)
    if head == "encoder":
        return Bert(encoder, Tokenizer(VOCABULARY), None, MAX_LENGTH)
    if head == "classifier":
        return Bert(
            build_classifier(encoder, len(LABELS)), Tokenizer(VOCABULARY), LABELS, MAX_LENGTH, {"paired": paired}
        )
    return Bert(build_regressor(encoder), Tokenizer(VOCABULARY), None, MAX_LENGTH, {"paired": paired})
