"""`keras-bert pretrain`: records → a BERT, by masked LM and next sentence; new, or from a checkpoint on."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import keras

import keras_bert as kb
from keras_bert.files import atomic_write
from keras_bert.optimization import adamw
from keras_bert.options import Group, at_least_1, option, parse
from keras_bert.tasks.devices import Devices
from keras_bert.tasks.fine_tune import model_digest
from keras_bert.tasks.plots import plot_history
from keras_bert.tasks.pretrain_checkpoints import Checkpoints, find_state
from keras_bert.tasks.pretrain_loop import SCORES, Loop, Position
from keras_bert.tasks.pretrain_phases import Phase
from keras_bert.tasks.pretrain_steps import Objective, trained_variables
from keras_bert.tasks.progress import finish, say
from keras_bert.tasks.records import Records
from keras_bert.tasks.state import Run
from keras_bert.tasks.training_options import DeviceOptions, DtypeOptions, OutputOptions

SIZES = {"base": kb.Config.base, "large": kb.Config.large, "tiny": kb.Config.tiny}
WARMUP = 10_000  # steps (paper, A.2)


@dataclass(frozen=True, kw_only=True)
class StartOptions(Group):
    """What to start from, one of three:"""

    config: str | None = option(
        None, "a new model: base, large, tiny, or a config.json (the vocabulary is the records')"
    )
    model: str | None = option(None, "the weights of a checkpoint of any origin; everything else starts anew")
    continue_from: str | None = option(
        None, "another run's output, or one of its checkpoints: weights, optimiser and step; --steps counts its too"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in ("config", "model", "continue_from") if getattr(self, name) is not None]
        if len(given) != 1:
            got = "none" if not given else " and ".join(f"--{name}" for name in given)
            raise ValueError(
                f"expected one of --config (a new model), --model (the weights of one) and --continue_from (a run, "
                f"with its optimiser and step): got {got}"
            )


@dataclass(frozen=True, kw_only=True)
class ObjectiveOptions(Group):
    """What is learnt:"""

    objective: Literal["masked_lm", "left_to_right"] = option(
        "masked_lm", "masked tokens from both sides, or every token from those before it (GPT's way; paper, 5.1)"
    )
    nsp: bool = option(True, "next sentence too, where the records have pairs")
    masking_rate: float = option(0.15, "share of the tokens that are predicted")
    max_predictions: int | None = option(None, "of a row; not given: what the rate asks for in a row of full length")
    mask_share: float = option(0.8, "share of the predicted tokens that become [MASK]")
    random_share: float = option(0.1, "share of them that become another token; the rest stays as it is")
    whole_word: bool = option(False, "predict all pieces of a word together")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_1(self, "max_predictions")
        if not 0 < self.masking_rate < 1:
            raise ValueError(f"--masking_rate must lie between 0 and 1: got {self.masking_rate}")
        if min(self.mask_share, self.random_share) < 0 or self.mask_share + self.random_share > 1 + 1e-9:
            raise ValueError(
                f"--mask_share and --random_share are shares, from 0, together at most 1: got {self.mask_share} and "
                f"{self.random_share}"
            )


@dataclass(frozen=True, kw_only=True)
class PretrainOptions(StartOptions, ObjectiveOptions, DtypeOptions, DeviceOptions, OutputOptions):
    """Trains a BERT on records that `prepare` wrote (paper, 3.1 and A.2); lists have an item for each phase."""

    train: tuple[str, ...] = option((), "records to learn from; two, for two phases: rows of 128, then of 512")
    eval: tuple[str, ...] = option((), "held-out records, one for all phases or one for each")
    steps: tuple[int, ...] = option((), "optimiser steps of each phase")
    batch_size: tuple[int, ...] = option((256,), "rows a step learns from, on all devices together")
    accumulation_steps: tuple[int, ...] = option((1,), "compute a device's rows in this many parts: less memory")
    learning_rate: float = option(1e-4, "peak learning rate, reached after warm-up; falls to 0 at the last step")
    warmup_steps: int | None = option(None, "not given: 10000, or a tenth of all steps where that is less")
    weight_decay: float = option(0.01, "decoupled weight decay; none on LayerNorm and biases")
    clip_norm: float = option(1.0, "global norm that gradients are scaled down to")
    seed: int = option(42, "of the weights, the order of records, masks and dropout")
    eval_every: int = option(1000, "steps between two evaluations; one is made at each phase's end too")
    keep_last: int = option(3, "checkpoints that are kept in OUTPUT/checkpoints")
    xla: Literal["auto", "on", "off"] = option("auto", "compile the step by XLA; auto: on GPUs and TPUs")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("train", "steps"):
            if not getattr(self, name):
                raise ValueError(f"--{name} is missing: {type(self).__dataclass_fields__[name].metadata['help']}")
        for name in ("steps", "batch_size", "accumulation_steps", "eval"):
            values = getattr(self, name)
            if len(values) not in (1, len(self.train)) and not (name == "eval" and not values):
                raise ValueError(
                    f"--{name} has {len(values)} items, expected {len(self.train)}, one for each of --train's phases"
                    + (", or one for all" if name != "steps" else "")
                )
            if name != "eval" and min(values) < 1:
                raise ValueError(f"--{name} must be at least 1: got {','.join(map(str, values))}")
        if len(self.steps) != len(self.train):
            raise ValueError(
                f"--steps has {len(self.steps)} items, expected {len(self.train)}, one for each of --train"
            )
        at_least_1(self, "eval_every", "keep_last")
        for name in ("learning_rate", "clip_norm"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"--{name} must be above 0: got {getattr(self, name)}")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"--weight_decay must not be below 0: got {self.weight_decay}")
        if self.warmup_steps is not None and not 0 <= self.warmup_steps <= sum(self.steps):
            raise ValueError(f"--warmup_steps must lie from 0 to --steps, {sum(self.steps)}: got {self.warmup_steps}")

    def item(self, name: str, phase: int) -> Any:
        """A list's item for a phase, counted from 0; the only one is for all. None where the list is empty."""
        values = getattr(self, name)
        return values[min(phase, len(values) - 1)] if values else None


