"""What every layer here shares: it is made from a Config, and saves as one."""

from __future__ import annotations

from typing import Any

import keras

from keras_bert.config import Config


class ConfigLayer(keras.layers.Layer):
    """A layer made from a Config; `get_config` gives it back, so that a `.keras` file opens in a fresh process."""

    def __init__(self, config: Config | dict, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config if isinstance(config, Config) else Config(**config)

    def get_config(self) -> dict:
        return {**super().get_config(), "config": self.config.to_dict()}


def initializer(config: Config) -> keras.initializers.Initializer:
    """Normal, cut at two standard deviations (google-research/bert: create_initializer)."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def dense(config: Config, units: int, name: str, dtype: Any, **kwargs: Any) -> keras.layers.Dense:
    return keras.layers.Dense(units, kernel_initializer=initializer(config), name=name, dtype=dtype, **kwargs)


def layer_norm(config: Config, name: str, dtype: Any) -> keras.layers.LayerNormalization:
    return keras.layers.LayerNormalization(epsilon=config.layer_norm_eps, name=name, dtype=dtype)


def dropout(rate: float, name: str, dtype: Any) -> keras.layers.Dropout:
    return keras.layers.Dropout(rate, name=name, dtype=dtype)
