"""A small world to pre-train in: text, vocabulary, records, a config, and commands on them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from keras_bert.tasks import prepare, pretrain

WORDS = "abcdefghij"
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *(f"##{x}" for x in WORDS), "."]
CONFIG = {
    "vocab_size": len(TOKENS),
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 40,
    "type_vocab_size": 2,
    "initializer_range": 0.2,
}
TIMES = ("tokens_per_second", "seconds")


class World:
    """A folder with text, a vocabulary, records of 24 and of 40 tokens, and a config."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        documents = [[" ".join([WORDS[n % 10]] * (3 + (n + s) % 5)) + " ." for s in range(9)] for n in range(40)]
        (folder / "text.txt").write_text("\n\n".join("\n".join(lines) for lines in documents) + "\n")
        (folder / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
        self.config("config.json")
        self.prepare("short", "--max_length", "24")
        self.prepare("long", "--max_length", "40", "--seed", "1")
        self.prepare("rows", "--max_length", "24", "--no_nsp")

    def config(self, name: str, **changes: object) -> str:
        path = self.folder / name
        path.write_text(json.dumps({**CONFIG, **changes}))
        return str(path)

    def prepare(self, name: str, *flags: str) -> None:
        text, vocab = str(self.folder / "text.txt"), str(self.folder / "vocab.txt")
        argv = ["--input", text, "--vocab", vocab, "--output", str(self.folder / name), "--workers", "1", *flags]
        assert prepare.main(argv) == 0

    def command(self, output: Path, *more: str, start: tuple[str, str] | None = None) -> list[str]:
        """A later flag takes an earlier one's place."""
        start = start or ("--config", str(self.folder / "config.json"))
        return [
            *(*start, "--train", str(self.folder / "short"), "--output", str(output)),
            *("--steps", "18", "--batch_size", "5", "--learning_rate", "1e-2", "--log_every", "1"),
            *("--save_every", "4", *more),
        ]

    def run(self, output: Path, *more: str, start: tuple[str, str] | None = None) -> None:
        assert pretrain.main(self.command(output, *more, start=start)) == 0


def history(output: Path) -> list[dict[str, str]]:
    """All but the times."""
    with open(output / "history.csv", encoding="utf-8") as file:
        return [{name: cell for name, cell in row.items() if name not in TIMES} for row in csv.DictReader(file)]


def column(output: Path, name: str) -> list[float]:
    return [float(row[name]) for row in history(output) if row[name]]
