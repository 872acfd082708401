"""A tokenizer from the files of a checkpoint directory: vocab.txt or tokenizer.json, and tokenizer_config.json."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_bert.config import Config
from keras_bert.text.directory import looks_lower_cased
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary

VOCABULARY, OPTIONS, FAST = "vocab.txt", "tokenizer_config.json", "tokenizer.json"
FILES = (VOCABULARY, OPTIONS, FAST, "special_tokens_map.json", "added_tokens.json")
CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "PreTrainedTokenizer", "TokenizersBackend")
log = logging.getLogger("keras_bert")


def read_tokenizer(folder: Path, config: Config, text: Mapping[str, Any]) -> Tokenizer | None:
    """The tokenizer of a checkpoint directory; None where it has no vocabulary.

    Where the files do not say whether letters are lowered, the vocabulary does: one with capitals is cased.

    Args:
        folder: the directory.
        config: what the vocabulary must fit.
        text: options that transformers' files have no key for (`special_tokens_in_text`), from keras_bert.json.

    Raises:
        ValueError: it is another kind of tokenizer, a file is damaged, or there are more tokens than embeddings.
    """
    fast = read_object(folder / FAST)
    options = options_of_fast(fast, folder / FAST) | options_of_config(read_object(folder / OPTIONS), folder / OPTIONS)
    if (folder / VOCABULARY).is_file():
        path, vocabulary = folder / VOCABULARY, Vocabulary.from_file(folder / VOCABULARY)
    elif fast:
        path, vocabulary = folder / FAST, vocabulary_of_fast(fast, folder / FAST)
    else:
        return None
    check_vocabulary(vocabulary, config, str(path))
    uncased = looks_lower_cased(vocabulary)
    if options.setdefault("lower_case", uncased) and not uncased:
        log.warning("%s: the vocabulary has capitals, but the tokenizer's files say that texts are lowered", folder)
    return Tokenizer(vocabulary, **options, special_tokens_in_text=bool(text.get("special_tokens_in_text", False)))


def check_vocabulary(vocabulary: Vocabulary, config: Config, where: str) -> None:
    """Raises ValueError where a token's id would lie beyond the embedding table."""
    if len(vocabulary) > config.vocab_size:
        raise ValueError(
            f"{where}: {len(vocabulary)} tokens, expected at most {config.vocab_size} (vocab_size): vocabulary and "
            f"weights are not of one model; use the vocabulary that came with the weights"
        )


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object from a file; empty where there is no such file."""
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: expected JSON, {error}; download or write the file again") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: expected a JSON object, got {type(found).__name__}")
    return found


def options_of_config(keys: Mapping[str, Any], path: Path) -> dict[str, Any]:
    kind = keys.get("tokenizer_class") or "BertTokenizer"
    if str(kind).removesuffix("Fast") not in CLASSES:
        raise ValueError(
            f"{path}: tokenizer_class is {kind!r}, expected BertTokenizer: another kind cuts texts otherwise"
        )
    if keys.get("do_basic_tokenize") is False or keys.get("never_split"):
        raise ValueError(f"{path}: do_basic_tokenize off or never_split are not supported; expected BERT's own rules")
    named = {"do_lower_case": "lower_case", "strip_accents": "strip_accents", "tokenize_chinese_chars": "split_chinese"}
    return {ours: keys[theirs] for theirs, ours in named.items() if keys.get(theirs) is not None}


def options_of_fast(fast: Mapping[str, Any], path: Path) -> dict[str, Any]:
    if not fast:
        return {}
    model, normalizer = fast.get("model") or {}, fast.get("normalizer") or {}
    found = (model.get("type", "WordPiece"), normalizer.get("type"), model.get("continuing_subword_prefix", "##"))
    if found != ("WordPiece", "BertNormalizer", "##"):
        raise ValueError(f"{path}: the tokenizer is made of {found}, expected WordPiece, BertNormalizer and '##'")
    named = {"lowercase": "lower_case", "strip_accents": "strip_accents", "handle_chinese_chars": "split_chinese"}
    return {ours: normalizer[theirs] for theirs, ours in named.items() if normalizer.get(theirs) is not None}


def vocabulary_of_fast(fast: Mapping[str, Any], path: Path) -> Vocabulary:
    ids = {str(token): index for token, index in fast["model"].get("vocab", {}).items()}
    ids |= {entry["content"]: entry["id"] for entry in fast.get("added_tokens") or ()}
    tokens = sorted(ids, key=ids.__getitem__)
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise ValueError(f"{path}: the ids of its {len(tokens)} tokens are not 0 to {len(tokens) - 1}, each once")
    return Vocabulary(tokens)
