"""Fine-tuning a sentence model, from flags to reports: what `classify` and `regress` share."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

import keras_bert as kb
from keras_bert.files import atomic_write
from keras_bert.options import option
from keras_bert.tasks import check, evaluate
from keras_bert.tasks.batches import Encoded, encode_all, padding_share, plan_epoch
from keras_bert.tasks.data import Data, DataOptions, ModelOptions
from keras_bert.tasks.evaluate import EvalSet, Forward, Kind, make_forward
from keras_bert.tasks.progress import finish, say
from keras_bert.tasks.readers import Rows
from keras_bert.tasks.state import Run
from keras_bert.tasks.steps import Loss, TrainSet
from keras_bert.tasks.train import Position, train
from keras_bert.tasks.training_options import OutputOptions, TrainingOptions


@dataclass(frozen=True, kw_only=True)
class FineTuneOptions(ModelOptions, DataOptions, TrainingOptions, OutputOptions):
    """Fine-tuning."""

    fresh_head: bool = option(False, "start with a new head even if the checkpoint has one")


@dataclass(frozen=True)
class Goal:
    """What a command learns: `numbers` turns labels into targets, `weights` says how much each target counts."""

    command: str
    kind: Kind
    loss: Loss
    numbers: Callable[[Rows], np.ndarray]
    weights: Callable[[np.ndarray], np.ndarray]
    head: dict[str, Any]  # how kb.load is told


IN_NO_IDENTITY = {  # flags that do not change the result, or whose files are named by their contents
    *(field.name for field in dataclasses.fields(OutputOptions)),
    *("model", "task", "data", "train", "eval", "text_column", "pair_column", "label_column", "header", "format"),
    *("invalid_utf8", "labels", "strategy"),
}


def fine_tune(options: FineTuneOptions, data: Data, goal: Goal) -> int:
    """Checks, trains, evaluates, and writes checkpoint and reports.

    Raises:
        ValueError, OSError: bad input, before the first step; or a loss that is not finite.
    """
    if data.train is None:
        raise ValueError("no rows to train on: give --train FILE, or --task NAME --data FOLDER")
    if options.early_stop and not data.evals:
        say("warning: --early_stop has no effect without --eval")
    keras.utils.set_random_seed(options.seed % 2**32)
    bert = kb.load(
        options.model,
        **goal.head,
        fresh_head=options.fresh_head,
        max_length=options.max_length,
        lower_case=options.lower_case,
        dtype=options.compute_dtype,
    )
    if bert.fresh:
        say(f"fresh weights: {', '.join(bert.fresh)}")
    encoded = encode_all(bert.tokenizer, data.parts, bert.max_length)
    labels = goal.kind.labels if isinstance(goal.kind, evaluate.Classes) else None
    check.tell(check.check(bert, data, encoded, labels, options.batch_size))
    with Run.open(options.output, identity(options, bert, data, goal), options.overwrite) as run:
        if run.finished:
            say(f"{options.output} is finished, with this command: nothing to do (--overwrite starts anew)")
            return finish(summary(json.loads((run.output / "metrics.json").read_text(encoding="utf-8"))))
        targets = goal.numbers(data.train)
        evals = [EvalSet(name, rows, encoded[name], goal.numbers(rows)) for name, rows in data.evals.items()]
        forward = make_forward(bert.model)
        position = train(
            bert.model,
            goal.loss,
            TrainSet(encoded["train"], targets, goal.weights(targets)),
            options,
            run,
            (lambda: scores(goal.kind, forward, evals)) if evals else None,
        )
        metrics = write_results(options, run, bert, data, goal, forward, evals, encoded["train"], position)
        run.finish()
    return finish(summary(metrics))


def scores(kind: Kind, forward: Forward, evals: list[EvalSet]) -> dict[str, float]:
    """All evaluations' scores; those after the first under names of their own."""
    found: dict[str, float] = {}
    for index, part in enumerate(evals):
        values = evaluate.score(kind, forward(part.encoded), part.gold)
        found |= (
            values if index == 0 else {f"{part.name.removeprefix('eval_')}_{name}": x for name, x in values.items()}
        )
    return found


