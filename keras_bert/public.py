"""The public names: what `import keras_bert` gives."""

from keras_bert.batch import IS_NEXT, NOT_NEXT, Inputs
from keras_bert.bert import Bert
from keras_bert.config import Config
from keras_bert.encoder import build_encoder
from keras_bert.heads import build_classifier, build_pretrainer, build_regressor
from keras_bert.loading import load
from keras_bert.optimization import adamw, warmup_then_linear
from keras_bert.saving import save
from keras_bert.text import Preprocessor, PythonTokenizer, Tokenizer, Vocabulary

__all__ = [
    "IS_NEXT",
    "NOT_NEXT",
    "Bert",
    "Config",
    "Inputs",
    "Preprocessor",
    "PythonTokenizer",
    "Tokenizer",
    "Vocabulary",
    "adamw",
    "build_classifier",
    "build_encoder",
    "build_pretrainer",
    "build_regressor",
    "load",
    "save",
    "warmup_then_linear",
]
