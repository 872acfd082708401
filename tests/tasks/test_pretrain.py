"""pretrain: learns, goes on bit for bit where it was killed, refuses another run's output, and stops at bad numbers."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from pretraining import TOKENS, World, column, history
from safetensors.numpy import load_file

import keras_bert as kb
from keras_bert.tasks import pretrain_checkpoints
from keras_bert.tasks.pretrain_checkpoints import Checkpoints
from keras_bert.tasks.pretrain_loop import Loop


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def unbroken(world, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("unbroken") / "out"
    world.run(output)
    return output


def assert_same(output: Path, other: Path) -> None:
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (output, other))
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)
    assert history(output) == history(other)


class Stop(BaseException):
    """Stands for a kill where a real one would cost a process."""


def stopped_at(monkeypatch: pytest.MonkeyPatch, step: int, main: object) -> None:
    """Runs until a step has been taken, and no further."""
    one_step = Loop.one_step

    def stopping(self: Loop, feed: object) -> None:
        one_step(self, feed)
        if self.position.step == step:
            self.checkpoints.wait()
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "one_step", stopping)
        with pytest.raises(Stop):
            main()


def test_the_model_learns_what_the_text_is_like(world, tmp_path):
    world.run(tmp_path / "out", "--steps", "150", "--batch_size", "16", "--eval", str(world.folder / "short"))
    losses, held_out = column(tmp_path / "out", "loss"), column(tmp_path / "out", "eval_mlm_accuracy")
    assert np.mean(losses[-10:]) < 0.6 * np.mean(losses[:10])
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert held_out[-1] == metrics["eval_mlm_accuracy"] > metrics["most_frequent_token"] + 0.2


def test_what_it_leaves_behind(world, unbroken, tmp_path):
    assert (unbroken / "curves.png").read_bytes().startswith(b"\x89PNG")
    steps = [f"step-{step:08}" for step in (12, 16, 18)]  # the last three
    assert sorted(path.name for path in (unbroken / "checkpoints").iterdir()) == steps
    assert column(unbroken, "step") == list(range(1, 19))
    kept, final = kb.load(unbroken / "checkpoints" / steps[-1]), kb.load(unbroken)
    assert final.head == "pretrainer"
    assert kept.tokenizer.vocabulary.tokens == final.tokenizer.vocabulary.tokens
    for ours, theirs in zip(kept.model.weights, final.model.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("step", [1, 4, 7, 16, 17])
def test_stopped_after_any_step_it_ends_the_same(world, unbroken, tmp_path, monkeypatch, step):
    output = tmp_path / "out"
    stopped_at(monkeypatch, step, lambda: world.run(output))
    world.run(output)
    assert_same(output, unbroken)


def test_rows_of_the_history_that_come_less_often_than_steps_end_the_same_too(world, tmp_path, monkeypatch):
    flags = ["--log_every", "5", "--eval_every", "7", "--eval", str(world.folder / "short")]
    world.run(tmp_path / "whole", *flags)
    stopped_at(monkeypatch, 13, lambda: world.run(tmp_path / "out", *flags))
    world.run(tmp_path / "out", *flags)
    assert_same(tmp_path / "out", tmp_path / "whole")
    assert column(tmp_path / "out", "step") == [5, 7, 10, 14, 15, 18]
    assert len(column(tmp_path / "out", "eval_loss")) == 3


def test_killed_by_the_system_at_random_moments_it_ends_the_same(world, unbroken, tmp_path):
    output = tmp_path / "out"
    call = [sys.executable, "-m", "keras_bert", "pretrain", *world.command(output)]
    for mark in ("step 3/", "step 9/", None):
        process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        for line in process.stderr:
            if mark is not None and line.startswith(mark):
                os.kill(process.pid, signal.SIGKILL)
                break
        out, _ = process.communicate(timeout=200)
        assert process.returncode == (0 if mark is None else -signal.SIGKILL)
    assert json.loads(out.splitlines()[-1])["steps"] == 18
    assert_same(output, unbroken)


def test_a_finished_run_is_left_as_it_is(world, unbroken, capsys):
    before = {path: path.stat().st_mtime_ns for path in unbroken.rglob("*") if path.is_file()}
    world.run(unbroken)
    assert "nothing to do" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in unbroken.rglob("*") if path.is_file()} == before


def test_a_place_far_away_is_found_as_fast_as_a_near_one(world, monkeypatch):
    """Not timed: what is read and drawn for it is counted."""
    from keras_bert.tasks import records

    drawn: list[int] = []
    read, order = records.read_shard, records.shuffled
    monkeypatch.setattr(records, "read_shard", lambda *args: drawn.append(-1) or read(*args))
    monkeypatch.setattr(records, "shuffled", lambda count, *args: drawn.append(count) or order(count, *args))
    costs = []
    for place in (100, 1_000_000):
        drawn.clear()
        records.Records(world.folder / "short").batch(place * 5, 5, seed=3)
        costs.append(len(drawn))
    assert costs[0] == costs[1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--batch_size", "6"], "--batch_size was [5], is [6]"),
        (["--seed", "7"], "--seed was 42, is 7"),
        (["--train", "long"], "records of phase 1 was"),
        (["--nonsp"], "--nsp was True, is False"),
    ],
)
def test_another_runs_output_is_refused_with_what_differs(world, unbroken, change, said):
    change = [str(world.folder / word) if word == "long" else word for word in change]
    before = (unbroken / "model.safetensors").read_bytes()
    with pytest.raises(FileExistsError, match="holds another run") as error:
        world.run(unbroken, *change)
    assert said in str(error.value)
    assert (unbroken / "model.safetensors").read_bytes() == before


def test_another_config_in_the_same_output_is_refused(world, unbroken):
    other = world.config("wider.json", intermediate_size=24)
    with pytest.raises(FileExistsError, match="config intermediate_size was 20, is 24"):
        world.run(unbroken, start=("--config", other))


def test_overwrite_forgets_the_run_that_was_there(world, tmp_path):
    world.run(tmp_path / "out", "--steps", "6")
    world.run(tmp_path / "out", "--steps", "3", "--overwrite")
    assert [path.name for path in (tmp_path / "out" / "checkpoints").iterdir()] == ["step-00000003"]
    assert column(tmp_path / "out", "step") == [1, 2, 3]


def test_two_phases_of_two_lengths_in_one_command(world, tmp_path):
    trains = f"{world.folder / 'short'},{world.folder / 'long'}"
    flags = ["--train", trains, "--steps", "6,4", "--batch_size", "5,3", "--accumulation_steps", "1,2"]
    world.run(tmp_path / "out", *flags)
    assert column(tmp_path / "out", "phase") == [1] * 6 + [2] * 4
    rates = column(tmp_path / "out", "learning_rate")
    assert rates == sorted(rates, reverse=True)  # one schedule over both
    assert rates[-1] == 0


def test_accumulated_parts_make_the_step_of_the_whole_batch(world, tmp_path):
    """Five rows in two parts: one of them has a row of padding, which counts for nothing."""
    plain = world.config("plain.json", hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    for parts in ("1", "2"):
        world.run(tmp_path / parts, "--accumulation_steps", parts, start=("--config", plain))
    np.testing.assert_allclose(column(tmp_path / "1", "loss"), column(tmp_path / "2", "loss"), rtol=1e-4)


def test_without_next_sentence_its_head_and_the_pooler_stay_as_they_were(world, unbroken, tmp_path):
    world.run(tmp_path / "out", "--nonsp")
    assert "nsp_loss" not in history(tmp_path / "out")[0]
    ours, theirs = load_file(tmp_path / "out" / "model.safetensors"), load_file(unbroken / "model.safetensors")
    idle = [name for name in ours if "pooler" in name or "seq_relationship" in name]
    assert len(idle) == 4
    assert not any(ours[name].any() for name in idle if name.endswith("bias"))
    assert all(theirs[name].any() for name in idle)


def test_rows_without_pairs_are_learnt_from(world, tmp_path):
    world.run(tmp_path / "out", "--train", str(world.folder / "rows"))
    assert column(tmp_path / "out", "loss") == column(tmp_path / "out", "mlm_loss")


def test_left_to_right_is_saved_as_a_decoder(world, tmp_path):
    world.run(tmp_path / "out", "--objective", "left_to_right", "--steps", "60", "--batch_size", "16")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["is_decoder"] is True
    assert kb.load(tmp_path / "out").config.attention == "causal"
    losses = column(tmp_path / "out", "loss")
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])


def test_from_the_weights_alone_or_with_the_state(world, unbroken, tmp_path):
    world.run(tmp_path / "weights", "--steps", "2", start=("--model", str(unbroken)))
    assert column(tmp_path / "weights", "step") == [1, 2]
    world.run(tmp_path / "state", "--steps", "22", start=("--continue_from", str(unbroken)))
    assert column(tmp_path / "state", "step") == [19, 20, 21, 22]
    first = load_file(tmp_path / "state" / "checkpoints" / "step-00000020" / "state" / "training.safetensors")
    assert [value for name, value in first.items() if name.endswith("iteration")] == [20]
    rate = column(tmp_path / "state", "learning_rate")[0]
    assert rate == pytest.approx(1e-2 * (22 - 19) / (22 - 2))  # the schedule goes on where it stood
    with pytest.raises(ValueError, match=r"stands at step 18.*--steps ends at 18"):
        world.run(tmp_path / "short", start=("--continue_from", str(unbroken)))


def test_a_run_that_continues_another_goes_on_too(world, unbroken, tmp_path, monkeypatch):
    start = ("--continue_from", str(unbroken / "checkpoints" / "step-00000016"))
    world.run(tmp_path / "whole", "--steps", "24", start=start)
    stopped_at(monkeypatch, 21, lambda: world.run(tmp_path / "out", "--steps", "24", start=start))
    world.run(tmp_path / "out", "--steps", "24", start=start)
    assert_same(tmp_path / "out", tmp_path / "whole")


def test_a_loss_that_is_no_number_stops_the_run_with_what_to_look_at(world, tmp_path):
    with pytest.raises(ValueError, match="mlm_loss is nan") as error:
        world.run(tmp_path / "out", "--learning_rate", "1e30", "--warmup_steps", "6", "--save_every", "1")
    text = str(error.value)
    step = int(re.search(r"at step (\d+): training stops", text)[1])
    assert "records-00000-of-00001.tfrecord:" in text
    good = tmp_path / "out" / "checkpoints" / f"step-{step - 1:08}"
    assert f"Last good checkpoint: {good}" in text
    assert all(np.isfinite(weight).all() for weight in load_file(good / "model.safetensors").values())


def test_steps_that_float16_skips_are_counted(world, tmp_path, capsys, monkeypatch):
    scaling = functools.partial(keras.optimizers.LossScaleOptimizer, initial_scale=2.0**24)  # which overflows here
    monkeypatch.setattr(keras.optimizers, "LossScaleOptimizer", scaling)
    world.run(tmp_path / "out", "--dtype", "mixed_float16", "--steps", "5")
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    last = load_file(tmp_path / "out" / "checkpoints" / "step-00000005" / "state" / "training.safetensors")
    updates = next(int(value) for name, value in last.items() if name.endswith("adamw/iteration"))
    assert metrics["skipped_steps"] == 5 - updates > 0
    assert f"{metrics['skipped_steps']} steps skipped" in capsys.readouterr().err


def test_a_checkpoint_that_cannot_be_written_stops_the_run(world, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pretrain_checkpoints, "write_state", full)
        with pytest.raises(OSError, match="No space left"):
            world.run(tmp_path / "out")
    assert not [path for path in (tmp_path / "out" / "checkpoints").iterdir() if not path.name.startswith(".")]
    world.run(tmp_path / "out")  # there is space again


def test_half_a_checkpoint_is_not_gone_on_from(world, unbroken, tmp_path):
    shutil.copytree(unbroken / "checkpoints" / "step-00000012", tmp_path / "step-00000012")
    shutil.copytree(unbroken / "checkpoints" / "step-00000016", tmp_path / ".step-00000016.0123456789ab.draft")
    assert max(pretrain_checkpoints.steps_in(tmp_path)) == 12
    damaged = tmp_path / "step-00000012" / "state" / "training.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-100])
    bert = kb.load(unbroken)
    optimizer = kb.adamw(1e-2)
    optimizer.build(bert.model.trainable_variables)
    with pytest.raises(ValueError, match="training.safetensors is damaged"):
        Checkpoints(tmp_path, bert, optimizer, 3).load(tmp_path / "step-00000012")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--steps", ""], "--steps is missing"),
        (["--steps", "4,5"], "--steps has 2 items, expected 1"),
        (["--steps", "many"], "--steps takes whole numbers, with commas between: got 'many'"),
        (["--batch_size", "0"], "--batch_size must be at least 1: got 0"),
        (["--model", "x"], "got --config and --model"),
        (["--mask_share", "0.95"], "--mask_share and --random_share"),
        (["--masking_rate", "1"], "--masking_rate must lie between 0 and 1"),
        (["--warmup_steps", "19"], "--warmup_steps must lie from 0 to --steps, 18: got 19"),
        (["--train", "nowhere"], "nowhere has no meta.json: expected a directory that `keras-bert prepare` wrote"),
        (["--train", "{short},{rows}", "--steps", "2,2"], "prepare both the same way"),
    ],
)
def test_flags_that_make_no_sense_are_refused(world, tmp_path, flags, said):
    words = [word.format(short=world.folder / "short", rows=world.folder / "rows") for word in flags]
    with pytest.raises((ValueError, FileNotFoundError)) as error:
        world.run(tmp_path / "out", *words)
    assert said in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_vocabulary_that_does_not_fit_the_records_is_refused(world, unbroken, tmp_path):
    with pytest.raises(ValueError, match="vocab_size is 30, but the vocabulary of .*short wants 26"):
        world.run(tmp_path / "out", start=("--config", world.config("other.json", vocab_size=30)))
    with pytest.raises(ValueError, match=r"max_position_embeddings is 20, but records have up to 24"):
        world.run(tmp_path / "out", start=("--config", world.config("short.json", max_position_embeddings=20)))
    shutil.copytree(unbroken, tmp_path / "other")
    (tmp_path / "other" / "vocab.txt").write_text("\n".join([*TOKENS[:-1], "!"]) + "\n")
    with pytest.raises(ValueError, match=r"its vocabulary \(26 tokens\) is not the one that .*short was made with"):
        world.run(tmp_path / "out", start=("--model", str(tmp_path / "other")))