def write_results(
    options: FineTuneOptions,
    run: Run,
    bert: Any,
    data: Data,
    goal: Goal,
    forward: Forward,
    evals: list[EvalSet],
    train_rows: Encoded,
    position: Position,
) -> dict[str, Any]:
    """The checkpoint, then the reports about it, metrics.json last; returns what it holds."""
    outputs = [forward(part.encoded) for part in evals]
    found = scores(goal.kind, lambda encoded: outputs[[part.encoded for part in evals].index(encoded)], evals)
    plan = plan_epoch(train_rows.lengths, options.batch_size, options.seed, 0, options.bucket)
    metrics: dict[str, Any] = {
        "command": goal.command,
        "task": options.task,
        **found,
        "steps": position.step,
        "epochs": position.epoch,
        "kept_epoch": position.best_epoch if options.keep == "best" and evals else position.epoch,
        "train_loss": position.history[-1]["loss"],
        "seconds": round(position.seconds, 2),
        "step_seconds": round(position.step_seconds, 2),
        "seed": options.seed,
        "rows": {name: len(rows) for name, rows in data.parts.items()},
        "padding_share": round(padding_share(train_rows, plan), 4),
        "flags": dataclasses.asdict(options),
    }
    if evals:
        metrics |= {"baseline": goal.kind.baseline(evals[0].gold), **goal.kind.details(outputs[0], evals[0].gold)}
    provenance = {
        **bert.info.get("provenance", {}),
        "command": goal.command,
        "task": options.task,
        "seed": options.seed,
    }
    info = {**bert.info, "provenance": provenance, "metrics": found, "paired": data.paired}
    kb.save(dataclasses.replace(bert, info=info), run.output)
    for part, values in zip(evals, outputs, strict=True):
        name = part.name.replace("eval", "predictions") + ".tsv"
        evaluate.write_predictions(run.output / name, goal.kind, values, part, glue=data.task is not None)
        if alike := evaluate.all_alike(goal.kind, values):
            say(f"warning: {alike}")
    if evals:
        with atomic_write(run.output / "report.md") as file:
            file.write("\n".join(evaluate.report(goal.kind, values, part) for part, values in zip(evals, outputs)))
        told = ", ".join(f"{name} {value:.4f}" for name, value in found.items())
        say(f"{told} ({goal.kind.baseline(evals[0].gold)}); more in {run.output / 'report.md'}")
    with atomic_write(run.output / "metrics.json") as file:
        json.dump(metrics, file, indent=1, ensure_ascii=False)
    return metrics


def summary(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What the last line on stdout holds: metrics.json without flags and tables."""
    return {name: value for name, value in metrics.items() if name not in ("flags", "confusion", "labels")} | {
        "output": metrics["flags"]["output"]
    }


def identity(options: FineTuneOptions, bert: Any, data: Data, goal: Goal) -> dict[str, Any]:
    """Everything that decides the result; files count by what they hold, not by where they are."""
    weights = bert.encoder.weights if bert.fresh else bert.model.weights
    return {
        "command": goal.command,
        **{f"--{name}": value for name, value in dataclasses.asdict(options).items() if name not in IN_NO_IDENTITY},
        "labels": list(bert.labels) if bert.labels else None,
        "metrics": list(goal.kind.metrics),
        **{f"{name} rows": f"{len(rows)} ({digest(rows)})" for name, rows in data.parts.items()},
        "model": model_digest(bert, weights),
        "vocabulary": bert.tokenizer.vocabulary.content_hash()[:12],
        "lower case": bert.tokenizer.lower_case,
    }


def model_digest(bert: Any, weights: Any) -> str:
    hash = hashlib.sha256(json.dumps(bert.config.to_dict(), sort_keys=True).encode())
    for weight in weights:
        hash.update(np.ascontiguousarray(weight.numpy()).tobytes())
    return hash.hexdigest()[:12]


def digest(rows: Rows) -> str:
    hash = hashlib.sha256()
    for column in (rows.texts, rows.pairs or [], rows.labels or []):
        for cell in column:
            hash.update(cell.encode("utf-8", "surrogatepass") + b"\0")
        hash.update(b"\1")
    return hash.hexdigest()[:12]
