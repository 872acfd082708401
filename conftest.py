"""Says what to do when pytest runs before the package is installed."""

from importlib.util import find_spec

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # keras_bert.tasks, not keras_bert: the folder itself is importable from here, the package only once installed
    if find_spec("keras_bert") is None or find_spec("keras_bert.tasks") is None:
        raise pytest.UsageError('keras_bert is not installed here: run  pip install -e ".[test]"  first')
