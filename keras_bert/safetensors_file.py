"""Reading .safetensors files, one or a set of shards: the header is held against the file before anything is believed.

The format: 8 bytes, the header's length N (little-endian); N bytes of JSON, name → dtype, shape, data_offsets; data.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

MAX_HEADER = 100_000_000  # the format's own limit
INDEX = "model.safetensors.index.json"
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """Every tensor of the file by name; floats as float32, without a copy where they are that already.

    Raises:
        ValueError: the file is cut short, its header does not fit it, or a type is not known here.
        FileNotFoundError: there is no such file.
    """
    import ml_dtypes

    floats = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}
    others = {"I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_}
    with open(path, "rb") as file:
        header, start, size = read_header(file, path)
        if size == start:  # nothing to map: there is no tensor, or all are empty
            return {name: np.zeros(entry["shape"], np.float32) for name, entry in header.items()}
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    tensors = {}
    for name, entry in header.items():
        kind, shape = entry["dtype"], tuple(entry["shape"])
        dtype = np.dtype((floats | others)[kind])
        begin = start + entry["data_offsets"][0]
        flat = np.frombuffer(data, dtype, count=math.prod(shape), offset=begin)
        with np.errstate(over="ignore"):  # a float64 beyond float32 is infinite here, and told as that
            tensors[name] = (flat.astype(np.float32) if kind in floats and kind != "F32" else flat).reshape(shape)
    return tensors


def read_header(file: Any, path: Path) -> tuple[dict[str, dict[str, Any]], int, int]:
    """The header's entries, where the data begins, and the file's size; every number checked.

    Raises:
        ValueError: expected and got, naming the file and the tensor.
    """
    size = os.fstat(file.fileno()).st_size
    again = "download or write the file again"
    if size < 8:
        raise ValueError(f"{path}: {size} bytes are no safetensors file (the header's length takes 8): {again}")
    length = int.from_bytes(file.read(8), "little")
    if length > min(size - 8, MAX_HEADER):
        raise ValueError(
            f"{path}: the header says it is {length} bytes long, but the file has {size - 8} bytes after that number: "
            f"it was cut short, or is no safetensors file; {again}"
        )
    try:
        header = json.loads(file.read(length).decode("utf-8"), object_pairs_hook=no_repeats)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path}: the header is not JSON ({error}): damaged, or no safetensors file; {again}"
        ) from None
    if not isinstance(header, dict):
        raise ValueError(f"{path}: the header is a JSON {type(header).__name__}, expected an object; {again}")
    header.pop("__metadata__", None)
    start, end = 8 + length, 0
    for name, entry in sorted(header.items(), key=first_offset):
        begin, end_here = check_entry(entry, f"{path}: tensor {name!r}", size - start, again)
        if begin != end:
            raise ValueError(
                f"{path}: tensor {name!r} begins at byte {begin} of the data, expected {end} (no gap or overlap); "
                f"{again}"
            )
        end = end_here
    if end != size - start:
        raise ValueError(f"{path}: the header speaks of {end} bytes of data, the file has {size - start}; {again}")
    return header, start, size


def check_entry(entry: Any, where: str, available: int, again: str) -> tuple[int, int]:
    """The offsets of one tensor, once its type, shape and place agree with each other and with the file."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{where} has the entry {entry!r}, expected dtype, shape and data_offsets; {again}")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if kind not in SIZES:
        raise ValueError(f"{where} has the type {kind!r}, expected one of {', '.join(SIZES)}: save it as float32")
    if not whole_numbers(shape) or not whole_numbers(offsets) or len(offsets) != 2:
        raise ValueError(f"{where} has shape {shape!r} and data_offsets {offsets!r}, expected whole numbers; {again}")
    begin, end = offsets
    if begin > end or end > available:
        raise ValueError(
            f"{where} is said to lie at bytes {begin} to {end}, but the file holds {available} bytes of data: "
            f"it was cut short, or its header lies; {again}"
        )
    needed = math.prod(shape) * SIZES[kind]
    if end - begin != needed:
        raise ValueError(
            f"{where} of shape {shape} and type {kind} needs {needed} bytes, its header gives {end - begin}; {again}"
        )
    return begin, end


def whole_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(number) is int and 0 <= number < 2**62 for number in value)


def first_offset(item: tuple[str, Any]) -> tuple[int, int]:
    offsets: Any = item[1].get("data_offsets") if isinstance(item[1], dict) else None
    return (offsets[0], offsets[1]) if whole_numbers(offsets) and len(offsets) == 2 else (0, 0)


def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} stands twice")
    return found


def read_shards(index: Path) -> dict[str, np.ndarray]:
    """Every tensor of a set of shards, from its model.safetensors.index.json.

    Raises:
        ValueError: the index is damaged, names a file outside its directory, or does not fit the shards.
        FileNotFoundError: a shard is missing.
    """
    try:
        places = json.loads(index.read_text("utf-8"))["weight_map"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{index}: expected JSON with a weight_map of tensor names to file names ({error!r})"
        ) from None
    if not isinstance(places, Mapping) or not all(isinstance(place, str) for place in places.values()):
        raise ValueError(f"{index}: expected a weight_map of tensor names to file names")
    tensors: dict[str, np.ndarray] = {}
    for place in sorted(set(places.values())):
        # A name with a folder in it could lead out of the directory, to any file on this machine.
        if place != Path(place).name or "\\" in place or not place.endswith(".safetensors"):
            raise ValueError(
                f"{index}: the shard {place!r} is not a plain .safetensors file name in that directory: refused; "
                f"correct the index"
            )
        if not (index.parent / place).is_file():
            raise FileNotFoundError(f"{index.parent / place} is missing, but {index.name} names it: download it too")
        shard = read_tensors(index.parent / place)
        listed = {name for name, where in places.items() if where == place}
        if listed != set(shard):
            odd = sorted(listed ^ set(shard))
            raise ValueError(
                f"{index}: {place} holds other tensors than the index lists: {', '.join(odd[:3])}; download both again"
            )
        tensors.update(shard)
    return tensors
