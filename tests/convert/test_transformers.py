"""transformers loads what is saved here with nothing missing and nothing left over, and the other way round."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import small
from safetensors.numpy import load_file, save_file

import keras_bert as kb
import reference
from keras_bert.checkpoint import collect
from keras_bert.convert.transformers import SAFE, canonical, check_tied
from keras_bert.safetensors_file import INDEX

CLASSES = {
    None: "AutoModel",
    "classifier": "AutoModelForSequenceClassification",
    "regressor": "AutoModelForSequenceClassification",
    "pretrainer": "AutoModelForPreTraining",
}
BATCH = reference.batch_for(reference.SMALL)
POSITIONS = np.array([[0, 2], [1, 1], [3, 0]], np.int32)


def our_answers(bert: kb.Bert) -> dict[str, np.ndarray]:
    """Under transformers' names for them."""
    if bert.head == "pretrainer":
        found = bert.model({**BATCH, "masked_lm_positions": POSITIONS})
        return {"prediction_logits": found["mlm_logits"], "seq_relationship_logits": found["nsp_logits"]}
    found = bert.model(BATCH)
    if bert.head == "classifier":
        return {"logits": found}
    if bert.head == "regressor":
        return {"logits": np.asarray(found)[:, None]}
    return {"last_hidden_state": found["sequence_output"], "pooler_output": found["pooled_output"]}


def their_answers(model, names) -> dict[str, np.ndarray]:
    found = {name: getattr(model(**reference.torch_inputs(BATCH)), name).detach().numpy() for name in names}
    if "prediction_logits" in found:
        found["prediction_logits"] = np.take_along_axis(found["prediction_logits"], POSITIONS[..., None], axis=1)
    return found


