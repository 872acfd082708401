"""Writing is atomic: whatever stops the writer, a reader finds the old or the new, whole."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from keras_bert import files
from keras_bert.files import all_but, atomic_directory, atomic_write, read_whole, refuse_existing

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kill -9, locks and exchange are POSIX's")

# A writer without TensorFlow: only files.py, loaded by its path. It dies at its own `stop`-th system call of the kinds
# that Python reports (open, mkdir, rename, link, remove, …, and calls through ctypes), or runs until it is killed.
WRITER = """
import importlib.util, os, signal, sys
spec = importlib.util.spec_from_file_location("files", sys.argv[1])
files = importlib.util.module_from_spec(spec); spec.loader.exec_module(files)
target, stop, version = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
watched = ("open", "os.", "shutil.", "ctypes.", "fcntl.")
calls = 0
def watch(event, arguments):
    global calls
    if event.startswith(watched):
        calls += 1
        if calls == stop:
            os.kill(os.getpid(), signal.SIGKILL)
def write(version):
    if sys.argv[5] == "file":
        with files.atomic_write(target) as file:
            for _ in range(20):
                file.write(f"{version}\\n" * 2000)
        return
    with files.atomic_directory(target, overwrite=True, keep=lambda name: name == "state") as folder:
        for name in ("model", "vocab", "config.json"):
            with open(folder / name, "w") as file:
                for _ in range(20):
                    file.write(f"{version}\\n" * 2000)
if stop:
    sys.addaudithook(watch)
    write(version)
    print(calls)
else:
    print("ready", flush=True)
    while True:
        version += 1
        write(version)
