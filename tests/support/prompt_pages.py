"""Notebooks whose cells put questions without a model."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import prompt_in_cell as in_cell
from tests.support.browser import Lab, NotebookPage, OpenNotebook

Opened = Callable[..., NotebookPage]

LOAD = "from in_cell import *"

BOOLEAN = "Question.boolean('sure', 'Sure?')"


@pytest.fixture
def opened(open_notebook: OpenNotebook, lab: Lab) -> Opened:
    """Open a notebook whose first cell has loaded what `in_cell.py` defines."""
    shutil.copy(Path(in_cell.__file__), lab.root / "in_cell.py")

    def open_(*cells: str) -> NotebookPage:
        notebook = open_notebook(LOAD, *cells)
        notebook.run_cell(0)
        notebook.wait_for_kernel_status("idle")
        return notebook

    return open_


def answer_of(notebook: NotebookPage, cell: int = 1) -> str:
    return notebook.output_text(cell, contains="nswered(")
