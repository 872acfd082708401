"""A tokenizer's files in a directory: vocab.txt and tokenizer_config.json, or tokenizer.json, all as transformers'."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_bert.text.base import BaseTokenizer
from keras_bert.text.vocabulary import CLS, MASK, PAD, SEP, SPECIAL_TOKENS, UNK, Vocabulary

VOCABULARY, OPTIONS, FAST = "vocab.txt", "tokenizer_config.json", "tokenizer.json"
ADDED = "added_tokens.json"
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
    keys = read_object(folder / OPTIONS)
    options = options_of_fast(fast, folder / FAST) | options_of_config(keys, folder / OPTIONS)
    if fast and not (folder / VOCABULARY).is_file():
        vocabulary = vocabulary_of_fast(fast, folder / FAST)
    else:
        vocabulary = Vocabulary.from_file(folder / VOCABULARY)
    uncased = looks_lower_cased(vocabulary)
    if options.setdefault("lower_case", uncased) and not uncased:
        log.warning("%s: the vocabulary has capitals, but the tokenizer's files say that texts are lowered", folder)
    added = added_tokens(fast, keys, read_object(folder / ADDED))
    if added:
        log.warning(
            "%s: its files add %d tokens to BERT's (%s%s): transformers takes them whole wherever they stand in a "
            "text, here they are cut like other text, and such texts get other ids",
            *(folder, len(added), ", ".join(added[:3]), ", …" * (len(added) > 3)),
        )
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
    except (ValueError, RecursionError) as error:
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
    return switches(keys, named, path)


def switches(keys: Mapping[str, Any], named: Mapping[str, str], path: Path) -> dict[str, bool]:
    """The options that are set, under our names; a "false" in quotes would count as true."""
    found = {ours: keys[theirs] for theirs, ours in named.items() if keys.get(theirs) is not None}
    for theirs, ours in named.items():
        if not isinstance(found.get(ours, True), bool):
            raise ValueError(f"{path}: {theirs} is {keys[theirs]!r}, expected true, false or null; correct it")
    return found


def added_tokens(fast: Mapping[str, Any], keys: Mapping[str, Any], added: Mapping[str, Any]) -> list[str]:
    """Tokens beyond BERT's special ones that transformers looks for in texts, from all files it may keep them in."""
    found: list[Any] = [*added, *listed(fast.get("added_tokens")), *listed(keys.get("added_tokens_decoder"))]
    for key in ("additional_special_tokens", "extra_special_tokens"):
        found += listed(keys.get(key))
    names = [token.get("content") if isinstance(token, Mapping) else token for token in found]
    return sorted({name for name in names if isinstance(name, str)} - set(SPECIAL_TOKENS))


def listed(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, list) else []


def options_of_fast(fast: Mapping[str, Any], path: Path) -> dict[str, Any]:
    if not fast:
        return {}
    model, normalizer = (fast.get(key) or {} for key in ("model", "normalizer"))
    if not isinstance(model, dict) or not isinstance(normalizer, dict):
        raise ValueError(f"{path}: expected its model and its normalizer to be JSON objects; download the file again")
    found = (model.get("type", "WordPiece"), normalizer.get("type"), model.get("continuing_subword_prefix", "##"))
    if found != ("WordPiece", "BertNormalizer", "##"):
        raise ValueError(f"{path}: the tokenizer is made of {found}, expected WordPiece, BertNormalizer and '##'")
    named = {"lowercase": "lower_case", "strip_accents": "strip_accents", "handle_chinese_chars": "split_chinese"}
    return switches(normalizer, named, path)


def vocabulary_of_fast(fast: Mapping[str, Any], path: Path) -> Vocabulary:
    try:
        ids = {str(token): int(index) for token, index in fast["model"]["vocab"].items()}
        ids |= {str(entry["content"]): int(entry["id"]) for entry in fast.get("added_tokens") or ()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: expected a model.vocab of tokens to ids, and added_tokens with content and id ({error!r}); "
            "download the file again"
        ) from None
    tokens = sorted(ids, key=ids.__getitem__)
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise ValueError(f"{path}: the ids of its {len(tokens)} tokens are not 0 to {len(tokens) - 1}, each once")
    return Vocabulary(tokens)
