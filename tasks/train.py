"""The one training loop, and going on where a stopped run was.

The recipe is the paper's (appendix A.3): AdamW, 10 % warm-up, linear decay, 3 epochs, batches of 32, rate 5e-5,
dropout 0.1. Every batch, dropout mask and rate is a function of the seed and the step, and all variables are in the
state: a run killed at any moment and started again ends with the same weights, bit for bit, as one that was not.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_bert.files import atomic_write
from keras_bert.tasks.batches import padding_share, plan_epoch
from keras_bert.tasks.history import Board, clock
from keras_bert.tasks.progress import say
from keras_bert.tasks.state import Run, load_state, save_state
from keras_bert.tasks.steps import Loss, TrainSet, check_finite, inner, make_optimizer, make_step, prepare


@dataclass
class Position:
    """Where a run stands, beside its variables; JSON."""

    epoch: int = 0
    batch: int = 0  # of this epoch, the next to learn from
    step: int = 0
    loss_sum: float = 0.0  # since the last row of the history
    loss_count: int = 0
    seconds: float = 0.0  # in all: steps, evaluations, saving
    step_seconds: float = 0.0  # in steps alone
    best_score: float | None = None
    best_epoch: int | None = None
    stopped: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)


def train(
    model: keras.Model,
    loss: Loss,
    data: TrainSet,
    options: Any,
    run: Run,
    evaluate: Callable[[], Mapping[str, float]] | None = None,
) -> Position:
    """Trains a model in place, from the start or from where `run` stands, and leaves it with the weights to keep.

    Args:
        model: logits or scores from the three inputs.
        loss: a row's loss from the model's outputs and the targets.
        data: the rows to learn from.
        options: TrainingOptions and OutputOptions.
        run: the output, open.
        evaluate: called after every epoch; its first value decides what is best.

    Raises:
        ValueError: the loss is not finite.
    """
    return Loop(model, loss, data, options, run, evaluate).run_all()


class Loop:
    """One run of `train`."""

    def __init__(
        self,
        model: keras.Model,
        loss: Loss,
        data: TrainSet,
        options: Any,
        run: Run,
        evaluate: Callable[[], Mapping[str, float]] | None,
    ) -> None:
        self.model, self.data, self.options, self.run, self.evaluate = model, data, options, run, evaluate
        self.steps_per_epoch = -(-len(data.rows) // options.batch_size)
        self.total = options.steps or options.epochs * self.steps_per_epoch
        self.epochs = -(-self.total // self.steps_per_epoch)
        prepare(model, options)
        self.optimizer = make_optimizer(model, options, self.total)
        self.step = make_step(model, loss, self.optimizer, options.accumulation_steps, tf.as_dtype(data.targets.dtype))
        self.variables = [*model.variables, *self.optimizer.variables]
        self.position = Position()
        self.saved_at = time.monotonic()
        self.board = Board(run.output / "tensorboard" if options.tensorboard else None)

    def run_all(self) -> Position:
        position = self.position
        if self.run.latest.is_file():
            position = self.position = Position(**load_state(self.run.latest, self.variables))
            say(f"going on at step {position.step} of {self.total} (epoch {position.epoch + 1})")
        before, started = position.seconds, time.monotonic()
        while position.step < self.total and not position.stopped:
            self.run_epoch(lambda: before + time.monotonic() - started)
        position.seconds = before + time.monotonic() - started
        if self.options.keep == "best" and self.run.best.is_file() and position.best_epoch is not None:
            load_state(self.run.best, self.model.variables)
        self.board.close()
        return position

    def run_epoch(self, seconds: Callable[[], float]) -> None:
        """The rest of the current epoch, then its evaluation."""
        options, position = self.options, self.position
        lengths = self.data.rows.lengths
        plan = plan_epoch(lengths, options.batch_size, options.seed, position.epoch, options.bucket)
        if position.batch == 0:
            share = padding_share(self.data.rows, plan)
            say(f"epoch {position.epoch + 1} of {self.epochs}: {len(plan)} batches, {share:.1%} of them padding")
        mark_time, mark_step = time.monotonic(), position.step
        while position.batch < len(plan) and position.step < self.total:
            rows = plan[position.batch]
            began = time.monotonic()
            value = self.step(self.data, rows)
            position.step_seconds += time.monotonic() - began
            position.batch += 1
            position.step += 1
            check_finite(value, position.step, self.optimizer)
            position.loss_sum += value
            position.loss_count += 1
            if position.step % options.log_every == 0 and position.step < self.total and position.batch < len(plan):
                speed = (position.step - mark_step) / (time.monotonic() - mark_time)
                mark_time, mark_step = time.monotonic(), position.step
                self.log(seconds(), f"{speed * options.batch_size:.0f} rows/s")
            if self.due(len(plan)):
                position.seconds = seconds()
                self.save()
        self.end_epoch(seconds)

    def due(self, batches: int) -> bool:
        """Time to save the state within an epoch (its end saves anyway)."""
        if self.position.batch >= batches or self.position.step >= self.total:
            return False
        if self.options.save_every is not None:
            return self.position.step % self.options.save_every == 0
        return time.monotonic() - self.saved_at > self.options.save_seconds

    def end_epoch(self, seconds: Callable[[], float]) -> None:
        """Evaluates, keeps the best weights, decides whether to stop, and saves."""
        options, position = self.options, self.position
        scores = dict(self.evaluate()) if self.evaluate is not None else {}
        self.log(seconds(), "".join(f" {name} {value:.4f}" for name, value in scores.items()).strip(), scores)
        score = next(iter(scores.values()), None)
        position.epoch += 1
        position.batch = 0
        if score is not None and (position.best_score is None or score > position.best_score):
            position.best_score, position.best_epoch = score, position.epoch
            if options.keep == "best":
                save_state(self.run.best, self.model.variables, {})
        elif score is not None and 0 < options.early_stop <= position.epoch - (position.best_epoch or 0):
            position.stopped = True
            say(f"stopped early, {options.early_stop} epochs after the best one (epoch {position.best_epoch})")
        position.seconds = seconds()
        self.save()

    def log(self, seconds: float, told: str, scores: Mapping[str, float] | None = None) -> None:
        """A line of progress and a row of the history."""
        position = self.position
        rate = float(self.schedule(position.step))
        mean = position.loss_sum / max(1, position.loss_count)
        position.loss_sum, position.loss_count = 0.0, 0
        left = (self.total - position.step) * seconds / max(1, position.step)
        say(
            f"step {position.step}/{self.total} loss {mean:.4f} rate {rate:.2e} {told}"
            + (f" {clock(left)} to go" if position.step < self.total else "")
        )
        row = {"step": position.step, "epoch": position.epoch + 1, "loss": mean, "learning_rate": rate}
        position.history.append({**row, "seconds": round(seconds, 3), **(scores or {})})
        write_history(self.run.output / "history.csv", position.history)
        self.board.write(position.step, {"loss": mean, "learning_rate": rate, **(scores or {})})

    def schedule(self, step: int) -> Any:
        return inner(self.optimizer)._learning_rate(step)

    def save(self) -> None:
        save_state(self.run.latest, self.variables, vars(self.position))
        self.saved_at = time.monotonic()


def write_history(path: Path, rows: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with atomic_write(path) as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
