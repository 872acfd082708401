"""Lines of a UTF-8 file, plain or gzipped: what the text formats are read from."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import json
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal, cast

Invalid = Literal["error", "replace"]

LONGEST = 1 << 26  # bytes of a line


def read_lines(path: str, invalid: Invalid = "error") -> Iterator[tuple[int, str]]:
    """(number from 1, line with its line end) of a file; only LF ends a line, a byte-order mark is passed over.

    NUL is kept (the tokenizer drops it). Bytes that are not UTF-8 are an error, or become U+FFFD with "replace".

    Raises:
        ValueError: not UTF-8, or what `read_raw_lines` refuses; with file and line.
        FileNotFoundError, IsADirectoryError: from the system.
    """
    for number, line in read_raw_lines(path):
        yield number, decode(line, invalid, path, number)


def read_raw_lines(path: str) -> Iterator[tuple[int, bytes]]:
    """The same, undecoded. One line is held at a time, of at most LONGEST bytes.

    Raises:
        ValueError: UTF-16, a damaged gzip file, a line without end, or lines that end in a lone CR; with file and line.
        FileNotFoundError, IsADirectoryError: from the system.
    """
    with open_binary(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST + 1), b""), 1):
            if len(line) > LONGEST:
                raise ValueError(
                    f"{path} line {number}: longer than {LONGEST >> 20} MiB without a line end; is it text? Break it "
                    f"into lines"
                )
            if number == 1:
                line = checked_start(line, path)
            yield number, line


@contextlib.contextmanager
def open_binary(path: str) -> Iterator[BinaryIO]:
    """A file's bytes, those inside of a gzipped one.

    Raises:
        ValueError: in the block, where a gzip file turns out to be damaged.
    """
    try:
        with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as file:
            yield cast(BinaryIO, file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: a damaged gzip file ({error}); fetch it again") from None


def parse_json(line: str | bytes, where: str, **hooks: Any) -> Any:
    """A line's JSON value, all of whose strings are Unicode text.

    Raises:
        ValueError: not JSON, nested too deep, or half of a surrogate pair in it, which no UTF-8 file could hold.
    """
    try:
        item = json.loads(line, **hooks)
        json.dumps(item, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: expected JSON, {error.msg} at character {error.pos}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: byte {error.object[error.start]:#04x} at {error.start} is not UTF-8") from None
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise ValueError(f"{where}: {half} is half of a surrogate pair, which is no character; correct it") from None
    except RecursionError:
        raise ValueError(f"{where}: expected a plain object, got brackets nested too deep to read") from None
    except ValueError as error:  # an integer of thousands of digits
        raise ValueError(f"{where}: {error}") from None
    return item


def checked_start(line: bytes, path: str) -> bytes:
    """The first line without its byte-order mark.

    Raises:
        ValueError: UTF-16, or a file whose lines end in CR alone.
    """
    refuse_utf16(line, path)
    if line.count(b"\r") > 1 and not line.endswith(b"\n"):
        raise ValueError(f"{path}: its lines end in CR alone; convert them (tr '\\r' '\\n')")
    return line.removeprefix(codecs.BOM_UTF8)


def refuse_utf16(start: bytes, path: str) -> None:
    """Looks at a file's first line.

    Raises:
        ValueError: it is UTF-16, with or without its mark.
    """
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or start.count(0) > len(start) * 0.4:
        raise ValueError(f"{path}: expected UTF-8, got UTF-16; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)")


def decode(line: bytes, invalid: Invalid, path: str, number: int) -> str:
    try:
        return line.decode("utf-8", "strict" if invalid == "error" else "replace")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} line {number}: byte {line[error.start]:#04x} at {error.start} is not UTF-8; convert the file, or "
            f"give --invalid_utf8 replace (then such bytes become U+FFFD, which the tokenizer drops)"
        ) from None
