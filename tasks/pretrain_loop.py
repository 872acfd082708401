"""The loop of pre-training: steps, what is told of them, evaluations, checkpoints, and going on where a run stopped."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keras_bert.bert import Bert
from keras_bert.tasks.devices import Devices
from keras_bert.tasks.estimates import available_memory, in_words, pretraining_memory
from keras_bert.tasks.history import Board, History, clock
from keras_bert.tasks.pretrain_checkpoints import Checkpoints
from keras_bert.tasks.pretrain_phases import Feed, Phase
from keras_bert.tasks.pretrain_steps import Objective, Sums, added, make_evaluation, make_step, pad_rows
from keras_bert.tasks.progress import say
from keras_bert.tasks.state import Run, snapshot, value_of
from keras_bert.tasks.steps import inner

NO_SUMS = [0.0] * len(Sums._fields)
NAMED = 4  # records that an error names


@dataclass
class Position:
    """Where a run stands, beside its variables; JSON."""

    start: int = 0  # the step at which it began: 0, or where the run ended that it continues
    step: int = 0  # how many are done
    sums: list[float] = field(default_factory=lambda: list(NO_SUMS))  # since the last row of the history
    steps: int = 0  # in these sums
    tokens: float = 0.0  # real ones, in all
    seconds: float = 0.0


class Loop:
    """One run.

    Args:
        bert: a pre-trainer, made in the devices' scope, with an optimiser built on its variables.
        phases: in order.
        options: PretrainOptions.
        start: the checkpoint whose state the run begins with, or None.
    """

    def __init__(
        self,
        bert: Bert,
        optimizer: Any,
        phases: Sequence[Phase],
        objective: Objective,
        devices: Devices,
        options: Any,
        run: Run,
        checkpoints: Checkpoints,
    ) -> None:
        self.bert, self.optimizer, self.phases = bert, optimizer, phases
        self.objective, self.devices, self.options, self.run = objective, devices, options, run
        self.checkpoints = checkpoints
        self.total = phases[-1].end
        self.position = Position()
        self.variables = [*bert.model.variables, *optimizer.variables]
        self.steps: dict[int, Any] = {}
        self.evaluation = make_evaluation(bert.model, objective)
        self.history = History(run.output / "history.csv", columns(objective.nsp, phases))
        self.board = Board(run.output / "tensorboard" if options.tensorboard else None)
        self.pending: tuple[int, Sums, list[str]] | None = None
        self.baseline: float | None = None
        self.scores: dict[str, float] = {}
        self.mark = (time.monotonic(), 0.0)  # when the last row was written, and tokens until then
        self.speed = 0.0  # positions a second
        self.saved_at = time.monotonic()

    def run_all(self) -> Position:
        """To the end.

        Raises:
            ValueError: a loss is not finite, or a record is damaged.
            OSError: a checkpoint could not be written.
        """
        self.go_on()
        position = self.position
        self.history.open_at(position.step)
        feed = Feed(self.phases, position.start, self.options.seed, self.multiple)
        before, started = position.seconds, time.monotonic()
        try:
            if position.step < self.total:
                self.estimate(feed)
            self.mark = (time.monotonic(), position.tokens)
            while position.step < self.total:
                self.one_step(feed)
                if self.due(self.options.log_every) or self.evaluates():
                    position.seconds = before + time.monotonic() - started
                    self.log(feed.phase(position.step - 1))
                if self.saves():
                    position.seconds = before + time.monotonic() - started
                    self.save()
            self.checkpoints.wait()
        finally:
            feed.close()
            self.board.close()
            self.checkpoints.close()
        return position

    def go_on(self) -> None:
        """Finds the place, in a time that does not depend on where it is."""
        latest = self.checkpoints.latest()
        if latest is not None:
            self.position = Position(**self.checkpoints.load(latest))
            say(f"going on at step {self.position.step} of {self.total}, from {latest}")

    def begin_at(self, position: Position) -> None:
        """For a run that continues another: where its state came from."""
        self.position = Position(start=position.step, step=position.step)

    def multiple(self, phase: Phase) -> int:
        return self.devices.replicas * phase.parts

    def step_of(self, phase: Phase) -> Any:
        """The phase's step, traced when it is first taken."""
        if phase.number not in self.steps:
            jit = self.options.xla == "on" or (self.options.xla == "auto" and self.devices.accelerated)
            self.steps[phase.number] = make_step(
                self.bert.model,
                self.optimizer,
                self.objective,
                self.devices,
                phase.batch_size,
                phase.parts,
                jit,
            )
        return self.steps[phase.number]

    def one_step(self, feed: Feed) -> None:
        position = self.position
        phase = feed.phase(position.step)
        batch, names = feed.batch(position.step)
        values = self.step_of(phase)(batch, position.step)
        self.settle()  # the step before: its numbers are here by now, and the device is not kept waiting
        self.pending = (position.step, values, names)
        position.step += 1

    def settle(self) -> None:
        """Adds up the numbers of the last step.

        Raises:
            ValueError: one is not finite.
        """
        if self.pending is None:
            return
        step, values, names = self.pending
        self.pending = None
        sums = Sums(*map(float, values))
        self.check_finite(step + 1, sums, names)
        position = self.position
        position.sums = list(added([Sums(*position.sums), sums]))
        position.steps += 1
        position.tokens += sums.tokens

    def check_finite(self, step: int, sums: Sums, names: list[str]) -> None:
        found = {"mlm_loss": sums.mlm_loss, "nsp_loss": sums.nsp_loss}
        bad = [f"{name} is {value}" for name, value in found.items() if not math.isfinite(value)]
        scale = float(value_of(self.optimizer.dynamic_scale)) if hasattr(self.optimizer, "dynamic_scale") else 1.0
        if not bad and scale >= 1:
            return
        if not bad:
            bad = [f"float16's loss scale fell to {scale}: gradients overflow at every scale"]
        self.checkpoints.wait()
        good = self.checkpoints.latest()
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        raise ValueError(
            f"{' and '.join(bad)} at step {step}: training stops. Records of the batch: {', '.join(names[:NAMED])}"
            f"{more}. Last good checkpoint: {good or 'none yet'}. Lower --learning_rate or lengthen --warmup_steps"
            + ("" if self.options.compute_dtype == "float32" else ", or use --dtype float32")
            + ", with another --output or --overwrite"
        )

    def due(self, every: int | None) -> bool:
        step = self.position.step
        return (
            step == self.total or (every is not None and step % every == 0) or any(step == p.end for p in self.phases)
        )

    def evaluates(self) -> bool:
        phase = next(phase for phase in self.phases if self.position.step <= phase.end)
        return phase.evals is not None and self.due(self.options.eval_every)

    def saves(self) -> bool:
        if self.position.step == self.total or self.options.save_every is not None:
            return self.due(self.options.save_every)
        return time.monotonic() - self.saved_at > self.options.save_seconds

    def save(self) -> None:
        self.settle()
        self.checkpoints.save(self.position.step, vars(self.position))
        self.saved_at = time.monotonic()

    def log(self, phase: Phase) -> None:
        """A line of progress and a row of the history, with an evaluation when it is time for one."""
        self.settle()
        position = self.position
        now = time.monotonic()
        seconds, tokens = max(1e-9, now - self.mark[0]), position.tokens - self.mark[1]
        steps = max(1, position.steps)
        self.speed = steps * phase.cells / seconds
        sums = Sums(*position.sums)
        padding = 1 - sums.tokens / (steps * phase.cells)
        row: dict[str, Any] = {
            "step": position.step,
            "phase": phase.number,
            **scores_of(sums, self.objective.nsp),
            "learning_rate": float(inner(self.optimizer)._learning_rate(self.updates())),
            "padding": padding,
            "tokens_per_second": round(tokens / seconds, 1),
        }
        position.sums, position.steps = list(NO_SUMS), 0
        told = " ".join(in_short(name, row[name]) for name in SHOWN if name in row)
        say(
            f"step {position.step}/{self.total} {told} rate {row['learning_rate']:.2e} "
            f"{row['tokens_per_second']:,.0f} tokens/s padding {padding:.1%}{self.to_go()}"
        )
        if self.skipped():
            row["skipped_steps"] = self.skipped()
            say(f"  {self.skipped()} steps skipped so far: their gradients overflowed float16")
        if self.evaluates() and phase.evals is not None:
            self.scores = self.evaluate(phase.evals, phase.batch_size)
            row |= {f"eval_{name}": value for name, value in self.scores.items()}
            told = " ".join(in_short(name, self.scores[name]) for name in SHOWN if name in self.scores)
            say(f"  held out: {told} (always the most frequent token: {self.baseline:.1%})")
        self.history.append({**row, "seconds": round(position.seconds, 3)})
        self.board.write(position.step, {name: value for name, value in row.items() if name not in ("step", "phase")})
        self.mark = (time.monotonic(), position.tokens)

    def updates(self) -> int:
        return int(value_of(inner(self.optimizer).iterations))

    def skipped(self) -> int:
        """Steps that float16's loss scaling left out."""
        return self.position.step - self.updates() if self.optimizer is not inner(self.optimizer) else 0

    def to_go(self) -> str:
        left = self.cells_left()
        return f" {clock(left / self.speed)} to go" if left and self.speed else ""

    def cells_left(self) -> int:
        step = self.position.step
        return sum(max(0, phase.end - max(step, phase.begin)) * phase.cells for phase in self.phases)

    def evaluate(self, records: Any, batch_size: int) -> dict[str, float]:
        """Scores on all held-out records, whose masks are the same each time."""
        found, counts = [], np.zeros(self.bert.config.vocab_size, np.int64)
        pad_id = records.tokenizer.vocabulary.pad_id
        for number, place in enumerate(range(0, len(records), batch_size)):
            inputs, labels, _ = records.batch(place, min(batch_size, len(records) - place), seed=0)
            sums, labelled = self.evaluation(pad_rows(inputs, labels, batch_size, pad_id), number)
            found.append(sums)
            counts += labelled.numpy()
        self.baseline = float(counts.max() / max(1, counts.sum()))
        return scores_of(added(found), self.objective.nsp)

    def estimate(self, feed: Feed) -> None:
        """Says what the run will take: memory by arithmetic, hours by two steps that are taken and taken back."""
        phase = max(self.phases, key=lambda phase: phase.cells // phase.parts)
        rows = -(-phase.batch_size // self.multiple(phase))
        length = phase.records.max_length
        predictions = self.objective.max_predictions or math.ceil(self.objective.rate * length)
        predictions = length - 1 if self.objective.left_to_right else predictions
        count = sum(int(np.prod(variable.shape)) for variable in self.bert.model.trainable_variables)
        memory = pretraining_memory(
            self.bert.config, count, rows, length, predictions, self.options.compute_dtype, phase.parts
        )
        say(
            f"{count:,} weights; memory for a step about {in_words(memory.total)}: weights {in_words(memory.weights)}, "
            f"optimiser and gradients {in_words(memory.optimizer)}, activations {in_words(memory.activations)}"
        )
        free = available_memory()
        if free is not None and not self.devices.accelerated and memory.total > free:
            say(
                f"warning: this machine has {in_words(free)} left; raise --accumulation_steps, or lower --batch_size, "
                f"if memory runs out"
            )
        kept = snapshot(self.variables)
        phase = feed.phase(self.position.step)
        for _ in range(2):  # the first one traces the graph
            began = time.monotonic()
            batch, _names = feed.make(self.position.step)
            values = Sums(*map(float, self.step_of(phase)(batch, self.position.step)))
            took = time.monotonic() - began
        for variable, value in zip(self.variables, kept.values(), strict=True):
            variable.assign(value)
        self.speed = phase.cells / took
        hours = self.cells_left() / self.speed / 3600
        say(
            f"{self.total - self.position.step} steps to go: about {hours:.1f} hours at {values.tokens / took:,.0f} "
            f"tokens/s, by a first step"
        )


SCORES = ("loss", "mlm_loss", "mlm_accuracy", "mlm_perplexity", "nsp_loss", "nsp_accuracy")
SHOWN = ("loss", "mlm_accuracy", "mlm_perplexity", "nsp_accuracy")


def columns(nsp: bool, phases: Sequence[Phase]) -> list[str]:
    """Of history.csv."""
    scores = [name for name in SCORES if nsp or not name.startswith("nsp")]
    names = ["step", "phase", *scores, "learning_rate", "padding", "tokens_per_second", "skipped_steps"]
    if any(phase.evals is not None for phase in phases):
        names += [f"eval_{name}" for name in scores]
    return [*names, "seconds"]


def scores_of(sums: Sums, nsp: bool) -> dict[str, float]:
    """Means of what was summed up."""
    mlm = sums.mlm_loss / max(1.0, sums.predictions)
    found = {
        "loss": mlm,
        "mlm_loss": mlm,
        "mlm_accuracy": sums.mlm_correct / max(1.0, sums.predictions),
        "mlm_perplexity": math.exp(min(mlm, 700.0)),
    }
    if nsp:
        rows = max(1.0, sums.rows)
        found |= {"nsp_loss": sums.nsp_loss / rows, "nsp_accuracy": sums.nsp_correct / rows}
        found["loss"] += found["nsp_loss"]
    return found


def in_short(name: str, value: float) -> str:
    name = name.replace("_", " ")
    if "accuracy" in name:
        return f"{name} {value:.1%}"
    return f"{name} {value:.1f}" if "perplexity" in name else f"{name} {value:.4f}"