IN_NO_IDENTITY = {  # flags that do not change the result, or whose files are named by their contents
    *(field.name for field in dataclasses.fields(OutputOptions)),
    *("train", "eval", "model", "config", "continue_from", "eval_every", "keep_last", "strategy"),
}


def main(argv: list[str]) -> int:
    """The command.

    Raises:
        ValueError, OSError: bad input, before the first step; a loss that is not finite; a checkpoint not written.
    """
    options = parse(PretrainOptions, argv, "pretrain")
    devices = Devices.open(options.strategy)
    phases = read_phases(options)
    keras.utils.set_random_seed(options.seed % 2**32)
    with devices.scope():
        bert = make_model(options, phases)
        optimizer = make_optimizer(options, bert, phases)
    with Run.open(options.output, identity(options, bert, phases), options.overwrite) as run:
        if run.finished:
            say(f"{options.output} is finished, with this command: nothing to do (--overwrite starts anew)")
            return finish(summary(json.loads((run.output / "metrics.json").read_text(encoding="utf-8"))))
        checkpoints = Checkpoints(run.output / "checkpoints", bert, optimizer, options.keep_last)
        goal = objective(options, phases)
        loop = Loop(bert, optimizer, phases, goal, devices, options, run, checkpoints)
        if options.continue_from is not None and checkpoints.latest() is None:
            before = Position(**checkpoints.load(find_state(options.continue_from)))
            check_continued(options, before)
            loop.begin_at(before)
        position = loop.run_all()
        metrics = write_results(options, run, bert, loop, position)
        run.finish()
    return finish(summary(metrics))


def read_phases(options: PretrainOptions) -> list[Phase]:
    """The records of each phase, held against each other.

    Raises:
        FileNotFoundError, ValueError: they are not there, damaged, or of two vocabularies.
    """
    phases: list[Phase] = []
    for index, directory in enumerate(options.train):
        records = Records(directory)
        held_out = options.item("eval", index)
        begin = phases[-1].end if phases else 0
        phases.append(
            Phase(
                index + 1,
                begin,
                begin + options.steps[index],
                options.item("batch_size", index),
                options.item("accumulation_steps", index),
                records,
                Records(held_out) if held_out is not None else None,
            )
        )
    first = phases[0].records
    for phase in phases:
        check_alike(first, phase.records)
        if phase.evals is not None:
            check_alike(first, phase.evals)
    return phases


