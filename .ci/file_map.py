"""Writes the map in BUILD.md, a line a file, from each file's own first line: `python .ci/file_map.py`."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- map, by .ci/file_map.py -->\n", "<!-- end of map -->\n"
FOLDERS = ["keras_bert", "tasks", "export", "tests", "benchmarks", ".ci"]


def files() -> list[Path]:
    """Every file that git has or would take, in the folders of the map; `__init__.py` of a folder speaks for it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in sorted(set(listed)) if (ROOT / name).exists()]


def first_line(path: Path) -> str:
    """What a file says it is: its docstring's or its first comment's first line; "" for data."""
    if path.suffix in (".npz", ".json", ".gz", ".md", ".tsv", ".typed"):
        return ""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    said = re.search(r"^(?:#(?!!)|//|/\*)\s*(.+)", text, re.M)
    return said[1].removesuffix("*/").strip() if said else ""


def build() -> str:
    """The map: a heading a folder, a line a file."""
    parts: list[str] = []
    folder = None
    for path in sorted(
        files(), key=lambda path: (FOLDERS.index(path.relative_to(ROOT).parts[0]), path.parent, path.name)
    ):
        line = first_line(path)
        if path.parent != folder and (line or path.name == "__init__.py"):
            folder = path.parent
            parts.append(f"\n### `{folder.relative_to(ROOT)}/`\n\n")
        if line and path.name != "__init__.py":
            parts.append(f"- `{path.name}`: {line}\n")
    return "".join(parts).lstrip() + "\n"


def main() -> None:
    path = ROOT / "BUILD.md"
    before, _, rest = path.read_text("utf-8").partition(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{build()}{END}{rest.partition(END)[2]}", "utf-8", newline="\n")


if __name__ == "__main__":
    main()