def check_answers(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> None:
    for name, value in ours.items():
        value, expected = np.array(value), theirs[name]
        if name == "last_hidden_state":
            value, expected = (array[BATCH["input_mask"] > 0] for array in (value, expected))
        np.testing.assert_allclose(value, expected, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("head", CLASSES)
def test_transformers_loads_what_is_saved_whole_and_answers_the_same(tmp_path, peers, head):
    bert = small.saved(tmp_path / "model", head)
    kind = getattr(peers.transformers, CLASSES[head])
    model, told = kind.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert {key: value for key, value in told.items() if value} == {}
    ours = our_answers(bert)
    check_answers(ours, their_answers(model.eval(), ours))
    assert model.config.architectures == [type(model).__name__]
    if head == "classifier":
        assert model.config.id2label == dict(enumerate(small.LABELS))
        assert model.config.label2id == {label: index for index, label in enumerate(small.LABELS)}
        assert model.config.problem_type == "single_label_classification"
    if head == "regressor":
        assert (model.config.num_labels, model.config.problem_type) == (1, "regression")


@pytest.mark.parametrize("head", CLASSES)
@pytest.mark.parametrize("shard_size", ["5GB", "4KB"])
def test_what_transformers_saves_loads_and_answers_the_same(tmp_path, peers, head, shard_size):
    transformers = peers.transformers
    labels = {None: 2, "pretrainer": 2, "classifier": 4, "regressor": 1}[head]
    config = transformers.BertConfig(**reference.SMALL, num_labels=labels, hidden_act="gelu_new", layer_norm_eps=1e-6)
    kinds = {None: "BertModel", "pretrainer": "BertForPreTraining"}
    model = getattr(transformers, kinds.get(head, "BertForSequenceClassification"))(config).eval()
    for weight in model.parameters():
        weight.data.normal_(std=0.3)
    model.save_pretrained(tmp_path, max_shard_size=shard_size)
    assert (tmp_path / INDEX).exists() == (shard_size == "4KB")
    kb.Tokenizer(small.TOKENS).save(tmp_path)
    bert = kb.load(tmp_path)
    assert (bert.head, bert.fresh) == (head, ())
    assert bert.labels == (tuple(f"LABEL_{i}" for i in range(4)) if head == "classifier" else None)
    ours = our_answers(bert)
    check_answers(ours, their_answers(model, ours))


@pytest.mark.parametrize("lower_case", [True, False])
def test_their_tokenizer_gives_the_same_ids_and_the_other_way_round(tmp_path, peers, lower_case):
    tokenizer = kb.Tokenizer([*small.TOKENS, "The", "é", "e"], lower_case=lower_case)
    kb.save(kb.Bert(small.model(None, vocab_size=30), tokenizer, max_length=9), tmp_path / "ours")
    theirs = peers.transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    texts = [*small.TEXTS, "The CAT,é ran!!", ""]
    found = bert_ids(kb.load(tmp_path / "ours"), texts)
    assert found == theirs(texts, truncation=True, max_length=9)["input_ids"]
    theirs.save_pretrained(tmp_path / "theirs")  # since transformers 5: tokenizer.json, and no vocab.txt
    for name in ("config.json", "model.safetensors"):
        shutil.copy(tmp_path / "ours" / name, tmp_path / "theirs" / name)
    again = kb.load(tmp_path / "theirs")
    assert again.tokenizer.get_config() == tokenizer.get_config()
    assert bert_ids(again, texts) == found


def bert_ids(bert: kb.Bert, texts: list[str]) -> list[list[int]]:
    bert = kb.Bert(bert.model, bert.tokenizer, max_length=9)
    inputs = bert.preprocessor(texts)
    return [list(map(int, row[:n])) for row, n in zip(inputs["input_word_ids"], np.sum(inputs["input_mask"], 1))]


def test_the_real_checkpoint_goes_to_transformers_and_back(minilm, peers, tmp_path):
    bert = kb.load(minilm, head="classifier", labels=["a", "b"])
    kb.save(bert, tmp_path / "model")
    kind = peers.transformers.AutoModelForSequenceClassification
    model, told = kind.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert {key: value for key, value in told.items() if value} == {}
    tokenizer = peers.transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    encoded = tokenizer(reference.SENTENCES, padding=True, return_tensors="pt")
    theirs = peers.torch.softmax(model.eval()(**encoded).logits, -1).detach().numpy()
    ours = [list(row["probabilities"].values()) for row in bert.predict(reference.SENTENCES)]
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    model.save_pretrained(tmp_path / "again")
    tokenizer.save_pretrained(tmp_path / "again")
    weights = collect(bert.model)
    for name, value in collect(kb.load(tmp_path / "again").model).items():
        np.testing.assert_array_equal(value, weights[name])


def test_the_way_out_of_a_pickle_works(shared, peers, tmp_path):
    for path in (shared / "data" / "checkpoints" / "hf_xsmall").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is a pickle.* runs? any code") as caught:
        kb.load(tmp_path)
    assert SAFE in str(caught.value)
    subprocess.run([sys.executable, "-c", SAFE], cwd=tmp_path, check=True, capture_output=True)
    bert = kb.load(tmp_path)
    assert (bert.head, bert.config.hidden_size) == (None, 20)
    model = peers.transformers.AutoModel.from_pretrained(tmp_path, use_safetensors=True).eval()
    batch = reference.batch_for(bert.config.to_dict())
    found = model(**reference.torch_inputs(batch)).pooler_output.detach().numpy()
    np.testing.assert_allclose(bert.encoder(batch)["pooled_output"], found, atol=1e-5)


# From here on without transformers.


def old_names(weights: dict[str, np.ndarray], prefix: bool) -> dict[str, np.ndarray]:
    """As the first converters named them."""
    found = {}
    for name, value in weights.items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        found[name if prefix else name.removeprefix("bert.")] = value
    start = "bert." if prefix else ""
    return found | {
        f"{start}embeddings.position_ids": np.arange(9)[None],
        "cls.predictions.decoder.weight": weights["bert.embeddings.word_embeddings.weight"],
        "cls.predictions.decoder.bias": weights["cls.predictions.bias"],
    }


def rewrite(folder, change) -> None:
    """Changes the weights of a saved directory, given under the names in the file."""
    weights = dict(load_file(folder / "model.safetensors"))
    weights = change(weights) or weights
    save_file({name: np.ascontiguousarray(value) for name, value in weights.items()}, folder / "model.safetensors")


def reconfigure(folder, **keys) -> None:
    path = folder / "config.json"
    found = json.loads(path.read_text()) | keys
    path.write_text(json.dumps({key: value for key, value in found.items() if value != "absent"}))


@pytest.mark.parametrize("prefix", [True, False])
def test_old_names_are_understood(tmp_path, prefix):
    bert = small.saved(tmp_path / "model", "pretrainer")
    (tmp_path / "model" / "keras_bert.json").unlink()
    rewrite(tmp_path / "model", lambda weights: old_names(weights, prefix))
    found = kb.load(tmp_path / "model")
    assert found.head == "pretrainer"
    weights = collect(bert.model)
    for name, value in collect(found.model).items():
        np.testing.assert_array_equal(value, weights[name])


def test_two_names_of_one_weight_and_untied_copies_are_refused():
    one = np.ones(2, np.float32)
    with pytest.raises(ValueError, match=r"two of its names mean bert\.pooler\.dense\.bias"):
        canonical({"pooler.dense.bias": one, "bert.pooler.dense.bias": one}, "here")
    words = "bert.embeddings.word_embeddings.weight"
    untied = canonical({words: one, "cls.predictions.decoder.weight": one + 1}, "here")
    with pytest.raises(ValueError, match="decoder.weight differs from bert.embeddings"):
        check_tied(untied, "here")
    assert set(canonical({words: one, "cls.predictions.decoder.bias": one}, "here")) == {words, "cls.predictions.bias"}


def test_the_body_under_an_untied_masked_lm_loads_by_choice(tmp_path):
    bert = small.saved(tmp_path / "model", "pretrainer")
    words = "bert.embeddings.word_embeddings.weight"
    rewrite(tmp_path / "model", lambda w: w | {"cls.predictions.decoder.weight": w[words] + 1})
    with pytest.raises(ValueError, match=r"decoder\.weight differs from .*; give head='encoder'"):
        kb.load(tmp_path / "model")
    for head, labels in (("encoder", None), ("classifier", ["a", "b"])):
        found = collect(kb.load(tmp_path / "model", head=head, labels=labels).encoder)
        np.testing.assert_array_equal(found[words], collect(bert.model)[words])


HEAD_CASES = [
    ("classifier", {}, "classifier"),
    ("regressor", {}, "regressor"),
    ("regressor", {"problem_type": "absent", "id2label": "absent"}, "regressor"),
    ("pretrainer", {"architectures": ["BertForMaskedLM"]}, "pretrainer"),  # as bert-base-uncased is published
    ("classifier", {"architectures": "absent", "id2label": "absent"}, "classifier"),
    (None, {"architectures": "absent"}, None),
]


@pytest.mark.parametrize("head, keys, expected", HEAD_CASES)
def test_the_head_is_found_by_architecture_and_names(tmp_path, head, keys, expected):
    small.saved(tmp_path / "model", head)
    (tmp_path / "model" / "keras_bert.json").unlink()
    reconfigure(tmp_path / "model", **keys)
    bert = kb.load(tmp_path / "model")
    assert bert.head == expected
    if expected == "classifier":
        assert bert.labels == (small.LABELS if "id2label" not in keys else ("LABEL_0", "LABEL_1", "LABEL_2"))


def test_who_may_read_one_file_of_a_checkpoint_may_read_them_all(tmp_path):
    small.saved(tmp_path / "model", "classifier")
    assert len({path.stat().st_mode for path in (tmp_path / "model").iterdir()}) == 1


OTHER_HEADS = [
    ({"architectures": ["BertForTokenClassification"]}, "BertForTokenClassification"),
    ({"architectures": ["BertForMultipleChoice"]}, "BertForMultipleChoice"),
    ({"problem_type": "multi_label_classification"}, "multi_label_classification and 3 labels"),
    ({"problem_type": "regression"}, "regression and 3 labels"),
]


@pytest.mark.parametrize("keys, told", OTHER_HEADS)
def test_a_head_that_would_answer_otherwise_is_refused_but_its_body_loads(tmp_path, keys, told):
    small.saved(tmp_path / "model", "classifier")
    (tmp_path / "model" / "keras_bert.json").unlink()
    reconfigure(tmp_path / "model", **keys)
    with pytest.raises(ValueError, match=f"the head is .*{told}.*head='encoder'"):
        kb.load(tmp_path / "model")
    assert kb.load(tmp_path / "model", head="encoder").fresh == ()
    if keys.get("problem_type") == "multi_label_classification":
        with pytest.raises(ValueError, match="trained for several labels a text.*--fresh_head"):
            kb.load(tmp_path / "model", head="classifier")
    if "architectures" in keys:
        fresh = kb.load(tmp_path / "model", head="classifier", labels=["a", "b"])
        assert fresh.fresh == ("classifier.weight", "classifier.bias")


def test_a_masked_lm_without_pooler_loads_by_choice_and_says_what_is_fresh(tmp_path):
    small.saved(tmp_path / "model", "pretrainer")
    (tmp_path / "model" / "keras_bert.json").unlink()
    gone = ("bert.pooler", "cls.seq_relationship")
    rewrite(tmp_path / "model", lambda weights: {n: v for n, v in weights.items() if not n.startswith(gone)})
    with pytest.raises(ValueError, match=r"4 missing \(bert\.pooler\.dense\.weight.*head='encoder'"):
        kb.load(tmp_path / "model")
    pooler = ("bert.pooler.dense.weight", "bert.pooler.dense.bias")
    assert kb.load(tmp_path / "model", head="encoder").fresh == pooler
    expected = (*pooler, "cls.seq_relationship.weight", "cls.seq_relationship.bias")
    assert kb.load(tmp_path / "model", head="pretrainer").fresh == expected


@pytest.mark.parametrize("lost", ["classifier.weight", "classifier.bias"])
@pytest.mark.parametrize("info", [True, False])
def test_part_of_a_head_is_never_made_up(tmp_path, lost, info):
    small.saved(tmp_path / "model", "classifier")
    if not info:
        (tmp_path / "model" / "keras_bert.json").unlink()
    rewrite(tmp_path / "model", lambda weights: weights.pop(lost) is None or weights)
    for arguments in ({}, {"head": "classifier"}, {"head": "classifier", "labels": small.LABELS}):
        with pytest.raises(ValueError, match=rf"1 missing \({lost}\)"):
            kb.load(tmp_path / "model", **arguments)


WRONG = {
    "config is no JSON": (lambda f: (f / "config.json").write_text("{"), r"config\.json: expected JSON"),
    "config is a list": (lambda f: (f / "config.json").write_text("[]"), "expected a JSON object"),
    "config of another model": (lambda f: reconfigure(f, model_type="roberta"), "model_type is 'roberta'"),
    "relative positions": (lambda f: reconfigure(f, position_embedding_type="relative_key"), "position_embedding_type"),
    "pruned heads": (lambda f: reconfigure(f, pruned_heads={"0": [1]}), "pruned_heads"),
    "config with fewer layers": (lambda f: reconfigure(f, num_hidden_layers=1), r"16 unused \(bert\.encoder\.layer\.1"),
    "config with more layers": (lambda f: reconfigure(f, num_hidden_layers=3), r"16 missing \(bert\.encoder\.layer\.2"),
    "config with other widths": (lambda f: reconfigure(f, intermediate_size=7), r"expected \[7, 12\] from the config"),
    "config with layers without end": (lambda f: reconfigure(f, num_hidden_layers=10**9), "the weights have 2"),
    "config with words without end": (lambda f: reconfigure(f, vocab_size=10**13), r"\[10000000000000, 12\] from"),
    "config with positions without end": (
        lambda f: reconfigure(f, max_position_embeddings=10**13),
        r"\[10000000000000, 12\] from",
    ),
    "config with types without end": (
        lambda f: reconfigure(f, type_vocab_size=10**13),
        r"\[10000000000000, 12\] from",
    ),
    "config with width without end": (lambda f: reconfigure(f, intermediate_size=10**13), r"\[10000000000000, 12\]"),
    "config with fewer words": (lambda f: reconfigure(f, vocab_size=9), "23 tokens, expected at most 9"),
    "labels without units": (
        lambda f: reconfigure(f, id2label={"0": "a", "2": "b", "3": "c"}),
        r"id2label numbers \[0, 2, 3\]",
    ),
    "labels that are one": (
        lambda f: reconfigure(f, id2label={"0": "a", "1": "a", "2": "c"}),
        "expected a name of its own for each unit",
    ),
    "labels of keras_bert.json that are no texts": (
        lambda f: (f / "keras_bert.json").write_text('{"labels": [1, 2, 3]}'),
        r"labels is \[1, 2, 3\], expected texts",
    ),
    "architectures that are a name": (
        lambda f: reconfigure(f, architectures="BertModel"),
        "architectures is 'BertModel', expected a list",
    ),
    "a dropout that is a text": (lambda f: reconfigure(f, classifier_dropout="0.1"), "classifier_dropout is '0.1'"),
    "a dropout of all": (lambda f: reconfigure(f, classifier_dropout=1), "classifier_dropout is 1, expected"),
    "a config as deep as a well": (lambda f: (f / "config.json").write_text("[" * 10**5), "expected JSON"),
    "labels that are a list": (lambda f: reconfigure(f, id2label=["a"]), "expected numbers to labels"),
    "a weight is NaN": (
        lambda f: rewrite(f, lambda w: w.update({"classifier.bias": np.full(3, np.nan, "f")})),
        r"classifier\.bias holds 3 values that are NaN",
    ),
    "a stranger's weight": (
        lambda f: rewrite(f, lambda w: w.update({"adapter.w": np.ones(1, "f")})),
        r"1 unused \(adapter\.w\)",
    ),
    "weights cut short": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-5]),
        "was cut short",
    ),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "has no weights"),
    "weights of another library": (
        lambda f: (f / "model.safetensors").rename(f / "tf_model.h5"),
        r"tf_model\.h5: not read",
    ),
    "no config": (lambda f: (f / "config.json").unlink(), "holds no checkpoint"),
    "no vocabulary": (lambda f: (f / "vocab.txt").unlink(), "has no vocabulary"),
    "a vocabulary without [MASK]": (
        lambda f: (f / "vocab.txt").write_text("\n".join(t for t in small.TOKENS if t != "[MASK]")),
        r"vocab\.txt.*\[MASK\]",
    ),
    "another tokenizer": (
        lambda f: (f / "tokenizer_config.json").write_text('{"tokenizer_class": "RobertaTokenizer"}'),
        "tokenizer_class is 'RobertaTokenizer'",
    ),
    "a later format": (lambda f: (f / "keras_bert.json").write_text('{"format": 2}'), "format 2, expected at most 1"),
    "a length in words": (lambda f: (f / "keras_bert.json").write_text('{"max_length": "9"}'), "max_length is '9'"),
    "a length below 2": (
        lambda f: (f / "keras_bert.json").write_text('{"max_length": -1}'),
        "max_length is -1, expected",
    ),
    "a length beyond the positions": (
        lambda f: (f / "keras_bert.json").write_text('{"max_length": 10}'),
        "max_length is 10, expected from 2 to 9",
    ),
    "an unknown head": (
        lambda f: (f / "keras_bert.json").write_text('{"head": "tagger"}'),
        "the head 'tagger', expected",
    ),
}


@pytest.mark.parametrize("fault", WRONG)
def test_what_does_not_fit_is_told_in_one_line(tmp_path, fault):
    spoil, told = WRONG[fault]
    small.saved(tmp_path / "model", "classifier")
    spoil(tmp_path / "model")
    with pytest.raises((ValueError, FileNotFoundError), match=told) as caught:
        kb.load(tmp_path / "model")
    assert str(tmp_path / "model") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_other_float_types_are_read_as_float32(tmp_path, kind):
    bert = small.saved(tmp_path / "model")
    rewrite(tmp_path / "model", lambda weights: {name: value.astype(kind) for name, value in weights.items()})
    weights = collect(bert.model)
    for name, value in collect(kb.load(tmp_path / "model").model).items():
        np.testing.assert_array_equal(value, weights[name].astype(kind).astype(np.float32))
