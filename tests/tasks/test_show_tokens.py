"""The command tokenize: lines in, JSON lines out, whole and one at a time."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from keras_bert.tasks import show_tokens


@pytest.fixture
def run(capsys, monkeypatch):
    def run(argv: list[str], stdin: bytes = b"") -> list[dict]:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(stdin))))
        assert show_tokens.main(argv) == 0
        return [json.loads(line) for line in capsys.readouterr().out.split("\n")[:-1]]

    return run


@pytest.fixture(scope="session")
def vocab(shared: Path) -> str:
    return str(shared / "data" / "vocab" / "bert-base-uncased-vocab.txt")


def test_lines_become_json_lines(run, vocab):
    text = "naïve café 北京\r\n\n\u2028a\u2029\x0b\x85"
    got = run(["--vocab", vocab], text.encode() + b"\xff x")
    assert got[0]["tokens"] == ["naive", "cafe", "北", "京"]
    assert got[0]["ids"] == [15743, 7668, 1781, 1755]
    assert got[0]["offsets"] == [[0, 5], [6, 10], [11, 12], [12, 13]]
    assert got[1] == {"tokens": [], "ids": [], "offsets": []}
    assert len(got) == 3
    assert got[2]["tokens"] == ["a", "x"]


def test_golden_cases_through_the_command(run, shared, vocab, tmp_path):
    folder = shared / "golden" / "tokenizer"
    cases = [json.loads(line) for line in (folder / "cases.jsonl").read_text("utf-8").splitlines()]
    cases = [case for case in cases if "\n" not in case["text"] and not case["text"].endswith("\r")]
    for cased, flags in (
        (False, ["--vocab", vocab]),
        (True, ["--vocab", vocab.replace("uncased", "cased"), "--nolower_case"]),
    ):
        mine = [case for case in cases if case["cased"] == cased]
        path = tmp_path / "lines"
        path.write_bytes("\n".join(case["text"] for case in mine).encode() + b"\n")
        got = run([*flags, "--input", str(path)])
        assert [row["ids"] for row in got] == [case["ids"] for case in mine]
        assert [row["tokens"] for row in got] == [case["tokens"] for case in mine]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_lines_are_whole_however_they_arrive(monkeypatch, size):
    monkeypatch.setattr(show_tokens, "CHUNK", size)
    text = b"a\r\n\nbc\n" + b"d" * 20 + b"\n\ne"
    lines = [line for batch in show_tokens.batches(io.BytesIO(text)) for line in batch]
    assert lines == [b"a", b"", b"bc", b"d" * 20, b"", b"e"]


def test_a_line_is_answered_before_the_next_one_comes():
    answered: list[int] = []

    class Slow(io.RawIOBase):
        lines = iter([b"one\n", b"two\n"])

        def read1(self, size: int) -> bytes:
            answered.append(size)
            return next(self.lines, b"")

    batches = show_tokens.batches(Slow())
    assert next(batches) == [b"one"]
    assert len(answered) == 1


def test_without_tf_text_it_goes_on_in_python(run, monkeypatch, vocab, capsys):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    assert run(["--vocab", vocab], b"the caf\xc3\xa9\n")[0]["ids"] == [1996, 7668]


def test_special_tokens_when_allowed(run, vocab):
    assert run(["--vocab", vocab, "--special_tokens_in_text"], b"[MASK]\n")[0]["ids"] == [103]
    assert run(["--vocab", vocab], b"[MASK]\n")[0]["tokens"] == ["[", "mask", "]"]


def test_a_missing_file_is_named(vocab, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        show_tokens.main(["--vocab", vocab, "--input", str(tmp_path / "nowhere")])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        show_tokens.main(["--vocab", str(tmp_path / "nowhere")])
