"""The same as test_transformers, against what was recorded of transformers: in every run."""

from __future__ import annotations

import json

import numpy as np
import pytest
import reference_checkpoints as recorded
import small
from safetensors import safe_open
from safetensors.numpy import save_file

import keras_bert as kb
import reference

HEADS = {"encoder": None, "pretrainer": "pretrainer", "classifier": "classifier", "regressor": "regressor"}


@pytest.fixture(scope="module")
def records() -> dict[str, np.ndarray]:
    with np.load(recorded.FILE) as found:
        return dict(found)


@pytest.mark.parametrize("kind", HEADS)
def test_what_transformers_wrote_loads_and_answers_as_it_did(tmp_path, records, kind):
    told = json.loads(str(records[f"{kind}/told"]))
    shapes = {name: tuple(shape) for name, shape in told["shapes"].items()}
    (tmp_path / "config.json").write_text(json.dumps(told["config"]))
    save_file(reference.weights_for(shapes), tmp_path / "model.safetensors")
    kb.Tokenizer(small.TOKENS).save(tmp_path)
    bert = kb.load(tmp_path)
    assert (bert.head, bert.fresh) == (HEADS[kind], ())
    assert bert.labels == (small.LABELS if kind == "classifier" else None)
    for name, value in answers(bert, kind).items():
        expected = records[f"{kind}/{name}"]
        if value.ndim == 3:
            value, expected = (array[recorded.BATCH["input_mask"] > 0] for array in (value, expected))
        np.testing.assert_allclose(value, expected, atol=1e-5)


def answers(bert: kb.Bert, kind: str) -> dict[str, np.ndarray]:
    inputs = dict(recorded.BATCH)
    if kind == "pretrainer":
        inputs["masked_lm_positions"] = np.tile(np.arange(7, dtype=np.int32), (3, 1))
    found = bert.model(inputs)
    if kind == "encoder":
        found = (found["sequence_output"], found["pooled_output"])
    elif kind == "pretrainer":
        found = (found["mlm_logits"], found["nsp_logits"])
    else:
        found = (np.reshape(found, (3, -1)),)
    return dict(zip(recorded.ANSWERS[kind], map(np.array, found), strict=True))


@pytest.mark.parametrize("kind", HEADS)
def test_what_is_saved_has_transformers_names_shapes_and_config(tmp_path, records, kind):
    told = json.loads(str(records[f"{kind}/told"]))
    changes = {key: told["config"][key] for key in ("hidden_act", "layer_norm_eps", "type_vocab_size")}
    small.saved(tmp_path, HEADS[kind], **changes)
    with safe_open(tmp_path / "model.safetensors", "np") as file:
        found = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118  (no mapping)
        assert file.metadata() == {"format": "pt"}
    assert found == told["shapes"]
    config = json.loads((tmp_path / "config.json").read_text())
    for key in ("architectures", "model_type", "id2label", "label2id", *reference.SMALL):
        assert config.get(key) == told["config"].get(key), key
