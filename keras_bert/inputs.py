"""Which files a flag names: one, a folder's, or a glob's."""

from __future__ import annotations

import glob
import os


def find_files(name: str) -> list[str]:
    """The files that a path, a folder or a glob names, sorted, those in folders below too; dot files are passed over.

    A path that is there is that path, even if it holds signs of a glob. "-" (stdin) stays as it is.

    Raises:
        FileNotFoundError: there is none.
    """
    if name == "-" or os.path.isfile(name):
        return [name]
    pattern = os.path.join(glob.escape(name), "**") if os.path.isdir(name) else name
    files = sorted(path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))
    if not files:
        what = "the folder holds no files" if os.path.isdir(name) else "no such file"
        raise FileNotFoundError(f"{name}: {what}")
    return files
