"""Fifty steps of pre-training in torch, on the batches and masks that this library learns from.

    python tests/reference_pretraining.py record           writes tests/reference/pretraining.npz anew (extra `peers`)
    python tests/reference_pretraining.py steps IN OUT     the steps in torch, in a process of its own

A recorded file holds losses only: weights come from their names (`reference.weights_for`), rows from a fixed generator,
masks from `mask_tokens`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import reference

FILE = reference.FOLDER / "pretraining.npz"
STEPS, ROWS, WARMUP = 50, 6, 10
RATE = 2e-3  # of the small model
CONFIG = {**reference.SMALL, "vocab_size": 23, "initializer_range": 0.1}


def rows_of(step: int, config: dict[str, Any], length: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """[CLS] A [SEP] B [SEP] of random tokens, int32 [R,S] three times, and labels [R]. Ids: 2 is [CLS], 3 [SEP]."""
    random = np.random.RandomState(step)
    real = random.randint(5, length + 1, ROWS)
    cut = random.randint(2, real - 2)
    places = np.arange(length)[None]
    mask = places < real[:, None]
    ids = random.randint(5, config["vocab_size"], (ROWS, length)) * mask
    ids[:, 0], ids[np.arange(ROWS), cut], ids[np.arange(ROWS), real - 1] = 2, 3, 3
    types = mask & (places > cut[:, None])
    names = ("input_word_ids", "input_mask", "input_type_ids")
    given = {name: value.astype(np.int32) for name, value in zip(names, (ids, mask, types), strict=True)}
    return given, random.randint(0, 2, ROWS).astype(np.int32)


def our_losses(model: Any, length: int, rate: float = RATE) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Each step's two losses [STEPS,2], and what torch is to be given: every masked batch by `name/step`."""
    import keras_bert as kb
    from keras_bert.tasks.devices import Devices
    from keras_bert.tasks.pretrain_steps import Objective, make_step, pad_rows, trained_variables

    config = model.config.to_dict()
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"t{n}" for n in range(5, config["vocab_size"]))]
    objective = Objective(kb.Vocabulary(tokens), True, False, 7, 0.3, 3, 0.8, 0.1, False)
    optimizer = kb.adamw(rate, total_steps=STEPS, warmup_steps=WARMUP)
    optimizer.build(trained_variables(model, nsp=True))
    step_on = make_step(model, optimizer, objective, Devices(), ROWS)
    losses, given = [], {}
    for step in range(STEPS):
        inputs, labels = rows_of(step, config, length)
        masked = objective.draw(inputs["input_word_ids"], inputs["input_mask"], (objective.seed, step), 0, ROWS)
        given |= {f"{name}/{step}": value for name, value in inputs.items()}
        given[f"input_word_ids/{step}"] = masked.input_word_ids.numpy()
        given[f"targets/{step}"] = targets = np.full((ROWS, length), -100)
        row, column = np.nonzero(masked.weights.numpy())
        targets[row, masked.positions.numpy()[row, column]] = masked.labels.numpy()[row, column]
        given[f"labels/{step}"] = labels
        sums = step_on(pad_rows(inputs, labels, 1, 0), step)
        losses.append([float(sums.mlm_loss / sums.predictions), float(sums.nsp_loss / sums.rows)])
    return np.array(losses), given


def torch_losses(
    config: dict[str, Any], weights: dict[str, np.ndarray], given: dict[str, np.ndarray], rate: float = RATE
) -> np.ndarray:
    """[STEPS,2], by transformers and torch.optim in a process that imports no TensorFlow."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        weights = {f"weights/{name}": value for name, value in weights.items()}
        np.savez(source, told=np.array(json.dumps(config)), rate=rate, **weights, **given)
        subprocess.run([sys.executable, __file__, "steps", source, target], check=True, capture_output=True, text=True)
        with np.load(target) as found:
            return found["losses"]


def steps(source: str, target: str) -> None:
    import torch

    with np.load(source) as found:
        given = dict(found)
    model = reference.torch_model(
        "BertForPreTraining", json.loads(str(given["told"])), reference.starting("weights/", given)
    )
    optimizer = reference.torch_adamw(model, float(given["rate"]))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: step / WARMUP if step < WARMUP else (STEPS - step) / (STEPS - WARMUP)
    )
    losses = []
    for step in range(STEPS):
        inputs = reference.torch_inputs({name: given[f"{name}/{step}"] for name in reference.INPUTS})
        targets, labels = (torch.tensor(given[f"{name}/{step}"]).long() for name in ("targets", "labels"))
        answer = model(**inputs, labels=targets, next_sentence_label=labels)
        nsp = torch.nn.functional.cross_entropy(answer.seq_relationship_logits, labels)
        optimizer.zero_grad()
        answer.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append([float(answer.loss) - float(nsp), float(nsp)])
    np.savez(target, losses=np.array(losses))


def small_pretrainer() -> Any:
    import keras_bert as kb
    from keras_bert import checkpoint

    model = kb.build_pretrainer(kb.build_encoder(kb.Config(**CONFIG)))
    shapes = {name: value.shape for name, value in checkpoint.collect(model).items()}
    checkpoint.assign(model, reference.weights_for(shapes))
    return model


def record() -> None:
    from keras_bert import checkpoint

    model = small_pretrainer()
    weights = checkpoint.collect(model)
    ours, given = our_losses(model, CONFIG["max_position_embeddings"])
    theirs = torch_losses(CONFIG, weights, given)
    np.savez_compressed(FILE, losses=theirs)
    print(f"{FILE}: from {theirs[0]} to {theirs[-1]}; ours differ by {np.abs(ours - theirs).max():.1e}")


if __name__ == "__main__":
    {"record": record, "steps": steps}[sys.argv[1]](*sys.argv[2:])
