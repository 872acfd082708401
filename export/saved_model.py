"""SavedModel: text in, answers out, on a stock TensorFlow Serving or any TensorFlow with tensorflow_text."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_bert.bert import Bert
from keras_bert.export import compare
from keras_bert.export.readme import saved_model_readme
from keras_bert.export.serving_ops import check_servable, graph_ops
from keras_bert.export.signatures import in_float32, serving_module
from keras_bert.files import atomic_directory, refuse_existing


def export(
    bert: Bert,
    directory: str | os.PathLike[str],
    sample_rows: Iterable[tuple[str, ...]] | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Writes a SavedModel that answers as `bert` does, checked before it takes its place.

    Its signatures: `serving_default` (text → the task's answer) and `ids` (the three id tensors → logits). Any
    number of rows; a batch is padded to its longest row, at most `bert.max_length`. The weights are float32.

    Args:
        bert: a classifier or a regressor.
        directory: the place; its parents are made.
        sample_rows: rows to hold against the Python model, (text,) or (text, pair); None takes a dozen of all kinds.
        overwrite: replace what is there.

    Returns:
        What was checked: `bytes`, `rows`, `max_difference`, `ops_outside_core`, `milliseconds` and
        `python_milliseconds` by batch size.

    Raises:
        ValueError: the model has no head that answers; the graph has an op that a stock TensorFlow Serving lacks; the
            exported model answers otherwise than the Python one. Nothing is written then.
        FileExistsError: there is something at `directory`, and `overwrite` is off.
    """
    refuse_existing(directory, overwrite)
    columns = compare.columns_of(bert, sample_rows)
    bert = in_float32(bert)
    with atomic_directory(directory, overwrite) as draft:
        write(bert, draft)
        outside_core = check_servable(graph_ops(draft))
        expected = compare.python_answers(bert, columns)
        got = compare.ask_fresh_process(draft, columns, expected["given"])
        report = {
            "head": bert.head,
            "rows": len(columns["text"]),
            "max_difference": compare.largest_difference(expected, got, columns),
            "ops_outside_core": outside_core,
            "milliseconds": got["milliseconds"],
            "python_milliseconds": compare.python_milliseconds(bert, columns),
        }
        (draft / "README.md").write_text(saved_model_readme(bert, report), encoding="utf-8", newline="\n")
        size = sum(path.stat().st_size for path in draft.rglob("*") if path.is_file())
    return {"bytes": size, **report}


def write(bert: Bert, directory: Path) -> None:
    """The SavedModel itself, into an empty directory."""
    with tempfile.TemporaryDirectory() as assets:
        module, signatures = serving_module(bert, Path(assets))
        tf.saved_model.save(module, os.fspath(directory), signatures=signatures)
