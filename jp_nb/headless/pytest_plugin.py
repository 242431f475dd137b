"""pytest plug-in: options and notebook items.

Every pytest run loads this module: it imports nothing that pytest has not imported, and does
nothing for tests that are no notebooks.

Source: `docs/ci.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jp_nb.storage import environment

NOTEBOOK = ".ipynb"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that run notebooks."""
    group = parser.getgroup("jp_nb", "notebooks with %%jp cells")
    group.addoption("--jp", action="store_true", help="run each notebook as one test")
    group.addoption(
        "--jp-record", action="store_true", help="like --jp, and record the cassettes again"
    )
    group.addoption(
        "--jp-strict", action="store_true", help="like --jp, and fail if a user is needed"
    )
    group.addoption(
        "--jp-timeout", type=float, metavar="SECONDS", help="time limit of each cell; default: none"
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a notebook, if that was asked for."""
    if file_path.suffix != NOTEBOOK or not _runs_notebooks(parent.config):
        return None
    from jp_nb.headless.pytest_notebooks import NotebookFile  # loads nbclient

    return NotebookFile.from_parent(parent, path=file_path)


def _runs_notebooks(config: pytest.Config) -> bool:
    option = config.option
    return bool(option.jp or option.jp_record or option.jp_strict)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Tell nbval's kernel in the environment which notebook it runs, while it starts."""
    if item.path.suffix != NOTEBOOK:
        return (yield)
    told = _told(item)
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        return (yield)
    finally:  # fixtures may have set others, which stay
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _told(item: pytest.Item) -> dict[str, str]:
    """Return the variables of a kernel for `item`: with `--jp`, what lies beside it counts too."""
    named = {environment.PATH: str(item.path.resolve())}
    if not _runs_notebooks(item.config):
        return named
    from jp_nb.config.layers import format_variables
    from jp_nb.headless.pytest_notebooks import settings_for

    return named | format_variables(settings_for(item.path, record=False))
