"""What `import keras_bert` costs beside `import tensorflow`: `python benchmarks/import_time.py --runs 9 --limit 1.15`.

Fresh processes, the two in turn so that both meet the same weather; medians; exit code 1 above the limit.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

SCRIPT = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
MODULES = ("tensorflow", "keras_bert")


def seconds(module: str) -> float:
    """One import in a process of its own."""
    command = [sys.executable, "-c", SCRIPT.format(module)]
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9, help="processes for each of the two")
    parser.add_argument("--limit", type=float, default=1.15, help="the ratio that is too much")
    options = parser.parse_args()
    for module in MODULES:
        seconds(module)  # fills the disk cache
    times: dict[str, list[float]] = {module: [] for module in MODULES}
    for run in range(options.runs):
        for module in MODULES if run % 2 else MODULES[::-1]:
            times[module].append(seconds(module))
    medians = {module: statistics.median(values) for module, values in times.items()}
    for module, values in times.items():
        print(f"import {module:12} median {medians[module]:.2f} s, from {min(values):.2f} to {max(values):.2f} s")
    ratio = medians["keras_bert"] / medians["tensorflow"]
    print(f"ratio {ratio:.3f} (limit {options.limit})")
    return int(ratio > options.limit)


if __name__ == "__main__":
    sys.exit(main())
