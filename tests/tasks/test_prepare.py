"""prepare: the same pairs for any order, workers and shards; bad text is told in a line, and nothing is left behind."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import keras_bert as kb
from keras_bert.batch import IS_NEXT
from keras_bert.tasks import blocks, corpus, prepare
from keras_bert.tasks.corpus import CorpusOptions, read_pieces
from keras_bert.tasks.records import Records, Shard, read_shard, serialize
from keras_bert.tasks.workers import run_all

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", *(f"##{x}" for x in "abcdefghij"), "."]


@pytest.fixture
def vocab(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(TOKENS) + "\n")
    return str(path)


def story(number, sentences=12):
    """A document whose words tell which one it is."""
    word = "abcdefghij"[number]
    return [" ".join([word] * (3 + (number + s) % 5)) + " ." for s in range(sentences)]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join("\n".join(story(number)) for number in range(6)) + "\n")
    return str(path)


def run(vocab, text, output, *flags):
    argv = ["--vocab", vocab, "--input", text, "--output", str(output), "--max_length", "24", "--workers", "1"]
    prepare.main([*argv, *flags])
    return json.loads((output / "meta.json").read_text())


def contents(output):
    """All records, sorted."""
    meta = json.loads((output / "meta.json").read_text())
    paths = [os.fspath(output / shard["file"]) for shard in meta["shards"]]
    return sorted(record.numpy() for record in tf.data.TFRecordDataset(paths))


def files(output):
    return {path.name: path.read_bytes() for path in output.iterdir()}


def test_pairs_are_of_two_documents_or_follow(vocab, text, tmp_path, capsys):
    meta = run(vocab, text, tmp_path / "out")
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (result["records"], result["documents"], result["sentences"]) == (meta["records"], 6, 72)
    assert meta["records"] == len(contents(tmp_path / "out")) > 20
    tokenizer = kb.Tokenizer(vocab)
    follows = 0
    for record in contents(tmp_path / "out"):
        feature = tf.train.Example.FromString(record).features.feature
        ids = list(feature["input_word_ids"].int64_list.value)
        first = feature["first_length"].int64_list.value[0]
        label = feature["next_sentence_label"].int64_list.value[0]
        words = [TOKENS[number] for number in ids]
        assert (words[0], words[first - 1], words[-1]) == ("[CLS]", "[SEP]", "[SEP]")
        assert words.count("[SEP]") == 2
        assert len(ids) <= 24
        a, b = (set(part) - {"[CLS]", "[SEP]", "."} for part in (words[:first], words[first:]))
        assert (a == b if label == IS_NEXT else a.isdisjoint(b)) or not a or not b
        follows += label == IS_NEXT
    assert meta["positives_share"] == round(follows / meta["records"], 4)
    assert meta["vocabulary"] == tokenizer.vocabulary.content_hash()


def test_the_same_pairs_for_any_order_of_files_workers_and_shards(vocab, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 300)  # many blocks
    for names in ("abc", "cab"):
        folder = tmp_path / names / "below"
        folder.mkdir(parents=True)
        for number, name in enumerate(names):
            index = "abc".index(name) * 3
            documents = ["\n".join(story(index + d)) for d in range(3)]
            (folder / f"{number}.txt").write_text("\n\n".join(documents))
    monkeypatch.setattr(blocks, "HELD", 100)
    found = []
    for names, shards in (("abc", 1), ("cab", 3)):
        meta = run(vocab, str(tmp_path / names), tmp_path / f"out{names}", "--shards", str(shards))
        assert len(meta["shards"]) == shards
        found.append((contents(tmp_path / f"out{names}"), meta["hash"]))
    assert found[0] == found[1]
    run(vocab, str(tmp_path / "abc"), tmp_path / "other", "--seed", "7")
    assert contents(tmp_path / "other") != found[0][0]


def test_two_processes_make_what_one_makes(vocab, tmp_path):
    """BLOCK as it is, so that the spawned processes, which import afresh, count alike."""
    big = tmp_path / "big.txt"
    line = "a b c d e f g h i j " * 300
    with open(big, "w") as file:
        for number in range(60):
            file.write((line[number % 7 :] + "\n") * 100 + "\n")
    argv = ["--vocab", vocab, "--input", str(big), "--max_length", "512"]
    for workers in (1, 2):
        prepare.main([*argv, "--output", str(tmp_path / f"out{workers}"), "--workers", str(workers)])
    one, two = (files(tmp_path / f"out{workers}") for workers in (1, 2))
    assert len([name for name in one if name.endswith(".tfrecord")]) == 3
    assert one == two


def test_other_pairs_each_time(vocab, text, tmp_path):
    run(vocab, text, tmp_path / "one")
    run(vocab, text, tmp_path / "three", "--dupe_factor", "3")
    one, three = contents(tmp_path / "one"), contents(tmp_path / "three")
    assert set(one) <= set(three)
    assert 2.5 * len(one) < len(three) < 3.5 * len(one)
    assert len(set(three)) > 1.5 * len(set(one))


def test_blocks_of_one_document_borrow_from_others(vocab, text, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 10)
    meta = run(vocab, text, tmp_path / "out", "--shards", "2")
    assert 0.2 < meta["positives_share"] < 0.8


def test_one_document_alone_is_an_error(vocab, tmp_path):  # PAIN 15
    path = tmp_path / "one.txt"
    path.write_text("a b\nc d\ne f\n")
    with pytest.raises(ValueError, match=r"one\.txt holds one document .* expected at least two"):
        run(vocab, str(path), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))
    path.write_text("a b\nc d\n\na b\nc d\n\n\n")  # twice the same
    with pytest.raises(ValueError, match=r"holds one document \(2 times\)"):
        run(vocab, str(path), tmp_path / "out")
    assert run(vocab, str(path), tmp_path / "out", "--no_nsp")["records"] >= 1


@pytest.mark.parametrize("format", ["sentences", "jsonl"])
def test_documents_of_one_sentence_are_warned_of(vocab, tmp_path, capsys, format):  # PAIN 16
    sentences = [sentence for number in range(4) for sentence in story(number)]
    path = tmp_path / "lines.txt"
    path.write_text("\n\n".join(sentences if format == "sentences" else [json.dumps({"text": s}) for s in sentences]))
    meta = run(vocab, str(path), tmp_path / "out", "--format", format)
    assert meta["positives_share"] == 0
    said = capsys.readouterr().err
    assert "in 0.0% of the pairs the second text follows the first (label 0)" in said
    assert "100% of the documents are one sentence long" in said


def test_the_warning_has_the_share_of_positives(vocab, tmp_path, capsys):
    path = tmp_path / "lines.txt"
    longer = ["a b c .\nb c d .".replace("a", letter) for letter in "defghij"]
    path.write_text("\n\n".join([*(sentence for number in range(4) for sentence in story(number)), *longer]))
    meta = run(vocab, str(path), tmp_path / "out")
    assert 0 < meta["positives_share"] < 0.2
    said = capsys.readouterr().err
    assert f"in {meta['positives_share']:.1%} of the pairs" in said
    assert "87% of the documents are one sentence long" in said


def test_sentences_that_fill_a_record_alone_are_warned_of(vocab, tmp_path, capsys):
    path = tmp_path / "long.txt"
    path.write_text("\n\n".join("\n".join(["a b c d e f g h i j " * 4] * 6) for _ in range(2)).replace("a", "j", 1))
    assert run(vocab, str(path), tmp_path / "out")["positives_share"] == 0
    assert "most sentences fill a record alone. Give more than --max_length 24" in capsys.readouterr().err


def test_rows_without_pairs_are_full(vocab, text, tmp_path):
    meta = run(vocab, text, tmp_path / "full", "--no_nsp")
    assert (meta["nsp"], meta["positives_share"]) == (False, None)
    lengths = [len(ids_of(record)) for record in contents(tmp_path / "full")]
    assert sorted(lengths)[1:] == [24] * (len(lengths) - 1)
    run(vocab, text, tmp_path / "own", "--no_nsp", "--packing", "doc_sentences")
    for record in contents(tmp_path / "own"):
        words = {TOKENS[number] for number in ids_of(record)} - {"[CLS]", "[SEP]", "."}
        assert len(words) <= 1


def ids_of(record):
    return list(tf.train.Example.FromString(record).features.feature["input_word_ids"].int64_list.value)


def test_running_text_a_document_a_file_or_a_row(vocab, tmp_path):
    texts = [" ".join(story(number)).replace(" . ", " .\n", 2) for number in range(4)]
    folder = tmp_path / "files"
    folder.mkdir()
    for number, one in enumerate(texts):
        (folder / f"{number}.txt").write_bytes(one.replace("\n", "\r\n").encode())
    rows = tmp_path / "rows.jsonl.gz"
    rows.write_bytes(gzip.compress("\n".join(json.dumps({"body": one}) for one in texts).encode()))
    one = run(vocab, str(folder), tmp_path / "a", "--format", "text")
    two = run(vocab, str(rows), tmp_path / "b", "--text_column", "body")
    assert (one["documents"], one["sentences"]) == (two["documents"], two["sentences"]) == (4, 48)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_chinese_sentences_are_found(shared, tmp_path):
    path = tmp_path / "zh.jsonl"
    texts = ["我爱北京。你好吗？很好！我们走吧。", "今天下雨。明天不下雨。后天呢？不知道。"]
    path.write_text("\n".join(json.dumps({"text": text}) for text in texts))
    vocab = str(shared / "data" / "vocab" / "bert-base-chinese-vocab.txt")
    meta = run(vocab, str(path), tmp_path / "out")
    assert (meta["documents"], meta["sentences"]) == (2, 8)


BAD = {
    "nothing": (b"\n\n \n", "holds no text"),
    "empty": (b"", "holds no text"),
    "a picture": (b"\x89PNG\r\n\x1a\n\0\0", r"line 1: byte 0x89 at 0 is not UTF-8"),
    "a program": (b"ELF\0\0\1\2\n", "UTF-16|line 1: holds NUL"),
    "NUL further down": (b"a b c\nd e\0f\n", "line 2: holds NUL"),
    "Latin-1": (b"a\n\ncaf\xe9\n", "line 3: byte 0xe9 at 3 is not UTF-8"),
}


@pytest.mark.parametrize("fault", BAD)
def test_what_is_no_text(vocab, tmp_path, fault):
    data, told = BAD[fault]
    path = tmp_path / "bad.txt"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=told) as caught:
        run(vocab, str(path), tmp_path / "out")
    assert "bad.txt" in str(caught.value)
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))


def test_a_line_without_end(vocab, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_bert.tasks.readers.lines.LONGEST", 1 << 20)
    path = tmp_path / "long.txt"
    path.write_bytes(b"a b\n\n" + b"c " * (1 << 20))
    with pytest.raises(ValueError, match=r"long\.txt line 3: longer than 1 MiB"):
        run(vocab, str(path), tmp_path / "out")


def test_a_disk_that_fills_up(vocab, text, tmp_path):
    """The system's limit of a file's size is as good as a full disk: what is written fails half-way."""
    program = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "from keras_bert.__main__ import main; resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500));"
        "sys.exit(main(sys.argv[1:]))"
    )
    output = tmp_path / "out"
    argv = ["prepare", "--vocab", vocab, "--input", text, "--output", str(output), "--workers", "1"]
    done = subprocess.run([sys.executable, "-c", program, *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("keras-bert prepare: ")
    assert "large" in done.stderr.splitlines()[-1]
    assert not output.exists()


KILLED_IN = {
    "the reading": "prepare.check_corpus = die",
    "a shard": "prepare.ShardWriters.__exit__ = die",
    "the end": "prepare.save_tokenizer = die",
}


@pytest.mark.parametrize("moment", KILLED_IN)
def test_a_killed_run_leaves_nothing_that_looks_whole(vocab, text, tmp_path, moment):
    output = tmp_path / "out"
    program = (
        "import os, sys; from keras_bert.tasks import prepare; die = lambda *x, **y: os.kill(os.getpid(), 9);"
        f"{KILLED_IN[moment]}; prepare.main(sys.argv[1:])"
    )
    argv = ["--vocab", vocab, "--input", text, "--output", str(output), "--workers", "1"]
    done = subprocess.run([sys.executable, "-c", program, *argv], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    assert not output.exists()
    (draft,) = tmp_path.glob(".out*")
    with pytest.raises(FileNotFoundError, match=r"has no meta\.json"):
        Records(draft)


COUNTING = """
import os

