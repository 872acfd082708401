"""Vocabulary: the tokens of vocab.txt, one a line; a token's id is its line, counted from 0."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class Vocabulary:
    """Tokens in the order of their ids.

    Only the end of a line is taken off: a space, U+2028 or U+0085 inside a token stays. A line ends with LF, or with
    CR LF when every line does; `save` writes back the file that was read, to the byte.

    Args:
        tokens: the tokens; [PAD], [UNK], [CLS], [SEP] and [MASK] among them, in any place.
        line_end: "\\n" or "\\r\\n", for `save`.
        last_line_ends: whether the last line has its end, for `save`.

    Raises:
        ValueError: a token appears twice, has a line break inside or is no text, or a special token is missing.
    """

    def __init__(self, tokens: Iterable[str], *, line_end: str = "\n", last_line_ends: bool = True) -> None:
        if isinstance(tokens, str):
            raise ValueError(f"expected a list of tokens, got the text {tokens!r}; for a file use Vocabulary.from_file")
        self.tokens: tuple[str, ...] = tuple(tokens)
        self.line_end = line_end
        self.last_line_ends = last_line_ends
        self.check("the vocabulary")

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Reads vocab.txt, UTF-8.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is not UTF-8 or not a vocabulary; the message has the line.
        """
        data = Path(path).read_bytes()
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise ValueError(f"{path} line {line}: not UTF-8 ({error.reason}); convert the file to UTF-8") from None
        if text.startswith("\ufeff"):
            raise ValueError(
                f"{path} line 1: begins with a byte-order mark, which no token has; save it as plain UTF-8"
            )
        lines = text.split("\n")
        last_line_ends = lines[-1] == ""
        ended = lines[:-1]
        line_end = "\r\n" if ended and all(line.endswith("\r") for line in ended) else "\n"
        if line_end == "\r\n":
            lines = [line[:-1] for line in ended] + lines[-1:]
        elif mixed := [line for line, token in enumerate(ended, start=1) if token[1:].endswith("\r")]:
            raise ValueError(
                f"{path} line {mixed[0]}: ends with CR LF and other lines with LF; give all lines one kind of end"
            )
        if last_line_ends:
            del lines[-1]
        self = cls.__new__(cls)
        self.tokens, self.line_end, self.last_line_ends = tuple(lines), line_end, last_line_ends
        self.check(str(path))
        return self

    def check(self, source: str) -> None:
        """Raises the ValueErrors of the class, `source` named in them."""
        first_line: dict[str, int] = {}
        for line, token in enumerate(self.tokens, start=1):
            if not isinstance(token, str):
                raise ValueError(f"{source} line {line}: expected a text, got {token!r} ({type(token).__name__})")
            if "\n" in token:
                raise ValueError(f"{source} line {line}: the token {token!r} has a line break inside; remove it")
            if token in first_line:
                raise ValueError(
                    f"{source} line {line}: the token {token!r} is already on line {first_line[token]}; "
                    "a token has one id, so remove or rename one of the two"
                )
            first_line[token] = line
        missing = [token for token in SPECIAL_TOKENS if token not in first_line]
        if missing:
            raise ValueError(
                f"{source} has no {', '.join(missing)} among its {len(self.tokens)} tokens; BERT needs "
                f"{', '.join(SPECIAL_TOKENS)}, one a line: is this BERT's vocab.txt?"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file that `from_file` read, to the byte."""
        Path(path).write_bytes(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The file's contents."""
        return (self.line_end.join(self.tokens) + self.line_end * self.last_line_ends).encode("utf-8")

    @functools.cached_property
    def index(self) -> dict[str, int]:
        """Token → id."""
        return {token: number for number, token in enumerate(self.tokens)}

    @functools.cached_property
    def lengths(self) -> frozenset[int]:
        """Lengths of tokens, in characters, "##" included."""
        return frozenset(map(len, self.tokens))

    @property
    def pad_id(self) -> int:
        return self.index[PAD]

    @property
    def unk_id(self) -> int:
        return self.index[UNK]

    @property
    def cls_id(self) -> int:
        return self.index[CLS]

    @property
    def sep_id(self) -> int:
        return self.index[SEP]

    @property
    def mask_id(self) -> int:
        return self.index[MASK]

    def content_hash(self) -> str:
        """SHA-256 of the tokens, whatever the file's line ends: equal vocabularies, and only they, have one hash."""
        return hashlib.sha256("\n".join(self.tokens).encode("utf-8")).hexdigest()

    def __len__(self) -> int:
        return len(self.tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.tokens == other.tokens

    def __hash__(self) -> int:
        return hash(self.tokens)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens, {self.content_hash()[:8]})"
