"""check: what is wrong with a model and its data is said in words; errors stop, warnings do not."""

from __future__ import annotations

import re

import pytest

import keras_bert as kb
from keras_bert.tasks import check, classify, predict, regress
from keras_bert.tasks.batches import encode_all
from keras_bert.tasks.data import Data
from keras_bert.tasks.readers import Rows


@pytest.fixture(scope="module")
def bert(tiny):
    return kb.load(tiny)


def rows(texts, labels=None, source="train.tsv", pairs=None) -> Rows:
    labels = labels or [("neg", "pos")[index % 2] for index in range(len(texts))]
    return Rows(source, texts, pairs, labels, list(range(2, len(texts) + 2)))


def findings(bert, train, evaluation=None, labels=("neg", "pos")):
    data = Data(train, {} if evaluation is None else {"eval": evaluation}, None)
    found = check.check(bert, data, encode_all(bert.tokenizer, data.parts, bert.max_length), labels, 32)
    return [f"{finding.level}: {finding.text}" for finding in found]


FINE = ["good film", "bad film", "the good book", "the bad book"]


@pytest.mark.parametrize(
    ("train", "evaluation", "labels", "message"),
    [
        (rows(FINE, list("ab") * 2), None, ("a", "c"), "error: train.tsv line 3: label 'b' is not one of 'a', 'c'"),
        (rows(FINE, list("1231")), None, tuple("012"), "error: *count labels from 1 * give --labels 1,2,3"),
        (rows(FINE, ["a", "", "a", "a"]), None, ("a", "b"), "error: train.tsv line 3: the label is empty"),
        (rows(FINE, ["a"] * 4), None, ("a",), "error: train.tsv: every row has the label 'a'"),
        (rows(FINE, ["a"] * 4), None, ("a", "b"), "error: train.tsv: every row has the label 'a'"),
        (rows(FINE, ["a", "", "a", "a"]), None, ("", "a"), "warning: train.tsv line 3: the label is empty, and"),
        (rows(FINE, ["a", "A ", "b", "b"]), None, ("A ", "a", "b"), "warning: train.tsv line 3: the labels 'a' and"),
        (rows(FINE * 3, ["label", *"ab" * 5, "b"]), None, ("a", "b", "label"), "warning: train.tsv line 2: no other"),
        (rows(FINE, ["a\nb", "c"] * 2), None, ("a\nb", "c"), "note: train: 4 rows, 2 labels (a\\nb 2, c 2)"),
        (rows(FINE, list("abab")), None, tuple("abc"), "warning: train.tsv: no row has the label c"),
        (rows(["good", " ", "", "x"]), None, None, "warning: train.tsv line 3: the text is empty (and 1 more)"),
        (rows([""] * 4), None, None, "error: train.tsv: every text is empty"),
        (rows(["good\0", "b", "c", "d"]), None, None, "warning: train.tsv line 2: the text holds U+FFFD or NUL"),
        (rows(["good " * 60, *FINE[:3]]), None, None, "warning: train: longest row 62 tokens; 25.0% of the rows"),
        (rows(["zebra quagga", *FINE[:3]]), None, None, "warning: train: *% of the tokens are [UNK] ('zebra', 'qu"),
        (
            rows(FINE),
            rows([*FINE[:1], "new", "newer", "x"], source="e"),
            None,
            "warning: 1 of 4 evaluation rows (25.0%) are train",
        ),
        (rows(["good", "good", "x", "y"]), None, None, "warning: train.tsv line 3: the same text has another label"),
        (rows(FINE, ["1", "x", "2", "3"]), None, (), "error: train.tsv line 3: expected a number as label, got 'x'"),
        (rows(FINE, ["1", "nan", "2", "3"]), None, (), "error: train.tsv line 3: expected a number as label"),
        (rows(FINE, ["1", "1e30", "2", "3"]), None, (), "error: train.tsv line 3: expected a number as label"),
        (rows(FINE, ["2.5"] * 4), None, (), "error: train.tsv: every row has the score 2.5"),
    ],
)  # fmt: skip
def test_it_says(bert, train, evaluation, labels, message):
    found = findings(bert, train, evaluation, ("neg", "pos") if labels is None else labels or None)
    pattern = re.escape(message).replace(r"\*", ".*")
    assert any(re.match(pattern, text) for text in found), found


def test_good_data_gets_no_warning(bert):
    found = findings(bert, rows(FINE), rows(["a good film", "a bad film"], source="e"))
    assert [text for text in found if not text.startswith("note")] == []
    exact, rough = bert.config.num_weights(), bert.config.estimated_num_weights()
    assert any(f"{exact:,} weights (rule of thumb V·H + 12·L·H²: {rough:,})" in text for text in found)


