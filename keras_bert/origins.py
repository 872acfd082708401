"""Where a model may come from: what `load` and `--model` take, told apart."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from keras_bert.checkpoint import Source
from keras_bert.convert import google, transformers
from keras_bert.files import read_whole

ACCEPTED = (
    "expected a checkpoint directory (config.json, model.safetensors, vocab.txt), Google's zip or TF1 checkpoint (a "
    "directory with bert_config.json, or the path before .index), hf://org/name or keras_hub://preset"
)
# No pickles, no code: only these are ever asked of the hub.
HUB_FILES = ["*.safetensors", "*.safetensors.index.json", "*.json", "vocab.txt"]
MAX_UNPACKED = 16 * 2**30  # bytes; BERT-large with Adam's moments is 4 GB
MAX_RATIO = 100  # unpacked to packed, once it is large: weights hardly compress
MEMBER = re.compile(r"bert_config\.json|vocab\.txt|[^/\\]+\.ckpt[^/\\]*\.(index|data-\d{5}-of-\d{5})|checkpoint")


def read_origin(origin: str | os.PathLike[str], lower_case: bool | None = None) -> Source:
    """The checkpoint at `origin`, read whole.

    Args:
        origin: a path, "hf://org/name", "hf://org/name@revision" or "keras_hub://preset".
        lower_case: instead of what the checkpoint says of its tokenizer.

    Raises:
        ValueError: this is no origin, or what is there is damaged.
        FileNotFoundError: there is nothing, or a file is missing.
        ConnectionError: it is not in the cache, and the network cannot be reached.
    """
    text = os.fspath(origin)
    scheme, mark, rest = text.partition("://")
    if mark:
        if scheme not in SCHEMES or not rest:
            raise ValueError(f"{text} is none of the known origins: {ACCEPTED}")
        source = SCHEMES[scheme](rest, text)
    else:
        source = read_path(Path(text).expanduser())
    if lower_case is not None and source.tokenizer is not None:
        keys = source.tokenizer.get_config() | {"lower_case": lower_case}
        source.tokenizer = type(source.tokenizer).from_config(keys)
    return source


def read_path(path: Path) -> Source:
    if path.is_dir():
        return read_whole(path, lambda: read_directory(path))
    if path.is_file() and zipfile.is_zipfile(path):
        return read_zip(path)
    prefix = path.with_suffix("") if path.suffix == ".index" else path
    if prefix.with_name(prefix.name + ".index").is_file():
        return google.read(prefix)
    if path.suffix in (".h5", ".keras") and path.is_file():
        raise ValueError(
            f"{path} is a Keras file, not a checkpoint: open a .keras with keras.models.load_model after import "
            f"keras_bert, and re-save an .h5 with the library that wrote it; here, {ACCEPTED}"
        )
    if path.exists():
        raise ValueError(f"{path} is a file of an unknown kind: {ACCEPTED}")
    raise FileNotFoundError(f"{path}: there is nothing there; {ACCEPTED}")


def read_directory(folder: Path) -> Source:
    if (folder / "metadata.json").is_file() and any(folder.glob("model*weights*")):
        return read_keras_hub(str(folder), str(folder))
    if (folder / transformers.CONFIG).is_file():
        return transformers.read(folder)
    prefix = google.find_prefix(folder)
    if prefix is not None:
        return google.read(prefix)
    nested = sorted({path.parent.name for path in folder.glob("*/*config.json")})
    hint = f" (did you mean {folder / nested[0]}?)" if nested else ""
    raise FileNotFoundError(f"{folder} holds no checkpoint{hint}: {ACCEPTED}")


def read_zip(path: Path) -> Source:
    """A zip as Google published it: one folder inside. Only a checkpoint's files are unpacked, by their bare names.

    Raises:
        ValueError: it is damaged, too large, or holds no checkpoint.
    """
    try:
        with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory(prefix="keras_bert-") as temporary:
            members = wanted_members(archive, path)
            for member in members:
                with archive.open(member) as source, open(Path(temporary, Path(member.filename).name), "xb") as target:
                    shutil.copyfileobj(source, target, 2**20)
            prefix = google.find_prefix(Path(temporary))
            if prefix is None:
                raise ValueError(f"{path} holds no TF1 checkpoint (….ckpt.index and .data-…): {ACCEPTED}")
            return google.read(prefix, f"{path}: {prefix.name}")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{path}: damaged, or no plain zip ({error}); download it again") from None


def wanted_members(archive: zipfile.ZipFile, path: Path) -> list[zipfile.ZipInfo]:
    found = [
        member
        for member in archive.infolist()
        if MEMBER.fullmatch(Path(member.filename).name) and not member.filename.startswith("__MACOSX/")
    ]
    folders = {member.filename.rpartition("/")[0] for member in found}
    if len(folders) > 1:
        raise ValueError(f"{path} holds checkpoints in {len(folders)} folders: unpack it and give one of them")
    unpacked, packed = (sum(getattr(member, key) for member in found) for key in ("file_size", "compress_size"))
    if unpacked > MAX_UNPACKED or unpacked > max(2**28, MAX_RATIO * packed):
        raise ValueError(
            f"{path} would unpack from {packed:,} to {unpacked:,} bytes, but weights hardly compress: refused"
        )
    return found


def read_hub(name: str, origin: str) -> Source:
    """A repository of the Hugging Face hub, from its cache where it is there."""
    import huggingface_hub

    repository, _, revision = name.partition("@")
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", repository):
        raise ValueError(f"{origin}: expected hf://org/name or hf://org/name@revision")
    try:
        folder = huggingface_hub.snapshot_download(repository, revision=revision or None, allow_patterns=HUB_FILES)
    except Exception as error:  # the hub's library changes the HTTP library under it, and lets its errors through
        if looks_offline(error):
            raise unreachable(origin, "HF_HOME") from None
        raise ValueError(f"{origin}: the hub refused ({one_line(error)}); check the name and your access") from None
    source = read_directory(Path(folder))
    source.where = origin
    return source


def read_keras_hub(preset: str, origin: str) -> Source:
    """A KerasHub preset by name, from Kaggle's cache where it is there, or a preset directory."""
    from keras_bert.convert import keras_hub

    try:
        return keras_hub.read(preset, origin)
    except Exception as error:  # keras_hub and kagglehub let through what their HTTP libraries raise
        if looks_offline(error):
            raise unreachable(origin, "KAGGLEHUB_CACHE") from None
        raise ValueError(f"{origin}: no BERT preset that keras_hub can load ({one_line(error)})") from None


def looks_offline(error: Exception) -> bool:
    told = f"{type(error).__name__} {error}"
    return any(
        word in told for word in ("LocalEntryNotFound", "Offline", "Connect", "Timeout", "resolve", "Max retries")
    )


def unreachable(origin: str, variable: str) -> ConnectionError:
    return ConnectionError(
        f"{origin} is not in the cache, and the network cannot be reached: fetch it where there is network and copy "
        f"the cache ({variable}), or give a local directory"
    )


def one_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


SCHEMES: dict[str, Callable[[str, str], Source]] = {"hf": read_hub, "keras_hub": read_keras_hub}
