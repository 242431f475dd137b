"""Notebooks whose cells put questions without a model."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import prompt_in_cell as in_cell
from tests.support.browser import Lab, NotebookPage, Notebooks, Pages

Opened = Callable[..., NotebookPage]

LOAD = "from in_cell import *"

BOOLEAN = "Question.boolean('sure', 'Sure?')"


class PromptPages:
    """One notebook whose kernel has loaded `in_cell.py`, for as many tests as leave it quiet."""

    def __init__(self, notebooks: Notebooks) -> None:
        self._notebooks = notebooks
        self._shared: NotebookPage | None = None

    def open(self, *cells: str, alone: bool = False) -> NotebookPage:
        """Return a notebook with `cells` below a first one that has run.

        `alone`: another one, which no other test gets.
        """
        if not alone and self._shared is not None and self._shared.is_quiet():
            self._shared.replace_cells(*cells)
            return self._shared
        self.close()
        notebook = self._notebooks.open(LOAD, *cells)
        notebook.run_cell(0)
        notebook.wait_for_kernel_status("idle")
        self._shared = None if alone else notebook
        return notebook

    def close(self) -> None:
        """Close what is open."""
        self._shared = None
        self._notebooks.close()


@pytest.fixture(scope="module")
def prompt_pages(lab: Lab, pages: Pages, request: pytest.FixtureRequest) -> Iterator[PromptPages]:
    """The notebooks of a module's tests."""
    shutil.copy(Path(in_cell.__file__), lab.root / "in_cell.py")
    made = PromptPages(Notebooks(lab, pages, Path(request.node.name).stem))
    yield made
    made.close()


@pytest.fixture
def opened(prompt_pages: PromptPages) -> Opened:
    """A function that opens a notebook, as `PromptPages.open` does."""
    return prompt_pages.open


def answer_of(notebook: NotebookPage, cell: int = 1) -> str:
    return notebook.output_text(cell, contains="nswered(")
