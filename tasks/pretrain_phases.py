"""The phases of a pre-training (paper, A.2: lengths of 128 first, then 512), and the batch of every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from keras_bert.tasks.pretrain_steps import Batch, pad_rows
from keras_bert.tasks.records import Records


@dataclass(frozen=True)
class Phase:
    """Some steps, on some records.

    Attributes:
        number: from 1.
        begin, end: its steps, counted from 0; `end` is the next phase's first.
        parts: in which a batch is computed, one after the other.
        evals: held-out records, or None.
    """

    number: int
    begin: int
    end: int
    batch_size: int
    parts: int
    records: Records
    evals: Records | None

    @property
    def cells(self) -> int:
        """Positions of a batch, padding counted."""
        return self.batch_size * self.records.max_length


class Feed:
    """The global batch of every step; the next one is made ready while the one before is learnt from.

    Which records a step learns from is a function of the seed and the step alone.

    Args:
        phases: in order.
        start: the run's first step: 0, or where another run ended.
        seed: of the order.
        multiple: rows are padded to a multiple of this.
    """

    def __init__(self, phases: Sequence[Phase], start: int, seed: int, multiple: Callable[[Phase], int]) -> None:
        self.phases, self.start, self.seed, self.multiple = phases, start, seed, multiple
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="batch")
        self.ready: dict[int, Future[tuple[Batch, list[str]]]] = {}

    def phase(self, step: int) -> Phase:
        return next(phase for phase in self.phases if step < phase.end)

    def batch(self, step: int) -> tuple[Batch, list[str]]:
        """A step's batch, and the names of its records."""
        for wanted in (step, step + 1):
            if wanted not in self.ready and wanted < self.phases[-1].end:
                self.ready[wanted] = self.thread.submit(self.make, wanted)
        return self.ready.pop(step).result()

    def make(self, step: int) -> tuple[Batch, list[str]]:
        phase = self.phase(step)
        place = (step - max(phase.begin, self.start)) * phase.batch_size
        inputs, labels, names = phase.records.batch(place, phase.batch_size, self.seed)
        pad_id = phase.records.tokenizer.vocabulary.pad_id
        return pad_rows(inputs, labels, self.multiple(phase), pad_id), names

    def close(self) -> None:
        self.thread.shutdown(cancel_futures=True)
