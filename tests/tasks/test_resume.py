"""A run that was stopped and started again ends as one that was not, bit for bit; another run's output is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_bert.tasks import classify, train


def command(tiny, rows, output, *more: str) -> list[str]:
    return [
        *("--model", str(tiny), "--train", rows(70), "--eval", rows(30, seed=1), "--output", str(output)),
        *("--max_length", "24", "--batch_size", "8", "--learning_rate", "1e-2", "--epochs", "3"),
        *("--log_every", "1", "--save_every", "4", *more),
    ]


def weights(output: Path) -> dict[str, np.ndarray]:
    return load_file(output / "model.safetensors")


def assert_same(output: Path, other: Path) -> None:
    ours, theirs = weights(output), weights(other)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)
    assert history(output) == history(other)
    assert (output / "predictions.tsv").read_bytes() == (other / "predictions.tsv").read_bytes()


@pytest.fixture(scope="module")
def unbroken(tiny, rows, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("unbroken") / "out"
    assert classify.main(command(tiny, rows, output)) == 0
    return output


def history(output: Path) -> list[list[str]]:
    """All but the seconds."""
    cells = [line.split(",") for line in (output / "history.csv").read_text().splitlines()]
    return [row[:4] + row[5:] for row in cells]


class Stop(BaseException):
    """Stands for a kill where a real one would cost a process."""


@pytest.mark.parametrize("steps", [4, 10, 18])
def test_stopped_after_any_step_it_ends_the_same(tiny, rows, tmp_path, unbroken, monkeypatch, steps):
    output = tmp_path / "out"
    seen = 0

    def check(*_):
        nonlocal seen
        seen += 1
        if seen == steps:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(train, "check_finite", check)
        with pytest.raises(Stop):
            classify.main(command(tiny, rows, output))
    assert not (output / "metrics.json").exists()
    classify.main(command(tiny, rows, output))
    assert_same(output, unbroken)


def test_killed_again_and_again_it_ends_the_same(tiny, rows, tmp_path, unbroken):
    """kill -9 within an epoch, at the end of one while the state is written, and while the checkpoint is."""
    output = tmp_path / "out"
    call = [
        sys.executable,
        "-c",
        "import sys; from keras_bert.tasks.classify import main; sys.exit(main(sys.argv[1:]))",
    ]
    for mark in ("step 9/", "step 16/", "step 27/", None):
        process = subprocess.Popen(
            [*call, *command(tiny, rows, output)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        for line in process.stderr:
            if mark is not None and line.startswith(mark):
                os.kill(process.pid, signal.SIGKILL)
                break
        out, _ = process.communicate(timeout=100)
        assert process.returncode == (0 if mark is None else -signal.SIGKILL)
    assert json.loads(out.splitlines()[-1])["steps"] == 27
    assert_same(output, unbroken)
    assert sorted(path.name for path in (output / "state").iterdir()) == ["lock", "run.json"]
