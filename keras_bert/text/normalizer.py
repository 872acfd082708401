"""What happens to each character before WordPiece, pinned at one Unicode version; nothing here asks `unicodedata`.

google-research/bert's BasicTokenizer is, but for the final sigma, a map from one character to a short text: nothing
(controls), a space, other letters (lower case, accents off), or itself between spaces (punctuation, Chinese).
`replacements` is that map; `model_buffer` packs it for tf.text's FastBertNormalize; `sigma_pattern` is the rest.
"""

from __future__ import annotations

import functools
import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

UNICODE_VERSION = "14.0.0"  # of Python 3.11's unicodedata; make_tables.py writes the table

SETS = ("drop", "space", "punctuation", "chinese", "mark", "cased", "ignorable")


@dataclass(frozen=True)
class UnicodeTables:
    """Properties of characters, by code point. `lower` and `decompose` leave out what they do not change."""

    drop: frozenset[int]  # removed: NUL, U+FFFD, controls
    space: frozenset[int]
    punctuation: frozenset[int]
    chinese: frozenset[int]
    mark: frozenset[int]  # Mn: what strip_accents removes
    cased: frozenset[int]  # for the final sigma, with `ignorable`
    ignorable: frozenset[int]
    lower: Mapping[int, str]
    decompose: Mapping[int, str]  # canonical, NFD
    order: Mapping[int, int]  # canonical combining class, where it is not 0

    @functools.cached_property
    def reordered(self) -> frozenset[int]:
        """Marks that NFD may reorder and strip_accents leaves in: the one thing a map of characters cannot express."""
        return frozenset(self.order) - self.mark


@functools.cache
def unicode_tables() -> UnicodeTables:
    """The shipped table of Unicode `UNICODE_VERSION`."""
    packed = resources.files("keras_bert.text").joinpath(f"tables/unicode-{UNICODE_VERSION}.tsv.gz").read_bytes()
    sets: dict[str, set[int]] = {name: set() for name in SETS}
    lower: dict[int, str] = {}
    decompose: dict[int, str] = {}
    order: dict[int, int] = {}
    for line in gzip.decompress(packed).decode("ascii").splitlines():
        name, first, last, value = line.split("\t")
        code_points = range(int(first, 16), int(last, 16) + 1)
        if name in sets:
            sets[name].update(code_points)
        elif name == "order":
            order.update(dict.fromkeys(code_points, int(value)))
        else:
            texts = lower if name == "lower" else decompose
            texts.update(dict.fromkeys(code_points, "".join(chr(int(o, 16)) for o in value.split("-"))))
    members: dict[str, Any] = {name: frozenset(code_points) for name, code_points in sets.items()}
    return UnicodeTables(**members, lower=lower, decompose=decompose, order=order)


def replacements(lower_case: bool, strip_accents: bool, split_chinese: bool) -> dict[int, str]:
    """What to write for each character (by code point) that does not stay as it is.

    Source: google-research/bert tokenization.py, BasicTokenizer, with the three steps made optional.
    """
    t = unicode_tables()
    result = dict.fromkeys(t.drop, "") | dict.fromkeys(t.space, " ")
    changed = set(t.punctuation)
    changed |= t.lower.keys() if lower_case else frozenset()
    changed |= t.mark | t.decompose.keys() if strip_accents else frozenset()
    for o in changed - result.keys():
        text = t.lower.get(o, chr(o)) if lower_case else chr(o)
        if strip_accents:
            decomposed = "".join(t.decompose.get(ord(c), c) for c in text)
            text = "".join(c for c in decomposed if ord(c) not in t.mark)
        text = "".join(f" {c} " if ord(c) in t.punctuation else c for c in text)
        result[o] = f" {text} " if split_chinese and o in t.chinese else text
    if split_chinese:  # by far the most, and nearly all of them are nothing else
        result |= {o: f" {chr(o)} " for o in t.chinese - result.keys()}
    return {o: text for o, text in sorted(result.items()) if text != chr(o)}


