"""One notebook for all tests of a module, so that its kernel starts once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kit import prompt_in_cell as in_cell
from tests.support.browser import Lab, NotebookPage, Notebooks, Pages

Opened = Callable[..., NotebookPage]

FIRST_CELL = "from in_cell import *"


class SharedNotebook:
    """A notebook whose first cell has run, for all tests that leave its kernel idle.

    Args:
        notebooks: Opens the notebook.
        first_cell: Source of the first cell.
    """

    def __init__(self, notebooks: Notebooks, first_cell: str) -> None:
        self._notebooks = notebooks
        self._first_cell = first_cell
        self._shared: NotebookPage | None = None
        self._is_classic = False

    def open(self, *cells: str, alone: bool = False, classic: bool = False) -> NotebookPage:
        """Return a notebook with `cells` below the first one, which has run.

        With `alone`, it is a notebook for one test only. With `classic`, it opens in Notebook 7.
        """
        shared = self._shared if self._is_classic == classic else None
        if not alone and shared is not None and shared.is_quiet():
            shared.replace_cells(*cells)
            return shared
        self.close()
        notebook = self._notebooks.open(self._first_cell, *cells, classic=classic)
        notebook.run_cell(0)
        notebook.wait_for_kernel_status("idle")
        self._shared = None if alone else notebook
        self._is_classic = classic
        return notebook

    def close(self) -> None:
        """Close the open notebooks."""
        self._shared = None
        self._notebooks.close()


@pytest.fixture(scope="module")
def shared_notebook(
    lab: Lab, pages: Pages, request: pytest.FixtureRequest
) -> Iterator[SharedNotebook]:
    """The notebook of a module's tests. Its first cell is the module's `FIRST_CELL`."""
    shutil.copy(Path(in_cell.__file__), lab.root / "in_cell.py")
    name = Path(request.node.name).stem
    made = SharedNotebook(
        Notebooks(lab, pages, name), getattr(request.module, "FIRST_CELL", FIRST_CELL)
    )
    yield made
    made.close()


@pytest.fixture
def opened(shared_notebook: SharedNotebook) -> Opened:
    """Return a function that opens the module's notebook: see `SharedNotebook.open`."""
    return shared_notebook.open


def answer_of(notebook: NotebookPage, cell: int = 1) -> str:
    """Return the printed answer of a prompt below `cell`, once it exists."""
    return notebook.output_text(cell, contains="nswered(")
