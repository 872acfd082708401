"""A .safetensors file is read as its author wrote it, or refused in a sentence; never half, never a crash."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from keras_bert.safetensors_file import INDEX, read_shards, read_tensors

FLOATS = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}
again = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def entry(dtype: str, shape: list[int], begin: int = 0, end: int | None = None) -> dict[str, Any]:
    size = math.prod(shape) * np.dtype(FLOATS[dtype]).itemsize
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, begin + size if end is None else end]}


def write(path: Path, header: Any, data: bytes, length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


@again
@given(
    shapes=st.lists(st.lists(st.integers(0, 4), max_size=3), min_size=1, max_size=5),
    kinds=st.lists(st.sampled_from([np.float32, np.float64, np.float16, np.int64]), min_size=5, max_size=5),
    seed=st.integers(0, 99),
)
def test_what_safetensors_writes_is_read_to_the_bit(tmp_path, shapes, kinds, seed):
    random = np.random.RandomState(seed)
    tensors = {f"t{i}": random.standard_normal(shape).astype(kinds[i]) for i, shape in enumerate(shapes)}
    save_file(tensors, tmp_path / "m.safetensors", metadata={"format": "pt"})
    found = read_tensors(tmp_path / "m.safetensors")
    assert set(found) == set(tensors)
    for name, value in tensors.items():
        expected = value.astype(np.float32) if value.dtype.kind == "f" else value
        assert found[name].dtype == expected.dtype or not expected.size
        np.testing.assert_array_equal(found[name], expected)


@pytest.mark.parametrize("kind", FLOATS)
def test_every_float_type_becomes_float32_without_loss_of_what_it_held(tmp_path, kind):
    value = np.array([[1.5, -2.25, 0.0078125]], FLOATS[kind])
    path = write(tmp_path / "m.safetensors", {"w": entry(kind, [1, 3])}, value.tobytes())
    found = read_tensors(path)["w"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[1.5, -2.25, 0.0078125]])


def test_a_file_cut_anywhere_is_refused(tmp_path):
    save_file({"a": np.ones((2, 3), np.float32), "b": np.ones(1, np.float16)}, tmp_path / "whole.safetensors")
    data = (tmp_path / "whole.safetensors").read_bytes()
    for length in range(len(data)):
        (tmp_path / "cut.safetensors").write_bytes(data[:length])
        with pytest.raises(ValueError, match=r"cut\.safetensors.*again"):
            read_tensors(tmp_path / "cut.safetensors")


@again
@given(position=st.integers(0, 300), value=st.integers(0, 255))
def test_a_file_with_any_byte_changed_is_read_or_refused_but_does_nothing_else(tmp_path, position, value):
    tensors = {"a": np.ones((2, 3), np.float32), "b": np.zeros(5, np.float32)}
    save_file(tensors, tmp_path / "m.safetensors")
    data = bytearray((tmp_path / "m.safetensors").read_bytes())
    data[position % len(data)] = value
    (tmp_path / "m.safetensors").write_bytes(data)
    found: dict[str, np.ndarray] = {}
    with contextlib.suppress(ValueError):
        found = read_tensors(tmp_path / "m.safetensors")
    assert sum(array.nbytes for array in found.values()) <= 44


LIES = {
    "length beyond the file": (lambda: ({"w": entry("F32", [2])}, b"\0" * 8, 10**9), "header says it is 1000000000"),
    "not JSON": (lambda: (b"{nonsense", b"", None), "header is not JSON"),
    "not UTF-8": (lambda: (b'{"\xff": 1}', b"", None), "header is not JSON"),
    "a list": (lambda: ([], b"", None), "a JSON list"),
    "shape larger than its bytes": (lambda: ({"w": entry("F32", [9, 9], end=8)}, b"\0" * 8, None), "needs 324 bytes"),
    "bytes beyond the file": (lambda: ({"w": entry("F32", [90])}, b"\0" * 8, None), "bytes 0 to 360"),
    "bytes after the last": (lambda: ({"w": entry("F32", [2])}, b"\0" * 12, None), "speaks of 8 bytes"),
    "a negative offset": (lambda: ({"w": entry("F32", [2], -8)}, b"\0" * 8, None), "expected whole numbers"),
    "a negative axis": (lambda: ({"w": {**entry("F32", [2]), "shape": [-2]}}, b"\0" * 8, None), "whole numbers"),
    "a shape that overflows": (lambda: ({"w": entry("F32", [2**40, 2**40], end=8)}, b"\0" * 8, None), "needs"),
    "an overlap": (lambda: ({"a": entry("F32", [2]), "b": entry("F32", [2], 4)}, b"\0" * 12, None), "overlap"),
    "a gap": (lambda: ({"a": entry("F32", [2]), "b": entry("F32", [1], 12)}, b"\0" * 16, None), "gap"),
    "an unknown type": (lambda: ({"w": {**entry("F32", [2]), "dtype": "F8_E4M3"}}, b"\0" * 8, None), "type 'F8_E4M3'"),
    "a name twice": (lambda: (b'{"w":1,"w":2}', b"", None), "'w' stands twice"),
    "an entry that is a number": (lambda: ({"w": 7}, b"", None), "has the entry 7"),
    "a true as a number": (lambda: ({"w": {**entry("F32", [1]), "shape": [True]}}, b"\0" * 4, None), "whole numbers"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_lies_is_refused_and_says_where(tmp_path, lie):
    make, told = LIES[lie]
    header, data, length = make()
    path = write(tmp_path / "m.safetensors", header, data, length)
    with pytest.raises(ValueError, match=told) as caught:
        read_tensors(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_header_as_deep_as_a_well_is_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes((10**5).to_bytes(8, "little") + b"[" * 10**5)
    with pytest.raises(ValueError, match="the header is not JSON"):
        read_tensors(path)
    (tmp_path / INDEX).write_text("[" * 10**5)
    with pytest.raises(ValueError, match="expected JSON with a weight_map"):
        read_shards(tmp_path / INDEX)


def test_a_float64_beyond_float32_is_infinite_without_a_warning(tmp_path):
    save_file({"w": np.array([1.0, 1e300])}, tmp_path / "m.safetensors")
    np.testing.assert_array_equal(read_tensors(tmp_path / "m.safetensors")["w"], np.array([1, np.inf], np.float32))


def shards(folder: Path, places: dict[str, str]) -> Path:
    for place in set(places.values()) - {"absent.safetensors"}:
        named = {name: np.full(2, len(name), np.float32) for name, where in places.items() if where == place}
        if "/" not in place and place.endswith(".safetensors"):
            save_file(named, folder / place)
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 8}, "weight_map": places}))
    return folder / INDEX


def test_shards_are_read_as_one(tmp_path):
    found = read_shards(shards(tmp_path, {"a": "1.safetensors", "bb": "2.safetensors", "ccc": "1.safetensors"}))
    assert {name: value[0] for name, value in found.items()} == {"a": 1, "bb": 2, "ccc": 3}


@pytest.mark.parametrize(
    "place", ["../out.safetensors", "/etc/passwd", "sub/m.safetensors", "..\\m.safetensors", "m.bin"]
)
def test_a_shard_outside_its_directory_is_refused(tmp_path, place):
    with pytest.raises(ValueError, match="not a plain .safetensors file name"):
        read_shards(shards(tmp_path, {"a": place}))


def test_an_index_that_does_not_fit_its_shards_is_refused(tmp_path):
    index = shards(tmp_path, {"a": "1.safetensors", "b": "1.safetensors"})
    index.write_text(json.dumps({"weight_map": {"a": "1.safetensors", "c": "1.safetensors"}}))
    with pytest.raises(ValueError, match="other tensors than the index lists: b, c"):
        read_shards(index)
    with pytest.raises(FileNotFoundError, match="absent.safetensors is missing"):
        read_shards(shards(tmp_path, {"a": "absent.safetensors"}))
    for text in ("{", "[]", '{"weight_map": [1]}', '{"weight_map": {"a": 1}}'):
        index.write_text(text)
        with pytest.raises(ValueError, match="expected JSON with a weight_map|expected a weight_map"):
            read_shards(index)
