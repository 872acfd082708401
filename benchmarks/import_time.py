"""What `import keras_bert` costs beside `import tensorflow`: `python benchmarks/import_time.py --runs 9 --limit 1.15`.

Fresh processes, the two in turn so that both meet the same weather; medians; exit code 1 above the limit. Seconds of
CPU are shown beside the seconds that passed: on a busy machine they are the steadier measure.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

SCRIPT = """
import time
start, start_cpu = time.perf_counter(), time.process_time()
import {}
print(time.perf_counter() - start, time.process_time() - start_cpu)
"""
MODULES = ("tensorflow", "keras_bert")


def seconds(module: str) -> tuple[float, float]:
    """One import in a process of its own: seconds that passed, and seconds of CPU."""
    command = [sys.executable, "-c", SCRIPT.format(module)]
    # with bytecode kept, as an install has it: else our files are compiled anew in every process, and TensorFlow's not
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    passed, cpu = subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout.split()
    return float(passed), float(cpu)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9, help="processes for each of the two")
    parser.add_argument("--limit", type=float, default=1.15, help="the ratio that is too much")
    options = parser.parse_args()
    for module in MODULES:
        seconds(module)  # fills the caches
    times: dict[str, list[tuple[float, float]]] = {module: [] for module in MODULES}
    for run in range(options.runs):
        for module in MODULES if run % 2 else MODULES[::-1]:
            times[module].append(seconds(module))
    medians = {
        module: [statistics.median(column) for column in zip(*rows, strict=True)] for module, rows in times.items()
    }
    for module, (passed, cpu) in medians.items():
        print(f"import {module:12} median {passed:.2f} s, {cpu:.2f} s of CPU")
    tensorflow, ours = medians["tensorflow"], medians["keras_bert"]
    ratio, ratio_cpu = ours[0] / tensorflow[0], ours[1] / tensorflow[1]
    print(f"ratio {ratio:.3f}, of CPU {ratio_cpu:.3f} (limit {options.limit})")
    return int(ratio > options.limit)


if __name__ == "__main__":
    sys.exit(main())
