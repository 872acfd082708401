"""A run that was stopped and started again ends as one that was not, bit for bit; another run's output is refused."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

import keras_bert as kb
from keras_bert.tasks import classify, train
from keras_bert.tasks.state import Run, load_state, save_state


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


def stop_at_step_9(_, rows) -> None:
    if rows[-1]["step"] == 9:
        raise Stop


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


def test_a_finished_run_is_not_done_again(tiny, rows, unbroken, last_line):
    before = {path: path.stat().st_mtime_ns for path in unbroken.iterdir() if path.is_file()}
    assert classify.main(command(tiny, rows, unbroken)) == 0
    assert last_line()["steps"] == 27
    assert before == {path: path.stat().st_mtime_ns for path in unbroken.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--learning_rate", "2e-2"], r"holds another run: --learning_rate was 0.01, is 0.02; give the same command"),
        (["--epochs", "4", "--seed", "1"], r"--epochs was 3, is 4; --seed was 42, is 1"),
        (["--labels", "pos,neg"], r"labels was \['neg', 'pos'\], is \['pos', 'neg'\]"),
        (["--train", "OTHER"], r"train rows was '70 \(\w+\)', is '71 \(\w+\)'"),
        (["--model", "OTHER_MODEL"], r"model was '\w+', is '\w+'"),
        (["--class_weights", "balanced"], r"--class_weights was \[\], is \['balanced'\]"),
    ],
)
def test_another_run_in_the_same_output_is_refused(tiny, rows, unbroken, tmp_path, more, message):
    if "OTHER_MODEL" in more:
        bert = kb.load(tiny)
        bert.encoder.weights[0].assign_add(tf.ones_like(bert.encoder.weights[0]))
        kb.save(bert, tmp_path / "model")
        more = ["--model", str(tmp_path / "model")]
    more = [rows(71) if word == "OTHER" else word for word in more]
    before = (unbroken / "model.safetensors").read_bytes()
    with pytest.raises(FileExistsError, match=message) as error:
        classify.main(command(tiny, rows, unbroken, *more))
    assert "\n" not in str(error.value)
    assert (unbroken / "model.safetensors").read_bytes() == before


def test_where_files_lie_and_how_often_is_logged_do_not_make_another_run(tiny, rows, unbroken, tmp_path, last_line):
    shutil.copytree(tiny, tmp_path / "moved")
    shutil.copy(rows(70), tmp_path / "train.tsv")
    more = ["--model", str(tmp_path / "moved"), "--train", str(tmp_path / "train.tsv"), "--log_every", "7"]
    assert classify.main(command(tiny, rows, unbroken, *more)) == 0
    assert last_line()["steps"] == 27


def test_a_run_that_failed_before_its_first_save_is_in_nobodys_way(tiny, rows, tmp_path):
    output = tmp_path / "out"
    with pytest.raises(ValueError, match="--freeze_layers 99"):
        classify.main(command(tiny, rows, output, "--freeze_layers", "99"))
    assert classify.main(command(tiny, rows, output, "--epochs", "1")) == 0
    shutil.rmtree(output / "state")
    (output / "state").mkdir()
    (output / "state" / "run.json").write_text('{"identity": {}, "finished": false}')
    (output / "metrics.json").unlink()
    with pytest.raises(FileExistsError, match="holds another run"):  # there is a checkpoint, whatever became of its run
        classify.main(command(tiny, rows, output))


def test_what_killed_processes_were_writing_is_taken_away(tmp_path):
    output = tmp_path / "out"
    with Run.open(output, {"a": 1}, False):
        pass
    files = [output / "state" / ".latest.safetensors.0123456789ab.draft", output / ".history.csv.0123456789ab.draft"]
    folder = output / "checkpoints" / ".step-00000004.0123456789ab.draft"
    for path in files:
        path.write_text("half")
    folder.mkdir(parents=True)
    with Run.open(output, {"a": 1}, False):
        assert not any(path.exists() for path in [*files, folder])


def test_a_directory_of_something_else_is_refused(tiny, rows, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="holds something else; give another, or --overwrite"):
        classify.main(command(tiny, rows, tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_overwrite_starts_anew_and_keeps_the_old_checkpoint_until_then(tiny, rows, tmp_path, monkeypatch):
    output = tmp_path / "out"
    short = ["--epochs", "1", "--overwrite"]
    classify.main(command(tiny, rows, output, *short))
    old = weights(output)
    with monkeypatch.context() as patch:
        patch.setattr(train, "check_finite", lambda *_: (_ for _ in ()).throw(Stop))
        with pytest.raises(Stop):
            classify.main(command(tiny, rows, output, *short, "--seed", "1"))
    assert all((value == weights(output)[name]).all() for name, value in old.items())
    classify.main(command(tiny, rows, output, *short, "--seed", "1"))
    assert any((value != weights(output)[name]).any() for name, value in old.items())


def test_two_processes_do_not_share_an_output(tmp_path):
    with Run.open(tmp_path / "out", {"a": 1}, False):
        second = Run.open(tmp_path / "out", {"a": 1}, False)
        with pytest.raises(BlockingIOError, match="another process is at work"):
            second.__enter__()


def test_a_state_of_another_model_is_refused(tmp_path):
    save_state(tmp_path / "x", [keras.Variable([1.0], name="a")], {"step": 1})
    assert load_state(tmp_path / "x", [keras.Variable([2.0], name="a")]) == {"step": 1}
    with pytest.raises(ValueError, match="of another version of this library"):
        load_state(tmp_path / "x", [keras.Variable([2.0], name="b")])


def test_a_damaged_state_says_the_way_out_which_works(tiny, rows, unbroken, tmp_path, monkeypatch):
    output = tmp_path / "out"
    argv = command(tiny, rows, output)
    with monkeypatch.context() as patch:
        patch.setattr(train, "write_history", stop_at_step_9)
        with pytest.raises(Stop):
            classify.main(argv)
    for name, damage in (("latest.safetensors", None), ("latest.safetensors", b"no header"), ("run.json", b"{")):
        path = output / "state" / name
        path.write_bytes(path.read_bytes()[:-9] if damage is None else damage)
        read = Run(output, {}).read_identity if name == "run.json" else functools.partial(load_state, path, [])
        with pytest.raises(ValueError, match=f"{name} is damaged.*; delete .*state and give --overwrite"):
            read()
    shutil.rmtree(output / "state")
    assert classify.main([*argv, "--overwrite"]) == 0
    assert_same(output, unbroken)
