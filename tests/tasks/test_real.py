"""On real weights and real rows: a few steps learn, through the door, and memory stays flat."""

from __future__ import annotations

import gc
import json
import math
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from keras_bert.__main__ import main
from keras_bert.tasks.batches import Encoded
from keras_bert.tasks.classify import cross_entropy
from keras_bert.tasks.steps import TrainSet, make_optimizer, make_step
from keras_bert.tasks.training_options import TrainingOptions


def resident() -> float:
    """This process's memory, MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def head(source: Path, target: Path, count: int) -> str:
    with open(source, "rb") as file, open(target, "wb") as out:
        out.writelines(line for _, line in zip(range(count), file))
    return str(target)


def test_a_few_steps_on_mrpc_through_the_door(minilm, shared, tmp_path, capsys):
    folder = shared / "data" / "mrpc"
    train = head(folder / "msr_paraphrase_train.txt", tmp_path / "train.tsv", 97)
    dev = head(folder / "msr_paraphrase_test.txt", tmp_path / "dev.tsv", 41)
    code = main(
        [
            *("classify", "--model", str(minilm), "--task", "mrpc", "--train", train, "--eval", dev),
            *("--output", str(tmp_path / "out"), "--epochs", "1", "--batch_size", "16", "--max_length", "64"),
        ]
    )
    told = capsys.readouterr()
    assert code == 0, told.err
    result = json.loads(told.out.strip().splitlines()[-1])
    assert result["steps"] == 6
    assert result["score"] == pytest.approx((result["accuracy"] + result["f1"]) / 2)
    assert result["eval_loss"] < math.log(2)
    assert "22,713,216 weights" in told.err
    lines = (tmp_path / "out" / "predictions.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction"
    assert {line.split("\t")[1] for line in lines[1:]} <= {"0", "1"}


def test_a_bad_flag_is_one_line_at_the_door(capsys):
    assert main(["classify", "--modle", "x"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("keras-bert classify: unknown flag --modle; did you mean --model? ")
    assert error.count("\n") == 1


@pytest.fixture
def train_set() -> TrainSet:
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 24, 64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    ids = rng.integers(5, 20, int(starts[-1])).astype(np.int32)
    rows = Encoded(ids, starts, lengths, lengths, np.zeros(64, np.int32))
    return TrainSet(rows, rng.integers(0, 2, 64).astype(np.int32), np.ones(64, np.float32))


def test_memory_is_flat_over_steps(tiny, train_set):
    model = kb.load(tiny, head="classifier", labels=["a", "b"]).model
    step = make_step(model, cross_entropy(2, 0.0), make_optimizer(model, TrainingOptions(), 2000), 1, tf.int32)
    rng = np.random.default_rng(1)

    def steps(count: int) -> float:
        for _ in range(count):
            step(train_set, rng.choice(64, rng.integers(1, 16), replace=False))
        return resident()

    before = steps(300)
    assert steps(600) - before < 8


def test_memory_returns_when_models_are_let_go(tiny, train_set):
    def build_and_train() -> float:
        model = kb.load(tiny, head="classifier", labels=["a", "b"]).model
        step = make_step(model, cross_entropy(2, 0.0), make_optimizer(model, TrainingOptions(), 9), 1, tf.int32)
        step(train_set, np.arange(8))
        del model, step
        keras.backend.clear_session()
        gc.collect()
        return resident()

    sizes = [build_and_train() for _ in range(5)]
    assert sizes[-1] - sizes[1] < 60, sizes