def counting(job):
    if job == 2:
        raise ValueError("no such job as 2")
    if job == 9:
        os.kill(os.getpid(), 9)
    yield from range(job)
"""


def test_workers_that_fail_or_are_killed(tmp_path, monkeypatch):
    (tmp_path / "made_for_workers.py").write_text(COUNTING)
    monkeypatch.syspath_prepend(tmp_path)
    counting = importlib.import_module("made_for_workers").counting
    with pytest.raises(ValueError, match="no such job as 2"):
        list(run_all(counting, [1, 2]))
    with pytest.raises(ChildProcessError, match="ended with code -9"):
        list(run_all(counting, [1, 9]))
    assert sorted(run_all(counting, [3, 4])) == [0, 0, 1, 1, 2, 2, 3]


# records


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 2**28 - 1), min_size=1, max_size=300), st.integers(0, 300), st.integers(0, 1)
        ),
        min_size=1,
        max_size=5,
    ),
    st.booleans(),
)
def test_records_are_protobufs_own_bytes(rows, nsp):
    ids = np.concatenate([row for row, _, _ in rows]).astype(np.int64) % 200_000
    starts = np.concatenate([[0], np.cumsum([len(row) for row, _, _ in rows])])
    labels = np.array([label for _, _, label in rows]) if nsp else None
    shard = Shard(ids, starts, np.array([first for _, first, _ in rows]), labels)

    def integers(values):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    for index, record in enumerate(serialize(shard)):
        feature = {
            "input_word_ids": integers(ids[starts[index] : starts[index + 1]].tolist()),
            "first_length": integers([rows[index][1]]),
        }
        if nsp:
            feature["next_sentence_label"] = integers([rows[index][2]])
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        assert tf.train.Example.FromString(record) == example
        assert record == example.SerializeToString(deterministic=True)


@pytest.fixture
def made(vocab, text, tmp_path):
    run(vocab, text, tmp_path / "made", "--shards", "3")
    return tmp_path / "made"


def test_the_order_is_endless_and_any_place_is_found_at_once(made):
    data = Records(made)
    size = len(data)
    inputs, labels, names = data.batch(0, 2 * size, seed=5)
    assert sorted(names[:size]) == sorted(names[size:]) == sorted(set(names))
    assert names[:size] != names[size:]
    for place in (0, 1, size - 1, size, 2 * size - 3):
        some, some_labels, some_names = Records(made).batch(place, 3, seed=5)
        if place + 3 <= 2 * size:
            assert some_names == names[place : place + 3]
            np.testing.assert_array_equal(some["input_word_ids"], inputs["input_word_ids"][place : place + 3])
            np.testing.assert_array_equal(some_labels, labels[place : place + 3])
    assert data.batch(0, size, seed=6)[2] != names[:size]
    far = Records(made)
    began = time.monotonic()
    far.batch(10**12 * size + 7, 4, seed=5)
    assert time.monotonic() - began < 5
    for row in range(size):  # what a model reads
        real = inputs["input_mask"][row].sum()
        ids, types = inputs["input_word_ids"][row], inputs["input_type_ids"][row]
        assert (ids[real:] == 0).all()
        assert not types[real:].any()
        assert (np.diff(types[:real]) >= 0).all()
        assert ids[np.flatnonzero(types)[0] - 1] == TOKENS.index("[SEP]")


def test_a_shard_that_is_cut_short_or_gone(made):
    meta = json.loads((made / "meta.json").read_text())
    path = made / meta["shards"][0]["file"]
    data = path.read_bytes()
    for spoilt, told in (
        (data[:-5], "is cut short or damaged"),
        (data[:30], "is cut short or damaged"),
        (data[:20] + bytes([data[20] ^ 1]) + data[21:], "is cut short or damaged"),
        (b"", "holds 0 records, expected"),
    ):
        path.write_bytes(spoilt)
        with pytest.raises(ValueError, match=told) as caught:
            read_shard(str(path), meta["shards"][0]["records"], True)
        assert path.name in str(caught.value)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="meta.json names it"):
        Records(made).batch(0, 100, seed=1)


def test_a_vocabulary_that_is_not_the_records_own(made):
    (made / "vocab.txt").write_text("\n".join([*TOKENS, "new"]) + "\n")
    with pytest.raises(ValueError, match="is not the vocabulary that the records were made with"):
        Records(made)


@pytest.mark.parametrize(
    ("meta", "told"),
    [
        ("{", "expected JSON"),
        ("{}", "is damaged"),
        ('{"format": 2}', "format 2, expected at most 1"),
        (
            '{"format": 1, "shards": [], "vocabulary": "", "nsp": true, "max_length": 9, "seed": 1, "hash": ""}',
            "no records",
        ),
    ],
)
def test_a_meta_that_says_nothing(made, meta, told):
    (made / "meta.json").write_text(meta)
    with pytest.raises(ValueError, match=told):
        Records(made)
    (made / "meta.json").unlink()
    with pytest.raises(FileNotFoundError, match="keras-bert prepare"):
        Records(made)


# the corpus


def pieces(path, **options):
    return list(read_pieces(str(path), CorpusOptions(input=str(path), **options)))


def test_long_documents_come_in_pieces_that_know_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "PIECE", 40)
    path = tmp_path / "a.txt"
    path.write_text("\n".join(["one two three"] * 7) + "\n\n\n \n" + "four\n")
    found = pieces(path)
    assert [(piece.part, len(piece.lines)) for piece in found] == [(0, 3), (1, 3), (2, 1), (0, 1)]
    assert len({piece.document for piece in found[:3]}) == 1
    assert found[3].document != found[0].document


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\n\r")), max_size=30), st.integers(4, 60))
def test_nothing_of_running_text_is_lost(lines, limit):
    before = corpus.PARAGRAPH
    corpus.PARAGRAPH = limit
    try:
        found = list(corpus.paragraphs(line.strip().encode() for line in lines))
    finally:
        corpus.PARAGRAPH = before
    assert (
        "".join(b" ".join(found).decode().split()).encode() == "".join("".join(line.split()) for line in lines).encode()
    )
    for paragraph in found:
        paragraph.decode()
        assert 0 < len(paragraph) <= limit + 1


def test_flags_that_make_no_records(vocab, text, tmp_path):
    for flags, told in (
        (["--max_length", "4"], "--max_length must be at least 5"),
        (["--short_rate", "2"], "--short_rate must lie from 0 to 1"),
        (["--dupe_factor", "0"], "--dupe_factor"),
        (["--workers", "0"], "--workers"),
    ):
        with pytest.raises(ValueError, match=told):
            run(vocab, text, tmp_path / "out", *flags)
    run(vocab, text, tmp_path / "out")
    before = contents(tmp_path / "out")
    with pytest.raises(FileExistsError, match="--overwrite"):
        run(vocab, text, tmp_path / "out", "--seed", "3")
    assert contents(tmp_path / "out") == before
    run(vocab, text, tmp_path / "out", "--seed", "3", "--overwrite")
    assert contents(tmp_path / "out") != before
