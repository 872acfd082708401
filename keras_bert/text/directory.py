"""A tokenizer's files in a checkpoint directory: transformers' vocab.txt and tokenizer_config.json."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from keras_bert.text.base import BaseTokenizer
from keras_bert.text.vocabulary import CLS, MASK, PAD, SEP, UNK, Vocabulary

VOCABULARY_FILE = "vocab.txt"
CONFIG_FILE = "tokenizer_config.json"


def save_tokenizer(tokenizer: BaseTokenizer, directory: str | os.PathLike[str], *, model_max_length: int) -> None:
    """Writes both files; what transformers has no key for (special_tokens_in_text) is the caller's to keep."""
    config = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": tokenizer.lower_case,
        "strip_accents": tokenizer.strip_accents,
        "tokenize_chinese_chars": tokenizer.split_chinese,
        "model_max_length": model_max_length,
        "pad_token": PAD,
        "unk_token": UNK,
        "cls_token": CLS,
        "sep_token": SEP,
        "mask_token": MASK,
    }
    tokenizer.vocabulary.save(Path(directory) / VOCABULARY_FILE)
    (Path(directory) / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def read_settings(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """Arguments for a tokenizer, from a directory of transformers, of Google (no tokenizer_config.json) or our own."""
    path = Path(directory) / CONFIG_FILE
    vocabulary = Vocabulary.from_file(Path(directory) / VOCABULARY_FILE)
    if not path.exists():
        return {"vocabulary": vocabulary, "lower_case": looks_lower_cased(vocabulary)}
    config = json.loads(path.read_text(encoding="utf-8"))
    return {
        "vocabulary": vocabulary,
        "lower_case": config.get("do_lower_case", True),
        "strip_accents": config.get("strip_accents"),
        "split_chinese": config.get("tokenize_chinese_chars", True),
    }


def looks_lower_cased(vocabulary: Vocabulary) -> bool:
    """Whether no token but the bracketed ones has a capital letter: what an uncased vocabulary looks like."""
    return not any(token != token.lower() for token in vocabulary.tokens if not token.startswith("["))
