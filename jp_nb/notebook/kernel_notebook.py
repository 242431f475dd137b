"""Access of tools to the cells and variables of the notebook.

The cells come from the open page, which also knows those that did not run. Without a page, they are
those that this kernel executed.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jp_nb.errors import StorageError
from jp_nb.notebook.cell_reports import read_cells
from jp_nb.notebook.code_runs import run_code
from jp_nb.notebook.page.live_store import LiveStore
from jp_nb.notebook.page.page_refusal import NO_OPEN_PAGE
from jp_nb.session.host import RecordStore
from jp_nb.toolkit.notebook_access import CodeRun, NotebookCell, NotebookCells

CELLS_TIMEOUT_S: Final = 3.0  # a page usually reports its cells within 0.1 s


@dataclass(frozen=True, slots=True)
class KernelNotebook:
    """Access of tools to the cells and variables of a notebook; implements `NotebookAccess`.

    `executed` are the cells that this kernel executed. `record_error` is called with the exception
    and the code if the code that a tool runs fails.
    """

    shell: Any
    store: RecordStore
    executed: Iterable[NotebookCell]
    record_error: Callable[[BaseException, str], None] | None = None

    @property
    def namespace(self) -> Mapping[str, Any]:
        """The user's variables, by name. Read it on the cell's thread only."""
        namespace: Mapping[str, Any] = self.shell.user_ns
        return namespace

    async def cells(self, whole: int | str | None = None) -> NotebookCells:
        """Return the cells of the open page, or the cells that this kernel executed.

        `whole` is the number or id of the cell whose images and longer text are returned. The page
        answers on the control channel, so it can answer while a cell runs.
        """
        store = self.store
        if not isinstance(store, LiveStore):
            return self._executed_cells(NO_OPEN_PAGE)

        try:
            async with asyncio.timeout(CELLS_TIMEOUT_S):
                text = await asyncio.wrap_future(store.ask_cells(whole))
                running = store.running_cells()
                cells = await asyncio.to_thread(read_cells, text, running)
        except TimeoutError:
            why = f"the open page did not answer within {CELLS_TIMEOUT_S:g} s"
            return self._executed_cells(why)
        except StorageError as exc:
            return self._executed_cells(str(exc))

        return NotebookCells(cells, "page")

    def _executed_cells(self, why: str) -> NotebookCells:
        return NotebookCells(tuple(self.executed), "kernel", why)

    def execute(self, code: str) -> CodeRun:
        """Run `code` in the user's namespace, on the cell's thread."""
        return run_code(self.shell, code, self.record_error)
