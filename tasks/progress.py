"""What a command says while it works: on stderr, so that stdout holds the results alone."""

from __future__ import annotations

import json
import sys
from typing import Any


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def finish(result: dict[str, Any]) -> int:
    """The last line of a command: its results as one JSON line on stdout; returns the exit code of success."""
    print(json.dumps(result, ensure_ascii=False), flush=True)
    return 0
