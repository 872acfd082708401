"""The two tokenizers that the golden files are about, and their plain-Python twins."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keras_bert.text import SPECIAL_TOKENS, PythonTokenizer, Tokenizer, Vocabulary

WORDS = "all work and no play makes jack a dull boy ##s ##ing caf cafe café straße"
CHARACTERS = ", . ! ' # Σ σ ς ο é e 東 京 한 ᄒ ᅡ ᆫ i ß ﬁ x ii"


@pytest.fixture(scope="session")
def golden(shared: Path) -> Path:
    return shared / "golden" / "tokenizer"


@pytest.fixture(scope="session")
def vocabularies(shared: Path) -> dict[bool, Vocabulary]:
    """By cased."""
    folder = shared / "data" / "vocab"
    names = {False: "bert-base-uncased-vocab.txt", True: "bert-base-cased-vocab.txt"}
    return {cased: Vocabulary.from_file(folder / name) for cased, name in names.items()}


@pytest.fixture(scope="session")
def tokenizers(vocabularies: dict[bool, Vocabulary]) -> dict[bool, Tokenizer]:
    """By cased."""
    return {cased: Tokenizer(v, lower_case=not cased) for cased, v in vocabularies.items()}


@pytest.fixture(scope="session")
def python_tokenizers(vocabularies: dict[bool, Vocabulary]) -> dict[bool, PythonTokenizer]:
    """By cased."""
    return {cased: PythonTokenizer(v, lower_case=not cased) for cased, v in vocabularies.items()}


@pytest.fixture(scope="session")
def small() -> Vocabulary:
    """A vocabulary in sight, of a few words and hard characters."""
    characters = CHARACTERS.split()
    return Vocabulary([*SPECIAL_TOKENS, *WORDS.split(), *characters, *(f"##{c}" for c in characters)])


@pytest.fixture(scope="session")
def records() -> Callable[[Path], list[dict[str, Any]]]:
    """Reads JSON lines."""
    return lambda path: [json.loads(line) for line in path.read_text("utf-8").splitlines()]
