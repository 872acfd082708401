"""The encoder's parts as Keras layers. Letters: B batch, S length, H hidden, A heads, D head size, F intermediate."""

from keras_bert.layers.attention import AttentionBias, SelfAttention
from keras_bert.layers.block import Block
from keras_bert.layers.embeddings import Embeddings
from keras_bert.layers.feed_forward import FeedForward
from keras_bert.layers.masked_lm import MaskedLM
from keras_bert.layers.pooler import Pooler

__all__ = ["AttentionBias", "Block", "Embeddings", "FeedForward", "MaskedLM", "Pooler", "SelfAttention"]
