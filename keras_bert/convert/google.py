"""google-research/bert's own format: a TF1 checkpoint by variable names, bert_config.json, vocab.txt.

`hidden_act: gelu` is taken at its word, the exact gelu, which google-research/bert computed when the first models were
published and which transformers computes for them; from February 2019 on Google's code computes the tanh approximation
under the same name: for a model trained with that, give `load(…, hidden_act="gelu_new")`.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.checkpoint import Source, Weights, some
from keras_bert.config import Config
from keras_bert.convert.table import Row, dense, expand, from_canonical, norm, to_canonical
from keras_bert.convert.tokenizer_files import read_tokenizer
from keras_bert.convert.transformers import read_info
from keras_bert.text.directory import read_object

CONFIG, PREFIX = "bert_config.json", "bert_model.ckpt"
OURS = "keras_bert_hidden_act"  # in bert_config.json: our name of an activation that Google's code has one name for
NOT_WEIGHTS = re.compile(r"(^|/)(global_step|adam_[mv]|Adam(_1)?|beta[12]_power|signal_early_stopping/STOP)$")
GOOGLE_KEYS = [
    "attention_probs_dropout_prob",
    "hidden_act",
    "hidden_dropout_prob",
    "hidden_size",
    "initializer_range",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "type_vocab_size",
    "vocab_size",
]
log = logging.getLogger("keras_bert")


def output(canonical: str, theirs: str) -> list[Row]:
    return [Row(f"{canonical}.weight", f"{theirs}output_weights"), Row(f"{canonical}.bias", f"{theirs}output_bias")]


BLOCK, THEIR_BLOCK = "bert.encoder.layer.{i}", "bert/encoder/layer_{i}"
ROWS = [
    Row("bert.embeddings.word_embeddings.weight", "bert/embeddings/word_embeddings"),
    Row("bert.embeddings.position_embeddings.weight", "bert/embeddings/position_embeddings"),
    Row("bert.embeddings.token_type_embeddings.weight", "bert/embeddings/token_type_embeddings"),
    *norm("bert.embeddings.LayerNorm", "bert/embeddings/LayerNorm"),
    *dense(f"{BLOCK}.attention.self.query", f"{THEIR_BLOCK}/attention/self/query"),
    *dense(f"{BLOCK}.attention.self.key", f"{THEIR_BLOCK}/attention/self/key"),
    *dense(f"{BLOCK}.attention.self.value", f"{THEIR_BLOCK}/attention/self/value"),
    *dense(f"{BLOCK}.attention.output.dense", f"{THEIR_BLOCK}/attention/output/dense"),
    *norm(f"{BLOCK}.attention.output.LayerNorm", f"{THEIR_BLOCK}/attention/output/LayerNorm"),
    *dense(f"{BLOCK}.intermediate.dense", f"{THEIR_BLOCK}/intermediate/dense"),
    *dense(f"{BLOCK}.output.dense", f"{THEIR_BLOCK}/output/dense"),
    *norm(f"{BLOCK}.output.LayerNorm", f"{THEIR_BLOCK}/output/LayerNorm"),
    *dense("bert.pooler.dense", "bert/pooler/dense"),
    *dense("cls.predictions.transform.dense", "cls/predictions/transform/dense"),
    *norm("cls.predictions.transform.LayerNorm", "cls/predictions/transform/LayerNorm"),
    Row("cls.predictions.bias", "cls/predictions/output_bias"),
    *output("cls.seq_relationship", "cls/seq_relationship/"),
    *output("classifier", ""),  # run_classifier.py
    *output("qa_outputs", "cls/squad/"),  # run_squad.py
]


def read(prefix: Path, where: str | None = None) -> Source:
    """A TF1 checkpoint by its prefix (…/bert_model.ckpt), with the bert_config.json and vocab.txt beside it.

    Adam's moments and the step are left out: they are no weights, and training goes on from weights alone.

    Args:
        prefix: the path without .index and .data-….
        where: how errors name it.

    Raises:
        ValueError: a file is damaged, or these are not Google's names.
        FileNotFoundError: a file is missing.
    """
    where, folder = where or str(prefix), prefix.parent
    if not (folder / CONFIG).is_file():
        raise FileNotFoundError(f"{where}: no {CONFIG} beside the checkpoint: put the one of this model there")
    keys = read_object(folder / CONFIG)
    if OURS in keys:
        keys["hidden_act"] = keys[OURS]
    config = Config.from_dict(keys, where=f"{where}: {CONFIG}")
    info = read_info(folder)
    tokenizer = read_tokenizer(folder, config, info.get("text") or {})
    tensors = read_variables(prefix, where)
    step = tensors.pop("global_step", None)
    tensors = {name: value for name, value in tensors.items() if not NOT_WEIGHTS.search(name)}
    rows = expand(
        ROWS, 1 + max((int(number) for number in re.findall(r"/layer_(\d{1,4})/", " ".join(tensors))), default=0)
    )
    unknown = sorted(set(tensors) - {row.theirs for row in rows})
    if unknown:
        kind = "a TF2 object checkpoint" if any(".ATTRIBUTES/" in name for name in unknown) else "another model"
        raise ValueError(
            f"{where}: {len(unknown)} variables are not google-research/bert's ({some(unknown)}): {kind}; expected "
            f"TF1 names like {ROWS[0].theirs}"
        )
    provenance = {} if step is None else {"global_step": int(step)}
    return Source(where, config, to_canonical(tensors, rows), tokenizer, {}, {"provenance": provenance} | info)


def read_variables(prefix: Path, where: str) -> dict[str, np.ndarray]:
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        names = [
            name for name in reader.get_variable_to_shape_map() if name == "global_step" or not NOT_WEIGHTS.search(name)
        ]
        tensors = {name: reader.get_tensor(name) for name in names}
    except (tf.errors.OpError, RuntimeError, ValueError, LookupError) as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"{where}: the checkpoint is damaged or not whole ({told}); get its .index and .data files again"
        ) from None
    # Halves of any kind are widened: the weights here are float32.
    return {name: value.astype(np.float32) if "float" in value.dtype.name else value for name, value in tensors.items()}


def find_prefix(folder: Path) -> Path | None:
    """The checkpoint in a directory: the only one, or the one that a `checkpoint` file names; None: there is none.

    Raises:
        ValueError: there are several and nothing says which.
    """
    prefixes = sorted(path.with_suffix("") for path in folder.glob("*.index"))
    prefixes = [prefix for prefix in prefixes if any(folder.glob(f"{glob_safe(prefix.name)}.data-*"))]
    if len(prefixes) < 2:
        return prefixes[0] if prefixes else None
    state = folder / "checkpoint"
    named = (
        re.search(r'^model_checkpoint_path:\s*"([^"]+)"', state.read_text("utf-8"), re.M) if state.is_file() else None
    )
    latest = (
        folder / Path(named[1]).name if named else None
    )  # its own folder only: the rest of the path is the writer's
    if latest in prefixes:
        return latest
    raise ValueError(
        f"{folder} has {len(prefixes)} checkpoints: give one of them, as {' or '.join(map(str, prefixes[:3]))}"
    )


def glob_safe(name: str) -> str:
    return re.sub(r"([\[?*])", r"[\1]", name)


def write(weights: Weights, config: Config, folder: Path, global_step: int = 0) -> None:
    """bert_model.ckpt.* with Google's names and shapes, a `checkpoint` file, and bert_config.json, into `folder`.

    Raises:
        ValueError: the config asks for what Google's code cannot compute.
    """
    keys = google_config(config)
    variables: dict[str, Any] = dict(from_canonical(weights, expand(ROWS, config.num_hidden_layers)))
    variables["global_step"] = np.int64(global_step)
    names = sorted(variables)
    tf.raw_ops.SaveV2(
        prefix=tf.constant(str(folder / PREFIX)),
        tensor_names=tf.constant(names),
        shape_and_slices=tf.constant([""] * len(names)),
        tensors=[tf.constant(variables[name]) for name in names],
    )
    state = f'model_checkpoint_path: "{PREFIX}"\nall_model_checkpoint_paths: "{PREFIX}"\n'
    (folder / "checkpoint").write_text(state, encoding="utf-8", newline="\n")
    (folder / CONFIG).write_text(json.dumps(keys, indent=2) + "\n", encoding="utf-8", newline="\n")


def google_config(config: Config) -> dict[str, Any]:
    """The keys of a bert_config.json; those that Google's code has no word for stay under ours, which it passes over.

    Raises:
        ValueError: Google's code has no such activation.
    """
    ours, plain = config.to_dict(), Config(vocab_size=config.vocab_size)
    keys = {key: ours[key] for key in GOOGLE_KEYS}
    if config.hidden_act in ("gelu_new", "gelu_pytorch_tanh"):
        keys |= {"hidden_act": "gelu", OURS: config.hidden_act}
    elif config.hidden_act not in ("gelu", "relu", "tanh"):
        raise ValueError(f"google-research/bert has no {config.hidden_act!r}, expected gelu, gelu_new, relu or tanh")
    keys |= {key: ours[key] for key in ("layer_norm_eps", "pad_token_id") if ours[key] != getattr(plain, key)}
    for note in differences(config):
        log.warning("%s", note)
    return keys


def differences(config: Config) -> list[str]:
    """What google-research/bert's own code, as it is today, computes otherwise than this config says."""
    notes = []
    if config.hidden_act == "gelu":
        notes.append(
            "hidden_act is the exact gelu: google-research/bert since 2019 computes it by tanh (to about 2e-3)"
        )
    if config.layer_norm_eps != Config().layer_norm_eps:
        notes.append(f"layer_norm_eps is {config.layer_norm_eps}: google-research/bert computes with 1e-12")
    return notes
