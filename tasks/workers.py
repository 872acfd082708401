"""Work spread over processes. Imports nothing heavy: a worker holds back TensorFlow's start-up notices first."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def run_all(work: Callable[[Job], Iterator[Result]], jobs: Sequence[Job]) -> Iterator[Result]:
    """What `work` gives for each job, as it comes; one process a job, or this one where there is but one.

    Raises:
        Exception: what a worker raised; the others are stopped. ChildProcessError where one was killed.
    """
    if len(jobs) == 1:
        yield from work(jobs[0])
        return
    context = multiprocessing.get_context("spawn")
    name = f"{work.__module__}:{work.__qualname__}"
    pipes: dict[Connection, Any] = {}
    try:
        for job in jobs:
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=serve, args=(name, pickle.dumps(job), theirs), daemon=True)
            process.start()
            theirs.close()
            pipes[ours] = process
        while pipes:
            for pipe in wait(list(pipes)):
                yield from receive(pipe, pipes)  # type: ignore[arg-type]
    finally:
        for process in pipes.values():
            process.terminate()
            process.join()


def receive(pipe: Connection, pipes: dict[Connection, Any]) -> Iterator[Any]:
    """One message of a worker: a result, the end, or what it raised."""
    try:
        kind, value = pipe.recv()
    except EOFError:
        process = pipes.pop(pipe)
        process.join()
        raise ChildProcessError(
            f"a worker process ended with code {process.exitcode} in the middle of its work; was it killed, for want "
            f"of memory? Give fewer --workers"
        ) from None
    if kind == "result":
        yield value
    else:
        pipes.pop(pipe).join()
        if kind == "error":
            raise value


def serve(name: str, job: bytes, pipe: Connection) -> None:
    """A worker's life; the job comes pickled, as what it is made of may import TensorFlow."""
    from keras_bert.__main__ import SilentStart

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    SilentStart()
    module, _, function = name.partition(":")
    try:
        for result in getattr(importlib.import_module(module), function)(pickle.loads(job)):
            pipe.send(("result", result))
        pipe.send(("end", None))
    except Exception as error:
        pipe.send(("error", error))
