"""A tokenizer's files in a directory: settings there and back, and what is refused."""

from __future__ import annotations

import itertools
import json
import logging

import pytest

import keras_bert as kb
from keras_bert.convert.tokenizer_files import check_vocabulary
from keras_bert.text import PythonTokenizer

TEXT = "Café RÉSUMÉ 東京 naïve"


@pytest.mark.parametrize("lower, strip, split", [*itertools.product((True, False), (None, True, False), (True, False))])
def test_settings_there_and_back(small, tmp_path, lower, strip, split):
    tokenizer = PythonTokenizer(small, lower_case=lower, strip_accents=strip, split_chinese=split)
    tokenizer.save(tmp_path)
    assert PythonTokenizer.from_directory(tmp_path).get_config() == tokenizer.get_config()
    assert PythonTokenizer.from_directory(tmp_path, lower_case=not lower).lower_case is not lower


def test_a_directory_without_settings_is_told_by_its_vocabulary(vocabularies, tmp_path):  # as Google's
    for cased, vocabulary in vocabularies.items():
        vocabulary.save(tmp_path / "vocab.txt")
        assert PythonTokenizer.from_directory(tmp_path).lower_case is not cased


def test_lowering_for_a_cased_vocabulary_warns(vocabularies, tmp_path, caplog):
    PythonTokenizer(vocabularies[True], lower_case=True).save(tmp_path)
    with caplog.at_level(logging.WARNING, "keras_bert"):
        assert PythonTokenizer.from_directory(tmp_path).lower_case
    assert "the vocabulary has capitals" in caplog.text


@pytest.mark.parametrize(
    "keys, message",
    [
        ('{"tokenizer_class": "RobertaTokenizer"}', "tokenizer_class is 'RobertaTokenizer', expected BertTokenizer"),
        ('{"never_split": ["x"]}', "never_split"),
        ('{"do_basic_tokenize": false}', "do_basic_tokenize"),
        ("{", "expected JSON"),
        ("[]", "expected a JSON object, got list"),
        ('{"do_lower_case": "false"}', "do_lower_case is 'false', expected true, false or null"),
        ('{"strip_accents": 0}', "strip_accents is 0"),
    ],
)
def test_what_we_do_not_do_is_refused(small, tmp_path, keys, message):
    small.save(tmp_path / "vocab.txt")
    (tmp_path / "tokenizer_config.json").write_text(keys)
    with pytest.raises(ValueError, match=rf"tokenizer_config.json: .*{message}"):
        PythonTokenizer.from_directory(tmp_path)


def test_no_vocabulary_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"vocab\.txt"):
        PythonTokenizer.from_directory(tmp_path)


@pytest.mark.parametrize("lower, strip, split", [(True, None, True), (False, None, True), (True, False, False)])
def test_transformers_reads_ours_and_we_read_its(peers, vocabularies, tmp_path, lower, strip, split):
    ours = PythonTokenizer(vocabularies[not lower], lower_case=lower, strip_accents=strip, split_chinese=split)
    ours.save(tmp_path)
    theirs = peers.transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    want = [piece.id for piece in ours.pieces(TEXT)]
    assert theirs(TEXT, add_special_tokens=False)["input_ids"] == want
    theirs.save_pretrained(str(tmp_path / "theirs"))
    again = PythonTokenizer.from_directory(tmp_path / "theirs")
    assert [piece.id for piece in again.pieces(TEXT)] == want
    assert again.vocabulary == ours.vocabulary


def test_a_tokenizer_json_alone_is_enough(small, tmp_path):
    model = {"type": "WordPiece", "vocab": small.index, "continuing_subword_prefix": "##"}
    normalizer = {"type": "BertNormalizer", "lowercase": False, "strip_accents": True, "handle_chinese_chars": False}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": model, "normalizer": normalizer}))
    tokenizer = PythonTokenizer.from_directory(tmp_path)
    assert tokenizer.vocabulary == small
    assert (tokenizer.lower_case, tokenizer.strip_accents, tokenizer.split_chinese) == (False, True, False)
    model["vocab"] = {"a": 1}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": model, "normalizer": normalizer}))
    with pytest.raises(ValueError, match="the ids of its 1 tokens are not 0 to 0"):
        PythonTokenizer.from_directory(tmp_path)


@pytest.mark.parametrize(
    "keys",
    [
        {"model": []},
        {"model": [1]},
        {"model": {"vocab": ["a"]}},
        {"model": {"vocab": {"a": "b"}}},
        {"model": {"vocab": {}}, "added_tokens": [3]},
        {"model": {"vocab": {}}, "normalizer": "x"},
    ],
)
def test_a_damaged_tokenizer_json_is_told(tmp_path, keys):
    (tmp_path / "tokenizer.json").write_text(json.dumps({"normalizer": {"type": "BertNormalizer"}} | keys))
    with pytest.raises(ValueError, match=r"tokenizer\.json: expected"):
        PythonTokenizer.from_directory(tmp_path)


ADDED = [
    ("added_tokens.json", {"[E1]": 7}),
    ("tokenizer_config.json", {"added_tokens_decoder": {"0": {"content": "[PAD]"}, "7": {"content": "[E1]"}}}),
    ("tokenizer_config.json", {"additional_special_tokens": ["[E1]"]}),
    ("tokenizer_config.json", {"extra_special_tokens": {"entity_token": "[E1]"}}),
    (
        "tokenizer.json",
        {
            "model": {"type": "WordPiece"},
            "normalizer": {"type": "BertNormalizer"},
            "added_tokens": [{"content": "[CLS]"}, {"content": "[E1]"}],
        },
    ),
]


@pytest.mark.parametrize("name, keys", ADDED)
def test_tokens_that_were_added_to_berts_are_told_to_be_cut(small, tmp_path, caplog, name, keys):
    small.save(tmp_path / "vocab.txt")
    (tmp_path / name).write_text(json.dumps(keys))
    with caplog.at_level(logging.WARNING, "keras_bert"):
        PythonTokenizer.from_directory(tmp_path)
    assert r"add 1 tokens to BERT's ([E1])" in caplog.text


def test_berts_own_special_tokens_are_no_reason_to_warn(small, tmp_path, caplog):
    PythonTokenizer(small).save(tmp_path)
    keys = json.loads((tmp_path / "tokenizer_config.json").read_text())
    keys["added_tokens_decoder"] = {str(i): {"content": t} for i, t in enumerate(small.tokens) if t.startswith("[")}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(keys))
    with caplog.at_level(logging.WARNING, "keras_bert"):
        PythonTokenizer.from_directory(tmp_path)
    assert "tokens to BERT's" not in caplog.text


def test_a_vocabulary_far_shorter_than_the_table_is_told(caplog):
    vocabulary = kb.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])
    with caplog.at_level(logging.WARNING, "keras_bert"):
        check_vocabulary(vocabulary, kb.Config.tiny(vocab_size=128), "vocab.txt")  # made longer, to a round number
        assert not caplog.text
        check_vocabulary(vocabulary, kb.Config.tiny(vocab_size=134), "vocab.txt")
    assert "vocab.txt: 6 tokens for a table of 134 rows (vocab_size): is the file whole" in caplog.text
