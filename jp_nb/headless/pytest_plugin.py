"""pytest plug-in: run notebooks as tests, and tell nbval's kernel which notebook it runs.

Each pytest run loads this module, so functions import the slow modules when they need them. Tests
that are not notebooks are not affected.

Source: `docs/ci.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jp_nb.headless.kernels.time_limits import read_seconds
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
        "--jp-timeout",
        type=read_seconds,
        metavar="SECONDS",
        help="time limit of each cell; default: none",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a notebook if an option of this plug-in is given."""
    if file_path.suffix != NOTEBOOK or not _is_enabled(parent.config):
        return None
    from jp_nb.headless.pytest_notebooks import NotebookFile  # loads nbclient

    return NotebookFile.from_parent(parent, path=file_path)


def _is_enabled(config: pytest.Config) -> bool:
    option = config.option
    return bool(option.jp or option.jp_record or option.jp_strict)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Set environment variables for the kernel of a notebook: its path, and settings of the run."""
    if item.path.suffix != NOTEBOOK:
        return (yield)

    variables = {environment.PATH_VARIABLE: str(item.path.resolve())}
    if _is_enabled(item.config):
        from jp_nb.config.environment_layer import format_variables
        from jp_nb.headless.pytest_notebooks import make_file_settings

        # For the kernel of another plug-in, such as nbval, which never records. `NotebookItem`
        # makes the settings of its own run.
        variables |= format_variables(make_file_settings(item.path, record=False))

    # Only for the setup, in which nbval starts its kernel.
    earlier_values = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)

    try:
        return (yield)
    finally:  # restore only these variables, because fixtures may have set others
        for name, value in earlier_values.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
