"""Which rows a command works on: the flags that name them, and the rows read with their labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from keras_bert.options import Group, option, required
from keras_bert.tasks.glue import TASKS, Task
from keras_bert.tasks.readers import Layout, Rows, read_rows
from keras_bert.tasks.training_options import DtypeOptions


@dataclass(frozen=True, kw_only=True)
class ModelOptions(DtypeOptions):
    """The model:"""

    model: str = required(
        "what to start from: a checkpoint directory of any origin, a Google zip, hf://org/name or keras_hub://preset"
    )
    max_length: int = option(128, "tokens a row has at most, [CLS] and [SEP] counted; longer texts are cut")
    lower_case: bool | None = option(None, "an uncased model; not given: as the checkpoint says")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length < 3:
            raise ValueError(f"--max_length must be at least 3, for [CLS], a token and [SEP]: got {self.max_length}")


@dataclass(frozen=True, kw_only=True)
class DataOptions(Group):
    """The data:"""

    task: Literal["cola", "sst2", "mrpc", "stsb", "rte", "wnli", "qnli", "mnli", "qqp"] | None = option(
        None, "a task of GLUE: its columns, labels and metrics are known"
    )
    data: str | None = option(None, "with --task: the folder that holds its train and dev files")
    train: str | None = option(
        None,
        "rows to train on: .tsv .csv .jsonl (or .gz of these), a folder or a glob of such files, or tfds://name:split",
    )
    eval: str | None = option(None, "rows to evaluate on, after every epoch")
    text_column: str | None = option(
        None, "the text's column: a header name, or a number counted from 0 where there is no header (default: text)"
    )
    pair_column: str | None = option(None, "the second text's column, for pairs")
    label_column: str | None = option(None, "the label's column (default: label)")
    header: bool | None = option(None, "the first line names the columns; not given: yes if a column is named")
    format: Literal["auto", "tsv", "csv", "jsonl"] = option("auto", "of the files; auto: by the name's end")
    invalid_utf8: Literal["error", "replace"] = option("error", "what to do with bytes that are not UTF-8")
    labels: tuple[str, ...] = option((), "the labels, in order; not given: those of the train rows, sorted")

    def layout(self) -> Layout:
        return Layout(self.text_column or "text", self.pair_column, self.label_column or "label", self.header)

    @property
    def names_columns(self) -> bool:
        return any((self.text_column, self.pair_column, self.label_column, self.header is not None))


@dataclass(frozen=True)
class Data:
    """What a fine-tuning works on: train rows, evaluation rows by name (the first one decides), the task if known."""

    train: Rows | None
    evals: dict[str, Rows]
    task: Task | None

    @property
    def paired(self) -> bool:
        rows = self.train or next(iter(self.evals.values()))
        return rows.pairs is not None

    @property
    def parts(self) -> dict[str, Rows]:
        return ({} if self.train is None else {"train": self.train}) | self.evals


def read_data(options: DataOptions, scores: bool) -> Data:
    """Reads the train and evaluation rows that the flags name.

    Args:
        scores: the command learns scores (regress), not labels (classify).

    Raises:
        ValueError: the flags do not fit each other or the command, or a file is wrong.
        FileNotFoundError: there is no such file.
    """
    task = TASKS[options.task] if options.task else None
    if task is not None and (task.labels is None) != scores:
        right = "regress" if task.labels is None else "classify"
        kind = "scores" if task.labels is None else "labels"
        raise ValueError(f"--task {task.name} has {kind}: use `keras-bert {right}`")
    if options.data is not None and task is None:
        raise ValueError("--data is the folder of a --task: give --task too, or name files with --train and --eval")
    train = options.train
    evals: tuple[str, ...] = (options.eval,) if options.eval else ()
    if options.data is not None and train and evals:
        raise ValueError("--data has no effect beside both --train and --eval: leave one of the three out")
    if options.data is not None and task is not None:
        train, evals = train or task.find_train(options.data), evals or task.find_evals(options.data)
    if not train and not evals:
        raise ValueError("no data: give --train FILE (and --eval FILE), or --task NAME --data FOLDER")

    def read(source: str) -> Rows:
        if task is not None and not options.names_columns:
            return task.read(source, options.invalid_utf8, options.format)
        rows = read_rows(source, [options.layout()], format=options.format, invalid=options.invalid_utf8)
        return rows if task is None else task.spelled(rows)

    names = ["eval"] if len(evals) == 1 else ["eval", "eval_mismatched"]
    return Data(read(train) if train else None, dict(zip(names, map(read, evals))), task)


def label_names(options: DataOptions, data: Data) -> tuple[str, ...]:
    """The labels in the order of the classifier's units: as given, as the task's, or those of the train rows, sorted.

    Raises:
        ValueError: a label is given twice, or only one is.
    """
    if len(options.labels) == 1:
        raise ValueError(f"--labels names one label, expected at least two: got {options.labels[0]!r}")
    if options.labels:
        if len(set(options.labels)) != len(options.labels):
            raise ValueError(f"--labels names a label twice: {', '.join(options.labels)}")
        return options.labels
    if data.task is not None and data.task.labels is not None:
        return data.task.labels
    rows = data.train or next(iter(data.evals.values()))
    assert rows.labels is not None
    return tuple(sorted(set(rows.labels), key=by_number_then_name))


def by_number_then_name(label: str) -> tuple[bool, float, str]:
    """Sorts "2" before "10", and numbers before words."""
    try:
        value = float(label)
    except ValueError:
        return True, 0.0, label
    return False, value if math.isfinite(value) else 0.0, label


def label_numbers(rows: Rows, labels: Sequence[str]) -> list[int]:
    """Each row's label as its place among the labels.

    Raises:
        ValueError: a label is not among them; with file and line, and what to do.
    """
    assert rows.labels is not None
    numbers = {label: number for number, label in enumerate(labels)}
    for index, label in enumerate(rows.labels):
        if label not in numbers:
            raise ValueError(f"{rows.where(index)}: {wrong_label(label, set(rows.labels), labels)}")
    return [numbers[label] for label in rows.labels]


def wrong_label(label: str, found: set[str], labels: Sequence[str]) -> str:
    """What is wrong with a label, and what to do; labels from 1 instead of from 0 are recognised."""
    known = ", ".join(map(repr, labels[:12])) + (", …" if len(labels) > 12 else "")
    if {str(number) for number in range(1, len(labels) + 1)} == found == {str(int(x) + 1) for x in digits(labels)}:
        return (
            f"the rows count labels from 1 ('1' to '{len(labels)}'), the model from 0 ({known}); "
            f"give --labels {','.join(sorted(found, key=by_number_then_name))}"
        )
    if label == "":
        return f"the label is empty, expected one of {known}; correct the row"
    return f"label {label!r} is not one of {known}; correct the row or give --labels"


def digits(labels: Sequence[str]) -> list[str]:
    return [label for label in labels if label.isdecimal()]


LARGEST = 1e18  # of scores: its square, the loss, is still a float32


def scores_of(rows: Rows) -> list[float]:
    """Each row's label as a number.

    Raises:
        ValueError: a label is not a finite number of float32's range; with file and line.
    """
    assert rows.labels is not None
    scores = []
    for index, label in enumerate(rows.labels):
        try:
            score = float(label)
        except ValueError:
            score = math.nan
        if not abs(score) <= LARGEST:
            raise ValueError(
                f"{rows.where(index)}: expected a number as label, got {label!r}; correct the row, name the column "
                f"with --label_column, or use `keras-bert classify` for labels that are names"
            )
        scores.append(score)
    return scores
