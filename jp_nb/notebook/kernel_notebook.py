"""The notebook around a cell, as this kernel and the open page know it; for tools.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from jp_nb.errors import StorageError
from jp_nb.notebook.document.live import LiveStore
from jp_nb.notebook.document.page_cells import read_cells
from jp_nb.notebook.document.refusals import NO_OPEN_PAGE
from jp_nb.session.host import RecordStore
from jp_nb.tooling.notebook_access import CodeRun, NotebookCell, NotebookCells

PATIENCE_S: Final = 3.0
"""Seconds that a page has to tell its cells: it takes 0.1 as a rule."""


class KernelNotebook:
    """An IPython shell and the store of its notebook; implements `NotebookAccess`.

    Args:
        shell: The IPython shell.
        store: Keeps the record, and knows the page.
        ran: The cells that this kernel ran.
        failed: Is given what ended code, and the code.
    """

    def __init__(
        self,
        shell: Any,
        store: RecordStore,
        ran: Iterable[NotebookCell],
        *,
        failed: Callable[[BaseException, str], None] | None = None,
    ) -> None:
        self._shell = shell
        self._store = store
        self._ran = ran
        self._failed = failed

    @property
    def namespace(self) -> Mapping[str, Any]:
        """The user's variables, by name; only to be looked at on the cell's thread."""
        namespace: Mapping[str, Any] = self._shell.user_ns
        return namespace

    async def cells(self, whole: int | str | None = None) -> NotebookCells:
        """Return the cells as the page has them, or what this kernel ran, in order.

        The page is asked now and at no other time. It answers on the control channel, so the cell
        may run meanwhile.
        """
        store = self._store
        if not isinstance(store, LiveStore):
            return self._history(NO_OPEN_PAGE)
        try:
            async with asyncio.timeout(PATIENCE_S):
                text = await asyncio.wrap_future(store.ask_cells(whole))
                running = store.running_cells()
                cells = await asyncio.to_thread(read_cells, text, running)
        except TimeoutError:
            return self._history(f"the open page did not answer within {PATIENCE_S:g} s")
        except StorageError as exc:
            return self._history(str(exc))
        return NotebookCells(cells, "page")

    def _history(self, why: str) -> NotebookCells:
        """Return the cells that this kernel ran."""
        return NotebookCells(tuple(self._ran), "kernel", why)

    def execute(self, code: str) -> CodeRun:
        """Run `code` in the user's namespace; on the cell's thread."""
        from jp_nb.notebook.code_runs import run_code  # few turns run any

        return run_code(self._shell, code, self._failed)
