"""What pytest loads of us: `--jp` runs notebooks, and nbval's kernels learn which one they run.

Every pytest run loads this module: it imports nothing that pytest has not imported, and does
nothing for tests that are no notebooks.

Source: `docs/ci.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jp_nb.workspace import variables

NOTEBOOK = ".ipynb"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that run notebooks."""
    group = parser.getgroup("jp_nb", "notebooks with %%jp cells")
    group.addoption("--jp", action="store_true", help="run notebooks, each as one test")
    group.addoption(
        "--jp-record", action="store_true", help="--jp, and record their cassettes anew"
    )
    group.addoption(
        "--jp-strict", action="store_true", help="--jp, and fail where nobody answers a question"
    )
    group.addoption(
        "--jp-timeout", type=float, metavar="SECONDS", help="of each cell; none by default"
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a notebook, if that was asked for."""
    option = parent.config.option
    if file_path.suffix != NOTEBOOK or not (option.jp or option.jp_record or option.jp_strict):
        return None
    from jp_nb.headless.pytest_notebooks import NotebookFile  # with it nbclient is loaded

    return NotebookFile.from_parent(parent, path=file_path)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Name the notebook in the environment while nbval starts its kernel, and no longer."""
    if item.path.suffix != NOTEBOOK:
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
