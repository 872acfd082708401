"""A tokenizer from the files of a checkpoint directory, held against the config that they come with."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_bert.config import Config
from keras_bert.text.directory import FAST, VOCABULARY, read_settings
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary

ROUNDED = 128  # rows: tables are made longer than their vocabulary, to the next multiple of up to this
log = logging.getLogger("keras_bert")


def read_tokenizer(folder: Path, config: Config, text: Mapping[str, Any]) -> Tokenizer | None:
    """The tokenizer of a checkpoint directory; None where it has no vocabulary.

    Args:
        folder: the directory.
        config: what the vocabulary must fit.
        text: options that transformers' files have no key for (`special_tokens_in_text`), from keras_bert.json.

    Raises:
        ValueError: it is another kind of tokenizer, a file is damaged, or there are more tokens than embeddings.
    """
    path = next((folder / name for name in (VOCABULARY, FAST) if (folder / name).is_file()), None)
    if path is None:
        return None
    settings = read_settings(folder)
    check_vocabulary(settings["vocabulary"], config, str(path))
    return Tokenizer(**settings, special_tokens_in_text=bool(text.get("special_tokens_in_text", False)))


def check_vocabulary(vocabulary: Vocabulary, config: Config, where: str) -> None:
    """Raises ValueError where a token's id would lie beyond the embedding table; warns of rows that no token has."""
    if len(vocabulary) > config.vocab_size:
        raise ValueError(
            f"{where}: {len(vocabulary)} tokens, expected at most {config.vocab_size} (vocab_size): vocabulary and "
            f"weights are not of one model; use the vocabulary that came with the weights"
        )
    if len(vocabulary) + ROUNDED <= config.vocab_size:
        log.warning(
            "%s: %d tokens for a table of %d rows (vocab_size): is the file whole, and of these weights?",
            where,
            len(vocabulary),
            config.vocab_size,
        )
