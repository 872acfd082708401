"""`keras-bert check`: looks at a model and its data before hours are spent; every fine-tuning begins with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import keras_bert as kb
from keras_bert.options import at_least_1, option, parse
from keras_bert.tasks.batches import Encoded, encode_all
from keras_bert.tasks.data import Data, DataOptions, ModelOptions, label_names, label_numbers, read_data, scores_of
from keras_bert.tasks.progress import finish, say
from keras_bert.tasks.readers import Rows
from keras_bert.tasks.readers.layout import shown


@dataclass(frozen=True, kw_only=True)
class CheckOptions(ModelOptions, DataOptions):
    """Looks at a model and its data, and says in words what is wrong with them."""

    scores: bool = option(False, "the labels are numbers, for `regress`")
    batch_size: int = option(32, "rows a step, for the estimate of memory")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_1(self, "batch_size")


@dataclass(frozen=True)
class Finding:
    """An error stops a training, a warning does not, a note is only said."""

    level: Literal["error", "warning", "note"]
    text: str


def main(argv: list[str]) -> int:
    """The command.

    Raises:
        ValueError: what was found makes a training senseless.
    """
    options = parse(CheckOptions, argv, "check")
    bert = kb.load(options.model, head="encoder", lower_case=options.lower_case, max_length=options.max_length)
    scores = options.scores or options.task == "stsb"
    data = read_data(options, scores)
    labels = None if scores else label_names(options, data)
    encoded = encode_all(bert.tokenizer, data.parts, bert.max_length)
    findings = check(bert, data, encoded, labels, options.batch_size)
    tell(findings)
    return finish(
        {
            "warnings": sum(finding.level == "warning" for finding in findings),
            "rows": {name: len(rows) for name, rows in data.parts.items()},
            "labels": None if labels is None else list(labels),
            "weights": bert.config.num_weights(),
            "estimated_weights": bert.config.estimated_num_weights(),
            "cut_share": {name: cut_share(part) for name, part in encoded.items()},
            "unk_share": {name: unk_share(part) for name, part in encoded.items()},
        }
    )


def tell(findings: Sequence[Finding]) -> None:
    """Says what was found.

    Raises:
        ValueError: there is an error among it; the first one's words.
    """
    for finding in findings:
        if finding.level != "error":
            say(f"{finding.level}: {finding.text}" if finding.level == "warning" else finding.text)
    errors = [finding.text for finding in findings if finding.level == "error"]
    for text in errors[1:]:
        say(f"error: {text}")
    if errors:
        raise ValueError(errors[0])


def check(
    bert: Any, data: Data, encoded: dict[str, Encoded], labels: Sequence[str] | None, batch_size: int
) -> list[Finding]:
    """Everything that can be seen before the first step.

    Args:
        bert: the model with its tokenizer.
        data: the rows.
        encoded: the same rows as ids, by name.
        labels: the labels in order, or None where labels are scores.
        batch_size: rows a step.
    """
    findings = [Finding("note", size_in_words(bert, encoded, batch_size)), *check_vocabulary(bert.tokenizer)]
    for name, rows in data.parts.items():
        findings += check_labels(name, rows, labels)
        findings += check_texts(name, rows, encoded[name], bert)
    if data.train is not None:
        for rows in data.evals.values():
            findings += check_overlap(data.train, rows)
        findings += check_contradictions(data.train)
    return findings


def size_in_words(bert: Any, encoded: dict[str, Encoded], batch_size: int) -> str:
    config = bert.config
    longest = max(int(part.lengths.max()) for part in encoded.values())
    return (
        f"encoder: {config.num_weights():,} weights (rule of thumb V·H + 12·L·H²: {config.estimated_num_weights():,}); "
        f"about {memory(config, batch_size, longest) / 2**30:.1f} GiB to train {batch_size} rows of {longest} tokens"
    )


def memory(config: Any, batch_size: int, length: int) -> float:
    """Bytes to train with AdamW in float32, roughly: four copies of the weights, and what the way back needs.

    A block keeps about 14 tensors [B,S,H], 3 [B,S,F] and 4 [B,A,S,S] (counted in the graph: inputs of matrix products,
    of LayerNorm and of the activation, dropout's masks).
    """
    hidden, inner, heads = config.hidden_size, config.intermediate_size, config.num_attention_heads
    tokens = batch_size * length
    block = tokens * (14 * hidden + 3 * inner) + 4 * batch_size * heads * length**2
    return 4.0 * (4 * config.num_weights() + config.num_hidden_layers * block)


def check_vocabulary(tokenizer: Any) -> Iterator[Finding]:
    """A cased vocabulary read with lower_case, or the reverse."""
    words = [token for token in tokenizer.vocabulary.tokens if not token.startswith("[")]
    cased = sum(token != token.lower() for token in words)
    share = cased / max(1, len(words))
    if share > 0.02 and tokenizer.lower_case:
        yield Finding(
            "warning",
            f"the vocabulary is a cased one ({cased:,} of its {len(words):,} tokens have capitals, as "
            f"{example(words)}), but texts are lower-cased: give --nolower_case",
        )
    if cased == 0 and any(token.isascii() and token.isalpha() for token in words) and not tokenizer.lower_case:
        yield Finding(
            "warning",
            "the vocabulary is an uncased one (no token has a capital), but texts keep their case, so that words with "
            "capitals become [UNK]: give --lower_case",
        )


def example(words: Sequence[str]) -> str:
    return repr(next(token for token in words if token != token.lower()))


def check_labels(name: str, rows: Rows, labels: Sequence[str] | None) -> Iterator[Finding]:
    """Labels outside the set, one class only, classes that are missing or rare; or scores that are no numbers."""
    assert rows.labels is not None
    try:
        scores = scores_of(rows) if labels is None else label_numbers(rows, labels)
    except ValueError as error:
        yield Finding("error", str(error))
        return
    if labels is None:
        if name == "train" and len(set(scores)) == 1:
            yield Finding("error", f"{rows.source}: every row has the score {scores[0]:g}; there is nothing to learn")
        yield Finding("note", f"{name}: {len(rows):,} rows, scores from {min(scores):g} to {max(scores):g}")
        return
    counts = Counter(rows.labels)
    if len(labels) < 2 or (name == "train" and len(counts) == 1):
        yield Finding("error", f"{rows.source}: every row has the label {rows.labels[0]!r}; there is nothing to learn")
        return
    told = ", ".join(f"{shown([label])} {counts[label]:,}" for label in labels[:12])
    told += ", …" if len(labels) > 12 else ""
    yield Finding("note", f"{name}: {len(rows):,} rows, {len(labels)} labels ({told})")
    if name == "train":
        missing = [label for label in labels if not counts[label]]
        if missing:
            yield Finding(
                "warning", f"{rows.source}: no row has the label {', '.join(missing[:5])}; it cannot be learned"
            )
        if len(labels) > 50 and len(labels) > len(rows) / 5:
            yield Finding(
                "warning",
                f"{rows.source}: {len(labels)} different labels in {len(rows)} rows; is --label_column right? "
                f"(for numbers use `keras-bert regress`)",
            )
        yield from check_spelling(rows, counts)


def check_spelling(rows: Rows, counts: Counter[str]) -> Iterator[Finding]:
    """Labels that nobody meant: empty, told apart by spaces or capitals alone, or on one row where others have many."""
    assert rows.labels is not None
    seen: dict[str, str] = {}
    for label in counts:
        where = rows.where(rows.labels.index(label))
        other = seen.setdefault(label.strip().casefold(), label)
        if not label.strip():
            yield Finding("warning", f"{where}: the label is empty, and learned as a label of its own")
        elif other != label:
            yield Finding("warning", f"{where}: the labels {other!r} and {label!r} differ in spaces or capitals alone")
        elif counts[label] == 1 and len(rows) >= 4 * len(counts):
            yield Finding("warning", f"{where}: no other row has the label {label!r}; is it misspelt, or a header's?")


def check_texts(name: str, rows: Rows, encoded: Encoded, bert: Any) -> Iterator[Finding]:
    """Empty texts, texts cut short, words that the vocabulary does not know, characters that say the file is broken."""
    for what, texts in (("text", rows.texts), ("second text", rows.pairs or [])):
        empty = [index for index, text in enumerate(texts) if not text.strip()]
        if len(empty) == len(texts) and texts:
            yield Finding("error", f"{rows.source}: every {what} is empty; is the column right?")
        elif empty:
            yield Finding("warning", f"{rows.where(empty[0])}: the {what} is empty{more(empty)}")
        broken = [index for index, text in enumerate(texts) if "\ufffd" in text or "\0" in text]
        if broken:
            yield Finding(
                "warning",
                f"{rows.where(broken[0])}: the {what} holds U+FFFD or NUL, which the tokenizer drops{more(broken)}; "
                f"was the file converted from another encoding?",
            )
    cut = cut_share(encoded)
    longest = int(encoded.full_lengths.max())
    text = f"{name}: longest row {longest} tokens; {cut:.1%} of the rows are cut to --max_length {bert.max_length}"
    yield Finding("warning" if cut > 0.1 else "note", text)
    unknown = unk_share(encoded)
    if unknown > 0.01:
        words = ", ".join(map(repr, unknown_words(rows, encoded, bert.tokenizer)))
        text = f"{name}: {unknown:.1%} of the tokens are [UNK] ({words}); does the vocabulary fit language and case?"
        yield Finding("warning", text)


def unknown_words(rows: Rows, encoded: Encoded, tokenizer: Any, limit: int = 5) -> list[str]:
    """Some words that become [UNK], the most frequent of the first rows that have any first."""
    some = np.flatnonzero(encoded.unknown)[:100].tolist()
    found: Counter[str] = Counter()
    for texts in (rows.texts, rows.pairs):
        if texts is not None:
            pieces = tokenizer.with_offsets([texts[row] for row in some])
            unknown = pieces.ids.values.numpy() == tokenizer.vocabulary.unk_id
            row = pieces.ids.value_rowids().numpy()[unknown]
            spans = zip(row, pieces.starts.values.numpy()[unknown], pieces.ends.values.numpy()[unknown])
            found.update(shown([texts[some[row]][start:end]]) for row, start, end in spans)
    return [word for word, _ in found.most_common(limit)]


def check_overlap(train: Rows, rows: Rows) -> Iterator[Finding]:
    """Train rows in the evaluation, whose score then says too much."""
    seen = set(keys(train))
    both = [index for index, key in enumerate(keys(rows)) if key in seen]
    if both:
        share = len(both) / len(rows)
        yield Finding(
            "warning",
            f"{len(both):,} of {len(rows):,} evaluation rows ({share:.1%}) are train rows too, the first "
            f"{rows.where(both[0])}; the score will say too much",
        )


def check_contradictions(train: Rows) -> Iterator[Finding]:
    """The same text with two labels."""
    assert train.labels is not None
    first: dict[Any, str] = {}
    against = [
        index
        for index, (key, label) in enumerate(zip(keys(train), train.labels))
        if first.setdefault(key, label) != label
    ]
    if against:
        yield Finding("warning", f"{train.where(against[0])}: the same text has another label above{more(against)}")


def keys(rows: Rows) -> Iterator[Any]:
    return zip(rows.texts, rows.pairs) if rows.pairs is not None else iter(rows.texts)


def more(found: Sequence[int]) -> str:
    return f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""


def cut_share(encoded: Encoded) -> float:
    return round(float((encoded.full_lengths > encoded.lengths).mean()), 4)


def unk_share(encoded: Encoded) -> float:
    return round(float(encoded.unknown.sum() / max(1, encoded.full_lengths.sum())), 4)
