"""Where a model may come from: zips as Google published them, and caches made by hand, without network."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import huggingface_hub
import huggingface_hub.constants
import huggingface_hub.utils
import keras_hub
import numpy as np
import pytest
import small

import keras_bert as kb
from keras_bert import origins
from keras_bert.checkpoint import collect

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def tiny(shared):
    return shared / "data" / "checkpoints" / "google_tiny"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("origin") / "model"
    small.saved(folder, "classifier")
    return folder


def same(one: kb.Bert, other: kb.Bert) -> bool:
    weights = collect(one.model)
    return all(np.array_equal(value, weights[name]) for name, value in collect(other.model).items())


# Google's zip


def zipped(path: Path, members: dict[str, bytes], **options) -> Path:
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def as_published(tiny: Path, folder: str = "uncased_L-2_H-4_A-4") -> dict[str, bytes]:
    members = {f"{folder}/{path.name}": path.read_bytes() for path in tiny.iterdir()}
    return {f"{folder}/": b"", **members} if folder else {path.name: path.read_bytes() for path in tiny.iterdir()}


@pytest.mark.parametrize("folder", ["uncased_L-2_H-4_A-4", "a/deeper one", ""])
@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_a_zip_as_google_published_it_loads_as_its_directory_does(tiny, tmp_path, folder, compression):
    path = zipped(tmp_path / "bert.zip", as_published(tiny, folder), compression=compression)
    bert = kb.load(path)
    assert bert.head == "pretrainer"
    assert same(bert, kb.load(tiny))
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_zip_writes_nothing_outside_its_own_temporary_directory(tiny, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(origins.tempfile, "tempdir", str(tmp_path / "temporary"))
    hostile = {
        "../../vocab.txt": b"evil",
        "../vocab.txt": b"evil",
        "/tmp/bert_config.json": b"evil",
        "m/.bashrc": b"evil",
        "m/pytorch_model.bin": b"evil",
        "__MACOSX/m/vocab.txt": b"evil",
    }
    with pytest.raises(ValueError, match="holds checkpoints in 4 folders"):
        kb.load(zipped(tmp_path / "bert.zip", as_published(tiny, "m") | hostile))
    harmless = {name: data for name, data in hostile.items() if name.startswith(("m/", "__MACOSX"))}
    assert kb.load(zipped(tmp_path / "bert.zip", as_published(tiny, "m") | harmless)).head == "pretrainer"
    with pytest.raises(ValueError, match="bert_config.json"):  # by its bare name, into the temporary directory only
        kb.load(zipped(tmp_path / "bert.zip", {f"../{name}": b"{" for name in as_published(tiny, "")}))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bert.zip", "temporary"]
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_zip_that_would_fill_the_disk_is_refused_before_it_does(tiny, tmp_path, monkeypatch):
    bomb = as_published(tiny, "m") | {"m/more.ckpt.data-00000-of-00001": bytes(300 * 2**20)}
    path = zipped(tmp_path / "bomb.zip", bomb, compression=zipfile.ZIP_DEFLATED, compresslevel=1)
    with pytest.raises(ValueError, match=r"would unpack from [\d,]+ to 3[\d,]+ bytes, but weights hardly compress"):
        kb.load(path)
    monkeypatch.setattr(origins, "MAX_UNPACKED", 1000)
    with pytest.raises(ValueError, match="would unpack"):
        kb.load(zipped(tmp_path / "large.zip", as_published(tiny)))


def test_a_damaged_zip_or_one_without_a_checkpoint_is_told_in_one_line(tiny, tmp_path):
    members = {name: data for name, data in as_published(tiny).items() if not name.endswith(".meta")}
    with pytest.raises(FileNotFoundError, match=r"bert\.zip: bert_model\.ckpt has no vocabulary"):
        kb.load(zipped(tmp_path / "bert.zip", {name: data for name, data in members.items() if "vocab" not in name}))
    damaged = [zipped(tmp_path / "other.zip", {"m/config.json": b"{}", "m/model.safetensors": b""}).read_bytes()]
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        whole = zipped(tmp_path / "bert.zip", members, compression=compression).read_bytes()
        with zipfile.ZipFile(tmp_path / "bert.zip") as archive:
            largest = max(archive.infolist(), key=lambda member: member.file_size)
        damaged.append(whole[: len(whole) // 2])
        for place in range(0, largest.compress_size, largest.compress_size // 7):
            flipped = bytearray(whole)
            flipped[largest.header_offset + 30 + len(largest.filename) + place] ^= 0xFF
            damaged.append(bytes(flipped))
    for data in damaged:
        (tmp_path / "broken.zip").write_bytes(data)
        with pytest.raises(ValueError, match=r"broken\.zip") as caught:
            kb.load(tmp_path / "broken.zip")
        assert "\n" not in str(caught.value)


# What is none


@pytest.mark.parametrize("origin", ["s3://bucket/model", "https://example.com/bert.zip", "hf://", "keras_hub://"])
def test_an_unknown_origin_lists_what_is_accepted(origin):
    with pytest.raises(
        ValueError, match="none of the known origins: expected a checkpoint directory.*hf://.*keras_hub://"
    ):
        kb.load(origin)


@pytest.mark.parametrize("origin", ["hf://a/b/c", "hf://../../etc", "hf://org/na me", "hf://org/..", "hf://-/x--y"])
def test_a_name_that_the_hub_cannot_have_is_refused(origin):
    with pytest.raises(ValueError, match="hf://"):
        kb.load(origin)


def test_paths_that_hold_no_checkpoint_are_told_apart(tmp_path, directory):
    with pytest.raises(FileNotFoundError, match="there is nothing there; expected a checkpoint directory"):
        kb.load(tmp_path / "absent")
    (tmp_path / "notes.txt").write_text("notes")
    with pytest.raises(ValueError, match="a file of an unknown kind: expected a checkpoint directory"):
        kb.load(tmp_path / "notes.txt")
    with pytest.raises(FileNotFoundError, match=rf"did you mean {directory}\?"):
        kb.load(directory.parent)
    for name in ("model.h5", "model.keras"):
        (tmp_path / name).write_bytes(b"\x89HDF\r\n")
        with pytest.raises(ValueError, match="is a Keras file, not a checkpoint: open a .keras with"):
            kb.load(tmp_path / name)


def test_a_path_may_be_a_string_and_begin_with_the_home_directory(directory, monkeypatch):
    monkeypatch.setenv("HOME", str(directory.parent))
    assert kb.load("~/model").labels == small.LABELS


# Caches made by hand


def hub_cache(cache: Path, directory: Path, name: str = "org--name", revision: str = "main") -> Path:
    repository = cache / f"models--{name}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / revision).write_text(COMMIT)
    shutil.copytree(directory, repository / "snapshots" / COMMIT)
    return repository / "snapshots" / COMMIT


def kaggle_cache(cache: Path, preset: str = "bert_tiny_en_uncased") -> None:
    """As kagglehub leaves it: the files, and a marker for each that is complete."""
    handle = keras_hub.models.BertBackbone.presets[preset]["kaggle_handle"].removeprefix("kaggle://")
    folder = cache / "models" / handle
    version = handle.rpartition("/")[2]
    numbers = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4, "intermediate_dim": 6, "max_sequence_length": 9}
    keras_hub.models.BertBackbone(vocabulary_size=23, **numbers).save_to_preset(str(folder))
    keras_hub.models.BertTokenizer(vocabulary=small.TOKENS, lowercase=True).save_to_preset(str(folder))
    markers = folder.parent / ".complete" / version
    for path in folder.rglob("*"):
        if path.is_file():
            marker = markers / f"{path.relative_to(folder)}.complete"
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def test_the_hub_is_asked_for_safe_files_only(hub, directory, monkeypatch):
    asked = {}

    def snapshot(repository, revision=None, allow_patterns=None):
        asked.update(repository=repository, revision=revision, patterns=allow_patterns)
        return str(directory)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    kb.load("hf://org/name@v1.0")
    assert (asked["repository"], asked["revision"]) == ("org/name", "v1.0")
    names = ["config.json", "model.safetensors", "vocab.txt", "model.safetensors.index.json", "tokenizer_config.json"]
    names += ["model-00001-of-00002.safetensors", "tokenizer.json", "keras_bert.json"]
    others = ["pytorch_model.bin", "modeling_x.py", "training_args.bin", "tf_model.h5", "x.pkl", "model.onnx", "run.sh"]
    kept = huggingface_hub.utils.filter_repo_objects(names + others, allow_patterns=asked["patterns"])
    assert sorted(kept) == sorted(names)


def test_a_cached_repository_loads_and_one_that_is_not_is_told_in_one_line(hub, directory):
    hub_cache(hub, directory)
    hub_cache(hub, directory, "org--pinned", revision="v1.0")
    bert = kb.load("hf://org/name")
    assert bert.labels == small.LABELS
    assert bert.info["provenance"]["origin"]
    assert kb.load("hf://org/pinned@v1.0").labels == small.LABELS
    assert kb.load(f"hf://org/name@{COMMIT}").labels == small.LABELS
    for origin in ("hf://org/absent", "hf://org/pinned", "hf://org/name@other"):
        with pytest.raises(ConnectionError, match="not in the cache, and the network cannot be reached") as caught:
            kb.load(origin)
        assert origin in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_cached_repository_with_pickled_weights_is_refused(hub, directory):
    snapshot = hub_cache(hub, directory)
    (snapshot / "model.safetensors").rename(snapshot / "pytorch_model.bin")
    with pytest.raises(ValueError, match="is a pickle"):
        kb.load("hf://org/name")


@pytest.fixture
def no_names(monkeypatch):
    """A machine whose network does not answer."""

    def unknown(*arguments, **options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_without_network_the_cache_is_used_without_being_told_to(hub, directory, no_names, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    hub_cache(hub, directory)
    assert kb.load("hf://org/name").labels == small.LABELS
    with pytest.raises(ConnectionError, match="hf://org/absent is not in the cache"):
        kb.load("hf://org/absent")


def test_a_cached_preset_loads_and_one_that_is_not_is_told_in_one_line(tmp_path, no_names, monkeypatch):
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path))
    kaggle_cache(tmp_path)
    bert = kb.load("keras_hub://bert_tiny_en_uncased")
    assert (bert.config.hidden_size, bert.config.hidden_act, bert.head) == (4, "gelu_new", None)
    with pytest.raises(ConnectionError, match="keras_hub://bert_base_en is not in the cache") as caught:
        kb.load("keras_hub://bert_base_en")
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="no BERT preset that keras_hub can load"):
        kb.load("keras_hub://no_such_preset")


def test_a_fresh_process_finds_the_caches_by_their_variables(tmp_path, directory):
    hub_cache(tmp_path / "hf" / "hub", directory)
    program = (
        "import sys, keras_bert as kb\n"
        "print(kb.load('hf://org/name').labels)\n"
        "try: kb.load('hf://org/absent')\n"
        "except OSError as error: print(error)\n"
    )
    environment = os.environ | {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    environment.pop("HF_HUB_CACHE", None)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    labels, told = done.stdout.splitlines()
    assert labels == str(small.LABELS)
    assert told.startswith("hf://org/absent is not in the cache")
    assert json.loads((directory / "keras_bert.json").read_text())["head"] == "classifier"
