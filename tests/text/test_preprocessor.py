"""Preprocessor: the same three tensors from values, tf.data, functional models, .keras files and SavedModels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.batch import INPUT_NAMES
from keras_bert.text import Preprocessor, PythonTokenizer, Tokenizer, Vocabulary

TEXTS = ["all work and no play", "jack [MASK]", "", "a dull boy, café"]
PAIRS = ["makes jack a dull boy", "", "東京 x", "work"]


@pytest.fixture(scope="module")
def tokenizer(small: Vocabulary) -> Tokenizer:
    return Tokenizer(small, lower_case=False, special_tokens_in_text=True)


def assert_equal(got, want) -> None:
    assert set(got) == set(INPUT_NAMES)
    for name in INPUT_NAMES:
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)


def test_texts_become_three_tensors(tokenizer):
    v = tokenizer.vocabulary
    got = Preprocessor(tokenizer, 9)(["jack work", "a"], ["boy", "no play"])
    row = [v.cls_id, v.index["jack"], v.index["work"], v.sep_id, v.index["boy"], v.sep_id, 0, 0, 0]
    assert got["input_word_ids"].numpy()[0].tolist() == row
    assert got["input_type_ids"].numpy().tolist() == [[0, 0, 0, 0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1, 0, 0, 0]]
    assert got["input_mask"].numpy().sum(1).tolist() == [6, 6]


def test_all_ways_to_give_a_pair_are_one(tokenizer):
    layer = Preprocessor(tokenizer, 12)
    want = layer(TEXTS, PAIRS)
    assert_equal(layer((TEXTS, PAIRS)), want)
    assert_equal(layer(np.array(TEXTS), tf.constant(PAIRS)), want)
    assert_equal(layer(TEXTS[0], PAIRS[0]), {name: x[:1] for name, x in want.items()})
    assert_equal(layer((TEXTS[0], PAIRS[0])), {name: x[:1] for name, x in want.items()})
    assert layer("one text")["input_mask"].shape == (1, 12)


def test_no_fixed_length_pads_to_the_longest_of_the_batch(tokenizer):
    assert Preprocessor(tokenizer, None)(TEXTS)["input_mask"].numpy().sum(1).tolist() == [7, 4, 2, 7]
    assert Preprocessor(tokenizer, None)(TEXTS)["input_mask"].shape == (4, 7)
    assert Preprocessor(tokenizer, None, max_length=5)(TEXTS)["input_mask"].shape == (4, 5)
    assert Preprocessor(tokenizer, None, max_length=50)(TEXTS)["input_mask"].shape == (4, 7)
    assert Preprocessor(tokenizer, None)([])["input_mask"].shape[0] == 0


@pytest.mark.parametrize("length", [11, None])
def test_tf_data_gives_the_same(tokenizer, length):
    layer = Preprocessor(tokenizer, length, max_length=None if length else 9)
    (got,) = tf.data.Dataset.from_tensor_slices((TEXTS, PAIRS)).batch(4).map(layer)
    assert_equal(got, layer(TEXTS, PAIRS))
    single = tf.data.Dataset.from_tensor_slices(TEXTS).batch(4).map(layer)
    assert_equal(next(iter(single)), layer(TEXTS))
    assert single.element_spec["input_mask"].shape.as_list() == [None, length]
    labelled = tf.data.Dataset.from_tensor_slices((TEXTS, [0, 1, 2, 3])).batch(4).map(lambda x, y: (layer(x), y))
    assert_equal(next(iter(labelled))[0], layer(TEXTS))


def functional(layer: Preprocessor) -> keras.Model:
    texts, pairs = (keras.Input(shape=(), dtype="string", name=name) for name in ("texts", "pairs"))
    inputs = layer(texts, pairs)
    score = keras.layers.Embedding(len(layer.tokenizer.vocabulary), 3)(inputs["input_word_ids"])
    return keras.Model([texts, pairs], inputs | {"score": keras.ops.sum(score, axis=(1, 2))})


OPEN = """
import sys
import numpy as np
import keras
import keras_bert
texts, pairs, *folders = sys.argv[1:]
for folder in folders:
    model = keras.models.load_model(f"{folder}/model.keras")
    got = model([keras.ops.convert_to_tensor(x.split("|")) for x in (texts, pairs)])
    np.savez(f"{folder}/got.npz", **{name: np.asarray(x) for name, x in got.items()})
