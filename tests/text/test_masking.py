"""Masking: the paper's law, the same everywhere, and nothing masked that must not be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.text import SPECIAL_TOKENS, Vocabulary, mask_tokens

WORDS = [f"w{index}" for index in range(40)]
PIECES = [f"##p{index}" for index in range(40)]
UNUSED = [f"[unused{index}]" for index in range(10)]
# [PAD] is not 0
VOCABULARY = Vocabulary([*UNUSED, *WORDS[:5], "[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]", *WORDS[5:], "##", *PIECES])
V = VOCABULARY
ORDINARY = [V.index[token] for token in (*WORDS, "##", *PIECES)]


def batch(lengths, width, seed=0, tokens=WORDS):
    """Rows `[CLS] … [SEP] …[PAD]` of random tokens, as many as `lengths` says."""
    random = np.random.default_rng(seed)
    ids = np.full((len(lengths), width), V.pad_id, np.int32)
    choices = [V.index[token] for token in tokens]
    for row, length in zip(ids, lengths, strict=True):
        row[: length + 2] = [V.cls_id, *random.choice(choices, length), V.sep_id]
    return tf.constant(ids)


def chosen_of(masked):
    """[(row, position)], of the real ones."""
    rows, places = np.nonzero(masked.weights.numpy())
    return list(zip(rows.tolist(), masked.positions.numpy()[rows, places].tolist(), strict=True))


@settings(max_examples=40)
@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=6),
    limit=st.one_of(st.none(), st.integers(1, 40)),
    rate=st.floats(0.01, 0.99),
    whole=st.booleans(),
    seed=st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)),
)
def test_what_holds_of_every_draw(lengths, limit, rate, whole, seed):
    ids = batch(lengths, 33, tokens=WORDS + PIECES)
    masked = mask_tokens(ids, seed, V, rate=rate, max_predictions=limit, whole_word=whole)
    size = masked.positions.shape[1]
    assert size == (limit or int(np.ceil(rate * 33)))
    before, after = ids.numpy(), masked.input_word_ids.numpy()
    chosen = chosen_of(masked)
    for row, length in enumerate(lengths):
        places = [place for r, place in chosen if r == row]
        assert places == sorted(set(places))
        assert (1 if length else 0) <= len(places) <= min(size, length)
        assert set(before[row, places].tolist()) <= set(ORDINARY)  # never [CLS] [SEP] [PAD]
        kept = len(places)
        assert masked.labels[row, :kept].numpy().tolist() == before[row, places].tolist()
        assert not masked.labels[row, kept:].numpy().any()
        assert not masked.positions[row, kept:].numpy().any()
        assert not masked.weights[row, kept:].numpy().any()
    changed = list(zip(*np.nonzero(before != after), strict=True))
    assert set(changed) <= set(chosen)
    assert set(after[before != after].tolist()) <= {V.mask_id, *ORDINARY}


def test_shares_are_the_papers_within_four_standard_errors():
    """15 % of a million tokens, of these 80 % [MASK], 10 % random, 10 % as they were; every position as likely."""
    lengths = np.random.default_rng(1).integers(7, 127, 16000)
    ids = batch(lengths, 128)
    masked = mask_tokens(ids, (3, 4), V, max_predictions=30)
    tokens, picked = lengths.sum(), masked.weights.numpy().sum()
    assert tokens > 1e6

    def close(found, share, n):
        return abs(found / n - share) <= 4 * np.sqrt(share * (1 - share) / n)

    assert close(picked, 0.15, tokens)
    before, after = ids.numpy(), masked.input_word_ids.numpy()
    places = np.zeros(before.shape, bool)
    rows, columns = np.array(chosen_of(masked)).T
    places[rows, columns] = True
    same = (after == before)[places].sum()
    by_chance = 1 / len(ORDINARY)  # a random token may be the one that stood there
    assert close((after == V.mask_id)[places].sum(), 0.8, picked)
    assert close(same, 0.1 + 0.1 * by_chance, picked)
    random = after[places & (after != before) & (after != V.mask_id)]
    counts = np.bincount(random, minlength=len(V))[ORDINARY]
    assert counts.sum() == len(random)
    expected = len(random) / len(ORDINARY)
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected)).all()
    # position: among rows long enough, each one is taken equally often
    long = lengths >= 100
    taken = places[long][:, 1:101].sum(0)
    n = long.sum()
    assert (np.abs(taken / n - 0.15) <= 4.5 * np.sqrt(0.15 * 0.85 / n)).all()


def test_neighbours_are_drawn_independently():
    ids = batch([100] * 20000, 102)
    picked = np.zeros((20000, 102))
    rows, columns = np.array(chosen_of(mask_tokens(ids, (0, 1), V))).T
    picked[rows, columns] = 1
    inner = picked[:, 1:101]
    both = (inner[:, :-1] * inner[:, 1:]).mean()
    # exactly 15 of 100 without replacement
    assert abs(both - 15 * 14 / (100 * 99)) < 4 * np.sqrt(0.0225 / inner[:, 1:].size) * 2


@pytest.mark.parametrize("mix", [(0.8, 0.1), (1.0, 0.0), (0.0, 0.0), (0.0, 1.0), (0.8, 0.2), (0.8, 0.0)])
def test_any_mix_of_table_8(mix):
    ids = batch([100] * 3000, 102, tokens=WORDS)
    masked = mask_tokens(ids, (5, 6), V, mask_share=mix[0], random_share=mix[1])
    picked = masked.weights.numpy().sum()
    after = masked.input_word_ids.numpy()
    assert abs((after == V.mask_id).sum() / picked - mix[0]) <= 4 * np.sqrt(mix[0] * (1 - mix[0]) / picked)
    changed = (after != ids.numpy()).sum() - (after == V.mask_id).sum()
    share = mix[1] * (1 - 1 / len(ORDINARY))
    assert abs(changed / picked - share) <= 4 * np.sqrt(share * (1 - share) / picked)


def test_at_least_one_of_every_text_eagerly_and_in_graph():  # PAIN 25
    ids = batch([7] * 300, 9)
    eager = mask_tokens(ids, (1, 1), V)
    assert eager.weights.numpy().sum(1).min() >= 1
    graph = tf.function(lambda x: mask_tokens(x, (1, 1), V))(ids)
    for one, other in zip(eager, graph, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("whole", [False, True])
def test_the_same_eagerly_in_tf_data_in_a_graph_and_under_xla(whole):
    ids = batch([5, 0, 21, 30], 32, tokens=WORDS + PIECES)

    def draw(x, step):
        return mask_tokens(x, tf.stack([7, step]), V, whole_word=whole)

    for step in range(3):
        eager = draw(ids, step)
        data = next(iter(tf.data.Dataset.from_tensors(ids).map(lambda x, s=step: draw(x, s))))
        graph = tf.function(draw)(ids, tf.constant(step))
        xla = tf.function(draw, jit_compile=True)(ids, tf.constant(step))
        for other in (data, graph, xla):
            for one, two in zip(eager, other, strict=True):
                np.testing.assert_array_equal(one, two)


def test_seed_and_step_decide_and_nothing_else():
    ids = batch([30] * 4, 32)
    draws = [mask_tokens(ids, seed, V).input_word_ids.numpy() for seed in ((1, 2), (1, 2), (1, 3), (2, 2))]
    np.testing.assert_array_equal(draws[0], draws[1])
    for one, other in itertools.combinations(draws[1:], 2):
        assert (one != other).any()


def test_rows_of_a_greater_batch_get_the_masks_that_they_get_there():
    ids = batch([30] * 6, 32)
    whole = mask_tokens(ids, (1, 2), V)
    for begin, end in ((0, 4), (4, 6)):
        part = mask_tokens(ids[begin:end], (1, 2), V, first_row=begin, num_rows=6)
        for one, other in zip(whole, part, strict=True):
            np.testing.assert_array_equal(one[begin:end], other)


def whole_words(ids):
    """[(first, last)] of each word, by "##"."""
    words = []
    for place, number in enumerate(ids):
        if V.tokens[number] in SPECIAL_TOKENS:
            continue
        if words and V.tokens[number].startswith("##p") and words[-1][1] == place - 1:
            words[-1][1] = place
        else:
            words.append([place, place])
    return words


def test_whole_words_are_taken_whole_at_the_same_rate():
    ids = batch([60] * 3000, 62, seed=3, tokens=WORDS + PIECES)
    masked = mask_tokens(ids, (2, 2), V, whole_word=True, max_predictions=20)
    taken = np.zeros(ids.shape, bool)
    rows, columns = np.array(chosen_of(masked)).T
    taken[rows, columns] = True
    for row in range(300):
        for first, last in whole_words(ids[row].numpy()):
            assert len(set(taken[row, first : last + 1].tolist())) == 1
    assert abs(taken.sum() / (3000 * 60) - 0.15) < 0.003


def test_given_word_boundaries_decide_for_chinese():
    ids = batch([12] * 200, 14)
    starts = np.zeros((200, 14), np.int32)
    starts[:, 1:13:3] = 1  # words of three characters
    masked = mask_tokens(ids, (1, 1), V, whole_word=True, word_starts=starts, rate=0.25)
    for row in range(200):
        places = masked.positions[row].numpy()[masked.weights[row].numpy() > 0]
        assert len(places) == 3
        assert (places - 1).tolist() == list(range(places[0] - 1, places[0] + 2))
        assert places[0] % 3 == 1


def test_a_word_longer_than_there_are_predictions_gives_way_to_others():
    ids = np.full((50, 12), V.pad_id, np.int32)
    ids[:] = [V.cls_id, V.index["w1"], *[V.index["##p1"]] * 7, V.index["w2"], V.sep_id, V.pad_id]
    masked = mask_tokens(tf.constant(ids), (1, 1), V, whole_word=True, max_predictions=4)
    assert (masked.positions.numpy()[:, 0] == 9).all()
    assert (masked.weights.numpy().sum(1) == 1).all()
    ids[:, 9] = V.pad_id
    masked = mask_tokens(tf.constant(ids), (1, 1), V, whole_word=True, max_predictions=4)
    assert (masked.positions.numpy() == [1, 2, 3, 4]).all()  # there is no other: its first pieces


def test_the_law_is_tensorflow_texts_where_the_two_are_defined_alike():
    import tensorflow_text as text

    ids = batch([100] * 500, 102)
    special = [V.cls_id, V.sep_id, V.pad_id]
    selector = text.RandomItemSelector(15, selection_rate=0.15, unselectable_ids=special)
    chooser = text.MaskValuesChooser(len(V), V.mask_id)
    tokens, positions, labels = text.mask_language_model(tf.RaggedTensor.from_tensor(ids), selector, chooser, axis=1)
    ours = mask_tokens(ids, (1, 2), V, max_predictions=15)
    assert positions.row_lengths().numpy().tolist() == ours.weights.numpy().sum(1).tolist() == [15] * 500
    before = ids.numpy()
    np.testing.assert_array_equal(before[np.arange(500)[:, None], positions.to_tensor().numpy()], labels.to_tensor())
    theirs = (tokens.to_tensor().numpy() == V.mask_id).sum() / 7500
    share = (ours.input_word_ids.numpy() == V.mask_id).sum() / 7500
    assert abs(theirs - share) < 4 * np.sqrt(2 * 0.16 / 7500)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"rate": 0}, "rate must lie between 0 and 1"),
        ({"rate": 1.0}, "rate must lie between 0 and 1"),
        ({"mask_share": 0.8, "random_share": 0.3}, "together at most 1"),
        ({"mask_share": -0.1}, "from 0"),
        ({"max_predictions": 0}, "at least 1"),
    ],
)
def test_shares_that_are_none(arguments, told):
    with pytest.raises(ValueError, match=told):
        mask_tokens(batch([3], 5), (0, 0), V, **arguments)


def test_a_length_that_is_not_known_and_decides(recwarn):
    with pytest.raises(ValueError, match="max_predictions must be given"):
        tf.function(
            lambda x: mask_tokens(x, (0, 0), V), input_signature=[tf.TensorSpec([None, None], tf.int32)]
        ).get_concrete_function()


def test_a_vocabulary_without_ordinary_tokens():
    bare = Vocabulary([*SPECIAL_TOKENS, *UNUSED])
    with pytest.raises(ValueError, match="only special and unused tokens"):
        mask_tokens(tf.constant([[2, 5, 3]]), (0, 0), bare)
