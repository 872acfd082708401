"""What transformers and torch answer, live for the parity tests and recorded for the runs without them.

    python tests/reference.py record MINILM_DIRECTORY      writes tests/reference/*.npz anew (needs the extra `peers`)
    python tests/reference.py steps IN.npz OUT.npz         three AdamW steps of torch, in a process of its own

Weights come from names and a fixed generator, so that a recorded file holds answers only.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).with_name("reference")
SMALL = {
    "vocab_size": 23,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 9,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
CASES: dict[str, dict[str, Any]] = {
    "gelu": {},
    "tanh_gelu_one_type": {"hidden_act": "gelu_new", "type_vocab_size": 1, "layer_norm_eps": 1e-6},
    "relu_three_types": {"hidden_act": "relu", "type_vocab_size": 3, "num_attention_heads": 4, "layer_norm_eps": 1e-5},
}
LABELS = np.array([1, 0, 2])
LEARNING_RATE = 1e-3
INPUTS = ("input_word_ids", "input_mask", "input_type_ids")


def starting(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Those whose names start so, without the prefix."""
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def weights_for(shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """The same numbers for the same names, wherever they are asked for."""
    weights = {}
    for name, shape in shapes.items():
        numbers = np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF).standard_normal(shape) * 0.3
        weights[name] = (numbers + (1.0 if name.endswith("LayerNorm.weight") else 0.0)).astype(np.float32)
    return weights


