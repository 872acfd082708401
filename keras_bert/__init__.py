"""BERT for Keras 3 and TensorFlow, whole: from raw text to a trained model to a served answer.

    import keras_bert as kb

    bert = kb.load("checkpoint-dir")                       # config, tokenizer, encoder, model, predict
    bert.predict(["a text"])

The parts: `Config`; `build_encoder` and the heads (`build_classifier`, `build_regressor`, `build_pretrainer`);
`Tokenizer` and `Preprocessor`, from strings, in graph; `load` and `save` of checkpoint directories; `adamw`.
The commands are listed by `keras-bert --help`.
"""

from keras_bert.batch import IS_NEXT, NOT_NEXT, Inputs
from keras_bert.config import Config
from keras_bert.encoder import build_encoder
from keras_bert.heads import build_classifier, build_pretrainer, build_regressor
from keras_bert.optimization import adamw, warmup_then_linear

__version__ = "0.1.0"

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
