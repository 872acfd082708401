"""Learning a WordPiece vocabulary from counted words, with tensorflow-text's learner.

The learner finds, top-down, the pieces that words share, and keeps those that are counted at least so often; the search
for the count that gives the wanted size is ours, since the learner's own halves its way down from the greatest count.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from keras_bert.text.base import MAX_WORD_CHARS
from keras_bert.text.cleaning import import_tensorflow_text
from keras_bert.text.normalizer import unicode_tables
from keras_bert.text.vocabulary import SPECIAL_TOKENS

MAX_TOKEN_CHARS = 50
ENOUGH = 0.98  # of the wanted size: the search ends, and the next best pieces fill it up


def learn_vocabulary(
    counts: Mapping[str, int],
    size: int,
    *,
    unused: int = 0,
    reserved: Iterable[str] = (),
    coverage: float = 0.9999,
    min_count: int = 1,
    split_chinese: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> list[str]:
    """A vocabulary of `size` tokens: special, unused, reserved, all single characters, then pieces by their counts.

    It depends on the counts alone, not on their order. Fewer tokens come back where the words have no more pieces.

    Args:
        counts: words as the tokenizer cuts them, lowered or not, with how often they occur.
        size: tokens in all.
        unused: rows named [unused0], … for tokens of one's own later on.
        reserved: further tokens that must be there.
        coverage: share of all characters of the text that must be in the vocabulary; words with rarer ones are left
            out.
        min_count: words that occur less often are left out.
        split_chinese: as the tokenizer's: then Chinese characters are words, and none goes on with one.
        say: told how the search goes.

    Raises:
        ValueError: no words, or no room for the characters.
        ImportError: tensorflow-text is not installed.
    """
    import_tensorflow_text()
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

    first = list(dict.fromkeys([*SPECIAL_TOKENS, *(f"[unused{number}]" for number in range(unused)), *reserved]))
    words = usable_words(counts, coverage, min_count)
    if not words:
        raise ValueError("there are no words to learn a vocabulary from")
    alone, held = lone_characters(split_chinese), set(first)
    params = learner.Params(
        upper_thresh=None,
        lower_thresh=None,
        num_iterations=4,
        max_input_tokens=-1,
        max_token_length=MAX_TOKEN_CHARS,
        max_unique_chars=None,
        vocab_size=size,
        slack_ratio=0.0,
        include_joiner_token=True,
        joiner="##",
        reserved_tokens=[],
    )

    def learn(threshold: int) -> list[str]:
        found = learner.learn_with_thresh(words, threshold, params)
        # what the text teaches and is reserved too has its place, and takes none of the room
        tokens = [token for token in found if token not in held and not goes_on_with_one_of(alone, token)]
        say(f"pieces counted at least {threshold:,} times: {len(tokens):,}")
        return tokens

    room = size - len(first)
    characters = {character for word, _ in words for character in word}
    needed = len((characters | {f"##{character}" for character in characters - alone}) - held)
    if room < needed:
        raise ValueError(
            f"the size must be at least {len(first) + needed}: got {size}; so many are needed for {len(characters)} "
            f"different characters, at the beginning and within words, with {len(first)} special, unused and reserved "
            f"tokens; lower the coverage for fewer characters"
        )
    return first + fill(learn, room, words)


def fill(learn: Callable[[int], list[str]], room: int, words: list[tuple[str, int]]) -> list[str]:
    """`room` tokens: the pieces of the least threshold found that gives no more, and the best ones of the next."""
    low, high = 0, max(count for _, count in words) + 1  # thresholds: too many tokens, not too many
    few: list[str] | None = None
    many: list[str] | None = None
    guess = max(1, min(high - 1, round(0.3 * sum(count for _, count in words) / max(room, 1) ** 1.2)))
    while few is None or (high - low > 1 and (len(few) < ENOUGH * room or (many is None and len(few) < room))):
        found = learn(guess)
        if len(found) > room:
            low, many = guess, found
        else:
            high, few = guess, found
        guess = between(low, many, high, few, room)
    if many is None:
        return few
    held = set(few)
    rest = [token for token in many if token not in held]
    # a lower threshold may lack some pieces of a higher one, so that the two together may still be too few
    return few + rest[: room - len(few)] if len(few) + len(rest) >= room else many[:room]


def between(low: int, many: list[str] | None, high: int, few: list[str] | None, room: int) -> int:
    """The next threshold to try: the number of tokens falls about as a power of it."""
    if few is None:
        guess = low * (len(many or ()) / room) ** 1.1 + 1
    elif many is None:
        guess = high * (len(few) / room) ** 1.5
    else:
        share = (math.log(len(many)) - math.log(room * (1 + ENOUGH) / 2)) / (math.log(len(many)) - math.log(len(few)))
        guess = low * (high / low) ** share
    return int(min(max(guess, low + 1), high - 1)) if high - low > 1 else low + 1


def usable_words(counts: Mapping[str, int], coverage: float, min_count: int) -> list[tuple[str, int]]:
    """The words to learn from, the most frequent first."""
    kept = {word: count for word, count in counts.items() if count >= min_count and len(word) <= MAX_WORD_CHARS}
    characters: Counter[str] = Counter()
    for word, count in kept.items():
        for character in word:
            characters[character] += count
    wanted, allowed, seen = coverage * characters.total(), set(), 0
    for character, count in sorted(characters.items(), key=lambda item: (-item[1], item[0])):
        if seen >= wanted:
            break
        allowed.add(character)
        seen += count
    usable = [(w, n) for w, n in kept.items() if len(w) <= MAX_TOKEN_CHARS and allowed.issuperset(w)]
    return sorted(usable, key=lambda item: (-item[1], item[0]))


def goes_on_with_one_of(alone: frozenset[str], token: str) -> bool:
    """True of "##" and one of these characters."""
    return len(token) == 3 and token.startswith("##") and token[2] in alone


def lone_characters(split_chinese: bool) -> frozenset[str]:
    """Characters that are words by themselves, so that no word goes on with one."""
    t = unicode_tables()
    return frozenset(map(chr, t.punctuation | (t.chinese if split_chinese else frozenset())))
