"""BERT for Keras 3 and TensorFlow, whole: from raw text to a trained model to a served answer.

    import keras_bert as kb

    bert = kb.load("checkpoint-dir")                       # config, tokenizer, encoder, model, predict
    bert.predict(["a text"])

The parts: `Config`; `build_encoder` and the heads (`build_classifier`, `build_regressor`, `build_pretrainer`);
`Tokenizer` and `Preprocessor`, from strings, in graph; `load` and `save` of checkpoint directories; `adamw`.
The commands are listed by `keras-bert --help`.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"


def starts_as_command() -> bool:
    """Whether this import is the start of `keras-bert …` or `python -m keras_bert …`."""
    argv = getattr(sys, "argv", [])
    if argv[:1] == ["-m"]:  # what Python leaves there until it has found the module
        return sys.orig_argv[-len(argv)].endswith("keras_bert")
    return bool(argv) and argv[0].replace("\\", "/").rpartition("/")[2] in ("keras-bert", "keras-bert.exe")


if TYPE_CHECKING or not starts_as_command():
    from keras_bert.public import *  # noqa: F403  # that file is the list
    from keras_bert.public import __all__ as __all__


def __getattr__(name: str) -> Any:
    """The command starts without TensorFlow, so that help and mistyped flags answer at once; names come when used."""
    if not name.startswith("_"):
        public = import_module("keras_bert.public")
        if name in public.__all__:
            return getattr(public, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
