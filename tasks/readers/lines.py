"""Lines of a UTF-8 file, plain or gzipped: what the text formats are read from."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Literal, cast

Invalid = Literal["error", "replace"]


def read_lines(path: str, invalid: Invalid = "error") -> Iterator[tuple[int, str]]:
    """(number from 1, line with its line end) of a file; only LF ends a line, a byte-order mark is passed over.

    NUL is kept (the tokenizer drops it). Bytes that are not UTF-8 are an error, or become U+FFFD with "replace".

    Raises:
        ValueError: not UTF-8, UTF-16, a damaged gzip file, or lines that end in a lone CR; with file and line.
        FileNotFoundError, IsADirectoryError: from the system.
    """
    number = 0
    try:
        with open_binary(path) as file:
            for number, line in enumerate(file, 1):
                if number == 1:
                    line = checked_start(line, path)
                yield number, decode(line, invalid, path, number)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} after line {number}: a damaged gzip file ({error}); fetch it again") from None


def open_binary(path: str) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if path.endswith(".gz") else open(path, "rb")


def checked_start(line: bytes, path: str) -> bytes:
    """The first line without its byte-order mark.

    Raises:
        ValueError: UTF-16, or a file whose lines end in CR alone.
    """
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or line.count(0) > len(line) * 0.4:
        raise ValueError(f"{path}: expected UTF-8, got UTF-16; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)")
    if line.count(b"\r") > 1 and not line.endswith(b"\n"):
        raise ValueError(f"{path}: its lines end in CR alone; convert them (tr '\\r' '\\n')")
    return line.removeprefix(codecs.BOM_UTF8)


def decode(line: bytes, invalid: Invalid, path: str, number: int) -> str:
    try:
        return line.decode("utf-8", "strict" if invalid == "error" else "replace")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} line {number}: byte {line[error.start]:#04x} at {error.start} is not UTF-8; convert the file, or "
            f"give --invalid_utf8 replace (then such bytes become U+FFFD, which the tokenizer drops)"
        ) from None
