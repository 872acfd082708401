"""The loop's laws: which rows, in which order, with which gradient; and what each of its flags does."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

import keras_bert as kb
from keras_bert.tasks import classify, regress
from keras_bert.tasks.batches import (
    Encoded,
    encode,
    encode_all,
    make_packer,
    padding_share,
    plan_epoch,
    plan_evaluation,
)
from keras_bert.tasks.classify import cross_entropy, row_weights
from keras_bert.tasks.readers import Rows
from keras_bert.tasks.steps import TrainSet, make_optimizer, make_step, prepare
from keras_bert.tasks.training_options import TrainingOptions

LENGTHS = st.lists(st.integers(2, 60), min_size=1, max_size=300).map(np.array)


@example(np.arange(500) % 41 + 2, 2, 1, 0, True)  # several pools
@given(LENGTHS, st.integers(1, 9), st.integers(-(2**70), 2**70), st.integers(0, 9), st.booleans())
def test_each_row_exactly_once_an_epoch(lengths, batch_size, seed, epoch, buckets):
    batches = plan_epoch(lengths, batch_size, seed, epoch, buckets)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert sorted(map(len, batches))[1:] == [batch_size] * (len(batches) - 1)


def test_the_plan_depends_on_seed_and_epoch_alone():
    lengths = np.arange(100) % 17
    plans = [np.concatenate(plan_epoch(lengths, 8, *key)).tolist() for key in [(1, 0), (1, 1), (2, 0), (1, 0)]]
    assert plans[0] == plans[3]
    assert len({tuple(plan) for plan in plans}) == 3
    # Philox's bits are fixed: a stopped run may go on under another release of numpy
    assert plan_epoch(np.arange(10), 3, 1, 0, buckets=False)[0].tolist() == [3, 5, 2]


def test_buckets_pad_less():
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 120, 4000)
    encoded = Encoded(np.zeros(0), np.concatenate([[0], np.cumsum(lengths)]), lengths, lengths, lengths)
    with_buckets, without = (padding_share(encoded, plan_epoch(lengths, 32, 0, 0, x)) for x in (True, False))
    assert with_buckets < 0.1 < 0.4 < without


def rows_of(texts, pairs=None, labels=None) -> Rows:
    return Rows("rows", texts, pairs, labels or ["pos"] * len(texts), list(range(1, len(texts) + 1)))


TEXTS = st.text(st.sampled_from("good bad,. x"), max_size=60)


@settings(max_examples=20)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=9), st.booleans())
def test_encoded_rows_are_what_the_preprocessor_gives(packers, rows, paired):
    pack_rows, preprocessor = packers[paired]
    columns = [list(column) for column in zip(*rows)][: 2 if paired else 1]
    batch = encode(pack_rows, rows_of(*columns)).batch(np.arange(len(rows))[::-1])
    want = preprocessor(*[tf.constant(column[::-1]) for column in columns])
    width = batch["input_word_ids"].shape[1]
    assert width % 8 == 0
    for name, value in batch.items():
        np.testing.assert_array_equal(value, want[name][:, :width])
    assert int(tf.reduce_sum(want["input_mask"][:, width:])) == 0


@pytest.fixture(scope="module")
def packers(tokenizer):
    preprocessor = kb.Preprocessor(tokenizer, sequence_length=16)
    return {paired: (make_packer(tokenizer, paired, 16), preprocessor) for paired in (False, True)}


@pytest.fixture(scope="module")
def tokenizer(tiny):
    return kb.load(tiny).tokenizer


@pytest.fixture(scope="module")
def train_set(tokenizer):
    rng = np.random.default_rng(3)
    words = ["good", "bad", "film", "the", "was", "liked"]
    texts = [" ".join(rng.choice(words, rng.integers(1, 12))) for _ in range(21)]
    encoded = encode_all(tokenizer, {"x": rows_of(texts)}, 16)["x"]
    weights = rng.uniform(0.5, 2, 21).astype(np.float32)
    return TrainSet(encoded, np.array(["good" in text for text in texts], np.int32), weights)


def fresh(tiny, **options):
    keras.utils.set_random_seed(5)
    model = kb.load(tiny, head="classifier", labels=["neg", "pos"]).model
    settings = TrainingOptions(**({"dropout": 0.0, "learning_rate": 1e-2, "warmup_share": 0.0} | options))
    prepare(model, settings)
    optimizer = make_optimizer(model, settings, 10)
    return model, make_step(model, cross_entropy(2, 0.0), optimizer, settings.accumulation_steps, tf.int32)


def test_a_batch_in_parts_is_the_same_step(tiny, train_set):
    rows = np.arange(21)
    found = []
    for parts in (1, 4):
        model, step = fresh(tiny, accumulation_steps=parts)
        losses = [step(train_set, rows) for _ in range(3)]
        found.append((losses, [weight.numpy() for weight in model.weights]))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    for one, other in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_the_loss_is_the_weighted_mean_whatever_the_padding(tiny, train_set):
    model, step = fresh(tiny, learning_rate=1e-9)
    rows = np.array([3, 1, 20, 7])
    logits = model(train_set.rows.batch(rows)).numpy().astype(np.float64)
    losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(4), train_set.targets[rows]]
    want = np.average(losses, weights=train_set.weights[rows])
    assert step(train_set, rows) == pytest.approx(want, rel=1e-5)


def test_one_graph_serves_every_size_and_length(tiny, train_set):
    traced = 0
    loss = cross_entropy(2, 0.0)

    def counted(*arguments):
        nonlocal traced
        traced += 1
        return loss(*arguments)

    model, _ = fresh(tiny)
    step = make_step(model, counted, make_optimizer(model, TrainingOptions(), 10), 1, tf.int32)
    for rows in (np.arange(21), np.arange(3), np.array([4])):
        step(train_set, rows)
    assert traced == 1


def test_label_smoothing_is_keras_own():
    logits, targets = tf.constant([[1.0, -2.0, 0.5], [0.3, 0.1, 4.0]]), tf.constant([2, 0])
    want = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.2, reduction=None)
    np.testing.assert_allclose(cross_entropy(3, 0.2)(logits, targets), want(tf.one_hot(targets, 3), logits), rtol=1e-6)


def test_class_weights():
    targets = np.array([0, 0, 0, 1])
    from sklearn.utils.class_weight import compute_sample_weight

    np.testing.assert_allclose(row_weights(targets, "ab", ["balanced"]), compute_sample_weight("balanced", targets))
    assert row_weights(targets, "ab", ["b=2.5"]).tolist() == [1, 1, 1, 2.5]
    for wrong in (["c=1"], ["b=x"], ["b=-1"], ["balanced", "b=1"], ["a=0", "b=0"]):
        with pytest.raises(ValueError, match="--class_weights"):
            row_weights(targets, "ab", wrong)


def run(command, tiny, rows, output, *more: str) -> Path:
    scores = command is regress
    argv = [
        *("--model", str(tiny), "--train", rows(70, score=scores), "--eval", rows(30, seed=1, score=scores)),
        *("--output", str(output), "--max_length", "24", "--batch_size", "8", "--learning_rate", "1e-2"),
        *("--epochs", "2", *more),
    ]
    assert command.main(argv) == 0
    return output


def weights_of(folder: Path) -> dict[str, np.ndarray]:
    return load_file(folder / "model.safetensors")


def metrics_of(folder: Path) -> dict:
    return json.loads((folder / "metrics.json").read_text())


@pytest.fixture(scope="module")
def plain(tiny, rows, tmp_path_factory) -> Path:
    return run(classify, tiny, rows, tmp_path_factory.mktemp("plain") / "out", "--epochs", "5")


def test_the_seed_decides_everything(tiny, rows, tmp_path, plain):
    again = run(classify, tiny, rows, tmp_path / "again", "--epochs", "5")
    other = run(classify, tiny, rows, tmp_path / "other", "--seed", "43")
    for name, value in weights_of(plain).items():
        np.testing.assert_array_equal(value, weights_of(again)[name])
    assert any((value != weights_of(other)[name]).any() for name, value in weights_of(plain).items())


def test_frozen_layers_stay_as_they_are_and_others_do_not(tiny, rows, tmp_path):
    before = weights_of(tiny)
    after = weights_of(run(classify, tiny, rows, tmp_path / "out", "--freeze_layers", "2"))
    for name, value in before.items():
        frozen = bool(re.search(r"embeddings|layer\.[01]\.", name))
        assert np.array_equal(value, after[name if name in after else f"bert.{name}"]) == frozen, name


def test_early_stop_ends_the_run_and_best_is_kept(tiny, rows, tmp_path):
    """At a rate that learns nothing the first epoch stays the best one."""
    output = run(
        classify, tiny, rows, tmp_path / "out", "--epochs", "9", "--learning_rate", "1e-12", "--early_stop", "2"
    )
    metrics = metrics_of(output)
    assert (metrics["epochs"], metrics["kept_epoch"]) == (3, 1)


def test_steps_end_the_run_within_an_epoch(tiny, rows, tmp_path):
    metrics = metrics_of(run(classify, tiny, rows, tmp_path / "out", "--steps", "5", "--keep", "last"))
    assert metrics["steps"] == 5


def test_a_loss_that_is_not_finite_stops_with_a_clear_line_and_leaves_no_checkpoint(tiny, rows, tmp_path):
    with pytest.raises(ValueError, match=r"the loss is (nan|inf) at step \d+: .*lower --learning_rate"):
        run(classify, tiny, rows, tmp_path / "out", "--learning_rate", "1e30", "--warmup_share", "0")
    assert not (tmp_path / "out" / "config.json").exists()


def test_what_a_run_leaves(plain, rows):
    names = {path.name for path in plain.iterdir()}
    assert names == {
        *("config.json", "keras_bert.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"),
        *("metrics.json", "history.csv", "predictions.tsv", "report.md", "state"),
    }
    metrics = metrics_of(plain)
    assert metrics["accuracy"] > 0.8  # 19 of 30 are of one label
    assert (metrics["seed"], metrics["steps"], metrics["flags"]["epochs"]) == (42, 45, 5)
    with open(plain / "history.csv") as file:
        history = list(csv.DictReader(file))
    assert [row["step"] for row in history] == ["9", "18", "27", "36", "45"]
    assert {"step", "epoch", "loss", "learning_rate", "accuracy", "eval_loss"} <= history[0].keys()
    with open(plain / "predictions.tsv") as file:
        predictions = list(csv.DictReader(file, dialect="excel-tab"))
    right = sum(row["prediction"] == row["label"] for row in predictions)
    assert right / len(predictions) == pytest.approx(metrics["accuracy"])
    bert = kb.load(plain)
    assert bert.labels == ("neg", "pos")
    with open(rows(30, seed=1)) as file:
        texts = [line.split("\t")[0] for line in file][1:]
    assert [answer["label"] for answer in bert.predict(texts)] == [row["prediction"] for row in predictions]


def test_the_report_shows_confusion_and_the_worst_errors(plain):
    report = (plain / "report.md").read_text()
    assert "| label ↓ answer → | neg | pos |" in report
    metrics = metrics_of(plain)
    assert sum(map(sum, metrics["confusion"])) == 30
    wrong = round(30 * (1 - metrics["accuracy"]))
    assert re.findall(r"^## The .*", report, re.M) == (
        [] if wrong == 0 else ["## The worst error"] if wrong == 1 else [f"## The {wrong} worst errors"]
    )
    assert len(re.findall(r"^- .*line \d+: '", report, re.M)) == wrong


def test_regress_learns_numbers(tiny, rows, tmp_path):
    metrics = metrics_of(run(regress, tiny, rows, tmp_path / "out", "--epochs", "6"))
    assert metrics["pearson"] > 0.5
    assert metrics["score"] == pytest.approx((metrics["pearson"] + metrics["spearman"]) / 2)


def test_mixed_types_and_the_rarer_flags_train(tiny, rows, tmp_path):
    more = ("--dtype", "mixed_bfloat16", "--tensorboard", "--layer_decay", "0.9", "--label_smoothing", "0.1")
    output = run(classify, tiny, rows, tmp_path / "out", *more, "--class_weights", "balanced", "--nobucket")
    assert np.isfinite(metrics_of(output)["eval_loss"])
    assert list((output / "tensorboard").iterdir())


def test_float16_trains_with_a_scaled_loss(tiny, rows, tmp_path):
    output = run(classify, tiny, rows, tmp_path / "out", "--dtype", "mixed_float16", "--epochs", "1")
    assert np.isfinite(metrics_of(output)["eval_loss"])


def test_evaluation_takes_each_row_once_longest_first():
    plan = plan_evaluation(np.array([3, 9, 5, 9, 1]), 2)
    assert np.concatenate(plan).tolist() == [1, 3, 2, 0, 4]


@pytest.mark.parametrize(
    ("flag", "value"),
    [("epochs", 0), ("learning_rate", -1.0), ("warmup_share", 2.0), ("dropout", 1.0), ("steps", 0), ("clip_norm", 0.0)],
)
def test_numbers_out_of_range_name_their_flag(flag, value):
    with pytest.raises(ValueError, match=f"--{flag} must"):
        TrainingOptions(**{flag: value})


def test_more_frozen_layers_than_there_are(tiny):
    with pytest.raises(ValueError, match="--freeze_layers 4 exceeds the model's 3 blocks"):
        fresh(tiny, freeze_layers=4)