def check_alike(first: Records, other: Records) -> None:
    if other.meta["vocabulary"] != first.meta["vocabulary"]:
        raise ValueError(
            f"{other.directory} was made with another vocabulary ({other.meta['vocabulary'][:12]}) than "
            f"{first.directory} ({first.meta['vocabulary'][:12]}); prepare both with one vocab.txt"
        )
    if other.nsp != first.nsp:
        pairs, rows = (first, other) if first.nsp else (other, first)
        raise ValueError(
            f"{pairs.directory} has pairs, {rows.directory} has rows without next sentence (--no_nsp); prepare both "
            f"the same way"
        )


def make_model(options: PretrainOptions, phases: Sequence[Phase]) -> kb.Bert:
    """A pre-trainer, new or with the weights of a checkpoint.

    Raises:
        ValueError: config, checkpoint and records do not fit each other.
    """
    records = phases[0].records
    longest = max(part.max_length for phase in phases for part in (phase.records, phase.evals) if part is not None)
    origin = options.model
    if options.continue_from is not None:
        origin = str(find_state(options.continue_from))
    if origin is None:
        config = read_config(str(options.config), records)
        if options.objective == "left_to_right":
            config = dataclasses.replace(config, attention="causal")
        check_length(config, longest, f"--config {options.config}")
        encoder = kb.build_encoder(config, dtype=options.compute_dtype)
        return kb.Bert(kb.build_pretrainer(encoder), records.tokenizer, max_length=longest)
    bert = kb.load(origin, head="pretrainer", dtype=options.compute_dtype)
    if bert.tokenizer.vocabulary.content_hash() != records.meta["vocabulary"]:
        raise ValueError(
            f"{origin}: its vocabulary ({len(bert.tokenizer.vocabulary):,} tokens) is not the one that "
            f"{records.directory} was made with ({len(records.tokenizer.vocabulary):,} tokens); prepare the records "
            f"with --vocab {origin}/vocab.txt"
        )
    check_length(bert.config, longest, origin)
    goal = options.objective
    if (goal == "left_to_right") != (bert.config.attention == "causal"):
        raise ValueError(f"{origin}: attention is {bert.config.attention}, which does not fit --objective {goal}")
    if bert.fresh:
        say(f"fresh weights: {', '.join(bert.fresh)}")
    return dataclasses.replace(bert, tokenizer=records.tokenizer, max_length=longest)


def read_config(name: str, records: Records) -> kb.Config:
    """The config of a new model, for the records' vocabulary.

    Raises:
        ValueError: a file's vocab_size or pad_token_id is not the vocabulary's.
        FileNotFoundError: neither a size nor a file.
    """
    vocabulary = records.tokenizer.vocabulary
    if name in SIZES:
        return SIZES[name](vocab_size=len(vocabulary), pad_token_id=vocabulary.pad_id)
    if not Path(name).is_file():
        raise FileNotFoundError(f"--config {name}: expected {', '.join(SIZES)} or a config.json, got no such file")
    config = kb.Config.from_json(name)
    for key, got, wanted in (
        ("vocab_size", config.vocab_size, len(vocabulary)),
        ("pad_token_id", config.pad_token_id, vocabulary.pad_id),
    ):
        if got != wanted:
            raise ValueError(
                f"{name}: {key} is {got}, but the vocabulary of {records.directory} wants {wanted}; correct the config"
            )
    return config


def check_length(config: kb.Config, longest: int, where: str) -> None:
    if longest > config.max_position_embeddings:
        raise ValueError(
            f"{where}: max_position_embeddings is {config.max_position_embeddings}, but records have up to {longest} "
            f"tokens; raise it in the config, or prepare the records with a smaller --max_length"
        )


