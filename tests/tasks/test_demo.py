"""The demo's own part: its data, its folder, what it asks of the commands. `.ci/run` runs the whole of it."""

from __future__ import annotations

import json
import re

import pytest

from keras_bert import __main__ as door
from keras_bert.tasks import demo


def plain(text):
    return re.sub(r"\W+", " ", text.lower()).strip()


def test_no_message_is_learnt_and_judged_by_and_every_desk_is_in_both():
    train, held_out = demo.split(demo.messages())
    texts = [plain(text) for text, _ in train + held_out]
    assert len(texts) == len(set(texts)) > 500
    assert {desk for _, desk in train} == {desk for _, desk in held_out} == set(demo.DESKS)
    assert not {plain(question) for question in demo.QUESTIONS} & set(texts)
    assert not [text for text, _ in train + held_out if "\t" in text or "\n" in text]


def test_the_baseline_is_the_share_of_the_most_frequent_desk():
    train = [("a", "x"), ("b", "x"), ("c", "y")]
    assert demo.majority(train, [("d", "x"), ("e", "y"), ("f", "y"), ("g", "y")]) == 0.25


def test_a_missing_package_gives_the_line_to_run(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(demo.NEEDS, "no_such_module", "no-such-package==1")
    assert door.main(["demo", "--output", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert err.startswith('keras-bert demo: packages are missing: run pip install -e ".[demo]"')
    assert "no-such-package==1" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path, capsys, minilm):
    (tmp_path / "thesis.tex").write_text("years of work")
    assert door.main(["demo", "--output", str(tmp_path)]) == 2
    assert "give another place with --output" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("words", [[], ["--quick"]])
def test_the_demo_calls_the_commands_with_flags_they_have(tmp_path, monkeypatch, capsys, minilm, words):
    called = {}

    def run(command, **flags):
        called[command] = flags
        return {"accuracy": 0.9}

    monkeypatch.setattr(demo, "run", run)
    monkeypatch.setattr(demo, "ask", lambda folder: [("feelings", 0.5)] * len(demo.QUESTIONS))
    assert door.main(["demo", "--output", str(tmp_path / "out"), *words]) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out.splitlines()[-1])
    assert result["accuracy"] == 0.9
    assert 0.3 < result["majority_baseline"] < 0.6
    assert (tmp_path / "out" / "train.tsv").read_text("utf-8").startswith("text\tlabel\n")
    assert list(called) == ["classify", "export"]
    for command, flags in called.items():
        with pytest.raises(SystemExit):
            door.main([command, "--help"])
        known = set(re.findall(r"--(?:\[no\])?(\w+)", capsys.readouterr().out))
        assert set(flags) <= known
    promised = [line for line in printed.err.splitlines() if line.startswith("   keras-bert")]
    assert len(promised) == 3


def test_a_command_that_fails_ends_the_demo_in_a_line(tmp_path, monkeypatch, capsys, minilm):
    monkeypatch.setattr(demo, "weights", lambda: tmp_path / "nothing")
    assert door.main(["demo", "--output", str(tmp_path / "out")]) == 2
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .startswith("keras-bert demo: keras-bert classify ended with exit code 2")
    )
