"""Readers: what good files give, and what each kind of bad file is told."""

from __future__ import annotations

import csv
import gzip
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert.tasks.data import DataOptions, read_data
from keras_bert.tasks.glue import TASKS
from keras_bert.tasks.readers import Layout, read_rows

TEXT_LABEL = Layout("text", label="label")


@pytest.fixture
def file(tmp_path):
    """Writes bytes to a file of the given name and returns its path."""

    def write(name: str, data: bytes | str) -> str:
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return str(path)

    return write


def columns(path, *layouts, **options):
    rows = read_rows(path, layouts, **options)
    return rows.texts, rows.pairs, rows.labels


def test_tsv_quotes_are_text_and_only_lf_and_crlf_end_a_line(file):
    data = '\ufefftext\tlabel\r\n"A quote never closed\tx\r\nline\u2028sep \x85 \x0c\x1c\ty\r\n\r\nlast "" \ty'
    texts, pairs, labels = columns(file("a.tsv", data), TEXT_LABEL)
    assert texts == ['"A quote never closed', "line\u2028sep \x85 \x0c\x1c", 'last "" ']
    assert (pairs, labels) == (None, ["x", "y", "y"])


def test_tsv_keeps_the_spaces_and_the_empty_cell_at_a_lines_end(file):
    path = file("a.tsv", "label\ttext\n1\ttrailing \u00a0\n0\t\n")
    assert columns(path, TEXT_LABEL) == (["trailing \u00a0", ""], None, ["1", "0"])


def test_lines_are_counted_in_the_file_not_in_the_rows(file):
    assert read_rows(file("a.tsv", "text\tlabel\n\na\tb\n\n\nc\td\n"), [TEXT_LABEL]).lines == [3, 6]


def test_columns_by_number_count_from_0_and_mean_no_header(file):
    path = file("a.tsv", "gj04\t1\t\tThe sailors rode.\ngj04\t0\t*\tThe rode.\textra\n")
    assert columns(path, Layout("3", label="1")) == (["The sailors rode.", "The rode."], None, ["1", "0"])
    assert columns(path, Layout("3", label="1", header=True)) == (["The rode."], None, ["0"])
    path = file("b.tsv", "text\tlabel\ttext\na\tb\tc\n")
    assert columns(path, Layout("2", label="1", header=True)) == (["c"], None, ["b"])


def test_a_row_with_more_columns_than_the_header_is_refused_as_a_tab_in_a_text_makes_it(file):
    path = file("a.tsv", "text\tlabel\none\tpos\t\nhello\tworld\tpos\n")
    with pytest.raises(ValueError, match=r"a.tsv line 3: expected 2 columns, as the header names them, got 3: hello"):
        columns(path, TEXT_LABEL)


def test_the_first_layout_that_the_header_allows_is_taken(file):
    path = file("a.tsv", "label\tcontent\n0\tone\n")
    assert columns(path, Layout("sentence", label="label"), Layout("content", label="label"))[0] == ["one"]


@given(st.lists(st.tuples(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))))
def test_csv_gives_back_what_was_written(tmp_path_factory, rows):
    buffer = io.StringIO()
    csv.writer(buffer).writerows([("text", "label"), ("first", "1"), *rows])
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_bytes(buffer.getvalue().encode())
    texts, _, labels = columns(path, TEXT_LABEL)
    assert list(zip(texts, labels, strict=True)) == [("first", "1"), *rows]


def test_csv_keeps_quoted_line_ends_and_tells_the_line_a_row_ends_on(file):
    path = file("a.csv", 'text,label\r\n"two\nlines, ""quoted""",x\r\nplain,y\r\n')
    rows = read_rows(path, [TEXT_LABEL])
    assert (rows.texts, rows.lines) == (['two\nlines, "quoted"', "plain"], [3, 4])


