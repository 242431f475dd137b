"""The notebook around a cell, as this kernel and the open page know it; for tools.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jp_nb.session.host import RecordStore
from jp_nb.tooling.notebook_access import CodeRun, NotebookCell, NotebookCells


class KernelNotebook:
    """An IPython shell and the store of its notebook; implements `NotebookAccess`."""

    def __init__(self, shell: Any, store: RecordStore) -> None:
        self._shell = shell
        self._store = store

    @property
    def namespace(self) -> Mapping[str, Any]:
        """The user's variables, by name; only to be looked at on the cell's thread."""
        namespace: Mapping[str, Any] = self._shell.user_ns
        return namespace

    async def cells(self, whole: int | str | None = None) -> NotebookCells:
        """Return the cells as the page has them, or what this kernel ran, in order."""
        return self._history("no page is open that shows this notebook")

    def _history(self, why: str) -> NotebookCells:
        """Return the cells that this kernel ran and keeps in its history."""
        history = getattr(self._shell, "history_manager", None)
        sources = list(history.input_hist_raw) if history is not None else []
        # While a cell runs the counter is still its own, and its source is in the history.
        running = self._shell.execution_count
        ran = [(count, text) for count, text in enumerate(sources) if count and text]
        cells = (
            NotebookCell(
                number,
                text,
                execution_count=count,
                state="running" if count == running else "ran",
            )
            for number, (count, text) in enumerate(ran)
        )
        return NotebookCells(tuple(cells), "kernel", why)

    def execute(self, code: str) -> CodeRun:
        """Run `code` in the user's namespace; on the cell's thread."""
        from jp_nb.notebook.code_runs import run_code  # few turns run any

        return run_code(self._shell, code)