def make_optimizer(options: PretrainOptions, bert: kb.Bert, phases: Sequence[Phase]) -> Any:
    """The paper's (A.2): AdamW with warm-up and linear decay over all phases."""
    total = sum(options.steps)
    warmup = min(WARMUP, total // 10) if options.warmup_steps is None else options.warmup_steps
    optimizer = adamw(
        options.learning_rate,
        total_steps=total,
        warmup_steps=warmup,
        weight_decay=options.weight_decay,
        clip_norm=options.clip_norm,
    )
    if options.compute_dtype == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    optimizer.build(trained_variables(bert.model, learns_nsp(options, phases)))
    return optimizer


def learns_nsp(options: PretrainOptions, phases: Sequence[Phase]) -> bool:
    """Left to right, [CLS] sees nothing but itself, and has no next sentence to tell (paper, 5.1: LTR & No NSP)."""
    return options.nsp and phases[0].records.nsp and options.objective == "masked_lm"


def objective(options: PretrainOptions, phases: Sequence[Phase]) -> Objective:
    return Objective(
        phases[0].records.tokenizer.vocabulary,
        nsp=learns_nsp(options, phases),
        left_to_right=options.objective == "left_to_right",
        seed=options.seed,
        rate=options.masking_rate,
        max_predictions=options.max_predictions,
        mask_share=options.mask_share,
        random_share=options.random_share,
        whole_word=options.whole_word,
    )


def check_continued(options: PretrainOptions, before: Position) -> None:
    if before.step >= sum(options.steps):
        raise ValueError(
            f"--continue_from {options.continue_from} stands at step {before.step}, and --steps ends at "
            f"{sum(options.steps)}: --steps counts from the beginning, give more"
        )


def identity(options: PretrainOptions, bert: kb.Bert, phases: Sequence[Phase]) -> dict[str, Any]:
    """Everything that decides the result; records count by what they hold, not by where they are."""
    given = {name: value for name, value in dataclasses.asdict(options).items() if name not in IN_NO_IDENTITY}
    found = {f"--{name}": value for name, value in given.items()}
    for phase in phases:
        for kind, records in (("records", phase.records), ("held-out records", phase.evals)):
            if records is not None:
                found[f"{kind} of phase {phase.number}"] = f"{len(records)} ({records.meta['hash'][:12]})"
    start = "new" if options.config is not None else "weights" if options.model is not None else "state"
    return {
        "command": "pretrain",
        **found,
        **{f"config {key}": value for key, value in bert.config.to_dict().items()},
        "vocabulary": bert.tokenizer.vocabulary.content_hash()[:12],
        "start": start if start == "new" else f"{start} {model_digest(bert, bert.model.weights)}",
    }


def write_results(options: PretrainOptions, run: Run, bert: kb.Bert, loop: Loop, position: Position) -> dict[str, Any]:
    """The checkpoint, then the curves, metrics.json last; returns what it holds."""
    rows = loop.history.read()
    last = {
        name: float(value) for name, value in rows[-1].items() if value and name not in ("step", "phase", "seconds")
    }
    held_out = {name: value for name, value in last.items() if name.startswith("eval_")}
    metrics: dict[str, Any] = {
        "command": "pretrain",
        **{name: value for name, value in last.items() if name in SCORES},
        **held_out,
        "most_frequent_token": loop.baseline,
        "steps": position.step,
        "tokens": int(position.tokens),
        "seconds": round(position.seconds, 2),
        "skipped_steps": loop.skipped(),
        "seed": options.seed,
        "flags": dataclasses.asdict(options),
    }
    provenance = {**bert.info.get("provenance", {}), "command": "pretrain", "steps": position.step}
    info = {**bert.info, "provenance": provenance | {"seed": options.seed}, "metrics": held_out}
    kb.save(dataclasses.replace(bert, info=info), run.output)
    plot_history(run.output / "curves.png", rows, PANELS)
    with atomic_write(run.output / "metrics.json") as file:
        json.dump(metrics, file, indent=1, ensure_ascii=False)
    say(f"checkpoint and curves.png are in {run.output}")
    return metrics


PANELS = {
    "loss": {"loss": "train", "eval_loss": "held out"},
    "masked tokens found": {"mlm_accuracy": "train", "eval_mlm_accuracy": "held out"},
    "next sentences found": {"nsp_accuracy": "train", "eval_nsp_accuracy": "held out"},
    "learning rate": {"learning_rate": "learning rate"},
}


def summary(metrics: dict[str, Any]) -> dict[str, Any]:
    """What the last line on stdout holds: metrics.json without the flags."""
    return {name: value for name, value in metrics.items() if name != "flags"} | {"output": metrics["flags"]["output"]}
