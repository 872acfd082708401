"""Text: vocabulary, exact tokenizer, packing, the layer that joins them, masking. No model code."""

from keras_bert.text.base import Pieces
from keras_bert.text.masking import Masked, mask_tokens
from keras_bert.text.normalizer import UNICODE_VERSION
from keras_bert.text.packing import pack
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.python_tokenizer import PythonTokenizer
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary

__all__ = [
    "SPECIAL_TOKENS",
    "UNICODE_VERSION",
    "Masked",
    "Pieces",
    "Preprocessor",
    "PythonTokenizer",
    "Tokenizer",
    "Vocabulary",
    "mask_tokens",
    "pack",
]
