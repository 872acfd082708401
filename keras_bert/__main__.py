"""The door: `keras-bert <command> --flags`, the same as `python -m keras_bert <command> --flags`.

A command is the name of a function, imported when it is called, so that help and mistyped flags answer at once.
A command raises ValueError, OSError or ImportError for what the user can put right; here that becomes one line on
stderr and exit code 2.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

COMMANDS = {  # name: (module:function, what it does in a line)
    "demo": ("keras_bert.tasks.demo:main", "the main job on real weights and real text, end to end and offline"),
    "tokenize": ("keras_bert.tasks.show_tokens:main", "lines in, JSON lines of tokens, ids and offsets out"),
    "vocab": ("keras_bert.tasks.vocab:main", "a WordPiece vocabulary out of text"),
    "prepare": ("keras_bert.tasks.prepare:main", "text into pre-training records"),
    "pretrain": ("keras_bert.tasks.pretrain:main", "pre-training records into a BERT"),
    "classify": ("keras_bert.tasks.classify:main", "fine-tune and evaluate: a label for a text or a pair"),
    "regress": ("keras_bert.tasks.regress:main", "fine-tune and evaluate: a score for a text or a pair"),
    "predict": (
        "keras_bert.tasks.predict:main",
        "answers of a checkpoint: lines or JSON lines in, JSON lines out",
    ),
    "check": ("keras_bert.tasks.check:main", "looks at a model and its data before hours are spent"),
    "export": ("keras_bert.export.command:main", "a checkpoint as a SavedModel that takes text"),
    "convert": (
        "keras_bert.tasks.convert:main",
        "checkpoints to and from transformers, Google TF1 and KerasHub",
    ),
}
BAD_INPUT, INTERRUPTED, PIPE_CLOSED = 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line, by default the process's own.

    Args:
        argv: the words after `keras-bert`.

    Returns:
        The exit code: 0, or 2 after one line on stderr that says what to put right, 130 when interrupted.
    """
    steady_streams()
    try:
        code = answer(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our stdout has gone, as with `| head`: nothing is left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    return code


def answer(words: list[str]) -> int:
    """The exit code of one command line, after its words have been said."""
    debug = "--debug" in words or bool(os.environ.get("KERAS_BERT_DEBUG"))
    words = [word for word in words if word != "--debug"]
    if not words:
        print(help_text(), file=sys.stderr)
        return BAD_INPUT
    command, *rest = words
    if command == "help" and rest:
        command, rest = rest[0], ["--help"]
    if command in ("help", "--help", "-h", "-help", "--helpfull"):
        print(help_text())
        return 0
    if command in ("version", "--version"):
        print(importlib.import_module("keras_bert").__version__)
        return 0
    if wrong := next((word for word in words if not is_text(word)), None):
        print(f"keras-bert: {wrong!a} is not UTF-8; rename the file, or type the word anew", file=sys.stderr)
        return BAD_INPUT
    if command not in COMMANDS:
        near = difflib.get_close_matches(command.lstrip("-"), COMMANDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the commands are {', '.join(COMMANDS)}"
        print(f"keras-bert: no command {command!r}; {hint}", file=sys.stderr)
        return BAD_INPUT
    return run(command, rest, debug)


def steady_streams() -> None:
    """Makes stdout UTF-8 whatever the locale, as all files are; a stream that the caller closed is the null device."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")


def is_text(word: str) -> bool:
    """False for bytes of another encoding: Python passes them as lone surrogates, which no file of ours can hold."""
    return not any("\ud800" <= character <= "\udfff" for character in word)


def run(command: str, argv: list[str], debug: bool) -> int:
    """One command, with the user's errors as one line each."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if not debug:
        SilentStart()
    try:
        return find(command)(argv) or 0
    except KeyboardInterrupt:
        print(f"\nkeras-bert {command}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except (ValueError, OSError, ImportError) as error:
        if debug:
            traceback.print_exc()
        print(f"keras-bert {command}: {one_line(error)}", file=sys.stderr)
        return BAD_INPUT


def find(command: str) -> Callable[[list[str]], int]:
    """The function that a command is."""
    module, _, function = COMMANDS[command][0].partition(":")
    return getattr(importlib.import_module(module), function)


def one_line(error: Exception) -> str:
    """An error in a line; one that came from another library's depths says how to see where."""
    if isinstance(error, OSError) and error.strerror:
        files = [str(name) for name in (error.filename, error.filename2) if name is not None]
        text = ": ".join([*files, error.strerror])
    else:
        text = " ".join(str(error).split()) or type(error).__name__
    frames = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = not frames or frames[-1].startswith(("keras_bert", "__main__")) or isinstance(error, OSError | ImportError)
    return text if ours else f"{text} (from {frames[-1]}; --debug shows how it came to that)"


def help_text() -> str:
    """What `keras-bert --help` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: keras-bert <command> --flags",
            "",
            *lines,
            "",
            "keras-bert <command> --help lists its flags; --debug (or KERAS_BERT_DEBUG=1) shows where errors arose.",
        ]
    )


NOISE = re.compile(  # the last: what TensorFlow calls an error where CUDA's libraries are and no GPU is
    r"WARNING: All log messages before absl::InitializeLog|[IW]\d{4} |To enable the following instruct|E\d{4} .*cuInit"
)


@contextmanager
def without_noise() -> Iterator[None]:
    """Holds back what native code writes to stderr meanwhile; afterwards shows what is not a start-up notice."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        stderr = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            held.seek(0)
            lines = held.read().decode(errors="replace").splitlines()
            sys.stderr.write("".join(f"{line}\n" for line in lines if not NOISE.match(line)))


class SilentStart(importlib.abc.MetaPathFinder):
    """Imports TensorFlow without its start-up notices, which no environment variable turns off."""

    def __init__(self) -> None:
        if "tensorflow" not in sys.modules:
            sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def quietly(module: ModuleType) -> None:
                with without_noise():
                    execute(module)
                    module.config.list_physical_devices()  # looks for GPUs now, with its notices held back

            spec.loader.exec_module = quietly  # type: ignore[method-assign]
        return spec


if __name__ == "__main__":
    sys.exit(main())
