"""Our tokenizer beside its peers on English text: `python benchmarks/tokenizer.py --text ../shared/data/books`.

Paragraphs of novels, in batches of 1,024, each library fed as it likes best (strings as tensors, or as Python lists);
ids without special tokens. All in one process and in turn, so that they meet the same weather: the figures are medians
of rounds, the ratios medians of each round's ratio. Needs the extra `peers`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TOKENIZERS_PARALLELISM"] = "true"

import keras_hub
import tensorflow as tf
import tensorflow_text as tf_text
from transformers import BertTokenizerFast

from keras_bert import PythonTokenizer, Tokenizer

BATCH = 1024
OURS = "keras_bert"
HF, BACKEND, HUB, FAST = "transformers", "transformers' backend alone", "KerasHub", "tf.text FastBertTokenizer"
TARGETS = {HF: 4.0, BACKEND: 4.0, HUB: 1.5, FAST: 0.75}  # ours is to be at least so many times as fast


def paragraphs(folder: Path, megabytes: float) -> list[str]:
    """The first paragraphs of the novels in a folder, in the order of their names."""
    texts: list[str] = []
    size = 0.0
    for path in sorted(folder.glob("*.txt")):
        for paragraph in re.split(r"\n\s*\n", path.read_text("utf-8")):
            text = " ".join(paragraph.split())
            if 0 < len(text) < 3000:  # some novels have hardly a blank line
                texts.append(text)
                size += len(text.encode()) / 1e6
            if size > megabytes:
                return texts
    return texts


def contestants(vocab: Path) -> dict[str, Callable[[Any], Any]]:
    """By name: a batch (list of str for transformers, else a string tensor) to ids."""
    ours = Tokenizer(vocab)
    tokens = list(ours.vocabulary.tokens)
    fast = tf_text.FastBertTokenizer(vocab=tokens, token_out_type=tf.int32, lower_case_nfd_strip_accents=True)
    hub = keras_hub.tokenizers.WordPieceTokenizer(vocabulary=tokens, lowercase=True, strip_accents=True)
    hf = BertTokenizerFast(vocab=str(vocab), do_lower_case=True)
    strings = [tf.TensorSpec([None], tf.string)]
    return {
        OURS: ours.ids_of,
        "keras_bert with offsets": ours.pieces_of,
        HF: lambda texts: hf(texts, add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False)[
            "input_ids"
        ],
        BACKEND: lambda texts: hf.backend_tokenizer.encode_batch_fast(texts, add_special_tokens=False),
        HUB: tf.function(hub.tokenize, input_signature=strings),
        FAST: tf.function(fast.tokenize, input_signature=strings),
    }


def as_lists(ids: Any) -> list[list[int]]:
    if isinstance(ids, list):
        return [row if isinstance(row, list) else row.ids for row in ids]
    return ids.to_list()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="folder of English text files")
    parser.add_argument("--vocab", type=Path, required=True, help="vocab.txt of bert-base-uncased")
    parser.add_argument("--megabytes", type=float, default=2.0, help="of text, a round")
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()

    texts = paragraphs(options.text, options.megabytes)
    batches = [texts[i : i + BATCH] for i in range(0, len(texts), BATCH)]
    tensors = [tf.constant(batch) for batch in batches]
    size = sum(len(text.encode()) for text in texts) / 1e6
    python = PythonTokenizer(options.vocab)
    want = [[piece.id for piece in python.pieces(text)] for text in batches[0]]

    seconds: dict[str, list[float]] = {}
    functions = contestants(options.vocab)
    for round_number in range(options.rounds + 1):  # the first warms up
        for name in list(functions) if round_number % 2 else list(functions)[::-1]:
            given: list[Any] = batches if name in (HF, BACKEND) else tensors
            start = time.perf_counter()
            for batch in given:
                result = functions[name](batch)
            if isinstance(result, tf.RaggedTensor):
                result.values.numpy()  # ops may run on behind our back
            elapsed = time.perf_counter() - start
            if round_number:
                seconds.setdefault(name, []).append(elapsed)

    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    bf16 = "avx512_bf16" if "avx512_bf16" in flags else "no avx512_bf16"
    names = ("tensorflow", "tensorflow-text", "transformers", "tokenizers", "keras-hub")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    print(f"Python {platform.python_version()}, {versions}; {os.cpu_count()} CPUs, {bf16}")
    print(f"load {os.getloadavg()[0]:.1f}; {len(texts)} paragraphs, {size:.2f} MB, {options.rounds} rounds\n")
    print("| tokenizer | MB/s | ours is … times as fast | wanted | rows unlike the reference, of 1,024 |")
    print("|---|---|---|---|---|")
    missed = []
    for name, times in sorted(seconds.items(), key=lambda item: statistics.median(item[1])):
        ratio = statistics.median(theirs / ours for theirs, ours in zip(times, seconds[OURS]))
        if ratio < TARGETS.get(name, 0):
            missed.append(name)
        result = functions[name](batches[0] if name in (HF, BACKEND) else tensors[0])
        ids = as_lists(result.ids if hasattr(result, "ids") else result)
        unlike = sum(row != right for row, right in zip(ids, want))
        speed, wanted = size / statistics.median(times), TARGETS.get(name, "")
        print(f"| {name} | {speed:.1f} | {ratio:.2f} | {wanted and f'≥ {wanted}'} | {unlike} |")
    if missed:
        print(f"\nmissed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
