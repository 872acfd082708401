"""What the tests of exports share: exported models, and a serving host in C."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from small_models import small_bert

from keras_bert.bert import Bert
from keras_bert.export import saved_model

Request = dict[str, list[bytes] | int]  # an input's name → its texts, or n for n int32 zeros instead of texts
Host = Callable[[Path, list[Request]], list[dict[str, Any]]]


@dataclass
class Exported:
    bert: Bert
    directory: Path
    report: dict[str, Any]
    signatures: Any  # of the SavedModel, loaded in this process


def exported(bert: Bert, directory: Path) -> Exported:
    report = saved_model.export(bert, directory)
    return Exported(bert, directory, report, tf.saved_model.load(str(directory)).signatures)


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return exported(small_bert(), tmp_path_factory.mktemp("classifier") / "served")


@pytest.fixture(scope="session")
def pair_regressor(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """On pairs, and trained in mixed_bfloat16."""
    bert = small_bert("regressor", paired=True, dtype="mixed_bfloat16")
    return exported(bert, tmp_path_factory.mktemp("pair_regressor") / "served")


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    """`host(directory, requests)`: what host.c answers, one process for all requests."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler (gcc or clang) to build host.c with")
    folder = tf.sysconfig.get_lib()
    if not Path(folder, "libtensorflow_cc.so.2").exists():
        pytest.skip("TensorFlow's wheel has no libtensorflow_cc.so.2 here: host.c links with it on Linux")
    import tensorflow_text

    program = tmp_path_factory.mktemp("host") / "host"
    subprocess.run(
        [compiler, "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, Path(__file__).with_name("host.c")]
        + [f"-I{tf.sysconfig.get_include()}", f"-L{folder}", f"-Wl,-rpath,{folder}"]
        + ["-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2"],
        check=True,
    )
    ops = Path(tensorflow_text.__file__).parent / "python" / "ops"
    libraries = [ops / "_fast_bert_normalizer.so", ops / "_fast_wordpiece_tokenizer.so"]

    def ask(directory: Path, requests: list[Request]) -> list[dict[str, Any]]:
        wire = b"".join(map(request_bytes, requests))
        done = subprocess.run([program, directory, *libraries], input=wire, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return [json.loads(line) for line in done.stdout.decode(errors="replace").splitlines()]

    return ask


def request_bytes(request: Request) -> bytes:
    parts = []
    for name, texts in request.items():
        if isinstance(texts, int):
            parts.append(b"int32 %s %d\n" % (name.encode(), texts))
        else:
            parts.append(b"string %s %d\n" % (name.encode(), len(texts)))
            parts += [b"%d\n%s" % (len(text), text) for text in texts]
    return b"".join([*parts, b"run\n"])
