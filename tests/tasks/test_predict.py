"""predict: a JSON line for every line, in order; lines that do not fit the model are named."""

from __future__ import annotations

import gzip
import io
import json
import sys
from types import SimpleNamespace

import pytest

import keras_bert as kb
from keras_bert.tasks import predict


@pytest.fixture(scope="module")
def classifier(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "single"
    kb.save(kb.load(tiny, head="classifier", labels=["neg", "pos"]), folder)
    return str(folder)


@pytest.fixture(scope="module")
def pair_regressor(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "pair"
    bert = kb.load(tiny, head="regressor")
    bert.info["paired"] = True
    kb.save(bert, folder)
    return str(folder)


@pytest.fixture
def answers(capsys, monkeypatch):
    def run(model: str, data: str | bytes, *more: str) -> list[dict]:
        raw = data if isinstance(data, bytes) else data.encode()
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(raw)))
        assert predict.main(["--model", model, *more]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def test_every_line_gets_its_answer_in_order(classifier, answers):
    texts = ["good film", "", "bad " * 30, "the book", 'quote " \u2028 end']
    found = answers(classifier, "\r\n".join(texts) + "\r\n")
    want = kb.load(classifier).predict(texts)
    assert [answer["label"] for answer in found] == [answer["label"] for answer in want]
    for answer, expected in zip(found, want, strict=True):
        assert answer["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-5)


def test_bytes_that_are_not_utf8_and_nul_are_answered(classifier, answers):
    assert len(answers(classifier, b"good \xff film\ngood \0 film\n")) == 2


def test_json_lines_give_their_id_back(classifier, answers):
    found = answers(classifier, '\n{"text": "good"}\n\n{"text": "bad", "id": 7}\n')
    assert [answer.get("id") for answer in found] == [None, 7]


@pytest.mark.parametrize("data", ['{"text": "good", "text_pair": "bad"}\n', "good\tbad\n"])
def test_pairs(pair_regressor, answers, data):
    want = kb.load(pair_regressor).predict("good", "bad")[0]["score"]
    assert answers(pair_regressor, data)[0]["score"] == pytest.approx(want, abs=1e-5)


def test_an_output_file_is_written_whole_and_not_replaced_unasked(classifier, answers, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.txt").write_text("good\nbad\n")
    (tmp_path / "in" / "a.txt").write_text("film\n")
    out = tmp_path / "out.jsonl"
    more = ("--input", str(tmp_path / "in"), "--output", str(out))
    assert answers(classifier, "", *more)[0]["rows"] == 3
    before = out.read_text()
    assert len(before.splitlines()) == 3
    with pytest.raises(FileExistsError, match="--overwrite"):
        answers(classifier, "", *more)
    with pytest.raises(ValueError, match="line 2: expected JSON"):
        answers(classifier, '{"text": "a"}\n{"text"\n', "--output", str(out), "--overwrite")
    assert out.read_text() == before


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        ("single", '{"text": "a"}\n{"text": "a", "text_pair": "b"}\n', "stdin line 2: the model was trained on single"),
        ("pair", '{"text": "a"}\n', 'stdin line 1: the model was trained on pairs.*"text_pair"'),
        ("pair", "a\tb\nc\n", "stdin line 2: the model was trained on pairs.*a tab between the two"),
        ("single", '{"txt": "a"}\n', "stdin line 1: expected an object"),
        ("single", '{"text": "a"}\n[1]\n', "stdin line 2: expected an object"),
        ("single", '{"text": "a"}\n{"text": 1}\n', "stdin line 2: expected an object"),
        ("pair", '{"text": "a", "text_pair": 3}\n', "text_pair must be a string, got 3"),
        ("single", '{"text": "a"}\n{"text": ' + "[" * 10**5, "stdin line 2: expected a plain object, got brackets"),
        ("single", '{"text": "a"}\n{"text": "\\ud800"}\n', r"stdin line 2: '\\ud800' is half of a surrogate pair"),
        ("single", '{"text": "a", "id": "\\ud800"}\n', r"stdin line 1: '\\ud800' is half of a surrogate pair"),
        ("single", b'{"text": "a"}\n{"text": "\xff"}\n', "stdin line 2: byte 0xff at 10 is not UTF-8"),
        ("single", b'{"text": "a"}\n{"text": "\xed\xa0\x80"}\n', "stdin line 2: .* surrogate pair"),
    ],
)
def test_a_line_that_does_not_fit_is_named(classifier, pair_regressor, answers, kind, data, message):
    with pytest.raises(ValueError, match=message):
        answers(classifier if kind == "single" else pair_regressor, data)


def test_a_model_without_a_head_says_what_to_do(tiny, answers):
    with pytest.raises(ValueError, match="no head that answers; train one"):
        answers(str(tiny), "a\n")


def test_a_missing_input_is_named(classifier, answers):
    with pytest.raises(FileNotFoundError, match="nowhere: no such file"):
        answers(classifier, "", "--input", "nowhere")


@pytest.mark.parametrize("name", ["rows.tsv", "rows.csv"])
def test_a_table_is_not_taken_for_texts_unasked(classifier, answers, tmp_path, name):
    (tmp_path / name).write_text("text\tlabel\na\tx\n")
    with pytest.raises(ValueError, match="is a table by its name.*--format lines"):
        answers(classifier, "", "--input", str(tmp_path / name))
    assert len(answers(classifier, "", "--input", str(tmp_path / name), "--format", "lines")) == 2


def test_utf16_is_not_taken_for_texts(classifier, answers):
    with pytest.raises(ValueError, match="stdin: expected UTF-8, got UTF-16"):
        answers(classifier, "good\nbad\n".encode("utf-16"))


@pytest.mark.parametrize(
    "data",
    [gzip.compress(b"good\nbad\n" * 99, mtime=0)[:20], gzip.compress(b"good", mtime=0)[:12] + b"x" * 99, b"good"],
)
def test_a_damaged_gzip_file_is_named(classifier, answers, tmp_path, data):
    (tmp_path / "in.txt.gz").write_bytes(data)
    with pytest.raises(ValueError, match="in.txt.gz: a damaged gzip file"):
        answers(classifier, "", "--input", str(tmp_path / "in.txt.gz"))
