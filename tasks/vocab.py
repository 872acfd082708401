"""`keras-bert vocab`: text → a WordPiece vocabulary of its own, and what it is worth on text that it has not seen."""

from __future__ import annotations

import json
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from keras_bert.files import atomic_directory, refuse_existing
from keras_bert.options import Group, option, parse, required
from keras_bert.tasks.corpus import CorpusOptions, chunks, read_pieces
from keras_bert.tasks.progress import finish, say
from keras_bert.text.base import strips_accents
from keras_bert.text.cleaning import Cleaner
from keras_bert.text.directory import looks_lower_cased, save_tokenizer
from keras_bert.text.learning import learn_vocabulary
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary

CHUNK = 1 << 20  # bytes of text that are cut into words together
HELD_OUT = 100  # one line of so many is kept from learning, for the report
EVAL_BYTES = 1 << 24  # of text that the report is made of, at most


@dataclass(frozen=True, kw_only=True)
class VocabOptions(CorpusOptions, Group):
    """Learns a WordPiece vocabulary from text."""

    size: int = option(30522, "tokens in all")
    lower_case: bool = option(True, "an uncased vocabulary")
    strip_accents: bool | None = option(None, "write é as e; not given: as --lower_case")
    split_chinese: bool = option(True, "every Chinese character is a word")
    unused: int = option(0, "rows [unused0], [unused1], … for tokens of one's own later on")
    reserved: tuple[str, ...] = option((), "further tokens that must be in it")
    coverage: float = option(0.9999, "share of the text's characters that must be in it; the rarest become [UNK]")
    min_count: int = option(2, "words that occur less often are not learned from")
    eval: str | None = option(None, "text for the report; not given: one line of a hundred, kept from learning")
    compare: str | None = option(None, "another vocab.txt to report on beside it, as BERT's own")
    output: str = required("directory for vocab.txt, tokenizer_config.json and report.json")
    overwrite: bool = option(False, "replace what is in --output")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.coverage <= 1:
            raise ValueError(f"--coverage must be above 0 and at most 1: got {self.coverage}")
        for name in ("size", "unused", "min_count"):
            if getattr(self, name) < 0:
                raise ValueError(f"--{name} must not be below 0: got {getattr(self, name)}")


def main(argv: list[str]) -> int:
    """The command.

    Raises:
        ValueError, OSError: bad input, in one line; nothing is left where the output would be.
    """
    options = parse(VocabOptions, argv, "vocab")
    refuse_existing(options.output, options.overwrite)
    other = None if options.compare is None else Vocabulary.from_file(options.compare)
    started = time.monotonic()
    strips = strips_accents(options.lower_case, options.strip_accents)
    cleaner = Cleaner(options.lower_case, strips, options.split_chinese)
    counts, held_out = count_words(cleaner, options)
    say(f"{counts.total():,} words, {len(counts):,} different ones")
    tokens = learn_vocabulary(
        counts,
        options.size,
        unused=options.unused,
        reserved=options.reserved,
        coverage=options.coverage,
        min_count=options.min_count,
        split_chinese=options.split_chinese,
        say=say,
    )
    if len(tokens) < options.size:
        say(f"warning: the text has no more than {len(tokens):,} pieces, fewer than --size {options.size:,}")
    settings = {"strip_accents": options.strip_accents, "split_chinese": options.split_chinese}
    tokenizer = Tokenizer(tokens, lower_case=options.lower_case, **settings)
    report: dict[str, Any] = {"size": len(tokens), "words": counts.total(), "different_words": len(counts)}
    if held_out:
        report["held_out"] = worth(tokenizer, cleaner, held_out)
        if other is not None:
            theirs = Tokenizer(other, lower_case=looks_lower_cased(other))
            report["compared"] = {"vocabulary": options.compare, **worth(theirs, cleaner, held_out)}
    report["seconds"] = round(time.monotonic() - started, 1)
    with atomic_directory(options.output, options.overwrite) as draft:
        save_tokenizer(tokenizer, draft, model_max_length=512)
        (draft / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return finish({**report, "output": options.output})


def count_words(cleaner: Cleaner, options: VocabOptions) -> tuple[Counter[str], list[bytes]]:
    """How often each word occurs in what is learned from, and the lines to report on.

    Raises:
        ValueError: there is no text, or --eval has none.
    """
    counts: Counter[bytes] = Counter()
    held_out: list[bytes] = []
    cut = make_cutter(cleaner)
    held_size, read, said = 0, 0, time.monotonic()
    for chunk in chunks(lines_of(options), CHUNK, len):
        kept = chunk
        if options.eval is None:
            aside = [line for line in chunk if zlib.crc32(line) % HELD_OUT == 0]
            kept = [line for line in chunk if zlib.crc32(line) % HELD_OUT]
            if held_size < EVAL_BYTES:
                held_out += aside
                held_size += sum(map(len, aside))
        counts.update(cut(kept))
        read += sum(map(len, chunk))
        if time.monotonic() - said > 10:
            said = time.monotonic()
            say(f"read {read / 1e6:,.0f} MB, {len(counts):,} different words")
    del counts[b""]  # what stands between two spaces
    if not counts:
        raise ValueError(f"--input {options.input}: holds no text" + (" beside what is held out" if held_out else ""))
    if options.eval is not None:
        held_out = next(chunks(lines_of(replace(options, input=options.eval)), EVAL_BYTES, len), [])
        if not held_out:
            raise ValueError(f"--eval {options.eval}: holds no text")
    return Counter({word.decode("utf-8"): count for word, count in counts.items()}), held_out


def lines_of(options: CorpusOptions) -> Iterator[bytes]:
    for source in options.sources():
        for piece in read_pieces(source, options):
            yield from piece.lines


def make_cutter(cleaner: Cleaner) -> Any:
    """Lines → their words, as the tokenizer cuts them."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def normal(lines: tf.Tensor) -> tf.Tensor:
        return tf.strings.reduce_join(cleaner.normalizer.normalize(cleaner.clean(lines)), separator=" ")

    return lambda lines: normal(tf.constant(lines, tf.string)).numpy().split(b" ")


def worth(tokenizer: Tokenizer, cleaner: Cleaner, lines: list[bytes]) -> dict[str, Any]:
    """What a vocabulary makes of text: tokens to a word, and the share of words that become [UNK]."""
    cut = make_cutter(cleaner)
    words = tokens = unknown = 0
    for chunk in chunks(lines, CHUNK, len):
        ids = tokenizer(chunk).values.numpy()
        words += sum(map(bool, cut(chunk)))
        tokens += len(ids)
        unknown += int((ids == tokenizer.vocabulary.unk_id).sum())
    share = unknown / max(1, words)
    return {"words": words, "tokens_per_word": round(tokens / max(1, words), 4), "unk_share": round(share, 6)}