"""


def run_fresh(code: str, *args: str | Path) -> None:
    subprocess.run([sys.executable, "-c", code, *map(str, args)], check=True, capture_output=True, text=True)


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")
def test_a_model_with_text_inputs_opens_in_a_fresh_process(tokenizer, tmp_path: Path):  # PAIN 78, 87
    want = {}
    for name, length in (("fixed", 11), ("longest", None)):
        model = functional(Preprocessor(tokenizer, length, name="text"))
        want[name] = model([tf.constant(TEXTS), tf.constant(PAIRS)])
        assert_equal({n: want[name][n] for n in INPUT_NAMES}, Preprocessor(tokenizer, length)(TEXTS, PAIRS))
        (tmp_path / name).mkdir()
        model.save(tmp_path / name / "model.keras")
    run_fresh(OPEN, "|".join(TEXTS), "|".join(PAIRS), *(tmp_path / name for name in want))
    for name, outputs in want.items():
        got = np.load(tmp_path / name / "got.npz")
        for key in outputs:
            np.testing.assert_array_equal(got[key], outputs[key], err_msg=key)


SERVE = """
import sys
import numpy as np
import tensorflow as tf
import tensorflow_text
texts, pairs, *folders = sys.argv[1:]
for folder in folders:
    serve = tf.saved_model.load(f"{folder}/saved").signatures["serving_default"]
    got = serve(texts=tf.constant(texts.split("|")), pairs=tf.constant(pairs.split("|")))
    np.savez(f"{folder}/got.npz", **{name: x.numpy() for name, x in got.items()})
assert "keras_bert" not in sys.modules
"""


def test_a_saved_model_takes_text_and_needs_two_ops_of_tf_text(small, tmp_path: Path):
    texts, pairs = [*TEXTS, "ΟΔΟΣ \u0301"], [*PAIRS, "x" * 201]
    want = {}
    for name, options in (("words_cut_by_op", {}), ("words_first", {"split_chinese": False})):
        layer = Preprocessor(Tokenizer(small, **options), 11)
        want[name] = layer(texts, pairs)
        save(layer, tmp_path / name / "saved")
        foreign = {op for op in ops_of(tmp_path / name / "saved") if not hasattr(tf.raw_ops, op)}
        assert foreign == {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets"}
    run_fresh(SERVE, "|".join(texts), "|".join(pairs), *(tmp_path / name for name in want))
    for name, inputs in want.items():
        assert_equal(dict(np.load(tmp_path / name / "got.npz")), inputs)


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")
def test_keras_export_serves_text(tokenizer, tmp_path: Path):
    model = functional(Preprocessor(tokenizer, 11))
    model.export(tmp_path / "saved", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "saved")
    served = loaded.serve([tf.constant(TEXTS), tf.constant(PAIRS)])
    assert_equal({n: served[n] for n in INPUT_NAMES}, Preprocessor(tokenizer, 11)(TEXTS, PAIRS))


def save(layer: Preprocessor, directory: Path) -> None:
    module = tf.Module()
    strings = tf.TensorSpec([None], tf.string)
    module.serve = tf.function(lambda texts, pairs: layer(texts, pairs), input_signature=[strings, strings])
    tf.saved_model.save(module, str(directory), signatures=module.serve)


def ops_of(directory: Path) -> set[str]:
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    ops = {node.op for node in graph.node} | {node.op for f in graph.library.function for node in f.node_def}
    assert not [op for op in ops if "PyFunc" in op]
    return ops


def test_it_works_by_value_without_tf_text(small):  # PAIN 88
    python = Preprocessor(PythonTokenizer(small, lower_case=False), 11)
    assert_equal(python(TEXTS, PAIRS), Preprocessor(Tokenizer(small, lower_case=False), 11)(TEXTS, PAIRS))


def test_config_there_and_back(tokenizer):
    layer = Preprocessor(tokenizer, None, max_length=9, name="text")
    again = Preprocessor.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert (again.sequence_length, again.max_length, again.name) == (None, 9, "text")
    assert_equal(again(TEXTS), layer(TEXTS))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda p: p(["a", None]), "got None .NoneType. at position 1"),
        (lambda p: p(("a", "b", "c")), "a tuple is .texts, pairs.: got 3 items"),
        (lambda p: p(("a", "b"), "c"), "a tuple is .texts, pairs.: got 2 items and pairs beside"),
        (lambda p: p(["a", "b"], ["c"]), "got 2 texts and 1 pairs"),
        (lambda p: p(tf.constant([[1, 2]])), "dtype int32"),
        (lambda p: p(keras.Input(shape=(1,), dtype="string")), r"shape \(batch,\), got \(None, 1\)"),
        (lambda p: Preprocessor(p.tokenizer, 1), "at least 2"),
        (lambda p: Preprocessor("vocab.txt"), "expected a keras_bert.Tokenizer, got 'vocab.txt'"),
    ],
)
def test_what_it_cannot_read_is_one_clear_error(tokenizer, call, message):
    with pytest.raises(ValueError, match=message):
        call(Preprocessor(tokenizer, 8))
