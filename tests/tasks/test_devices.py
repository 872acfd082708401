"""Two devices learn what one learns. They are logical CPUs, which a process has to be told of before it starts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pretraining import World, column, history
from safetensors.numpy import load_file

STEPS = """
import json, sys
import keras, numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras_bert as kb
from keras_bert.tasks.devices import Devices
from keras_bert.tasks.pretrain_steps import Objective, make_step, pad_rows, trained_variables

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]
config = kb.Config(vocab_size=15, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
    max_position_embeddings=9, initializer_range=0.2, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
goal = Objective(kb.Vocabulary(TOKENS), True, False, 5, 0.3, 3, 0.8, 0.1, False)

def batches(rows, multiple):
    random = np.random.default_rng(1)
    for _ in range(4):
        lengths = random.integers(5, 10, (rows, 1))
        real = np.arange(9) < lengths
        ids = np.where(real, random.integers(5, 15, (rows, 9)), 0)
        ids[:, 0], ids[np.arange(rows), lengths[:, 0] - 1] = 2, 3
        types = np.where(real & (np.arange(9) > 4), 1, 0)
        inputs = {"input_word_ids": ids, "input_mask": real * 1, "input_type_ids": types}
        inputs = {name: value.astype(np.int32) for name, value in inputs.items()}
        yield pad_rows(inputs, random.integers(0, 2, rows).astype(np.int32), multiple, 0)

def curve(strategy, make, rows, parts):
    devices = Devices.open(strategy)
    keras.utils.set_random_seed(3)
    with devices.scope():
        model = kb.build_pretrainer(kb.build_encoder(config))
        optimizer = make()
        optimizer.build(trained_variables(model, True))
    step = make_step(model, optimizer, goal, devices, rows, parts)
    found = []
    for number, batch in enumerate(batches(rows, devices.replicas * parts)):
        sums = step(batch, number)
        found.append([float(sums.mlm_loss / sums.predictions), float(sums.nsp_loss / sums.rows), float(sums.tokens)])
    return found

makers = {"sgd": lambda: keras.optimizers.SGD(0.3), "adamw": lambda: kb.adamw(1e-3, clip_norm=0.1)}
print(json.dumps({
    f"{name} {rows} {parts}": [curve(strategy, make, rows, parts) for strategy in ("one_device", "mirrored")]
    for name, make in makers.items() for rows, parts in ((6, 1), (5, 1), (7, 2))
}))
"""


@pytest.fixture(scope="module")
def curves() -> dict[str, list]:
    done = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("case", ["6 1", "5 1", "7 2"])
@pytest.mark.parametrize("name, limit", [("sgd", 1e-5), ("adamw", 1e-4)])
def test_two_replicas_follow_one_devices_losses(curves, name, limit, case):
    """Rows that do not divide among the replicas, and rows in parts, too; gradients that are clipped, with AdamW."""
    one, two = curves[f"{name} {case}"]
    np.testing.assert_allclose(two, one, atol=limit)
    assert abs(one[0][0] - one[-1][0]) > 10 * limit  # it did learn


WHOLE = """
import sys
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from keras_bert.tasks.pretrain import main
sys.exit(main(sys.argv[1:]))
"""


def test_the_command_on_two_devices_evaluates_saves_and_goes_on_as_on_one(tmp_path):
    world = World(tmp_path)
    plain = world.config("plain.json", hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    flags = ["--eval", str(world.folder / "short"), "--eval_every", "6", "--learning_rate", "1e-3", "--save_every", "6"]

    def run(output: Path, *more: str) -> None:
        argv = world.command(output, *flags, "--strategy", "mirrored", *more, start=("--config", plain))
        done = subprocess.run([sys.executable, "-c", WHOLE, *argv], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]

    run(tmp_path / "whole")
    world.run(tmp_path / "one", *flags, start=("--config", plain))
    for name in ("loss", "eval_loss"):
        np.testing.assert_allclose(column(tmp_path / "whole", name), column(tmp_path / "one", name), atol=1e-4)
    ours, theirs = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "one"))
    assert {name: value.shape for name, value in ours.items()} == {name: value.shape for name, value in theirs.items()}
    # as a kill after the save at step 12 leaves it
    shutil.copytree(tmp_path / "whole", tmp_path / "again")
    for name in ("metrics.json", "model.safetensors", "config.json", "checkpoints/step-00000018"):
        path = tmp_path / "again" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    state = tmp_path / "again" / "state" / "run.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"finished": False}))
    run(tmp_path / "again")
    assert history(tmp_path / "again") == history(tmp_path / "whole")
    assert all(
        (value == ours[name]).all() for name, value in load_file(tmp_path / "again" / "model.safetensors").items()
    )
