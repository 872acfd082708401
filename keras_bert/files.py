"""Writing so that a reader sees the old or the new, never half, whatever kills the writer and whenever.

A file is written beside its place and moved there by one `os.replace`. A directory is written beside its place too; one
rename puts it there when nothing is in the way, and one exchange of the two names (Linux renameat2, macOS renamex_np)
when an older one is. Moving the files one by one instead would show a reader new weights under an old config.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

T = TypeVar("T")
LAST = "config.json"  # where names cannot be exchanged, this file is moved last: a directory without it is not whole
STALE_SECONDS = 60.0


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """A file to write ("w": UTF-8, \\n line ends; or "wb"), which takes `path`'s place when the block ends well.

    Raises:
        OSError: the disk is full, the place may not be written, …; what was at `path` is still there.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent} is no directory to write {target.name} in: make it first")
    draft = target.parent / draft_name(target)
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with open(draft, mode.replace("w", "x"), **text) as file:  # type: ignore[call-overload]
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None and error.errno is not None:
            error.filename = os.fspath(path)  # "No space left on device" says not where
        raise
    sync(target.parent)


def refuse_existing(path: str | os.PathLike[str], overwrite: bool) -> None:
    """Stops before work starts that would end by replacing something good.

    Raises:
        FileExistsError: `path` is a file or a directory with something in it, and `overwrite` is off.
    """
    target = Path(path)
    if overwrite or not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    kind = "a directory with files in it" if target.is_dir() else "a file"
    raise FileExistsError(f"{target} exists ({kind}): give another place, or --overwrite (overwrite=True)")


@contextlib.contextmanager
def atomic_directory(
    path: str | os.PathLike[str], overwrite: bool = False, keep: Callable[[str], bool] | None = None
) -> Iterator[Path]:
    """An empty directory to fill, which takes `path`'s place when the block ends well.

    Args:
        path: the place; its parents are made.
        overwrite: replace a directory that has files in it.
        keep: which entries of the replaced directory live on in the new one, by name (None: none does).

    Raises:
        FileExistsError: there is something at `path` and `overwrite` is off.
        NotADirectoryError: there is a file at `path`.
        OSError: the disk is full, …; what was at `path` is still there.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"{path} is a file: expected a directory to write to; give another place")
    refuse_existing(target, overwrite)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = open_draft(target)
    try:
        with held(draft):
            yield draft
            if keep is not None and target.is_dir():
                carry_over(target, draft, keep)
            sync_tree(draft)
            place(draft, target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def place(draft: Path, target: Path) -> None:
    """Gives the draft the target's name in one step; the directory that had it is deleted afterwards."""
    if draft.parent == target.parent:
        if renamed(draft, target):
            sync(target.parent)
            return
        if exchange(draft, target):
            sync(target.parent)
            shutil.rmtree(draft, ignore_errors=True)
            return
    # A mount point, or a file system without exchange: file by file, so that at least no file is half-written.
    # LAST goes first and comes last: in between, a reader is told that the directory is not whole.
    (target / LAST).unlink(missing_ok=True)
    names = sorted(os.listdir(draft), key=lambda name: name == LAST)
    for name in set(os.listdir(target)) - set(names) - {draft.name}:
        remove(target / name)
    for name in names:
        if (target / name).is_dir():
            remove(target / name)
        os.replace(draft / name, target / name)
    sync(target)
    shutil.rmtree(draft, ignore_errors=True)


def read_whole(path: str | os.PathLike[str], read: Callable[[], T], tries: int = 8) -> T:
    """What `read` gives, from one state of the directory: read again where it was replaced in the meantime."""
    for _ in range(tries):
        before = identity(path)
        try:
            result = read()
        except (OSError, ValueError):
            if identity(path) == before:
                raise
            continue
        if identity(path) == before:
            return result
    raise OSError(f"{os.fspath(path)} was replaced {tries} times while it was read: wait until its writer has ended")


def identity(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """Which directory has this name, and which config is in it; the latter since a freed inode number is used again."""
    found: tuple[int, ...] = ()
    for place in (Path(path), Path(path, LAST)):
        with contextlib.suppress(OSError):
            entry = os.stat(place)
            found += (entry.st_dev, entry.st_ino) if place.name != LAST else (entry.st_ino, entry.st_mtime_ns)
    return found


def draft_name(target: Path) -> str:
    return f".{target.name}.{uuid.uuid4().hex[:12]}.draft"


def open_draft(target: Path) -> Path:
    """A fresh directory beside the target, or inside it where only the target may be written."""
    remove_stale_drafts(target)
    beside, inside = target.parent / draft_name(target), target / draft_name(target)
    try:
        beside.mkdir()
        draft = beside
    except PermissionError:
        if not target.is_dir():
            raise
        inside.mkdir()
        draft = inside
    if target.is_dir():
        shutil.copymode(target, draft)
    return draft


def remove_stale_drafts(target: Path) -> None:
    """Deletes what killed writers left beside the target: drafts that no living process holds."""
    for draft in target.parent.glob(f".{target.name}.????????????.draft"):
        with contextlib.suppress(OSError):
            if time.time() - draft.stat().st_mtime > STALE_SECONDS:
                if draft.is_dir():
                    with held(draft):
                        shutil.rmtree(draft, ignore_errors=True)
                else:
                    draft.unlink()


@contextlib.contextmanager
def held(directory: Path) -> Iterator[None]:
    """A lock on the directory, which the system lets go when this process dies; OSError where another holds it."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def carry_over(old: Path, new: Path, keep: Callable[[str], bool]) -> None:
    """Gives the new directory the old one's entries that `keep` names, as hard links (copies where there are none)."""

    def link(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)

    for entry in old.iterdir():
        if not keep(entry.name) or (new / entry.name).exists() or entry == new:
            continue
        if entry.is_dir():
            shutil.copytree(entry, new / entry.name, copy_function=link, symlinks=True)
        else:
            link(os.fspath(entry), os.fspath(new / entry.name))


def renamed(draft: Path, target: Path) -> bool:
    """Moves the draft to a free name, or over an empty directory; False where something is in the way."""
    try:
        os.rename(draft, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY, errno.EXDEV, errno.EACCES) and target.is_dir():
            return False
        raise
    return True


def exchange(one: Path, other: Path) -> bool:
    """Swaps two names in one step; False where the system or the file system cannot."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            call, tail = library.renamex_np, (2,)  # RENAME_SWAP
            arguments: tuple[Any, ...] = (os.fsencode(one), os.fsencode(other), *tail)
        else:
            here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
            call = library.renameat2
            arguments = (here, os.fsencode(one), here, os.fsencode(other), swap)
    except (AttributeError, OSError, TypeError):
        return False
    if call(*arguments) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBUSY, errno.EXDEV, errno.EPERM):
        return False
    raise OSError(code, os.strerror(code), os.fspath(other))


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def sync_tree(directory: Path) -> None:
    for folder, _, names in os.walk(directory):
        for name in names:
            sync(Path(folder, name))
        sync(Path(folder))


def sync(path: Path) -> None:
    """Hands a file or a directory to the disk, so that a power cut finds it there."""
    if sys.platform == "win32" or path.is_symlink():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def all_but(*names: str) -> Callable[[str], bool]:
    """For `keep`: every entry but these."""
    banned: Collection[str] = frozenset(names)
    return lambda name: name not in banned
