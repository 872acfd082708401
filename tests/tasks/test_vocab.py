"""vocab: the wanted size, the same for any order of the text, and what it is worth on text that it has not seen."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from keras_bert.tasks import vocab
from keras_bert.text import SPECIAL_TOKENS, Vocabulary
from keras_bert.text.learning import learn_vocabulary

STEMS = [f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in "lmnrst"]
LINES = [
    " ".join(random.Random(number).choices(STEMS, k=9)) + random.Random(number).choice(["ing", "ed", ""]) + "."
    for number in range(3000)
]


def run(path, output, *flags):
    vocab.main(["--input", str(path), "--output", str(output), "--size", "200", *flags])
    return json.loads((output / "report.json").read_text()), Vocabulary.from_file(output / "vocab.txt").tokens


def test_the_size_is_the_one_asked_for_and_the_order_of_the_text_decides_nothing(tmp_path, capsys):
    one = tmp_path / "one"
    one.mkdir()
    (one / "a.txt").write_text("\n".join(LINES[:1000]))
    (one / "b.txt").write_text("\n".join(LINES[1000:]))
    (tmp_path / "two.txt").write_text("\n".join(random.Random(1).sample(LINES, len(LINES))))
    report, tokens = run(one, tmp_path / "first", "--unused", "7", "--reserved", "[X],[Y]")
    assert tokens == run(tmp_path / "two.txt", tmp_path / "second", "--unused", "7", "--reserved", "[X],[Y]")[1]
    assert len(tokens) == report["size"] == 200
    head = [*SPECIAL_TOKENS, *(f"[unused{number}]" for number in range(7)), "[X]", "[Y]"]
    assert tokens[: len(head)] == tuple(head)
    assert {"##ing", "."} <= set(tokens)
    assert "##." not in tokens  # no word goes on with punctuation
    assert report["held_out"]["unk_share"] == 0
    assert 1 <= report["held_out"]["tokens_per_word"] < 2
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["output"] == str(tmp_path / "second")


def test_another_vocabulary_is_reported_on_beside_it(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES))
    other = tmp_path / "other.txt"
    other.write_text("\n".join([*SPECIAL_TOKENS, ".", *"abcdefghijklmnopqrstuvwxyz", *(f"##{c}" for c in "aeiou")]))
    report, _ = run(path, tmp_path / "out", "--compare", str(other))
    assert report["compared"]["words"] == report["held_out"]["words"]
    assert report["compared"]["unk_share"] > 0.5


def test_words_are_counted_and_spaces_are_none(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES))
    report, _ = run(path, tmp_path / "out", "--eval", str(path))
    assert report["words"] == report["held_out"]["words"] == 10 * len(LINES)  # nine and a full stop
    assert report["different_words"] == len({word.strip(".") for line in LINES for word in line.split()}) + 1


def test_no_text_and_no_room(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n \n")
    with pytest.raises(ValueError, match="holds no text"):
        run(path, tmp_path / "out")
    path.write_text("\n".join(LINES))
    with pytest.raises(ValueError, match="the size must be at least"):
        run(path, tmp_path / "out", "--size", "20")
    with pytest.raises(ValueError, match="--coverage must be above 0"):
        run(path, tmp_path / "out", "--coverage", "0")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("reserved", [("##ing",), ("bab", "##ed", "[X]"), ("b", "##b", ".")], ids=" ".join)
def test_the_size_is_exact_where_the_text_teaches_a_reserved_token_too(reserved):
    counts = Counter(word for line in LINES for word in line.replace(".", " .").split())
    assert set(reserved) & set(learn_vocabulary(counts, 150))
    tokens = learn_vocabulary(counts, 150, reserved=reserved)
    assert len(tokens) == len(set(tokens)) == 150
    assert tuple(tokens[5 : 5 + len(reserved)]) == reserved


def test_rare_characters_are_left_out_and_chinese_ones_go_on_with_no_word():
    counts = Counter({"hello": 1000, "help": 500, "北": 300, "京": 300, "ɣɣ": 1})
    tokens = learn_vocabulary(counts, 40, coverage=0.999)
    assert {"北", "京"} <= set(tokens)
    assert not {"##北", "##京", "ɣ", "##ɣ"} & set(tokens)
    assert tokens == learn_vocabulary(dict(reversed(counts.items())), 40, coverage=0.999)
    assert "ɣ" in learn_vocabulary(counts, 40, coverage=1.0)
