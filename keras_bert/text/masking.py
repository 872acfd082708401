"""Masking for the masked LM, in graph: which tokens are predicted, and what stands in their places (paper, 3.1).

Randomness is an argument, and comes as whole integers from Philox: the same seed gives the same masks eagerly, in
tf.data, in tf.function, under XLA and on every device. Dense ops only, no loop over rows.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary

Seed: TypeAlias = "tuple[int | tf.Tensor, int | tf.Tensor] | tf.Tensor"

BITS = 24  # of a random number that becomes a float32, which holds them exactly


class Masked(NamedTuple):
    """A batch as the masked LM reads it, and what it is to predict; M positions a row, the real ones first.

    Attributes:
        input_word_ids: int32 [B,S], with [MASK] and random tokens in place of some.
        positions: int32 [B,M], ascending; 0 where a row has fewer.
        labels: int32 [B,M], the ids that stood there; 0 where a row has fewer.
        weights: float32 [B,M], 1 for a real position, else 0.
    """

    input_word_ids: tf.Tensor
    positions: tf.Tensor
    labels: tf.Tensor
    weights: tf.Tensor


def mask_tokens(
    ids: tf.Tensor,
    seed: Seed,
    vocabulary: Vocabulary,
    *,
    rate: float = 0.15,
    max_predictions: int | None = None,
    mask_share: float = 0.8,
    random_share: float = 0.1,
    whole_word: bool = False,
    word_starts: tf.Tensor | None = None,
    first_row: int | tf.Tensor = 0,
    num_rows: int | None = None,
) -> Masked:
    """Draws which tokens of a batch are predicted and writes [MASK], a random token, or nothing over them.

    A row with n tokens beside [CLS], [SEP] and [PAD] gets `rate` · n predictions on average, rounded up or down at
    random, at least one, at most `max_predictions`; every such token is as likely as the next. With whole words, words
    are drawn, and the last one that does not fit whole is taken or left so that the average stays.

    Args:
        ids: int32 [B,S], packed and padded.
        seed: two integers, the run's seed and the step.
        vocabulary: of these ids.
        rate: share of tokens that are predicted.
        max_predictions: M; None: as many as `rate` can ask for in S tokens.
        mask_share, random_share: shares of the predicted tokens that become [MASK], and a random token (of the
            ordinary ones: no special and no unused ones); the rest stays.
        whole_word: predict all pieces of a word together; a word begins at every token without "##".
        word_starts: for `whole_word`, int [B,S], not 0 where a word begins, instead of the rule of "##" (Chinese, whose
            characters are words to the tokenizer).
        first_row, num_rows: these rows are part of a greater batch of `num_rows`, from `first_row` on; they get the
            masks that they get there. Rows beyond its end, which hold padding alone, get none.

    Raises:
        ValueError: shares that are none, no room for a prediction, or S that is not known when it decides M.
    """
    check_shares(rate, mask_share, random_share)
    length = max_length(ids, rate, max_predictions)
    batch = tf.shape(ids)[0]
    bits = random_bits(seed, batch if num_rows is None else num_rows, tf.shape(ids)[1])
    if num_rows is not None:
        bits = bits[:, first_row : first_row + batch]
        bits = tf.pad(bits, [[0, 0], [0, batch - tf.shape(bits)[1]], [0, 0]])
    special = [vocabulary.cls_id, vocabulary.sep_id, vocabulary.pad_id]
    eligible = tf.reduce_all(tf.not_equal(ids[..., tf.newaxis], tf.constant(special, ids.dtype)), -1)
    if not whole_word:
        starts = tf.ones_like(eligible)
    elif word_starts is None:
        starts = tf.logical_not(tf.gather(continues(vocabulary), ids))
    else:
        starts = tf.not_equal(word_starts, 0)
    positions, chosen = choose(eligible, starts, bits[0], bits[3][:, 0], rate, length)
    labels = tf.where(chosen, tf.gather(ids, positions, batch_dims=1), 0)
    places = tf.range(tf.shape(ids)[1], dtype=tf.int32)
    predicted = tf.reduce_any((positions[..., tf.newaxis] == places) & chosen[..., tf.newaxis], 1)  # [B,S]
    draw = as_share(bits[1])
    replaced = tf.where(draw < mask_share, vocabulary.mask_id, random_ids(bits[2], vocabulary))
    changed = predicted & (draw < mask_share + random_share)
    return Masked(
        tf.where(changed, replaced, ids),
        tf.where(chosen, positions, 0),
        labels,
        tf.cast(chosen, tf.float32),
    )


def choose(
    eligible: tf.Tensor, starts: tf.Tensor, word_bits: tf.Tensor, row_bits: tf.Tensor, rate: float, length: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Positions int32 [B,M], ascending with the chosen ones first, and which are chosen, bool [B,M].

    Words come in random order, one after the other, while they fit into the row's share; the one that crosses its end
    comes in with the probability of the part that fits.

    Args:
        eligible: bool [B,S], tokens that may be predicted.
        starts: bool [B,S], where words begin; tokens that are not eligible count as words of their own.
        word_bits: int32 [B,S], random; row_bits: int32 [B].
    """
    size = tf.shape(eligible)[1]
    places = tf.broadcast_to(tf.range(size, dtype=tf.int32), tf.shape(eligible))
    before = tf.pad(eligible[:, :-1], [[0, 0], [1, 0]])
    starts = starts | tf.logical_not(eligible) | tf.logical_not(before)
    word = tf.cumsum(tf.cast(starts, tf.int32), 1) - 1  # the number of each token's word
    firsts = ascending(tf.where(starts, places, size))  # where each word begins, in order
    firsts = tf.pad(firsts, [[0, 0], [0, 1]], constant_values=0)
    firsts = tf.where(tf.range(size + 1, dtype=tf.int32) < tf.reduce_max(word, 1, keepdims=True) + 1, firsts, size)
    begin, end = (tf.gather(firsts, word + shift, batch_dims=1) for shift in (0, 1))
    lengths = end - begin
    # words in random order: non-negative keys, those of words that no row has room for below, ineligible tokens last
    keys = tf.gather(tf.bitwise.bitwise_and(word_bits, 0x7FFFFFFF), word, batch_dims=1)
    keys = tf.where(lengths > length, 0, tf.maximum(keys, 1))
    order = tf.math.top_k(tf.where(eligible, keys, -1), size).indices  # equal keys stay in the order of the text
    rank = tf.range(size, dtype=tf.int32)
    word_begin = rank - tf.gather(places - begin, order, batch_dims=1)  # ranks: of the word's first token,
    word_end = word_begin + tf.gather(lengths, order, batch_dims=1)  # and behind its last one
    wanted = rate * tf.reduce_sum(tf.cast(eligible, tf.float32), 1, keepdims=True)
    part = (wanted - tf.cast(word_begin, tf.float32)) / tf.cast(word_end - word_begin, tf.float32)
    fits = (as_share(row_bits)[:, tf.newaxis] < part) & (word_end <= length)
    chosen = (fits | ((word_begin == 0) & (rank < length))) & tf.gather(eligible, order, batch_dims=1)
    places = ascending(tf.where(chosen, order, size))[:, :length]  # [B, at most M]
    places = tf.pad(places, [[0, 0], [0, tf.maximum(length - size, 0)]], constant_values=0)
    places = tf.ensure_shape(places, [None, length])
    chosen = tf.range(length, dtype=tf.int32) < tf.reduce_sum(tf.cast(chosen, tf.int32), 1, keepdims=True)
    return tf.where(chosen, places, 0), chosen