def test_csv_takes_a_text_of_a_megabyte(file):
    assert len(columns(file("a.csv", "text,label\n" + "x" * 2**20 + ",1\n"), TEXT_LABEL)[0][0]) == 2**20


def test_json_labels_are_kept_as_written(file):
    lines = [{"text": "a\nb", "label": 1}, {"text": "c", "label": "x"}, {"text": "d", "label": True}]
    path = file("a.jsonl", "\n".join(map(json.dumps, lines)) + '\n{"text": "e", "label": 1.50}\n')
    assert columns(path, TEXT_LABEL) == (["a\nb", "c", "d", "e"], None, ["1", "x", "true", "1.50"])


def test_gzip_is_read_as_the_file_inside(file):
    path = file("a.tsv.gz", gzip.compress(b"text\tlabel\na\tb\n"))
    assert columns(path, TEXT_LABEL) == (["a"], None, ["b"])


def test_a_folder_or_a_glob_is_its_files_in_order_and_a_row_knows_its_own(file, tmp_path):
    one, two = file("1.tsv", "text\tlabel\na\tx\n"), file("2.csv", "label,text\ny,b\n\ny,c\n")
    file(".hidden.tsv", "no")
    for source in (str(tmp_path), str(tmp_path / "[12].*"), str(tmp_path / "**" / "*.[tc]sv")):
        rows = read_rows(source, [TEXT_LABEL])
        assert (rows.texts, rows.labels) == (["a", "b", "c"], ["x", "y", "y"])
        assert [rows.where(index) for index in range(3)] == [f"{one} line 2", f"{two} line 2", f"{two} line 4"]
    odd = file("3[a].tsv", "text\tlabel\nd\tx\n")
    assert read_rows(odd, [TEXT_LABEL]).texts == ["d"]
    with pytest.raises(FileNotFoundError, match=r"4\*: no such file"):
        read_rows(str(tmp_path / "4*"), [TEXT_LABEL])
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="the folder holds no files"):
        read_rows(str(tmp_path / "empty"), [TEXT_LABEL])


def test_pairs(file):
    path = file("a.csv", "premise,hypothesis,gold\na,b,x\n,,y\n")
    layout = Layout("premise", "hypothesis", "gold")
    assert columns(path, layout) == (["a", ""], ["b", ""], ["x", "y"])


def test_nul_is_kept_for_the_tokenizer_to_drop(file):
    assert columns(file("a.tsv", "text\tlabel\na\0b\tx\n"), TEXT_LABEL)[0] == ["a\0b"]
    assert columns(file("a.csv", "text,label\na\0b,x\n"), TEXT_LABEL)[0] == ["a\0b"]