def batch_for(config: dict[str, Any], rows: int = 3, length: int = 7, seed: int = 0) -> dict[str, np.ndarray]:
    """int32 [rows,length] each: rows of uneven length, the last one whole."""
    random = np.random.RandomState(seed)
    real = np.linspace(max(1, length // 2), length, rows).astype(int)
    mask = (np.arange(length)[None] < real[:, None]).astype(np.int32)
    ids = random.randint(1, config["vocab_size"], (rows, length)).astype(np.int32) * mask
    types = random.randint(0, config.get("type_vocab_size", 2), (rows, length)).astype(np.int32) * mask
    return {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}


def torch_model(kind: str, config: dict[str, Any], weights: dict[str, np.ndarray] | None = None) -> Any:
    """A transformers model of class `Bert…`, with our canonical weights: none missing, none left over."""
    import torch
    import transformers

    settings = transformers.BertConfig(**config, attn_implementation="eager")
    model = getattr(transformers, kind)(settings).eval()
    if weights is not None:
        state = {name: torch.tensor(value) for name, value in weights.items()}
        if kind == "BertForPreTraining":
            state["cls.predictions.decoder.weight"] = state["bert.embeddings.word_embeddings.weight"]
            state["cls.predictions.decoder.bias"] = state["cls.predictions.bias"]
        missing, unused = model.load_state_dict(state, strict=False)
        assert not unused, unused
        assert not [name for name in missing if "position_ids" not in name], missing
    return model


def torch_inputs(batch: dict[str, np.ndarray]) -> dict[str, Any]:
    import torch

    keys = {"input_word_ids": "input_ids", "input_mask": "attention_mask", "input_type_ids": "token_type_ids"}
    return {keys[key]: torch.tensor(value.astype(np.int64)) for key, value in batch.items()}


def torch_outputs(model: Any, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Of a classifier: every layer's states, the attention probabilities, pooled output, logits."""
    import torch

    with torch.no_grad():
        found = model.bert(**torch_inputs(batch), output_hidden_states=True, output_attentions=True)
        logits = model.classifier(found.pooler_output)
    arrays = {f"state_{index}": state.numpy() for index, state in enumerate(found.hidden_states[1:])}
    arrays |= {f"attention_{index}": scores.numpy() for index, scores in enumerate(found.attentions)}
    return arrays | {"pooled_output": found.pooler_output.numpy(), "logits": logits.numpy()}


def torch_gradients(model: Any, batch: dict[str, np.ndarray], labels: np.ndarray) -> dict[str, np.ndarray]:
    """Of the mean cross-entropy, for every weight by canonical name."""
    import torch

    model.zero_grad()
    logits = model(**torch_inputs(batch)).logits
    torch.nn.functional.cross_entropy(logits, torch.tensor(labels)).backward()
    return {name: weight.grad.numpy().copy() for name, weight in model.named_parameters()}


def torch_adamw(model: Any, rate: float) -> Any:
    """Decay 0.01 but for LayerNorm and biases."""
    import torch

    plain = [weight for name, weight in model.named_parameters() if name.endswith("bias") or "LayerNorm" in name]
    decayed = [
        weight for name, weight in model.named_parameters() if not name.endswith("bias") and "LayerNorm" not in name
    ]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, eps=1e-6)


def torch_steps(model: Any, batches: list[dict[str, np.ndarray]], labels: np.ndarray, rate: float) -> dict[str, Any]:
    """The weights after one AdamW step a batch, clipped at 1.0."""
    import torch

    optimizer = torch_adamw(model, rate)
    for batch in batches:
        torch_gradients(model, batch, labels)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return {name: weight.detach().numpy().copy() for name, weight in model.named_parameters()}


def steps_in_a_process(
    folder: Path, config: dict[str, Any], weights: dict[str, np.ndarray], batches: list, labels: np.ndarray, rate: float
) -> dict[str, np.ndarray]:
    """`torch_steps` apart from TensorFlow: torch's optimisers import triton where there is one, and the two clash."""
    arrays = {f"weights/{name}": value for name, value in weights.items()}
    for index, batch in enumerate(batches):
        arrays |= {f"batch/{index}/{key}": value for key, value in batch.items()}
    told = json.dumps({"config": config, "rate": rate, "batches": len(batches)})
    np.savez(folder / "in.npz", labels=labels, told=np.array(told), **arrays)
    command = [sys.executable, __file__, "steps", str(folder / "in.npz"), str(folder / "out.npz")]
    subprocess.run(command, check=True, capture_output=True, text=True)
    with np.load(folder / "out.npz") as found:
        return dict(found)


def steps(source: str, target: str) -> None:
    with np.load(source) as found:
        arrays = dict(found)
    told = json.loads(str(arrays["told"]))
    weights = starting("weights/", arrays)
    batches = [{key: arrays[f"batch/{index}/{key}"] for key in INPUTS} for index in range(told["batches"])]
    model = torch_model("BertForSequenceClassification", told["config"], weights)
    np.savez(target, **torch_steps(model, batches, arrays["labels"], told["rate"]))


def record(minilm: str) -> None:
    """One file a small config (everything), and one of the real checkpoint (every sixteenth number of each state)."""
    FOLDER.mkdir(exist_ok=True)
    for case, changes in CASES.items():
        config = {**SMALL, **changes, "num_labels": 3}
        model = torch_model("BertForSequenceClassification", config)
        weights = weights_for({name: tuple(value.shape) for name, value in model.named_parameters()})
        model = torch_model("BertForSequenceClassification", config, weights)
        batch = batch_for(config)
        arrays = torch_outputs(model, batch)
        arrays |= {f"gradient/{name}": value for name, value in torch_gradients(model, batch, LABELS).items()}
        batches = [batch_for(config, seed=seed) for seed in range(3)]
        arrays |= {
            f"stepped/{name}": value for name, value in torch_steps(model, batches, LABELS, LEARNING_RATE).items()
        }
        np.savez_compressed(FOLDER / f"{case}.npz", **arrays)
        print(case, len(arrays))
    np.savez_compressed(FOLDER / "minilm.npz", **torch_minilm(minilm))


def torch_minilm(directory: str) -> dict[str, np.ndarray]:
    """The real checkpoint on the sentences below: ids, mask, and each layer's states thinned to every 16th number."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.BertModel.from_pretrained(directory, attn_implementation="eager").eval()
    inputs = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        found = model(**inputs, output_hidden_states=True)
    arrays = {f"state_{index}": state.numpy()[..., ::16] for index, state in enumerate(found.hidden_states[1:])}
    ids, mask = inputs["input_ids"].numpy(), inputs["attention_mask"].numpy()
    pooled = found.pooler_output.numpy()
    return arrays | {"ids": ids.astype(np.int32), "mask": mask.astype(np.int32), "pooled_output": pooled}


SENTENCES = [
    "The rain in Spain stays mainly in the plain.",
    "It was a bright cold day in April, and the clocks were striking thirteen; nobody minded.",
    "Yes.",
]

if __name__ == "__main__":
    {"record": record, "steps": steps}[sys.argv[1]](*sys.argv[2:])
