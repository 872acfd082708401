"""GLUE's sentence tasks: their files, columns, labels and the metrics that GLUE reports (Wang et al., 2018).

Columns are known both as in GLUE's own files and as in other common copies: the header's names decide.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from keras_bert.tasks.readers import Invalid, Layout, Rows, read_rows


@dataclass(frozen=True)
class Task:
    """One task: `labels` in GLUE's order (None: a score), `others` maps other spellings to them."""

    name: str
    file: str
    layouts: tuple[Layout, ...]
    metrics: tuple[str, ...]
    labels: tuple[str, ...] | None = ("0", "1")
    others: Mapping[str, str] = field(default_factory=dict)
    train_files: tuple[str, ...] = ("train.tsv",)
    eval_files: tuple[tuple[str, ...], ...] = (("dev.tsv",),)

    @property
    def pair(self) -> bool:
        return self.layouts[0].pair is not None

    def read(self, source: str, invalid: Invalid = "error", format: str = "auto") -> Rows:
        """A file of this task; labels in GLUE's spelling.

        Raises:
            ValueError: as `read_rows`; a label in neither spelling is left to `check`.
        """
        if format == "auto" and not source.startswith("tfds://"):
            format = "tsv"  # whatever the name: STS-B's own files are tab-separated and end in .csv
        return self.spelled(read_rows(source, self.layouts, format=format, invalid=invalid))

    def spelled(self, rows: Rows) -> Rows:
        """The rows with their labels in GLUE's spelling."""
        assert rows.labels is not None
        return rows.with_labels([self.others.get(label, label) for label in rows.labels])

    def find_train(self, folder: str) -> str:
        """The train file in a folder.

        Raises:
            ValueError: it is not there; the message lists what is.
        """
        names = sorted(os.listdir(folder))
        found = first_match(names, self.train_files)
        if found is None:
            raise ValueError(self.nothing("train", folder, names, self.train_files))
        return os.path.join(folder, found)

    def find_evals(self, folder: str) -> tuple[str, ...]:
        """The eval files in a folder: one, or two of MNLI.

        Raises:
            ValueError: none is there; the message lists what is.
        """
        names = sorted(os.listdir(folder))
        found = [name for name in (first_match(names, patterns) for patterns in self.eval_files) if name]
        if not found:
            raise ValueError(self.nothing("eval", folder, names, self.eval_files[0]))
        return tuple(os.path.join(folder, name) for name in found)

    def nothing(self, what: str, folder: str, names: Sequence[str], patterns: Sequence[str]) -> str:
        return (
            f"{folder} holds no {what} file of {self.name}: expected {' or '.join(patterns)}, found "
            f"{', '.join(names) or 'nothing'}; name it with --{what} FILE"
        )


def first_match(names: Sequence[str], patterns: Sequence[str]) -> str | None:
    """The first name that fits the first pattern that any fits."""
    for pattern in patterns:
        for name in names:
            if fnmatch.fnmatchcase(name, pattern):
                return name
    return None


def numbers(*labels: str) -> dict[str, str]:
    """Labels by their number, as files made for other libraries hold them."""
    return {str(index): label for index, label in enumerate(labels)}


def layouts(*columns: tuple[str, ...]) -> tuple[Layout, ...]:
    """(text, label) or (text, pair, label), each a layout to try."""
    return tuple(Layout(c[0], c[1] if len(c) == 3 else None, c[-1]) for c in columns)


ENTAILMENT = ("entailment", "not_entailment")
NLI = ("entailment", "neutral", "contradiction")
PAIR = ("sentence1", "sentence2", "label")
DEV = ("dev.tsv", "dev_part.tsv")

TASKS = {
    task.name: task
    for task in (
        Task(
            "cola", "CoLA", layouts(("sentence", "label"), ("3", "1")), ("matthews",),
            others={"unacceptable": "0", "acceptable": "1"},
        ),
        Task(
            "sst2", "SST-2", layouts(("sentence", "label"), ("content", "label")), ("accuracy",),
            others={"negative": "0", "positive": "1"},
        ),
        Task(
            "mrpc", "MRPC", layouts(("#1 String", "#2 String", "Quality"), PAIR), ("accuracy", "f1"),
            others={"not_equivalent": "0", "equivalent": "1"},
            train_files=("train.tsv", "msr_paraphrase_train.txt"),
            eval_files=(("dev.tsv", "msr_paraphrase_test.txt"),),
        ),
        Task(
            "stsb", "STS-B", layouts(("sentence1", "sentence2", "score"), PAIR, ("5", "6", "4")),
            ("pearson", "spearman"), labels=None,
            train_files=("train.tsv", "sts-train.csv"), eval_files=(("dev.tsv", "sts-dev.csv"),),
        ),
        Task("rte", "RTE", layouts(PAIR), ("accuracy",), ENTAILMENT, numbers(*ENTAILMENT)),
        Task("wnli", "WNLI", layouts(PAIR), ("accuracy",), others={"not_entailment": "0", "entailment": "1"}),
        Task(
            "qnli", "QNLI", layouts(("question", "sentence", "label")), ("accuracy",),
            ENTAILMENT, numbers(*ENTAILMENT),
        ),
        Task(
            "mnli", "MNLI-m",
            layouts(("sentence1", "sentence2", "gold_label"), PAIR, ("premise", "hypothesis", "label")),
            ("accuracy",), NLI, numbers(*NLI),
            eval_files=(("dev_matched.tsv", "dev_matched*.tsv"), ("dev_mismatched.tsv", "dev_mismatched*.tsv")),
        ),
        Task(
            "qqp", "QQP", layouts(("question1", "question2", "is_duplicate"), ("question1", "question2", "label")),
            ("accuracy", "f1"), others={"not_duplicate": "0", "duplicate": "1"}, eval_files=(DEV,),
        ),
    )
}  # fmt: skip
