"""Notebooks whose cells keep a conversation, without magics."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jp_nb.headless.commands.record_import import import_into_notebook
from tests.headless.jp_folders import write_folder
from tests.interop.jp_directories import G4, NAME
from tests.support.notebook_runs import write_cells
from tests.support.scripted_page import SETUP

WriteNotebook = Callable[..., Path]
BEGUN = "kept in this notebook; new\n"
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
LIVE: dict[str, Any] = {
    "conversation": {"id": "jp-c1", "made": "live"},
    "base_config": {},
    "events": [{"type": "chat_request", "timestamp": "2025-01-31 09:00:00.0", "content": "live"}],
}
"""A conversation that a user had in a page."""


def write_talk(
    folder: Path, *cells: str, name: str = "talk.ipynb", setup: str = SETUP, **metadata: Any
) -> Path:
    """Write a notebook that begins a conversation and then runs `cells`."""
    return write_cells(folder / name, setup, *cells, **metadata)


@pytest.fixture
def write_notebook(tmp_path: Path) -> WriteNotebook:
    """`write_talk` in the folder of the test."""
    return partial(write_talk, tmp_path)


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    """A notebook with an imported conversation."""
    path = tmp_path / "a.ipynb"
    import_into_notebook(write_folder(tmp_path / "source" / NAME, G4), path)
    return path


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def contents(record: Any) -> list[str]:
    """Return the requests of the user in `record`."""
    return [e["content"] for e in record["events"] if e["type"] == "chat_request"]


def printed(notebook: Any) -> str:
    """Return the text of all streams in the outputs of `notebook`."""
    return "".join(
        output.get("text", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "stream"
    )