@pytest.mark.parametrize(
    ("name", "lower_case", "message"),
    [
        ("bert-base-cased", True, "give --nolower_case"),
        ("bert-base-cased", False, None),
        ("bert-base-uncased", False, "give --lower_case"),
        ("bert-base-uncased", True, None),
    ],
)  # fmt: skip
def test_case_of_vocabulary_and_texts(shared, name, lower_case, message):
    tokenizer = kb.Tokenizer(str(shared / "data" / "vocab" / f"{name}-vocab.txt"), lower_case=lower_case)
    found = [finding.text for finding in check.check_vocabulary(tokenizer)]
    assert len(found) == (message is not None)
    assert message is None or message in found[0]


def test_a_chinese_vocabulary_is_neither_wrong(shared):
    for lower_case in (True, False):
        tokenizer = kb.Tokenizer(str(shared / "data" / "vocab" / "bert-base-chinese-vocab.txt"), lower_case=lower_case)
        texts = [finding.text for finding in check.check_vocabulary(tokenizer)]
        assert not any("--nolower_case" in text for text in texts)


def test_labels_from_1_are_told_before_the_first_step(tiny, tmp_path, monkeypatch):
    path = tmp_path / "train.tsv"
    path.write_text("text\tlabel\n" + "".join(f"good film\t{1 + index % 3}\n" for index in range(9)))
    argv = ["--model", str(tiny), "--train", str(path), "--output", str(tmp_path / "out"), "--labels", "0,1,2"]
    with pytest.raises(ValueError, match="the rows count labels from 1 .* give --labels 1,2,3"):
        classify.main([*argv, "--max_length", "24"])
    assert not (tmp_path / "out").exists()


def test_the_command_ends_with_one_json_line(tiny, rows_file, last_line):
    assert check.main(["--model", str(tiny), "--train", rows_file, "--max_length", "24"]) == 0
    result = last_line()
    assert (result["rows"], result["labels"], result["weights"]) == ({"train": 20}, ["neg", "pos"], 4524)


@pytest.fixture
def rows_file(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(
        "text,label\n" + "".join(f"film number {index},{('neg', 'pos')[index % 2]}\n" for index in range(20))
    )
    return str(path)


@pytest.mark.parametrize(
    ("command", "more", "message"),
    [
        (classify, ["--task", "stsb"], "--task stsb has scores: use `keras-bert regress`"),
        (regress, ["--task", "cola"], "--task cola has labels: use `keras-bert classify`"),
        (classify, ["--data", "x"], "--data is the folder of a --task"),
        (classify, [], "no data: give --train FILE"),
        (classify, ["--eval", "FILE"], "no rows to train on"),
        (classify, ["--train", "FILE", "--labels", "a,a"], "--labels names a label twice"),
        (regress, ["--train", "FILE", "--labels", "a"], "--labels names classes"),
        (regress, ["--train", "FILE"], r"rows.csv line 2: expected a number as label, got 'neg'"),
        (classify, ["--train", "FILE", "--label_column", "lable"], "expected the columns text, lable; .*text | label"),
    ],
)
def test_flags_that_do_not_fit(tiny, rows_file, tmp_path, command, more, message):
    more = [word.replace("FILE", rows_file) for word in more]
    with pytest.raises(ValueError, match=message):
        command.main(["--model", str(tiny), "--max_length", "24", "--output", str(tmp_path / "out"), *more])


@pytest.mark.parametrize(
    ("command", "more", "message"),
    [
        (classify, ["--save_every", "0"], "--save_every must be at least 1: got 0"),
        (regress, ["--log_every", "0"], "--log_every must be at least 1: got 0"),
        (classify, ["--save_seconds", "-1"], "--save_seconds must not be below 0: got -1"),
        (classify, ["--weight_decay", "nan"], "--weight_decay must not be below 0: got nan"),
        (regress, ["--clip_norm", "inf"], "--clip_norm must be above 0: got inf"),
        (classify, ["--layer_decay", "0"], "--layer_decay must be above 0 and at most 1: got 0"),
        (classify, ["--steps", "0"], "--steps must be at least 1: got 0"),
        (classify, ["--label_smoothing", "1"], "--label_smoothing must lie from 0"),
        (regress, ["--max_length", "0"], "--max_length must be at least 3"),
        (check, ["--max_length", "0"], "--max_length must be at least 3"),
        (check, ["--batch_size", "0"], "--batch_size must be at least 1: got 0"),
        (predict, ["--max_length", "0"], "--max_length must be at least 1: got 0"),
        (predict, ["--batch_size", "0"], "--batch_size must be at least 1: got 0"),
    ],
)
def test_a_number_out_of_its_range_is_refused_before_anything_is_read(command, more, message):
    where = [] if command in (check, predict) else ["--output", "nowhere"]
    with pytest.raises(ValueError, match=message):
        command.main(["--model", "nowhere", *where, *more])