def model_buffer(replaced: Mapping[int, str]) -> bytes:
    """The map of `replacements` as FastBertNormalize reads it: a flatbuffer of a double array and a pool of texts."""
    import flatbuffers  # with TensorFlow

    texts = list(dict.fromkeys(replaced.values()))
    pool = "".join(texts).encode()
    lengths = np.array([len(text.encode()) for text in texts])
    assert lengths.max(initial=0) < 64
    begins = np.cumsum(lengths) - lengths
    places = dict(zip(texts, (1 << 30 | begins << 6 | lengths).tolist(), strict=True))
    code_points = sorted(o for o in replaced if o)  # the op keeps NUL apart
    units = double_array([chr(o).encode() for o in code_points], [places[replaced[o]] for o in code_points])
    builder = flatbuffers.Builder(units.nbytes + len(pool) + 64)
    pool_at = builder.CreateByteVector(pool)
    units_at = builder.CreateNumpyVector(units)
    builder.StartObject(4)  # slot 0, a flag, is for the reader only: the kernel does not look at it
    builder.PrependUOffsetTRelativeSlot(1, units_at, 0)
    builder.PrependInt32Slot(2, places[replaced[0]] if 0 in replaced else 0, 0)
    builder.PrependUOffsetTRelativeSlot(3, pool_at, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def double_array(keys: list[bytes], values: list[int]) -> np.ndarray:
    """A Darts-clone double array (uint32 [units]) for keys of which none begins another, as UTF-8 characters are.

    A node's children lie at `node ^ offset ^ byte`. UTF-8's continuation bytes are 64 in a row, so every node gets a
    block of its own and nothing has to be searched for; a last byte's value lies in a second block, at the same place.
    """
    blocks: dict[bytes, int] = {b"": 256}  # prefix → where its children's block begins
    size = 768  # root and slack, the root's 256 children, their values
    parents = [key[:-1] for key in keys]
    for prefix in sorted({parent[:n] for parent in set(parents) for n in range(1, len(parent) + 1)}):
        blocks[prefix] = size
        size += 128
    size += -size % 256
    units = np.full(size, 1 << 31, np.uint32)  # a label that no byte has
    nodes = {b"": 0}
    for prefix, block in blocks.items():
        if prefix:
            parent = blocks[prefix[:-1]]
            nodes[prefix] = parent + (prefix[-1] & (63 if prefix[:-1] else 255))
        base = block ^ 0x80 if prefix else block  # child = base ^ byte, bytes 0x80-0xBF but for the root's
        label = prefix[-1] if prefix else 0
        units[nodes[prefix]] = (nodes[prefix] ^ base) << 10 | label
    last = np.array([key[-1] for key in keys], np.int64)
    width = np.array([64 if parent else 256 for parent in parents], np.int64)
    node = np.array([blocks[parent] for parent in parents], np.int64) + (last & (width - 1))
    units[node] = (node ^ (node + width)) << 10 | 0x100 | last
    units[node + width] = 1 << 31 | np.array(values, np.int64)
    return units


def sigma_pattern(word_ends: Iterable[int] = ()) -> tuple[str, str]:
    """An RE2 pattern and its rewrite that write a word's final Σ as ς, as Python's str.lower() does.

    Σ is final when the nearest character before it that is not ignorable is cased and the nearest after it is not.
    RE2 cannot look around, but one pass does: what is consumed to the right is never another Σ's left side.
    Characters of `word_ends` are the end of a word, although the normaliser may drop them.
    """
    t = unicode_tables()
    ignored = (t.ignorable | t.drop) - frozenset(word_ends)  # dropped characters are gone before the reference lowers
    cased, ignorable = (re2_class(s) for s in (t.cased - ignored, ignored))
    return f"([{cased}][{ignorable}]*)Σ([{ignorable}]*(?:[^{cased}{ignorable}]|$))", r"\1ς\2"


def re2_class(code_points: Iterable[int]) -> str:
    """The inside of a regular expression's character class."""
    members = sorted(code_points)
    if not members:
        return ""
    breaks = [i for i in range(1, len(members)) if members[i] != members[i - 1] + 1]
    spans = zip([0, *breaks], [*breaks, len(members)], strict=True)
    return "".join(rf"\x{{{members[a]:X}}}" + rf"-\x{{{members[b - 1]:X}}}" * (b - a > 1) for a, b in spans)
