"""`prepare` beside google-research/bert: `python benchmarks/prepare.py --reference CHECKOUT`.

The same text in the same format, `dupe_factor` 1, one process against one process, in turn so that both meet the same
weather; give `taskset -c 0` before it and both have one core. The reference is TensorFlow 1's: it runs from where it
lies, in a process where `import tensorflow` gives `tensorflow.compat.v1`. It masks as it writes; ours leaves that to
the training, so that no epoch repeats a mask. Processor time is what a busy machine changes least.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

SENTENCES = 50  # to a document
LENGTH, SHORT = 128, 0.1
WANTED = 20.0
TIMED = """
import sys, time
{imports}
start, start_cpu = time.perf_counter(), time.process_time()
try:
    {work}
finally:
    print("work", time.perf_counter() - start, time.process_time() - start_cpu, flush=True)
"""
OURS = TIMED.format(
    imports="import tensorflow, tensorflow_text, keras_bert.tasks.prepare",
    work="keras_bert.tasks.prepare.main(sys.argv[1:])",
)
REFERENCE = TIMED.format(
    imports="""import runpy
import tensorflow.compat.v1 as tf
sys.modules["tensorflow"] = tf
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])""",
    work='runpy.run_path(sys.argv[0], run_name="__main__")',
)


class Took(NamedTuple):
    """Seconds that passed and of processor time, of the whole command and of its work after the imports."""

    whole: float
    whole_cpu: float
    work: float
    work_cpu: float


ROWS = ("whole command", "whole command, processor time", "after the imports", "after the imports, processor time")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", type=Path, required=True, help="a checkout of google-research/bert")
    parser.add_argument("--text", type=Path, default=Path("../shared/data/books"), help="folder of English text files")
    parser.add_argument("--vocab", type=Path, default=Path("../shared/data/vocab/bert-base-uncased-vocab.txt"))
    parser.add_argument("--megabytes", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=12345)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text.txt")
        write_text(options.text, text, options.megabytes)
        ours, theirs = [], []
        for round in range(options.rounds):
            pair = [(ours, run_ours), (theirs, run_theirs)]
            for times, run in pair if round % 2 else pair[::-1]:
                times.append(run(text, options))
                print(f"round {round}: {run.__name__} {times[-1]}", file=sys.stderr, flush=True)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("tensorflow", "tensorflow-text"))
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"Python {platform.python_version()}, {versions}; {cpus} CPU, {cpu_flags()}; load {os.getloadavg()[0]:.1f}")
    print(f"{options.megabytes:g} MB, {options.rounds} rounds, seed {options.seed}; medians, ratios of each round\n")
    print("| seconds | create_pretraining_data.py | keras-bert prepare | ratio |\n|---|---:|---:|---:|")
    ratios = {}
    for index, name in enumerate(ROWS):
        slow, quick = (statistics.median(took[index] for took in side) for side in (theirs, ours))
        ratios[name] = statistics.median(their[index] / our[index] for their, our in zip(theirs, ours, strict=True))
        print(f"| {name} | {slow:.1f} | {quick:.2f} | {ratios[name]:.1f} |")
    print(f"\nwanted: ≥ {WANTED:g}")
    return int(ratios[ROWS[-1]] < WANTED)


def write_text(folder: Path, path: Path, megabytes: float) -> None:
    """Novels as one sentence a line, an empty line after every fifty; from the beginning again where they end."""
    size = number = 0
    with open(path, "wb") as out:
        while size < megabytes * 1e6:
            for novel in sorted(folder.glob("*.txt")):
                for sentence in re.split(r"(?<=[.!?])\s+", novel.read_text("utf-8")):
                    if words := " ".join(sentence.split()):
                        number += 1
                        line = f"{words}\n".encode() + b"\n" * (number % SENTENCES == 0)
                        size += out.write(line)
                    if size >= megabytes * 1e6:
                        return


def run_ours(text: Path, options: argparse.Namespace) -> Took:
    flags = [
        *("--input", text, "--vocab", options.vocab, "--output", text.parent / "ours", "--overwrite", "--workers", 1),
        *("--dupe_factor", 1, "--max_length", LENGTH, "--short_rate", SHORT, "--seed", options.seed),
        *("--format", "sentences"),
    ]
    return timed(OURS, flags)


def run_theirs(text: Path, options: argparse.Namespace) -> Took:
    flags = [
        (options.reference / "create_pretraining_data.py").resolve(),
        *(f"--input_file={text}", f"--output_file={text.parent / 'theirs'}", f"--vocab_file={options.vocab}"),
        *("--dupe_factor=1", f"--max_seq_length={LENGTH}", f"--short_seq_prob={SHORT}"),
        f"--random_seed={options.seed}",
    ]
    return timed(REFERENCE, flags)


def timed(program: str, flags: Sequence[object]) -> Took:
    """What a program took, in a process of its own."""
    before, start = os.times(), time.perf_counter()
    command = [sys.executable, "-c", program, *map(str, flags)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    whole, after = time.perf_counter() - start, os.times()
    if done.returncode:
        raise SystemExit(f"{flags[0]} failed:\n{done.stderr[-3000:]}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Took(whole, cpu, *map(float, done.stdout.split()[-2:]))


def cpu_flags() -> str:
    known = Path("/proc/cpuinfo")
    flags = set(known.read_text().split()) if known.exists() else set()
    return " ".join(sorted(flag for flag in flags if flag.startswith("avx"))) or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