"""


def writer(target: Path, stop: int, version: int, kind: str = "directory") -> subprocess.Popen[str]:
    command = [sys.executable, "-S", "-E", "-c", WRITER, files.__file__, str(target), str(stop), str(version), kind]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def texts(target: Path) -> dict[str, str]:
    return {name: (target / name).read_text() for name in ("model", "vocab", "config.json")}


def version_of(target: Path) -> int:
    return checked(texts(target))


def checked(read: dict[str, str]) -> int:
    """The version of the files in a directory, once every file is whole and of that one version."""
    found = {}
    for name, text in read.items():
        lines = text.split("\n")
        assert len(lines) == 40001, f"{name} is half-written"
        assert len(set(lines[:-1])) == 1
        found[name] = int(lines[0])
    assert len(set(found.values())) == 1, f"a mixture: {found}"
    return found["model"]


def run(target: Path, stop: int, version: int, kind: str = "directory") -> tuple[int, str]:
    process = writer(target, stop, version, kind)
    output = process.communicate(timeout=60)[0]
    return process.returncode, output


def test_a_writer_killed_at_any_of_its_steps_leaves_the_old_or_the_new(tmp_path):
    target = tmp_path / "model"
    assert run(target, 10**9, 1)[0] == 0
    (target / "state").mkdir()
    (target / "state" / "step").write_text("7")
    seen, stop = set(), 0
    while True:
        stop += 1
        code, _ = run(target, stop, stop + 1)
        version = version_of(target)
        assert version in {*seen, 1, stop + 1}
        assert (target / "state" / "step").read_text() == "7"
        seen.add(version)
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert version == stop + 1
    assert stop > 20, "the writer's steps were not watched"


def test_a_first_write_killed_at_any_of_its_steps_leaves_nothing_or_all(tmp_path):
    for stop in range(1, 200):
        target = tmp_path / f"model{stop}"
        code, _ = run(target, stop, 5)
        assert not target.exists() or version_of(target) == 5
        if code == 0:
            return
    raise AssertionError("the writer never came to its end")


def test_a_writer_of_one_file_killed_at_any_of_its_steps_leaves_the_old_or_the_new(tmp_path):
    target = tmp_path / "history.csv"
    assert run(target, 10**9, 0, "file")[0] == 0
    for stop in range(1, 100):
        before = target.read_text()
        code, _ = run(target, stop, stop, "file")
        assert target.read_text() in (before, f"{stop}\n" * 40000)
        if code == 0:
            assert stop > 3, "the writer's steps were not watched"
            return
    raise AssertionError("the writer never came to its end")


def test_a_writer_killed_at_a_random_moment_leaves_the_old_or_the_new(tmp_path):
    target, chance = tmp_path / "model", random.Random(3)
    last = 0
    for _ in range(15):
        process = writer(target, 0, last)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.05))
        process.kill()
        process.wait()
        process.stdout.close()
        if target.exists():
            version = version_of(target)
            assert version >= last
            last = version
    assert last > 5


def test_a_reader_beside_a_writer_never_sees_a_mixture(tmp_path):
    target = tmp_path / "model"
    assert run(target, 10**9, 0)[0] == 0
    process = writer(target, 0, 0)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        versions = [checked(read_whole(target, lambda: texts(target), tries=200)) for _ in range(60)]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert versions == sorted(versions)
    assert versions[-1] > versions[0]


def test_a_reader_beside_a_writer_of_one_file_always_finds_it_whole(tmp_path):
    target = tmp_path / "history.csv"
    assert run(target, 10**9, 0, "file")[0] == 0
    process = writer(target, 0, 0, "file")
    assert process.stdout is not None
    process.stdout.readline()
    try:
        lines = [target.read_text().split("\n") for _ in range(200)]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert {len(text) for text in lines} == {40001}
    assert all(len(set(text[:-1])) == 1 for text in lines)
    assert len({text[0] for text in lines}) > 1


def test_drafts_of_killed_writers_are_removed_and_those_of_living_ones_are_not(tmp_path, monkeypatch):
    target = tmp_path / "model"
    monkeypatch.setattr(files, "STALE_SECONDS", 0.0)
    run(target, 12, 1)
    dead = [path for path in tmp_path.iterdir() if path.name.endswith(".draft")]
    assert len(dead) == 1
    with atomic_directory(target) as living:
        assert not dead[0].exists()
        files.remove_stale_drafts(target)
        assert living.is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


@pytest.mark.parametrize("write", ["file", "directory"])
def test_a_full_disk_leaves_the_old(tmp_path, write):
    """RLIMIT_FSIZE stands for the disk: a write beyond it fails in the middle of the file, for real."""
    program = (
        "import importlib.util, resource, sys; from pathlib import Path\n"
        "spec = importlib.util.spec_from_file_location('files', sys.argv[1])\n"
        "files = importlib.util.module_from_spec(spec); spec.loader.exec_module(files)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n"
        "    if sys.argv[3] == 'file':\n"
        "        with files.atomic_write(sys.argv[2]) as file: file.write('new' * 100_000)\n"
        "    else:\n"
        "        with files.atomic_directory(sys.argv[2], overwrite=True) as folder:\n"
        "            (folder / 'config.json').write_text('new' * 100_000)\n"
        "except OSError as error: sys.exit(error.errno)\n"
    )
    target = tmp_path / "place"
    if write == "file":
        target.write_text("old")
    else:
        target.mkdir()
        (target / "config.json").write_text("old")
    done = subprocess.run([sys.executable, "-S", "-E", "-c", program, files.__file__, str(target), write], check=False)
    assert done.returncode == errno.EFBIG
    assert (target if write == "file" else target / "config.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["place"]


def test_a_failed_sync_leaves_the_old(tmp_path, monkeypatch):
    target = tmp_path / "numbers.txt"
    target.write_text("old")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"No space.*{target.name}"), atomic_write(target) as file:
        file.write("new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_in_the_block_leaves_the_old(tmp_path):
    target = tmp_path / "model"
    with atomic_directory(target) as folder:
        (folder / "config.json").write_text("old")

    def stopped() -> None:
        with atomic_directory(target, overwrite=True) as folder:
            (folder / "config.json").write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert (target / "config.json").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_what_exists_is_replaced_only_when_asked(tmp_path):
    target = tmp_path / "model"
    target.mkdir()
    with atomic_directory(target) as folder:  # an empty directory is in nobody's way
        (folder / "config.json").write_text("old")
    for refused in (lambda: refuse_existing(target, False), lambda: atomic_directory(target).__enter__()):
        with pytest.raises(FileExistsError, match=r"model exists .*--overwrite"):
            refused()
    with atomic_directory(target, overwrite=True) as folder:
        (folder / "config.json").write_text("new")
    assert (target / "config.json").read_text() == "new"
    with pytest.raises(NotADirectoryError, match="is a file"), atomic_directory(target / "config.json", overwrite=True):
        pass


def test_entries_to_keep_live_on_and_others_do_not(tmp_path):
    target = tmp_path / "model"
    (target / "state" / "deep").mkdir(parents=True)
    (target / "state" / "deep" / "step").write_text("7")
    for name in ("history.csv", "model", "model.old"):
        (target / name).write_text(name)
    with open(target / "history.csv", "a") as history:  # a log that stays open meanwhile
        with atomic_directory(target, overwrite=True, keep=all_but("model.old", "model")) as folder:
            (folder / "model").write_text("new")
        history.write(", still written")
    assert sorted(path.name for path in target.iterdir()) == ["history.csv", "model", "state"]
    assert (target / "history.csv").read_text() == "history.csv, still written"
    assert (target / "state" / "deep" / "step").read_text() == "7"
    assert (target / "model").read_text() == "new"


def test_a_link_to_a_place_stays_a_link(tmp_path):
    (tmp_path / "run7").mkdir()
    (tmp_path / "run7" / "old").write_text("old")
    (tmp_path / "best").symlink_to("run7")
    with atomic_directory(tmp_path / "best", overwrite=True) as folder:
        (folder / "new").write_text("new")
    assert (tmp_path / "best").is_symlink()
    assert [path.name for path in (tmp_path / "run7").iterdir()] == ["new"]


def test_a_new_directory_and_file_have_the_usual_permissions_and_a_replaced_one_keeps_its_own(tmp_path):
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain.txt").write_text("")
    for _ in range(2):
        with atomic_directory(tmp_path / "made", overwrite=True) as folder:
            (folder / "a").write_text("a")
        assert (tmp_path / "made").stat().st_mode == (tmp_path / "plain").stat().st_mode
    with atomic_write(tmp_path / "made.txt") as file:
        file.write("a")
    assert (tmp_path / "made.txt").stat().st_mode == (tmp_path / "plain.txt").stat().st_mode
    (tmp_path / "made").chmod(0o750)
    with atomic_directory(tmp_path / "made", overwrite=True):
        pass
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o750


def test_without_exchange_the_config_comes_last(tmp_path, monkeypatch):
    """A mount point, or a file system that cannot swap names: file by file, and whole only once the config is there."""
    target = tmp_path / "model"
    with atomic_directory(target) as folder:
        for name in ("config.json", "vocab", "gone"):
            (folder / name).write_text("old")
    monkeypatch.setattr(files, "exchange", lambda one, other: False)
    moved: list[str] = []
    replace = os.replace

    def watched(source: Path, place: Path) -> None:
        assert not (target / "config.json").exists()
        moved.append(Path(place).name)
        replace(source, place)

    monkeypatch.setattr(os, "replace", watched)
    with atomic_directory(target, overwrite=True) as folder:
        for name in ("config.json", "vocab", "a", "z"):
            (folder / name).write_text("new")
    assert moved == ["a", "vocab", "z", "config.json"] or (moved[-1] == "config.json" and len(moved) == 4)
    assert {path.name: path.read_text() for path in target.iterdir()} == dict.fromkeys(
        ("config.json", "vocab", "a", "z"), "new"
    )
    assert list(tmp_path.iterdir()) == [target]


def test_text_is_utf8_with_plain_line_ends_and_bytes_are_bytes(tmp_path):
    with atomic_write(tmp_path / "text") as file:
        file.write("é\nü\n")
    assert (tmp_path / "text").read_bytes() == "é\nü\n".encode()
    with atomic_write(tmp_path / "bytes", "wb") as file:
        file.write(b"\r\n\x00")
    assert (tmp_path / "bytes").read_bytes() == b"\r\n\x00"


def test_a_missing_folder_is_named_and_not_the_draft_in_it(tmp_path):
    told = r"none is no directory to write out in: make it first"
    with pytest.raises(FileNotFoundError, match=told), atomic_write(tmp_path / "none" / "out"):
        pass


def test_two_writers_at_once_leave_one_whole(tmp_path):
    target = tmp_path / "model"

    def write(version: int) -> None:
        for _ in range(10):
            with atomic_directory(target, overwrite=True) as folder:
                for name in ("model", "vocab", "config.json"):
                    (folder / name).write_text(f"{version}\n" * 40000)

    threads = [threading.Thread(target=write, args=(version,)) for version in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert version_of(target) in (1, 2)
    assert list(tmp_path.iterdir()) == [target]
