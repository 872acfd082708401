"""The door: what a command line answers, with which exit code, and how soon."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from keras_bert import __main__ as door


@pytest.fixture
def call(monkeypatch, capsys):
    """`call(action, *words)` runs the door with one command whose function is `action`."""

    def run(action, *words):
        monkeypatch.setattr(door, "find", lambda command: action)
        code = door.main(["check", *words])
        return code, capsys.readouterr()

    return run


def raising(error):
    """A command that raises `error` from a line of keras_bert's own."""
    scope = {"__name__": "keras_bert.tasks.check", "error": error}
    exec("def action(argv): raise error", scope)
    return scope["action"]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("rows.tsv line 3: no label;\n  add one"), "rows.tsv line 3: no label; add one"),
        (FileNotFoundError(2, "No such file or directory", "rows.tsv"), "rows.tsv: No such file or directory"),
        (FileExistsError("out: already there; give --overwrite"), "out: already there; give --overwrite"),
        (PermissionError(13, "Permission denied", "out"), "out: Permission denied"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError(18, "Invalid cross-device link", "a", None, "b"), "a: b: Invalid cross-device link"),
        (ModuleNotFoundError("No module named 'yaml'"), "No module named 'yaml'"),
        (ValueError(), "ValueError"),
    ],
)
def test_what_the_user_can_put_right_is_one_line_and_exit_2(call, error, line):
    code, printed = call(raising(error))
    assert (code, printed.out, printed.err) == (2, "", f"keras-bert check: {line}\n")


def test_a_fault_of_ours_keeps_its_traceback(call):
    with pytest.raises(ZeroDivisionError):
        call(lambda argv: 1 // 0)


def test_interrupted_is_130_without_a_traceback(call):
    code, printed = call(raising(KeyboardInterrupt()))
    assert (code, printed.err) == (130, "\nkeras-bert check: interrupted\n")


def test_an_error_from_another_library_says_whose_it_is(call):
    code, printed = call(lambda argv: int("12 apples") or __import__("json").loads("{"))
    assert code == 2
    assert printed.err.startswith("keras-bert check: invalid literal for int()")
    code, printed = call(lambda argv: __import__("json").loads("{"))
    assert "(from json.decoder; --debug shows" in printed.err


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_debug_shows_where(call, monkeypatch, how):
    if how == "variable":
        monkeypatch.setenv("KERAS_BERT_DEBUG", "1")
    code, printed = call(raising(ValueError("no")), *["--debug"] * (how == "flag"))
    assert code == 2
    assert "Traceback" in printed.err
    assert printed.err.endswith("keras-bert check: no\n")


def test_words_reach_the_command_and_its_code_comes_back(call):
    seen = []
    assert call(lambda argv: seen.append(argv) or 5, "--model", "dir", "--debug")[0] == 5
    assert seen == [["--model", "dir"]]
    assert call(lambda argv: None)[0] == 0


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_lists_every_command_in_a_line(capsys, word):
    assert door.main([word]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, (_, what) in door.COMMANDS.items():
        assert any(line.split() == [name, *what.split()] for line in lines)
    assert max(map(len, lines)) <= 110


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["clasify"], "did you mean classify?"),
        (["--predict"], "did you mean predict?"),
        (["zzz"], "the commands are demo,"),
    ],
)
def test_an_unknown_command_names_the_nearest(capsys, words, says):
    assert door.main(words) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1


def test_no_command_shows_the_help_and_fails(capsys):
    assert door.main([]) == 2
    assert "usage: keras-bert" in capsys.readouterr().err


def fresh(*words, **env):
    return subprocess.run(
        [sys.executable, "-W", "error", *words],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **env},
        check=False,
    )


def test_the_command_starts_without_tensorflow_and_names_come_when_used():
    script = (
        "import sys; sys.argv = ['/bin/keras-bert']\n"
        "from keras_bert.__main__ import main; main(['--help']); print('tensorflow' in sys.modules)\n"
        "import keras_bert as kb; print(kb.IS_NEXT, kb.NOT_NEXT, 'tensorflow' in sys.modules)"
    )
    done = fresh("-c", script)
    assert done.stdout.splitlines()[-2:] == ["False", "0 1 True"], done.stderr


def test_python_m_is_the_same_door():
    done = fresh("-m", "keras_bert", "--version")
    assert (done.returncode, done.stdout.count("."), done.stderr) == (0, 2, "")


def test_tensorflow_starts_without_notices_and_errors_still_show():
    script = (
        "import os, sys; from keras_bert.__main__ import SilentStart, without_noise; SilentStart()\n"
        "import tensorflow as tf; tf.constant(1) + 1\n"
        "with without_noise(): os.write(2, b'I0000 00:00 a notice\\nE0000 a fault\\n')"
    )
    done = fresh("-c", f"import sys; sys.argv = ['keras-bert']\n{script}", TF_CPP_MIN_LOG_LEVEL="2")
    assert (done.returncode, done.stderr) == (0, "E0000 a fault\n")


def test_a_closed_pipe_ends_quietly():
    script = (
        "import sys; sys.argv = ['keras-bert']\n"
        "from keras_bert import __main__ as door\n"
        "door.find = lambda command: lambda argv: [print('x' * 100000, flush=True) for _ in range(99)] and 0\n"
        "sys.exit(door.main(['check']))"
    )
    done = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$0" -c "$1" | head -c 10', sys.executable, script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("words", [["--help"], ["version"], ["check", "--help"]])
def test_help_into_a_closed_pipe_ends_quietly(words):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        command = [sys.executable, "-m", "keras_bert", *words]
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (141, "")


def test_results_are_utf8_whatever_the_locale():
    script = (
        "import sys; sys.argv = ['keras-bert']\n"
        "from keras_bert import __main__ as door\n"
        "door.find = lambda command: lambda argv: print('\u4e2d \u2192 \u2026')\n"
        "sys.exit(door.main(['check']))"
    )
    command = [sys.executable, "-c", script]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, timeout=60, env=env, check=False)
    assert (done.returncode, done.stdout.decode("utf-8").strip(), done.stderr) == (0, "中 → …", b"")


def test_streams_that_the_caller_closed_are_the_null_device():
    script = (
        "import sys; sys.argv = ['keras-bert']\n"
        "from keras_bert import __main__ as door\n"
        "door.find = lambda command: lambda argv: sys.stdout.write(str(sys.stdin.buffer.read())) and 0\n"
        "sys.exit(door.main(['check']))"
    )
    closed = ["bash", "-c", '"$0" -c "$1" <&- >&-', sys.executable, script]
    done = subprocess.run(closed, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_word_that_is_not_utf8_is_refused_before_work_starts(capsys):
    assert door.main(["check", "--output", "caf\udce9"]) == 2
    assert "keras-bert: 'caf\\udce9' is not UTF-8" in capsys.readouterr().err
