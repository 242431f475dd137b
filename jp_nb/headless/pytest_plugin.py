"""Tells the kernels that nbval starts which notebook they run.

Every pytest run loads this module: it imports nothing that pytest has not imported, and does
nothing for tests that are no cells of a notebook.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from jp_nb.workspace import variables


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Name the notebook in the environment while nbval starts its kernel, and no longer."""
    if item.path.suffix != ".ipynb":
        return (yield)
    before = os.environ.get(variables.PATH)
    os.environ[variables.PATH] = str(item.path.resolve())
    try:
        return (yield)
    finally:
        if before is None:
            del os.environ[variables.PATH]
        else:
            os.environ[variables.PATH] = before
