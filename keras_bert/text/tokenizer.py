"""Tokenizer: BERT's exact tokenizer inside the TensorFlow graph."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_bert.text.base import BaseTokenizer, Pieces
from keras_bert.text.graph import TokenizerGraph


@keras.saving.register_keras_serializable(package="keras_bert")
class Tokenizer(BaseTokenizer):
    """Texts to ids, without [CLS] and [SEP], exactly as google-research/bert's tokenization.py under Unicode 14.0.

    `tokenizer(texts)` and `tokenizer.with_offsets(texts)` work on values and as part of tf.data, of a tf.function and
    of a SavedModel, which needs `import tensorflow_text` where it is loaded. Exact for every assigned character; the
    interpreter's own Unicode version does not matter. A token that no word can hold (with a space inside, say) keeps
    its id and is never given.

    Args:
        vocabulary: a Vocabulary, its tokens, or the path of vocab.txt.
        lower_case: the vocabulary is an uncased one.
        strip_accents: write é as e; None does what lower_case says, as BERT does.
        split_chinese: every Chinese character is a word. False is slower.
        special_tokens_in_text: a typed [MASK] ([PAD], [UNK], [CLS], [SEP]) is the token. Off, it is text like any
            other, as in the reference: leave it off for text from strangers.

    Raises:
        ValueError: the vocabulary is none, or has one of the 25 marks whose order NFD changes while accents are
            stripped (PythonTokenizer serves it).
        ImportError: tensorflow-text is not installed.
    """

    def __init__(self, vocabulary: Any, **options: Any) -> None:
        super().__init__(vocabulary, **options)
        with tf.init_scope():  # its tables are values, even where a tokenizer is built inside a graph
            self.graph = TokenizerGraph(self)
        strings = [tf.TensorSpec([None], tf.string)]
        self.ids_function = tf.function(self.graph.ids, input_signature=strings, autograph=False)
        self.pieces_function = tf.function(self.graph.pieces, input_signature=strings, autograph=False)

    def ids_of(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self.ids_function(texts)

    def pieces_of(self, texts: tf.Tensor) -> Pieces:
        return self.pieces_function(texts)
