"""The README.md inside an export: what it takes and gives, and how to ask it."""

from __future__ import annotations

import json
from typing import Any

from keras_bert.bert import Bert
from keras_bert.export.signatures import is_paired


def saved_model_readme(bert: Bert, report: dict[str, Any]) -> str:
    """Markdown, from the model and the report of its export."""
    paired = is_paired(bert)
    example = {"text": "A text.", "text_pair": "Its pair."} if paired else {"text": "A text."}
    return TEMPLATE.format(
        head=bert.head,
        inputs=" and ".join(f"`{name}`" for name in example),
        outputs="`label` (string) and `probabilities` (float, K numbers)" if bert.labels else "`score` (float)",
        ids_outputs="[B, K]" if bert.labels else "[B]",
        labels=LABELS.format(labels=" · ".join(f"`{label}`" for label in bert.labels)) if bert.labels else "",
        max_length=bert.max_length,
        ops=" and ".join(f"`{op}`" for op in report["ops_outside_core"]),
        rest=json.dumps({"instances": [example if paired else example["text"]]}),
        python=", ".join(f'{name}=tf.constant(["{text}"])' for name, text in example.items()),
        rows=report["rows"],
        difference=f"{report['max_difference']:.0e}",
    )


LABELS = """
The probabilities are in the order of `assets/labels.txt`: {labels}.
"""

TEMPLATE = """# A BERT {head}, as a SavedModel

| signature | takes | gives |
|---|---|---|
| `serving_default` | {inputs}, string [B] | for each row {outputs} |
| `ids` | `input_word_ids`, `input_mask` (1: real), `input_type_ids`, int32 [B, S] | `logits`, float {ids_outputs} |

B is any number of rows. Texts are UTF-8; beyond {max_length} tokens ([CLS] and [SEP] counted) they are cut.
The weights are float32, the vocabulary is `assets/vocab.txt`.
{labels}
## TensorFlow Serving

Copy this folder to `models/bert/1` and start a stock server. It has every op that is needed: TensorFlow's own, and
tensorflow-text's {ops}.

```sh
docker run -p 8501:8501 -v "$PWD/models/bert:/models/bert" -e MODEL_NAME=bert tensorflow/serving
curl -d '{rest}' http://localhost:8501/v1/models/bert:predict
```

## Python

`import tensorflow_text` comes first, although nothing uses the name: it registers the ops. Without it, loading fails
with `Op type not registered`.

```python
import tensorflow as tf
import tensorflow_text

model = tf.saved_model.load(".")  # this folder
print(model.signatures["serving_default"]({python}))
```

## Checked at export

{rows} rows of text, in a fresh process: no number further than {difference} from the Python model's.
"""
