"""TensorFlow Datasets by name: `tfds://glue/mrpc:train`, `tfds://imdb_reviews:train[:10%]`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from keras_bert.tasks.readers.layout import Layout, Row
from keras_bert.tasks.readers.lines import Invalid

PREFIX = "tfds://"
NAME = re.compile(r"tfds://(?P<name>[\w./-]+(?::\d+\.\d+\.\d+)?):(?P<split>[^:]+(?:\[.*\])?)")


def read_tfds(source: str, layouts: Sequence[Layout], invalid: Invalid = "error") -> Iterator[Row]:
    """The rows of a split; `line` is the example's number from 1, class labels are given by name.

    Raises:
        ValueError: not of the form `tfds://name:split`, an unknown data set or split, or a missing feature.
    """
    import tensorflow_datasets as tfds

    match = NAME.fullmatch(source)
    if match is None:
        raise ValueError(f"{source}: expected tfds://name:split, as in tfds://glue/mrpc:train")
    try:
        data, info = tfds.load(match["name"], split=match["split"], with_info=True, shuffle_files=False)
    except Exception as error:  # TFDS raises many kinds: not registered, no such split, no network
        raise ValueError(
            f"{source}: TensorFlow Datasets cannot load it: {' '.join(str(error).split())[:300]}"
        ) from None
    layout = next((layout for layout in layouts if set(layout.columns()) <= set(info.features)), None)
    if layout is None:
        wanted = " or ".join(", ".join(layout.columns()) for layout in layouts)
        raise ValueError(
            f"{source}: expected the features {wanted}; it has {', '.join(info.features)}. "
            f"Name them with --text_column, --pair_column and --label_column"
        )
    for number, item in enumerate(tfds.as_numpy(data), 1):
        values = [string_of(item, column, info, f"{source} example {number}", invalid) for column in layout.columns()]
        text, *rest = values
        pair = rest.pop(0) if layout.pair is not None else None
        yield Row(number, text, pair, rest[0] if rest else None)


def string_of(item: dict[str, Any], column: str, info: Any, where: str, invalid: Invalid) -> str:
    """A feature as a string: text as it is, a class by its name, a number by its digits."""
    value, feature = item[column], info.features[column]
    if hasattr(feature, "int2str"):
        if value < 0:
            raise ValueError(f"{where}: has no label (a test split?); take a split with labels")
        return feature.int2str(int(value))
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8", "strict" if invalid == "error" else "replace")
        except UnicodeDecodeError:
            raise ValueError(f"{where}: {column!r} is not UTF-8; give --invalid_utf8 replace") from None
    if getattr(value, "ndim", 1) != 0:
        raise ValueError(f"{where}: {column!r} must be a string or a number, got shape {value.shape}")
    return str(value)