def test_bytes_that_are_not_utf8_stop_or_are_replaced(file):
    path = file("a.tsv", b"text\tlabel\ncaf\xe9\tx\n")
    with pytest.raises(ValueError, match=r"a\.tsv line 2: byte 0xe9 at 3 is not UTF-8; .*--invalid_utf8 replace"):
        columns(path, TEXT_LABEL)
    assert columns(path, TEXT_LABEL, invalid="replace")[0] == ["caf\ufffd"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.tsv", "", r"a\.tsv holds no rows"),
        ("a.tsv", "text\tlabel\n", r"a\.tsv holds no rows"),
        ("a.csv", "text,label\n\n", r"a\.csv holds no rows"),
        ("a.jsonl", "\n", r"a\.jsonl holds no rows"),
        ("a.tsv", "sentence\tlabel\na\tb\n", r"expected the columns text, label; its first line has 2: sentence \| la"),
        ("a.tsv", "text\tlabel\ttext\na\tb\tc\n", r"a\.tsv: 'text' names more than one column: text \| label \| text"),
        ("a.csv", "text\tlabel\na\tb\n", r"its first line has 1: text\\tlabel\. Name them with --text_column"),
        ("a.tsv", "text\tlabel\na\tb\nc\n", r"a\.tsv line 3: expected at least 2 columns, got 1: c;"),
        ("a.csv", 'text,label\na,b\n"c,d\n', r"a\.csv line 3: unexpected end of data"),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text": "a"}',
            r"line 2: expected the keys text, label; .* has text\.",
        ),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": ', r"line 2: expected JSON, Expecting value at character 9"),
        ("a.jsonl", "[1, 2]\n", r"line 1: expected an object .* got \[1, 2\]"),
        ("a.jsonl", '{"text": 3, "label": 1}', r"line 1: 'text' must be a string, got"),
        (
            "a.jsonl",
            '{"text": "a", "label": null}',
            r"line 1: 'label' must be a string, a number or a boolean, got null",
        ),
        ("a.jsonl", '{"text": "a", "label": ' + "[" * 10**5, r"line 1: expected a plain object, got brackets nested"),
        ("a.jsonl", '{"text": "\\ud800", "label": 1}', r"line 1: '\\ud800' is half of a surrogate pair"),
        ("a.jsonl", '{"text": "a", "label": "\\udcff"}', r"line 1: '\\udcff' is half of a surrogate pair"),
        ("a.tsv", "text\tlabel\na\tb\n".encode("utf-16"), r"expected UTF-8, got UTF-16"),
        ("a.tsv", ("text\tlabel\na\tb\n" * 9).encode("utf-16-be"), r"expected UTF-8, got UTF-16"),
        ("a.tsv", "text\tlabel\ra\tb\rc\td\r", r"lines end in CR alone"),
        ("a.tsv.gz", gzip.compress(b"text\tlabel\na\tb\n" * 99, mtime=0)[:-9], r"a damaged gzip file"),
        ("a.tsv.gz", b"text\tlabel\n", r"a damaged gzip file"),
        ("a.parquet", "x", r"cannot tell the format by the name; expected one of \.tsv"),
    ],
)
def test_a_bad_file_gets_one_line_that_says_where_and_what(file, name, data, message):
    with pytest.raises(ValueError, match=message) as error:
        columns(file(name, data), TEXT_LABEL)
    assert "\n" not in str(error.value)
    assert name in str(error.value)


def test_a_number_beyond_the_columns_says_how_many_there_are(file):
    with pytest.raises(ValueError, match=r"line 1: expected the columns 5, counted from 0; the line has 2 \(0 to 1\)"):
        columns(file("a.tsv", "a\tb\n"), Layout("5"))


def test_a_missing_file_is_named():
    with pytest.raises(FileNotFoundError, match=r"nowhere\.tsv"):
        columns("nowhere.tsv", TEXT_LABEL)


SIZES = {  # rows as INDEX.md counts them, and the share of the label "1" or of the first by hand
    "cola": (8551, 1043),
    "sst2": (67349, 872),
    "mrpc": (4076, 1725),
    "stsb": (5749, 1500),
    "rte": (2490, 277),
    "wnli": (635, 71),
}


@pytest.mark.parametrize("name", SIZES)
def test_task_finds_and_reads_its_files(shared, name):
    task = TASKS[name]
    folder = str(shared / "data" / name)
    train, evals = task.find_train(folder), task.find_evals(folder)
    rows = [task.read(source) for source in (train, *evals)]
    assert tuple(map(len, rows)) == SIZES[name]
    for part in rows:
        assert (part.pairs is not None) == task.pair
        assert all(part.texts)
        if task.labels is None:
            assert all(0 <= float(label) <= 5 for label in part.labels)
        else:
            assert set(part.labels) == set(task.labels)


@pytest.mark.parametrize(
    ("name", "file_name", "size"),
    [("qnli", "dev.tsv", 5463), ("mnli", "dev_matched_part.tsv", 73), ("qqp", "dev_part.tsv", 39)],
)
def test_task_reads_a_dev_file(shared, name, file_name, size):
    rows = TASKS[name].read(str(shared / "data" / name / file_name))
    assert len(rows) == size
    assert set(rows.labels) == set(TASKS[name].labels)


