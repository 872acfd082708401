"""What export refuses, in words, and that nothing is left behind."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import tensorflow as tf
from small_models import small_bert

import keras_bert as kb
from keras_bert.export import compare, saved_model, signatures
from keras_bert.export.command import main
from keras_bert.export.serving_ops import STOCK_OPS, check_servable


def nothing_left(folder: Path) -> bool:
    return list(folder.iterdir()) == []


def test_an_op_that_serving_lacks_is_named_and_nothing_written(tmp_path, monkeypatch):
    """Python code, hidden in a function of a function."""

    @tf.function
    def hidden(logits):
        return tf.cond(tf.size(logits) > 0, lambda: tf.numpy_function(abs, [logits], tf.float32), lambda: logits)

    decode = signatures.DECODERS["classifier"]
    monkeypatch.setitem(
        signatures.DECODERS, "classifier", lambda bert, x: decode(bert, tf.ensure_shape(hidden(x), [None, 3]))
    )
    with pytest.raises(ValueError, match=r"the graph needs PyFunc.*stock TensorFlow Serving"):
        saved_model.export(small_bert(), tmp_path / "served")
    assert nothing_left(tmp_path)


def test_an_op_of_another_library_is_named():
    with pytest.raises(ValueError, match=r"needs Addons>Gelu, which a stock TensorFlow Serving does not have"):
        check_servable({"MatMul", "Addons>Gelu", "FastBertNormalize"})


def test_the_list_of_stock_ops_is_spelt_as_tensorflow_text_does():
    import tensorflow_text  # noqa: F401
    from tensorflow.python.framework import op_def_registry

    assert [op for op in STOCK_OPS if op_def_registry.get(op) is None] == []
    assert [op for op in STOCK_OPS if hasattr(tf.raw_ops, op)] == []


def test_other_answers_in_the_fresh_process_are_an_error_and_nothing_written(tmp_path, monkeypatch):
    bert = small_bert()

    def slightly_wrong(directory, columns, ids):
        assert (directory / "saved_model.pb").is_file()
        reply = compare.python_answers(bert, columns)
        reply["text"]["probabilities"][2][0] += 2e-5
        return reply

    monkeypatch.setattr(compare, "ask_fresh_process", slightly_wrong)
    with pytest.raises(ValueError, match=r"probabilities differ from the Python model's by 2\.\de-05 in row 3 \(''\)"):
        saved_model.export(bert, tmp_path / "served")
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("wrong", [float("nan"), 1.0])
def test_a_difference_is_found_wherever_it_is(wrong):
    right = {"text": {"score": [0.0, 0.5]}, "ids": {"logits": [0.0, 0.5]}}
    for signature, name in (("text", "score"), ("ids", "logits")):
        got = {**right, signature: {name: [0.0, wrong]}}
        with pytest.raises(ValueError, match=f"{name} differ .* in row 2 \\('b'\\)"):
            compare.largest_difference(right, got, {"text": ["a", "b"]})


def test_another_label_is_an_error_unless_it_is_a_near_tie():
    columns = {"text": ["a"]}
    ids = {"logits": [[0.0, 0.0]]}
    for probabilities, near_tie in (([0.5, 0.5], True), ([0.6, 0.4], False)):
        one = {"text": {"label": ["x"], "probabilities": [probabilities]}, "ids": ids}
        other = {"text": {"label": ["y"], "probabilities": [probabilities]}, "ids": ids}
        if near_tie:
            assert compare.largest_difference(one, other, columns) == 0
        else:
            with pytest.raises(ValueError, match="row 1: the exported model answers 'y', the Python model 'x'"):
                compare.largest_difference(one, other, columns)


def test_a_model_that_does_not_load_in_the_fresh_process_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="the exported model fails in a fresh process: OSError: .*nothing"):
        compare.ask_fresh_process(tmp_path / "nothing", {"text": ["a"]}, {})


def test_a_target_that_exists_stays_as_it_is(tmp_path):
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="overwrite"):
        saved_model.export(small_bert(), tmp_path / "served")
    assert (tmp_path / "served" / "notes.txt").read_text() == "mine"


def test_a_failed_export_over_an_older_one_leaves_the_older_one(tmp_path, monkeypatch):
    old = tmp_path / "served" / "saved_model.pb"
    old.parent.mkdir()
    old.write_bytes(b"older")

    def does_not_load(*_):
        raise ValueError("fails in a fresh process")

    monkeypatch.setattr(compare, "ask_fresh_process", does_not_load)
    with pytest.raises(ValueError, match="fails in a fresh process"):
        saved_model.export(small_bert(), tmp_path / "served", overwrite=True)
    assert [path.name for path in tmp_path.rglob("*")] == ["served", "saved_model.pb"]
    assert old.read_bytes() == b"older"


def test_a_bare_encoder_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match="expected a classifier or a regressor to export, got a bare encoder: fine-tune"
    ):
        saved_model.export(small_bert("encoder"), tmp_path / "served")
    assert nothing_left(tmp_path)


def test_a_label_with_a_line_end_is_refused(tmp_path):
    bert = dataclasses.replace(small_bert(), labels=("a", "b", "c\nd"))
    with pytest.raises(ValueError, match=r"label 'c\\nd' holds a line end"):
        saved_model.export(bert, tmp_path / "served")
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("paired, row", [(False, ("a", "b")), (True, ("a",))])
def test_rows_must_have_the_texts_that_the_model_takes(tmp_path, paired, row):
    good = ("a", "b") if paired else ("a",)
    with pytest.raises(ValueError, match=r"row 2: expected .*, got \d texts \('a"):
        saved_model.export(small_bert(paired=paired), tmp_path / "served", [good, row])


class TestCommand:
    """`keras-bert export`, called as the door calls it."""

    @pytest.fixture(scope="class")
    @staticmethod
    def checkpoint(tmp_path_factory) -> Path:
        folder = tmp_path_factory.mktemp("trained") / "model"
        kb.save(small_bert(), folder)
        return folder

    def test_ends_with_a_table_and_one_line_of_json(self, checkpoint, tmp_path, capsys):
        rows = tmp_path / "rows.tsv"
        rows.write_text("the cat\tsat\n\t\nunable\tmats\r\n", encoding="utf-8")
        flags = ["--model", str(checkpoint), "--format", "saved_model", "--output", str(tmp_path / "served")]
        assert main([*flags, "--input", str(rows), "--max_length", "9", "--pairs"]) == 0
        out, err = capsys.readouterr()
        (line,) = out.splitlines()
        report = json.loads(line)
        assert report["format"] == "saved_model"
        assert report["rows"] == 3
        assert report["max_difference"] <= 1e-5
        assert "ops outside core" in err
        assert "FastBertNormalize, FastWordpieceTokenizeWithOffsets" in err

        serve = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
        texts, pairs = tf.constant(["cat cat", "cat cat", "cat cat"]), tf.constant(["mat " * n for n in (3, 4, 5)])
        first, second, third = serve(text=texts, text_pair=pairs)["probabilities"].numpy().round(5).tolist()
        assert first != second == third, "nine tokens: [CLS] cat cat [SEP] mat mat mat mat [SEP]"

        with pytest.raises(FileExistsError, match="--overwrite"):
            main(flags)

    def test_an_unknown_format_is_refused(self, checkpoint, tmp_path):
        with pytest.raises(ValueError, match=r"format.*saved_model"):
            main(["--model", str(checkpoint), "--format", "caffe", "--output", str(tmp_path / "served")])
        assert nothing_left(tmp_path)

    def test_a_folder_without_a_checkpoint_is_refused(self, tmp_path):
        (tmp_path / "empty").mkdir()
        with pytest.raises(FileNotFoundError, match="empty"):
            main(["--model", str(tmp_path / "empty"), "--format", "saved_model", "--output", str(tmp_path / "served")])
        assert [path.name for path in tmp_path.iterdir()] == ["empty"]

    @pytest.mark.parametrize("content, told", [(b"caf\xe9\n", "expected UTF-8 text, got byte 0xe9"), (b"", "got none")])
    def test_rows_that_are_none_are_refused(self, checkpoint, tmp_path, content, told):
        rows = tmp_path / "rows.txt"
        rows.write_bytes(content)
        flags = ["--model", str(checkpoint), "--format", "saved_model", "--output", str(tmp_path / "served")]
        with pytest.raises(ValueError, match=told):
            main([*flags, "--input", str(rows)])
