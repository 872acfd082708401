"""The activations that a config's hidden_act names."""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf


def exact_gelu(x: tf.Tensor) -> tf.Tensor:
    """x · Φ(x), by the error function (Hendrycks and Gimpel, arXiv 1606.08415); any shape."""
    half, root = tf.cast(0.5, x.dtype), tf.cast(math.sqrt(0.5), x.dtype)
    return half * x * (tf.cast(1.0, x.dtype) + tf.math.erf(x * root))  # erf, not erfc: ONNX has no Erfc


def tanh_gelu(x: tf.Tensor) -> tf.Tensor:
    """The tanh approximation of gelu that google-research/bert computes; any shape."""
    return tf.nn.gelu(x, approximate=True)


ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "gelu": exact_gelu,
    "gelu_new": tanh_gelu,
    "gelu_pytorch_tanh": tanh_gelu,
    "relu": tf.nn.relu,
    "silu": tf.nn.silu,
    "swish": tf.nn.silu,
    "tanh": tf.math.tanh,
}