def test_a_folder_without_a_train_file_lists_what_it_holds(shared):
    with pytest.raises(
        ValueError, match=r"no train file of mnli: expected train\.tsv, found dev_matched_part\.tsv, dev_m"
    ):
        TASKS["mnli"].find_train(str(shared / "data" / "mnli"))


def test_a_train_file_beside_a_folder_that_has_none(shared):
    folder = str(shared / "data" / "mnli")
    data = read_data(DataOptions(task="mnli", data=folder, train=f"{folder}/dev_matched_part.tsv"), scores=False)
    assert {name: len(rows) for name, rows in data.parts.items()} == {"train": 73, "eval": 73, "eval_mismatched": 73}


GLUE_HEADERS = {  # the first lines of GLUE's own files
    "sst2": ("sentence\tlabel", "a fine film \t1", ("a fine film ", None, "1")),
    "stsb": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "0\tmain-captions\tMSRvid\t2012test\t0001\tnone\tnone\tA plane.\tAn air plane.\t5.000",
        ("A plane.", "An air plane.", "5.000"),
    ),
    "rte": ("index\tsentence1\tsentence2\tlabel", "0\ta\tb\tnot_entailment", ("a", "b", "not_entailment")),
    "mnli": (
        "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
        "sentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label",
        "0\t31\t31n\tgov\t( a )\t( b )\t(A)\t(B)\ta\tb\tneutral\tneutral",
        ("a", "b", "neutral"),
    ),
    "qqp": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "1\t2\t3\ta\tb\t0", ("a", "b", "0")),
    "cola": ("gj04\t1\t\tOur friends.", "gj04\t0\t*\tFriends our.", ("Friends our.", None, "0")),
}


@pytest.mark.parametrize("name", GLUE_HEADERS)
def test_task_reads_glues_own_layout(file, name):
    header, line, want = GLUE_HEADERS[name]
    rows = TASKS[name].read(file("train.tsv", f"{header}\n{line}\n"))
    assert (rows.texts[-1], rows.pairs[-1] if rows.pairs else None, rows.labels[-1]) == want


@pytest.fixture
def tfds_rows():
    """TFDS gives three made-up examples of whatever set is asked for: its features are real, no file is read."""
    import tensorflow_datasets as tfds

    def examples(builder, *_, **__):
        import tensorflow as tf

        rows = {
            "sentence1": ["eins", "zwei", "café"],
            "sentence2": ["a", "b", "c"],
            "label": [0, 1, 1],
            "idx": [0, 1, 2],
        }
        return tf.data.Dataset.from_tensor_slices(rows)

    with tfds.testing.mock_data(as_dataset_fn=examples):
        yield


def test_tfds_names_give_class_names(tfds_rows):
    rows = read_rows("tfds://glue/mrpc:train", [TEXT_LABEL, Layout("sentence1", "sentence2", "label")])
    assert (rows.texts, rows.pairs) == (["eins", "zwei", "café"], ["a", "b", "c"])
    assert (rows.labels, rows.lines) == (["not_equivalent", "equivalent", "equivalent"], [1, 2, 3])
    assert TASKS["mrpc"].read("tfds://glue/mrpc:train[:10%]").labels == ["0", "1", "1"]
    assert read_rows("tfds://glue/mrpc:train", [Layout("sentence1", label="idx")]).labels == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("tfds://nosuchset:train", "cannot load it"),
        ("tfds://glue/mrpc", r"expected tfds://name:split"),
        ("tfds://glue/mrpc:train", r"expected the features text, label; it has .*sentence1"),
    ],
)
def test_tfds_errors_are_one_line(tfds_rows, source, message):
    with pytest.raises(ValueError, match=message) as error:
        read_rows(source, [TEXT_LABEL])
    assert "\n" not in str(error.value)
