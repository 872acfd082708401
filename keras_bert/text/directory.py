"""A tokenizer's files in a directory: vocab.txt and tokenizer_config.json, or tokenizer.json, all as transformers'."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_bert.text.base import BaseTokenizer
from keras_bert.text.vocabulary import CLS, MASK, PAD, SEP, UNK, Vocabulary

VOCABULARY, OPTIONS, FAST = "vocab.txt", "tokenizer_config.json", "tokenizer.json"
CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "PreTrainedTokenizer", "TokenizersBackend")
log = logging.getLogger("keras_bert")


def save_tokenizer(tokenizer: BaseTokenizer, directory: str | os.PathLike[str], *, model_max_length: int) -> None:
    """Writes both files; what transformers has no key for (special_tokens_in_text) is the caller's to keep."""
    keys = {
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
    tokenizer.vocabulary.save(Path(directory) / VOCABULARY)
    text = json.dumps(keys, indent=2) + "\n"
    (Path(directory) / OPTIONS).write_text(text, encoding="utf-8", newline="\n")


def read_settings(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """Arguments for a tokenizer, from a directory of transformers, of Google or our own.

    Where the files do not say whether letters are lowered, the vocabulary does: one with capitals is cased.

    Raises:
        FileNotFoundError: there is no vocabulary in it.
        ValueError: it is another kind of tokenizer, or a file is damaged.
    """
    folder = Path(directory)
    fast = read_object(folder / FAST)
    options = options_of_fast(fast, folder / FAST) | options_of_config(read_object(folder / OPTIONS), folder / OPTIONS)
    if fast and not (folder / VOCABULARY).is_file():
        vocabulary = vocabulary_of_fast(fast, folder / FAST)
    else:
        vocabulary = Vocabulary.from_file(folder / VOCABULARY)
    uncased = looks_lower_cased(vocabulary)
    if options.setdefault("lower_case", uncased) and not uncased:
        log.warning("%s: the vocabulary has capitals, but the tokenizer's files say that texts are lowered", folder)
    return {"vocabulary": vocabulary, **options}


def looks_lower_cased(vocabulary: Vocabulary) -> bool:
    """Whether a vocabulary is uncased: at most one in a hundred of its ASCII words and pieces begins with a capital."""
    starts = [token.removeprefix("##")[:1] for token in vocabulary.tokens]
    capitals, small = (sum(first <= start <= last for start in starts) for first, last in ("AZ", "az"))
    return capitals * 100 <= capitals + small


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
