"""A client of an exported model: TensorFlow, tensorflow_text and nothing else. Run by path, never imported.

Reads a request as JSON from standard input, writes the model's answers and how long they took as JSON, last line:
    {"model": DIR, "text": {"text": [...]}, "ids": {"input_word_ids": [[...]], ...}, "batch_sizes": [1, 32]}
    {"text": {"label": [...], ...}, "ids": {"logits": [...]}, "milliseconds": {"1": 7.1, "32": 80.2}}
"""

import json
import statistics
import sys
import time
from typing import Any

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers its ops, without which the model does not load

SECONDS_A_BATCH_SIZE = 0.5


def main() -> None:
    request = json.load(sys.stdin)
    assert "keras_bert" not in sys.modules
    signatures = tf.saved_model.load(request["model"]).signatures
    text, ids = signatures["serving_default"], signatures["ids"]
    reply = {
        "text": plain(text(**{name: tf.constant(rows, tf.string) for name, rows in request["text"].items()})),
        "ids": plain(ids(**{name: tf.constant(rows, tf.int32) for name, rows in request["ids"].items()})),
        "milliseconds": {size: milliseconds(text, request["text"], size) for size in request["batch_sizes"]},
    }
    print(json.dumps(reply))


def plain(outputs: dict[str, tf.Tensor]) -> dict[str, Any]:
    """Tensors as nested lists; strings decoded."""

    def text(value: Any) -> Any:
        return [text(part) for part in value] if isinstance(value, list) else value.decode("utf-8")

    lists = {name: (tensor.dtype, tensor.numpy().tolist()) for name, tensor in outputs.items()}
    return {name: text(value) if dtype == tf.string else value for name, (dtype, value) in lists.items()}


def milliseconds(signature: Any, columns: dict[str, list[str]], size: int) -> float:
    """The median time of a request of `size` rows, the given ones over and over."""
    rows = {name: [texts[i % len(texts)] for i in range(size)] for name, texts in columns.items()}
    inputs = {name: tf.constant(texts, tf.string) for name, texts in rows.items()}
    times: list[float] = []
    signature(**inputs)
    while len(times) < 3 or sum(times) < SECONDS_A_BATCH_SIZE:
        start = time.perf_counter()
        {name: output.numpy() for name, output in signature(**inputs).items()}
        times.append(time.perf_counter() - start)
    return round(1000 * statistics.median(times), 2)


if __name__ == "__main__":
    main()
