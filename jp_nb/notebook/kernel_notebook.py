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

    async def cells(self) -> NotebookCells:
        """Return what this kernel ran, in order."""
        ran = [text for text in self._shell.user_ns.get("In", ()) if text]
        cells = (NotebookCell(number, text) for number, text in enumerate(ran))
        return NotebookCells(tuple(cells), "kernel")

    def execute(self, code: str) -> CodeRun:
        """Run `code` in the user's namespace; on the cell's thread."""
        from jp_nb.notebook.code_runs import run_code  # few turns run any

        return run_code(self._shell, code)