def ascending(x: tf.Tensor) -> tf.Tensor:
    """int32 [B,S], each row sorted."""
    return -tf.math.top_k(-x, tf.shape(x)[1]).values


def random_bits(seed: Seed, rows: int | tf.Tensor, length: int | tf.Tensor) -> tf.Tensor:
    """int32 [4,B,S], of the whole range: for the words, for what becomes of a token, for its stand-in, for the row."""
    pair = tf.cast(tf.convert_to_tensor(seed), tf.int64)
    # whole integers, not floats: how bits become a float is not the same everywhere
    return tf.random.stateless_uniform([4, rows, length], pair, None, None, tf.int32, alg="philox")


def as_share(bits: tf.Tensor) -> tf.Tensor:
    """Random int32 → float32 from 0 up to, not including, 1."""
    top = tf.bitwise.bitwise_and(bits, (1 << BITS) - 1)
    return tf.cast(top, tf.float32) * 2.0**-BITS


def random_ids(bits: tf.Tensor, vocabulary: Vocabulary) -> tf.Tensor:
    """Random int32 → ids of ordinary tokens, each as likely."""
    table = ordinary_ids(vocabulary)
    share = tf.cast(tf.bitwise.bitwise_and(bits, 0x7FFFFFFF), tf.int64)
    return tf.gather(table, tf.cast(tf.bitwise.right_shift(share * len(table), tf.constant(31, tf.int64)), tf.int32))


def ordinary_ids(vocabulary: Vocabulary) -> np.ndarray:
    """Ids of tokens that texts are made of, int32: no special ones, no "[unused…]".

    Raises:
        ValueError: there are none.
    """
    unused = re.compile(r"\[unused\d+\]")
    ids = [i for i, token in enumerate(vocabulary.tokens) if token not in SPECIAL_TOKENS and not unused.match(token)]
    if not ids:
        raise ValueError("the vocabulary has only special and unused tokens, expected some that texts are made of")
    return np.array(ids, np.int32)


def continues(vocabulary: Vocabulary) -> tf.Tensor:
    """bool [V]: tokens that go on with a word."""
    return tf.constant([token.startswith("##") and len(token) > 2 for token in vocabulary.tokens])


def check_shares(rate: float, mask_share: float, random_share: float) -> None:
    if not 0 < rate < 1:
        raise ValueError(f"rate must lie between 0 and 1: got {rate}")
    if min(mask_share, random_share) < 0 or mask_share + random_share > 1 + 1e-9:
        raise ValueError(
            f"mask_share and random_share are shares of the predicted tokens, from 0, together at most 1: got "
            f"{mask_share} and {random_share}"
        )


def max_length(ids: tf.Tensor, rate: float, max_predictions: int | None) -> int:
    """M.

    Raises:
        ValueError: it is below 1, or S must be known for it and is not.
    """
    if max_predictions is None:
        if ids.shape[1] is None:
            raise ValueError("max_predictions must be given where the length of the ids is not known")
        return max(1, math.ceil(rate * ids.shape[1]))
    if max_predictions < 1:
        raise ValueError(f"max_predictions must be at least 1: got {max_predictions}")
    return max_predictions
