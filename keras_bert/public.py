"""The public names: what `import keras_bert` gives."""

from keras_bert.batch import IS_NEXT, NOT_NEXT, Inputs
from keras_bert.config import Config
from keras_bert.encoder import build_encoder
from keras_bert.heads import build_classifier, build_pretrainer, build_regressor
from keras_bert.optimization import adamw, warmup_then_linear

__all__ = [
    "IS_NEXT",
    "NOT_NEXT",
    "Config",
    "Inputs",
    "adamw",
    "build_classifier",
    "build_encoder",
    "build_pretrainer",
    "build_regressor",
    "warmup_then_linear",
]
