"""Which ops an exported graph needs, held against those that a stock TensorFlow Serving has."""

from __future__ import annotations

import os
from pathlib import Path

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

# tensorflow-text's op libraries that Serving links as //tensorflow_text:ops_lib, and what each registers
# (tensorflow/serving model_servers/BUILD and tensorflow/text tensorflow_text/BUILD, July 2026).
STOCK_LIBRARIES: dict[str, tuple[str, ...]] = {
    "boise_offset_converter": ("TFText>BoiseTagsToOffsets", "TFText>OffsetsToBoiseTags"),
    "byte_splitter": ("TFText>ByteSplitByOffsets", "TFText>ByteSplitWithOffsets"),
    "constrained_sequence": ("ConstrainedSequence",),
    "fast_bert_normalizer": ("FastBertNormalize",),
    "fast_sentencepiece": ("TFText>FastSentencepieceDetokenize", "TFText>FastSentencepieceTokenize"),
    "fast_wordpiece": ("FastWordpieceTokenizeWithOffsets", "TFText>FastWordpieceDetokenize"),
    "mst": ("MaxSpanningTree",),
    "ngrams": ("TFText>NgramsStringJoin",),
    "normalize": ("CaseFoldUTF8", "FindSourceOffsets", "NormalizeUTF8", "NormalizeUTF8WithOffsetsMap"),
    "phrase_tokenizer": ("PhraseTokenize", "TFText>PhraseDetokenize"),
    "regex_split": ("RegexSplitWithOffsets",),
    "sentence_breaking": ("SentenceFragments", "SentenceFragmentsV2"),
    "sentencepiece": (
        "SentencepieceDetokenizeOp",
        "SentencepieceIdToStringOp",
        "SentencepieceOp",
        "SentencepieceStringToIdOp",
        "SentencepieceTokenizeOp",
        "SentencepieceTokenizeWithOffsetsOp",
        "SentencepieceVocabSizeOp",
    ),
    "split_merge": ("SplitMergeTokenizeWithOffsets", "TokenizerFromLogits"),
    "text_similarity": ("RougeL",),
    "trimmer": ("TFText>RoundRobinGenerateMasks", "TFText>RoundRobinTrim"),
    "unicode_script": ("UnicodeScriptTokenizeWithOffsets",),
    "utf8_binarize": ("TFText>Utf8Binarize",),
    "whitespace": ("TFText>WhitespaceTokenizeWithOffsetsV2", "WhitespaceTokenizeWithOffsets"),
    "wordpiece": ("WordpieceTokenizeWithOffsets",),
}
STOCK_OPS = frozenset(op for ops in STOCK_LIBRARIES.values() for op in ops)
PYTHON_OPS = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless"})  # registered in core, and call back into Python


def graph_ops(directory: str | os.PathLike[str]) -> set[str]:
    """The names of all ops in a SavedModel: of its graph, and of every function in its library."""
    saved_model = saved_model_pb2.SavedModel()
    saved_model.ParseFromString(Path(directory, "saved_model.pb").read_bytes())
    found: set[str] = set()
    for meta_graph in saved_model.meta_graphs:
        library = meta_graph.graph_def.library.function
        found.update(node.op for node in meta_graph.graph_def.node)
        found.update(node.op for function in library for node in function.node_def)
        found.difference_update(function.signature.name for function in library)  # a function called as an op
    return found


def outside_core(ops: set[str]) -> list[str]:
    """Those that TensorFlow itself does not have, sorted.

    `tf.raw_ops` is what counts: fixed when TensorFlow is built, whatever other libraries register in this process.
    """
    return sorted(op for op in ops if not hasattr(tf.raw_ops, op))


def check_servable(ops: set[str]) -> list[str]:
    """The ops outside core TensorFlow, sorted, once a stock TensorFlow Serving is known to have them all.

    Raises:
        ValueError: it lacks one, or one runs Python code.
    """
    outside = outside_core(ops)
    bad = sorted(set(outside) - STOCK_OPS | ops & PYTHON_OPS)
    if bad:
        raise ValueError(
            f"the graph needs {', '.join(bad)}, which a stock TensorFlow Serving does not have: express that step in "
            f"TensorFlow's own ops or those of tensorflow_text"
        )
    return outside
