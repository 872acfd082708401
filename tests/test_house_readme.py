"""What README.md and BUILD.md promise: the code runs, the commands and their flags are there, the map is whole."""

from __future__ import annotations

import importlib.util
import re
import shlex
import warnings
from pathlib import Path

import numpy as np
import pytest

import keras_bert as kb
from keras_bert import __main__ as door

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
BUILD = (ROOT / "BUILD.md").read_text("utf-8")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [*SPECIAL, "a", "text", "it", "has", "not", "seen", "the", "parcel", "is", "late", "i", "cannot", "log", "in"]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def commands() -> list[list[str]]:
    """The words of every `keras-bert …` in a block of shell, without comments."""
    lines = [line for text in (README, BUILD) for block in blocks(text, "sh") for line in block.splitlines()]
    calls = [part.strip() for line in lines for part in line.split("&&")]
    return [shlex.split(call, comments=True)[1:] for call in calls if call.startswith("keras-bert ")]


def test_the_first_screen_has_the_newcomers_two_lines():
    first, *_ = blocks(README, "sh")
    assert README.index(first) < 500
    assert [shlex.join(shlex.split(line, comments=True)).replace("'&&'", "&&") for line in first.splitlines()] == [
        "pip install -e '.[demo]' && keras-bert demo",
        "pip install -e '.[test]' && pytest",
    ]


def test_fine_tuning_in_ten_lines(tmp_path, monkeypatch, capsys):
    """The block as it stands, on a file of eight rows and a model of two small layers."""
    block = blocks(README, "python")[0]
    assert len(block.partition("\n\n")[2].splitlines()) == 10
    config = kb.Config(
        vocab_size=len(WORDS), hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
        max_position_embeddings=70,
    )  # fmt: skip
    kb.save(kb.Bert(kb.build_encoder(config), kb.Tokenizer(WORDS), max_length=64), tmp_path / "bert-base-uncased")
    rows = [("The parcel is late", "delivery"), ("I cannot log in", "account")] * 4
    (tmp_path / "messages.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # a script of ten lines leaves its file for Python to close
        exec(compile(block, "README.md", "exec"), {})
    assert "'label': " in capsys.readouterr().out
    again = kb.load(tmp_path / "my_model")
    assert (again.labels, again.max_length) == (("account", "delivery"), 64)


def test_the_pieces_fit(tmp_path, monkeypatch):
    block = next(block for block in blocks(README, "python") if "Config.base()" in block)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(block.replace("Config.base()", "Config.tiny()"), "README.md", "exec"), names)
    assert np.asarray(names["logits"]).shape == (1, 3)


def test_every_command_shown_exists_with_its_flags(capsys):
    assert {words[0] for words in commands()} >= {"demo", "classify", "predict", "export"}
    for command, *rest in commands():
        assert command in door.COMMANDS, command
        with pytest.raises(SystemExit):
            door.main([command, "--help"])
        known = set(re.findall(r"--(?:\[no\])?(\w+)", capsys.readouterr().out))
        shown = {word[2:].partition("=")[0] for word in rest if word.startswith("--")}
        assert shown <= known, (command, shown - known)


def test_every_command_has_a_row_in_the_readme():
    table = README.partition("| command |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.M) == list(door.COMMANDS)


def test_every_command_is_found():
    for command in door.COMMANDS:
        assert callable(door.find(command))


def test_the_map_has_a_line_for_every_file():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: which files are the project's is not known")
    spec = importlib.util.spec_from_file_location("file_map", ROOT / ".ci" / "file_map.py")
    file_map = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(file_map)
    assert f"{file_map.BEGIN}\n{file_map.build()}{file_map.END}" in BUILD, "run  python .ci/file_map.py"
    silent = [path for path in file_map.files() if path.suffix in (".py", ".c", "") and not file_map.first_line(path)]
    assert not [path for path in silent if path.name != "__init__.py"], "each begins with a line on what it is for"


def test_links_in_the_documents_lead_somewhere():
    for name in ("README.md", "BUILD.md", "CHANGELOG.md", "benchmarks/RESULTS.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text("utf-8")):
            assert target.startswith("http") or (ROOT / name).parent.joinpath(target).exists(), (name, target)
