"""The exported model held against the Python model, on rows of text, by a client in a fresh process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np
import tensorflow as tf

from keras_bert.bert import Bert
from keras_bert.export.signatures import is_paired

Columns = dict[str, list[str]]  # `text`, and `text_pair` for a model of pairs

TOLERANCE = 1e-5
BATCH_SIZES = (1, 32)

# Rows to compare on when none are given: of all lengths, and with what tokenizers stumble over.
TEXTS = [
    "The battery lasted two full days of hiking, and the map never lost us once.",
    "Cancel my order.",
    "",
    "I asked for a window seat; they gave me the middle one, beside the toilets, and charged me for it.",
    "Déjà vu: the café's naïve résumé of Ångström…",
    "东京 is 2,000 km from 北京, isn't it?",
    "What is the capital of Burkina Faso?",
    "RuntimeError: dictionary changed size during iteration (line 42)",
    "[CLS] typed by hand [SEP] is [MASK] text \u200b and\ttabs\nand lines \U0001f600",
    "Ο ΟΔΥΣΣΕΥΣ, STRASSE, Straße, İstanbul, ﬁne print",
    "a" * 300 + " word of 300 letters",
    "The committee met on Tuesday to consider the report on coastal erosion, heard from nine witnesses, adjourned for "
    "lunch, and returned to find that the tide had taken the car park. " * 12,
]


def columns_of(bert: Bert, rows: Iterable[tuple[str, ...]] | None) -> Columns:
    """Rows of one text, or of a text and its pair, as the columns of a request; the texts above where there are none.

    Raises:
        ValueError: a row has another number of texts than the model takes.
    """
    width = 2 if is_paired(bert) else 1
    if rows is None:
        rows = list(zip(TEXTS, TEXTS[3:] + TEXTS[:3], strict=True)) if width == 2 else [(text,) for text in TEXTS]
    rows = list(rows)
    if not rows:
        raise ValueError("expected rows to compare the exported model on, got none")
    for number, row in enumerate(rows, start=1):
        if len(row) != width:
            expected = "a text and its pair: the model was trained on pairs" if width == 2 else "one text"
            raise ValueError(f"row {number}: expected {expected}, got {len(row)} texts ({short(row)})")
    return dict(zip(("text", "text_pair"), (list(column) for column in zip(*rows, strict=True)), strict=False))


def python_answers(bert: Bert, columns: Columns) -> dict[str, Any]:
    """What the fresh process is to answer: its request's `ids`, and `text` and `ids` answers of the Python model."""
    texts, pairs = columns["text"], columns.get("text_pair")
    inputs = bert.preprocessor(*(tf.constant(column) for column in columns.values()))
    logits = bert.model(inputs, training=False)
    found = cast(list[dict[str, Any]], bert.predict(texts, pairs))
    if bert.head == "classifier":
        text = {
            "label": [row["label"] for row in found],
            "probabilities": [list(row["probabilities"].values()) for row in found],
        }
    else:
        text = {"score": [row["score"] for row in found]}
    given = {name: value.numpy().tolist() for name, value in cast(dict[str, tf.Tensor], inputs).items()}
    return {"given": given, "text": text, "ids": {"logits": logits.numpy().tolist()}}


def ask_fresh_process(directory: Path, columns: Columns, ids: dict[str, Any]) -> dict[str, Any]:
    """The answers of the exported model to both signatures, and its latency, in a process without keras_bert.

    Raises:
        ValueError: the model does not load or does not answer there.
    """
    program = Path(__file__).with_name("fresh_process.py")
    request = {"model": os.fspath(directory), "text": columns, "ids": ids, "batch_sizes": BATCH_SIZES}
    # -P: the program's folder is not searched for modules, which are keras_bert's own
    command = [sys.executable, "-P", os.fspath(program)]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"]
        told = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)] or lines
        raise ValueError(f"the exported model fails in a fresh process: {told[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def largest_difference(expected: dict[str, Any], got: dict[str, Any], columns: Columns) -> float:
    """The largest difference between two sets of answers to the same rows.

    Raises:
        ValueError: it is above TOLERANCE, a number is not finite, or a label differs that is no near tie.
    """
    largest = 0.0
    for signature in ("text", "ids"):
        for name, values in expected[signature].items():
            if name == "label":
                continue
            one, other = np.asarray(values, np.float64), np.asarray(got[signature][name], np.float64)
            if one.shape != other.shape:
                raise ValueError(f"{name}: the exported model answers in shape {other.shape}, expected {one.shape}")
            gap = np.abs(one - other).reshape(len(one), -1).max(axis=1)
            worst = int(np.argmax(gap))  # the first NaN, if there is one
            if not gap[worst] <= TOLERANCE:
                row = short([column[worst] for column in columns.values()])
                raise ValueError(
                    f"the exported model's {name} differ from the Python model's by {gap[worst]:.1e} "
                    f"in row {worst + 1} ({row}), more than {TOLERANCE:.0e}"
                )
            largest = max(largest, float(gap[worst]))
    check_labels(expected["text"], got["text"])
    return largest


def check_labels(expected: dict[str, Any], got: dict[str, Any]) -> None:
    for number, (one, other) in enumerate(zip(expected.get("label", ()), got.get("label", ()), strict=True)):
        first, second = sorted(expected["probabilities"][number])[:-3:-1]
        if one != other and first - second > 2 * TOLERANCE:
            raise ValueError(f"row {number + 1}: the exported model answers {other!r}, the Python model {one!r}")


def python_milliseconds(bert: Bert, columns: Columns, seconds: float = 0.5) -> dict[str, float]:
    """The median time of `Bert.predict` on as many rows as the fresh process is timed on."""
    found = {}
    for size in BATCH_SIZES:
        rows = {name: [column[i % len(column)] for i in range(size)] for name, column in columns.items()}
        texts, pairs = rows["text"], rows.get("text_pair")
        times: list[float] = []
        bert.predict(texts, pairs)
        while len(times) < 3 or sum(times) < seconds:
            start = time.perf_counter()
            bert.predict(texts, pairs)
            times.append(time.perf_counter() - start)
        found[str(size)] = round(1000 * float(np.median(times)), 2)
    return found


def short(texts: Iterable[str]) -> str:
    joined = " | ".join(texts)
    return repr(joined if len(joined) <= 60 else joined[:57] + "…")
