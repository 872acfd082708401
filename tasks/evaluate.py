"""What a model makes of rows whose labels are known: outputs, scores, predictions, and the report a person reads."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.batch import INPUT_NAMES
from keras_bert.files import atomic_write
from keras_bert.metrics import classification_scores, confusion, constant, regression_scores
from keras_bert.tasks.batches import Encoded, plan_evaluation
from keras_bert.tasks.readers import Rows

BATCH = 64
NUM_WORST = 20

Forward = Callable[[Encoded], np.ndarray]  # rows → logits [N,K] or scores [N]


@dataclass(frozen=True)
class EvalSet:
    """N rows to evaluate on; `gold` [N]: label numbers, or scores."""

    name: str
    rows: Rows
    encoded: Encoded
    gold: np.ndarray


def make_forward(model: keras.Model) -> Forward:
    """A head model's outputs for encoded rows, in the rows' order; one graph for every batch size and length."""

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3, autograph=False)
    def run(*inputs: tf.Tensor) -> tf.Tensor:
        return model(dict(zip(INPUT_NAMES, inputs, strict=True)), training=False)

    def forward(encoded: Encoded) -> np.ndarray:
        plan = plan_evaluation(encoded.lengths, BATCH)
        outputs = [run(*encoded.batch(rows).values()).numpy() for rows in plan]
        return np.concatenate(outputs)[np.argsort(np.concatenate(plan), kind="stable")]

    return forward


class Classes:
    """How a classifier is scored and reported."""

    def __init__(self, labels: Sequence[str], metrics: Sequence[str] = ()) -> None:
        self.labels = tuple(labels)
        self.metrics = tuple(metrics) or ("accuracy", "f1" if len(self.labels) == 2 else "f1_macro")
        self.decisive = self.metrics if metrics else self.metrics[:1]

    def losses(self, logits: np.ndarray, gold: np.ndarray) -> np.ndarray:
        """[N] cross entropies."""
        shifted = logits.astype(np.float64) - logits.max(1, keepdims=True)
        return np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(gold)), gold]

    def scores(self, logits: np.ndarray, gold: np.ndarray) -> dict[str, float]:
        return classification_scores(gold.tolist(), logits.argmax(1).tolist(), len(self.labels))

    def predictions(self, logits: np.ndarray) -> list[str]:
        return [self.labels[number] for number in logits.argmax(1)]

    def baseline(self, gold: np.ndarray) -> str:
        counts = np.bincount(gold, minlength=len(self.labels))
        return f"always {self.labels[counts.argmax()]!r}: accuracy {counts.max() / len(gold):.4f}"

    def worst(self, logits: np.ndarray, gold: np.ndarray) -> list[int]:
        """The rows answered wrongly with the greatest loss, worst first."""
        losses = self.losses(logits, gold)
        wrong = np.flatnonzero(logits.argmax(1) != gold)
        return wrong[np.argsort(-losses[wrong], kind="stable")][:NUM_WORST].tolist()

    def details(self, logits: np.ndarray, gold: np.ndarray) -> dict[str, Any]:
        table = confusion(gold.tolist(), logits.argmax(1).tolist(), len(self.labels))
        return {"labels": list(self.labels), "confusion": table}

    def error(self, logits: np.ndarray, gold: np.ndarray, row: int) -> str:
        probability = np.exp(-self.losses(logits[[row]], gold[[row]]))[0]
        predicted = self.labels[logits[row].argmax()]
        return f"{self.labels[gold[row]]!r} taken for {predicted!r}, given the probability {probability:.4f}"


class Scores:
    """How a regressor is scored and reported."""

    def __init__(self, metrics: Sequence[str] = ()) -> None:
        self.metrics = tuple(metrics) or ("pearson", "spearman")
        self.decisive = self.metrics

    def losses(self, scores: np.ndarray, gold: np.ndarray) -> np.ndarray:
        """[N] squared errors."""
        return (scores.astype(np.float64) - gold) ** 2

    def scores(self, scores: np.ndarray, gold: np.ndarray) -> dict[str, float]:
        return regression_scores(gold.tolist(), scores.tolist())

    def predictions(self, scores: np.ndarray) -> list[str]:
        return [f"{score:.4f}" for score in scores]

    def baseline(self, gold: np.ndarray) -> str:
        return f"always the mean {gold.mean():.4f}: mean squared error {gold.var():.4f}"

    def worst(self, scores: np.ndarray, gold: np.ndarray) -> list[int]:
        return np.argsort(-self.losses(scores, gold), kind="stable")[:NUM_WORST].tolist()

    def details(self, scores: np.ndarray, gold: np.ndarray) -> dict[str, Any]:
        return {}

    def error(self, scores: np.ndarray, gold: np.ndarray, row: int) -> str:
        return f"{gold[row]:g} given {scores[row]:.4f}"


Kind = Classes | Scores


def score(kind: Kind, outputs: np.ndarray, gold: np.ndarray) -> dict[str, float]:
    """The metrics that count, the one that decides first: the mean where GLUE reports several; then the loss."""
    found = kind.scores(outputs, gold)
    decisive = [found[name] for name in kind.decisive]
    first = {"score": sum(decisive) / len(decisive)} if len(decisive) > 1 else {}
    return {
        **first,
        **{name: found[name] for name in kind.metrics},
        "eval_loss": float(kind.losses(outputs, gold).mean()),
    }


def all_alike(kind: Kind, outputs: np.ndarray) -> str | None:
    """What to say when every row got the same answer, which makes correlations 0 by definition."""
    answers = kind.predictions(outputs)
    if len(answers) > 1 and constant(outputs.argmax(1).tolist() if outputs.ndim == 2 else outputs.tolist()):
        zero = "; correlations count as 0" if {"pearson", "spearman", "matthews"} & set(kind.metrics) else ""
        return f"every row was answered {answers[0]}: nothing was learned that tells rows apart{zero}"
    return None


def write_predictions(path: Path, kind: Kind, outputs: np.ndarray, data: EvalSet, glue: bool) -> None:
    """GLUE's two columns, index and prediction; for a user's own data also what it should have been."""
    gold = data.rows.labels or []
    with atomic_write(path) as file:
        writer = csv.writer(file, "excel-tab", lineterminator="\n")
        writer.writerow(["index", "prediction"] if glue else ["index", "prediction", "label", "loss"])
        for index, answer in enumerate(kind.predictions(outputs)):
            loss = kind.losses(outputs[[index]], data.gold[[index]])[0]
            writer.writerow([index, answer] if glue else [index, answer, gold[index], f"{loss:.4f}"])


def report(kind: Kind, outputs: np.ndarray, data: EvalSet) -> str:
    """The evaluation for a reader, in Markdown: scores, confusion matrix, the worst errors."""
    lines = [f"# {data.rows.source}: {len(data.rows)} rows", ""]
    lines += [f"- {name}: {value:.4f}" for name, value in kind.scores(outputs, data.gold).items()]
    lines += [f"- {kind.baseline(data.gold)}", ""]
    if isinstance(kind, Classes):
        lines += ["## Confusion", "", *confusion_table(kind, outputs, data.gold), ""]
    worst = kind.worst(outputs, data.gold)
    if worst:
        lines += ["## The worst error" if len(worst) == 1 else f"## The {len(worst)} worst errors", ""]
    for row in worst:
        lines.append(f"- {data.rows.where(row)}: {kind.error(outputs, data.gold, row)}")
        texts = [data.rows.texts[row]] + ([data.rows.pairs[row]] if data.rows.pairs else [])
        lines += [f"  - {one_line(text)}" for text in texts]
    return "\n".join(lines) + "\n"


def confusion_table(kind: Classes, outputs: np.ndarray, gold: np.ndarray) -> list[str]:
    """A Markdown table: a row a gold label, a column a predicted one."""
    names = [one_line(label, 20).replace("|", "\\|") for label in kind.labels]
    rows = confusion(gold.tolist(), outputs.argmax(1).tolist(), len(kind.labels))
    return [
        f"| label ↓ answer → | {' | '.join(names)} |",
        "|---|" + "---:|" * len(names),
        *(f"| {name} | {' | '.join(map(str, row))} |" for name, row in zip(names, rows, strict=True)),
    ]


def one_line(text: str, limit: int = 400) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
