"""Access of tools to the cells and variables of the notebook.

The cells come from the open page, which also knows those that did not run. Without a page, they are
those that this kernel executed.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jp_nb.errors import StorageError, ToolError
from jp_nb.notebook.cell_reports import read_cells
from jp_nb.notebook.code_runs import OwnCell, run_code, run_own_cell
from jp_nb.notebook.kernel_requests import get_cell_request
from jp_nb.notebook.page.live_store import LiveStore
from jp_nb.notebook.page.record_location import NO_OPEN_PAGE
from jp_nb.notebook.page.surroundings import is_headless
from jp_nb.notebook.running_cells import RunningCell
from jp_nb.session.host import RecordStore
from jp_nb.toolkit.notebook_access import CodeRun, NotebookCell, NotebookCells

if TYPE_CHECKING:  # most turns edit no cells
    from jp_nb.notebook.file_cells import FileCells
    from jp_nb.toolkit.editing.document_cells import DocumentCells
    from jp_nb.toolkit.editing.document_change import CellChange, ChangeResult

NO_EDITS: Final = (
    "The cells of this notebook cannot be edited here: this runner cannot write them. Show the "
    "code in your answer. Do not try again."
)
NO_PAGE_HERE: Final = "no page shows this notebook"
CELLS_TIMEOUT_S: Final = 3.0  # a page usually reports its cells within 0.1 s
_CELL_NUMBER: Final = re.compile("[0-9]{1,6}")  # a longer text of digits is an id


@dataclass(frozen=True, slots=True)
class KernelNotebook:
    """Access of tools to the cells and variables of a notebook.

    Implements `NotebookAccess` (`toolkit/notebook_access.py`), which tools get from their context.

    The cells are in the `file` in a headless run, else in the page if `store` is a `LiveStore`. If
    there is neither, only the `executed` cells are known, and none can be edited.

    Attributes:
        shell: The IPython shell.
        store: The storage backend of the record, which also exchanges messages with the page.
        executed: The cells that this kernel executed.
        record_error: Called with the exception and the code if code that a tool runs fails.
        file: The cells of the notebook file; None if its runner gives none.
    """

    shell: Any
    store: RecordStore
    executed: Iterable[NotebookCell]
    record_error: Callable[[BaseException, str], None] | None = None
    file: FileCells | None = None

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
        if self.file is not None:  # all sources are whole, and the kernel knows no outputs
            return self.file.list_cells(self.executed)

        store = self.store
        if not isinstance(store, LiveStore):
            return self._list_executed_cells(NO_OPEN_PAGE)

        try:
            async with asyncio.timeout(CELLS_TIMEOUT_S):
                report = await asyncio.wrap_future(store.requests.ask_cells(_as_index(whole)))
                running = store.list_running_cells()
                # Parsing the report, a JSON text of perhaps megabytes, must not block the loop.
                cells = await asyncio.to_thread(read_cells, report, running)
        except TimeoutError:
            why = f"the open page did not answer within {CELLS_TIMEOUT_S:g} s"
            return self._list_executed_cells(why)
        except StorageError as exc:
            return self._list_executed_cells(str(exc))

        return NotebookCells(cells, "page")

    def _list_executed_cells(self, why: str) -> NotebookCells:
        return NotebookCells(tuple(self.executed), "kernel", why)

    @property
    def is_shared(self) -> bool:
        """True if several users may edit the open notebook at the same time."""
        if self.file is not None or not isinstance(self.store, LiveStore):
            return False
        return self.store.requests.is_shared

    async def document(self) -> DocumentCells:
        """Return the cells that may be edited.

        In a console or a page without the extension, the document is empty: then a tool can only
        give new cells to the user (`offer`).

        Raises:
            ToolError: Nothing can be edited here.
        """
        if self.file is not None:
            return self.file.document()

        from jp_nb.notebook.page_document import PageDocument
        from jp_nb.toolkit.editing.document_cells import DocumentCells

        # The page that runs the cell is asked. Its session is in the request to run the cell.
        cell = self._running_cell
        if isinstance(self.store, LiveStore) and self.store.has_met_page:
            return await PageDocument(self.store, cell.cell_id).read(cell.session)

        if self._is_headless:
            raise ToolError(NO_EDITS)
        return DocumentCells((), "", can_change=False, why=NO_PAGE_HERE)

    @property
    def _running_cell(self) -> RunningCell:
        return RunningCell(get_cell_request(getattr(self.shell, "kernel", None)))

    @property
    def _is_headless(self) -> bool:
        kernel = getattr(self.shell, "kernel", None)
        return kernel is not None and is_headless(kernel)

    async def change(self, change: CellChange) -> ChangeResult:
        """Change the document, as a whole or not at all."""
        if self.file is not None:
            return self.file.change(change)
        if isinstance(self.store, LiveStore):
            from jp_nb.notebook.page_document import PageDocument

            page = PageDocument(self.store, self._running_cell.cell_id)
            changed = await page.change(change)
            if changed.merged:  # another user of a shared document edited the same cells meanwhile
                print(_describe_merged(changed))  # below the line of the tool
            return changed
        raise ToolError(NO_EDITS)

    def offer(self, sources: Sequence[tuple[str, str]]) -> None:
        """Give the user new cells that no program can insert, by their types and sources.

        One code cell becomes the next input, and others are shown. Call it on the cell's thread.
        """
        if len(sources) == 1 and sources[0][0] == "code":
            self.shell.set_next_input(sources[0][1], replace=False)
            return

        for kind, source in sources:
            print(f"jp_nb: A new {kind} cell:\n\n{source}\n")

    def run_cell(self, cell_id: str, source: str) -> CodeRun:
        """Run the cell with this id and source, on the cell's thread.

        Its outputs are stored in the cell, if the page or the runner can do that.
        """
        own: OwnCell
        if self.file is not None:
            from jp_nb.notebook.file_cells import CellOfFile

            own = CellOfFile(self.file, cell_id)
        elif isinstance(self.store, LiveStore):
            from jp_nb.notebook.page_own_cell import CellOfPage

            own = CellOfPage(self.store, cell_id, source)
        else:
            return self.execute(source)
        return run_own_cell(self.shell, source, own, self.record_error)

    def execute(self, code: str) -> CodeRun:
        """Run `code` in the user's namespace, on the cell's thread."""
        return run_code(self.shell, code, self.record_error)


def _as_index(wanted: int | str | None) -> int | str | None:
    """Return the number of a cell as its index, which the page expects; ids stay as they are."""
    if isinstance(wanted, str) and _CELL_NUMBER.fullmatch(wanted):
        wanted = int(wanted)
    return wanted - 1 if isinstance(wanted, int) else wanted


def _describe_merged(changed: ChangeResult) -> str:
    count = len(changed.merged)
    cells = "1 cell is" if count == 1 else f"{count} cells are"
    return (
        f"jp_nb: {cells} not as applied: an edit of {changed.merged_by} was merged. Check "
        f"{', '.join(changed.merged)}."
    )
