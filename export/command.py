"""`keras-bert export`: a checkpoint directory → a file or folder that other programs serve."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from keras_bert.inputs import find_files
from keras_bert.options import option, parse, required

FORMATS = {"saved_model": "keras_bert.export.saved_model:export"}


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Writes a trained model in a form that is served without this library, and checks that it answers the same."""

    model: str = required("checkpoint directory, Google zip, hf://org/name or keras_hub://preset")
    format: Literal["saved_model"] = required("form of the export")
    output: str = required("directory to write")
    overwrite: bool = option(False, "replace what is in --output")
    max_length: int | None = option(None, "tokens a text has at most; unset: as the model was trained")
    pairs: bool | None = option(None, "texts come in pairs; unset: as the model was trained")
    input: str | None = option(
        None,
        "rows to compare the export with the Python model on, a text a line, its pair after a tab: file, folder or "
        "glob; - is stdin",
    )


def main(argv: list[str]) -> int:
    """Exports, prints the report as a table on standard error and as one JSON line on standard output."""
    options = parse(ExportOptions, argv, "export")
    from keras_bert.files import refuse_existing
    from keras_bert.loading import load

    refuse_existing(options.output, options.overwrite)
    rows = read_rows(options.input) if options.input is not None else None
    bert = load(options.model, max_length=options.max_length)
    if options.pairs is not None:
        bert = dataclasses.replace(bert, info={**bert.info, "paired": options.pairs})
    print(f"exporting {options.model} to {options.output}, then asking it in a fresh process …", file=sys.stderr)
    report = exporter(options.format)(bert, options.output, rows, options.overwrite)
    print(table(report), file=sys.stderr)
    print(json.dumps({"command": "export", "format": options.format, "output": options.output, **report}))
    return 0


def exporter(format: str) -> Callable[..., dict[str, Any]]:
    module, name = FORMATS[format].split(":")
    return getattr(import_module(module), name)


def read_rows(path: str) -> list[tuple[str, ...]]:
    """The rows of UTF-8 files, one a line, texts separated by tabs; "-" is standard input.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not UTF-8.
    """
    rows: list[tuple[str, ...]] = []
    for name in find_files(path):
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        try:
            lines = data.decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}: expected UTF-8 text, got byte {error.object[error.start]:#x}") from None
        rows += [tuple(line.removesuffix("\r").split("\t")) for line in lines[: -1 if lines[-1] == "" else None]]
    return rows


def table(report: dict[str, Any]) -> str:
    """The report, a line a fact."""
    rows = [
        ("size", f"{report['bytes'] / 1e6:.1f} MB"),
        ("largest difference", f"{report['max_difference']:.1e} on {report['rows']} rows"),
        ("ops outside core", ", ".join(report["ops_outside_core"]) or "none"),
    ]
    for size, exported in report["milliseconds"].items():
        rows.append((f"batch of {size}", f"{exported:.1f} ms ({report['python_milliseconds'][size]:.1f} ms in Python)"))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)
