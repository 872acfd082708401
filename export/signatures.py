"""The endpoints of a served model: text → the task's answer, and ids → logits; one graph for any batch size."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from keras_bert.batch import INPUT_NAMES, Inputs
from keras_bert.bert import Bert
from keras_bert.checkpoint import assign, collect
from keras_bert.decoding import decode_classes, decode_scores
from keras_bert.encoder import build_encoder
from keras_bert.heads import build_classifier, build_regressor
from keras_bert.text.preprocessor import Preprocessor

Function = Callable[..., dict[str, tf.Tensor]]


def serving_module(bert: Bert, assets: Path) -> tuple[tf.Module, dict[str, Function]]:
    """A module that holds the float32 weights and no Keras object, and its signatures.

    Args:
        bert: a classifier or a regressor, of any dtype.
        assets: an empty directory that lives until the module is saved; vocab.txt and labels.txt are written to it.

    Raises:
        ValueError: the model has no head that answers, or a label holds a line end.
    """
    if bert.head not in DECODERS:
        raise ValueError(
            f"expected a classifier or a regressor to export, got {bert.head or 'a bare encoder'}: "
            f"fine-tune it first (keras-bert classify, keras-bert regress)"
        )
    bert = in_float32(bert)
    module = tf.Module()
    # The variables alone: with the Keras model beside them, the weights would be on disk twice.
    module.weights = [variable.value for variable in bert.model.weights]
    module.assets = [tf.saved_model.Asset(str(path)) for path in write_assets(bert, assets)]
    module.ids = ids_function(bert)
    module.text = text_function(bert, module.ids)
    return module, {"serving_default": module.text, "ids": module.ids}


def ids_function(bert: Bert) -> Function:
    """`input_word_ids`, `input_mask`, `input_type_ids`, int32 [B,S] → `logits` float32, [B,K] or [B]."""
    model = bert.model

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name) for name in INPUT_NAMES])
    def ids(input_word_ids: tf.Tensor, input_mask: tf.Tensor, input_type_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs = dict(zip(INPUT_NAMES, (input_word_ids, input_mask, input_type_ids), strict=True))
        return {"logits": tf.cast(model(inputs, training=False), tf.float32)}

    return ids


def text_function(bert: Bert, ids: Function) -> Function:
    """`text` string [B], and `text_pair` string [B] for a model of pairs → the answers of `decoding`."""
    preprocessor = Preprocessor(bert.tokenizer, sequence_length=None, max_length=bert.max_length)
    decode = DECODERS[bert.head or ""]

    def answer(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return decode(bert, in_groups(ids, preprocessor(*texts)))

    def text_answer(text: tf.Tensor) -> dict[str, tf.Tensor]:
        return answer(text)

    def pair_answer(text: tf.Tensor, text_pair: tf.Tensor) -> dict[str, tf.Tensor]:
        return answer(text, text_pair)

    specs = [tf.TensorSpec([None], tf.string, name) for name in ("text", "text_pair")]
    if is_paired(bert):
        return tf.function(pair_answer, input_signature=specs, autograph=False)
    return tf.function(text_answer, input_signature=specs[:1], autograph=False)


def in_groups(ids: Function, inputs: Inputs) -> tf.Tensor:
    """`ids` on rows of like length together, each group as wide as its longest row: logits, in the rows' own order.

    Where lengths differ, much of a batch is padding: a fifth of the CPU time is saved on 32 sentences of SST-2 or 32
    pairs of MRPC, a twelfth is lost on 32 rows of one length.
    """
    length_B = tf.reduce_sum(inputs["input_mask"], axis=1)
    order_B = tf.argsort(length_B, stable=True)
    length_B = tf.gather(length_B, order_B)
    columns = {name: tf.gather(inputs[name], order_B) for name in INPUT_NAMES}  # type: ignore[literal-required]
    num_rows = tf.size(order_B)
    # Few groups, so that an accelerator gets large ones; of a handful of rows, so that a CPU's cores are busy.
    size = tf.maximum(MIN_GROUP, -(-num_rows // MAX_GROUPS))
    num_groups = -(-num_rows // size)
    shape = ids.get_concrete_function().structured_outputs["logits"].shape  # type: ignore[attr-defined]
    found = tf.TensorArray(tf.float32, num_groups, element_shape=shape, infer_shape=False)

    def group(i: tf.Tensor, found: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        first, last = i * size, tf.minimum((i + 1) * size, num_rows)
        rows = {name: column[first:last, : length_B[last - 1]] for name, column in columns.items()}
        return i + 1, found.write(i, ids(**rows)["logits"])

    _, found = tf.while_loop(lambda i, _: i < num_groups, group, [0, found], parallel_iterations=1)
    return tf.ensure_shape(tf.gather(found.concat(), tf.argsort(order_B)), shape)


MIN_GROUP, MAX_GROUPS = 8, 4

DECODERS: dict[str, Callable[[Bert, tf.Tensor], dict[str, tf.Tensor]]] = {
    "classifier": lambda bert, logits: decode_classes(logits, bert.labels or ()),
    "regressor": lambda bert, scores: decode_scores(scores),
}


def is_paired(bert: Bert) -> bool:
    """Whether the model was trained on pairs of texts."""
    return bool(bert.info.get("paired", False))


def write_assets(bert: Bert, folder: Path) -> list[Path]:
    """vocab.txt, and labels.txt of a classifier: a label a line, in the order of `probabilities`."""
    vocabulary = folder / "vocab.txt"
    bert.tokenizer.vocabulary.save(vocabulary)
    if bert.labels is None:
        return [vocabulary]
    for label in bert.labels:
        if "\n" in label or "\r" in label:
            raise ValueError(
                f"label {label!r} holds a line end, which labels.txt cannot: rename it in the training file"
            )
    labels = folder / "labels.txt"
    labels.write_text("".join(f"{label}\n" for label in bert.labels), encoding="utf-8", newline="\n")
    return [vocabulary, labels]


def in_float32(bert: Bert) -> Bert:
    """The same weights in a model that computes in float32: half precision was for the machine it was trained on."""
    if bert.encoder.get_layer("embeddings").compute_dtype == "float32":
        return bert
    encoder = build_encoder(bert.config, dtype="float32")
    model = build_classifier(encoder, len(bert.labels)) if bert.labels is not None else build_regressor(encoder)
    assign(model, collect(bert.model))
    return dataclasses.replace(bert, model=model)
