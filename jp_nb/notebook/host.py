"""`Host` of a session in a kernel or in a terminal with IPython.

Source: `docs/architecture.md`, `docs/prompts.md`, `docs/notebook-tools.md`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from jp_nb.notebook.executed_cells import ExecutedCells
from jp_nb.notebook.kernel_pages import KernelPages
from jp_nb.notebook.kernel_requests import get_cell_request
from jp_nb.notebook.last_errors import LastErrors
from jp_nb.notebook.page.notebook_storage import find_storage
from jp_nb.session.host import CellRun, LastError, NotebookStorage
from jp_nb.storage import environment
from jp_nb.text import plain

if TYPE_CHECKING:
    from jp_nb.notebook.file_cells import FileCells
    from jp_nb.notebook.front_end import NotebookFrontEnd
    from jp_nb.session.host import RecordStore
    from jp_nb.session.rows.progress_display import ProgressDisplay
    from jp_nb.session.threads.cell_loop import CellLoop
    from jp_nb.toolkit.notebook_access import NotebookAccess


class NotebookHost:
    """The IPython shell of a session; implements `session.host.Host`."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.errors = LastErrors(shell)
        self.executed_cells = ExecutedCells(shell)
        self._file_cells: FileCells | None = None

    @property
    def namespace(self) -> dict[str, Any]:
        """The user's variables, by name."""
        namespace: dict[str, Any] = self.shell.user_ns
        return namespace

    def find_notebook(self) -> NotebookStorage:
        """Find the notebook of this kernel and its storage."""
        return find_storage(self.shell)

    def get_cell_run(self) -> CellRun:
        """Return the ids of the running cell and of its execution, and the user who runs it."""
        kernel = getattr(self.shell, "kernel", None)
        request = get_cell_request(kernel)
        user = KernelPages.of(kernel).find_sender(request) if request else None

        return CellRun(
            _read_text(request.get("metadata", {}).get("cellId")),
            _read_text(request.get("header", {}).get("msg_id")),
            user,
        )

    def make_front_end(
        self, cell: CellLoop, run_in_agent_loop: Callable[[Callable[[], None]], None]
    ) -> NotebookFrontEnd:
        """Create the front end of cells; called at the first turn or question."""
        from jp_nb.notebook.front_end import NotebookFrontEnd  # loads forms and displays

        return NotebookFrontEnd(self.shell, cell, run_in_agent_loop)

    def make_notebook_access(self, store: RecordStore) -> NotebookAccess:
        """Return the access of tools to the notebook whose record is in `store`."""
        from jp_nb.notebook.kernel_notebook import KernelNotebook

        return KernelNotebook(
            self.shell,
            store,
            self.executed_cells,
            record_error=self.errors.record,
            file=self._find_file_cells(),
        )

    def _find_file_cells(self) -> FileCells | None:
        """Return the cells of the notebook file, if a runner gave them to this kernel."""
        if self._file_cells is None and environment.CELLS_VARIABLE in os.environ:
            from jp_nb.notebook.file_cells import FileCells

            self._file_cells = FileCells.find()
        return self._file_cells

    def show(self, bundle: Mapping[str, str]) -> None:
        """Display a MIME `bundle` in the running cell."""
        self.shell.display_pub.publish(data=dict(bundle), metadata={})

    def make_row_progress(self) -> ProgressDisplay:
        """Return a bar in the running cell, or a line of the terminal without a page."""
        if getattr(self.shell, "kernel", None) is None:
            from jp_nb.session.rows.progress_display import choose_stream_display

            return choose_stream_display()

        from jp_nb.notebook.display.progress_bar import ProgressBar

        return ProgressBar(self.shell)

    def keep_error(self, error: BaseException) -> None:
        """Set `error`, which a tool raised, as the exception that `%debug` opens.

        Source: https://docs.python.org/3/library/sys.html#sys.last_exc
        """
        sys.last_type = type(error)
        sys.last_value = error
        sys.last_traceback = error.__traceback__
        self.shell.InteractiveTB.tb = error.__traceback__  # IPython prefers it to `sys`
        vars(sys)["last_exc"] = error  # Python 3.12 and later
        self.errors.record(error)

    def find_last_error(self) -> LastError:
        """Return the last error of a cell or tool that is not an error of jp_nb."""
        return self.errors.read()

    def show_in_one_line(self, error: BaseException) -> None:
        """Make IPython show `error` without a traceback, except with `%xmode Verbose`."""

        def render() -> list[str]:
            renderer = self.shell.InteractiveTB
            if getattr(renderer, "mode", "") == "Verbose":
                return list(renderer.structured_traceback(type(error), error, error.__traceback__))

            if isinstance(error, KeyboardInterrupt):
                message = plain(str(error)) or "Interrupted"
                if message.endswith("."):  # a sentence, as from a call outside of a turn
                    return [message]
                return [f"{message}. Everything received so far is in the record."]

            return [f"{type(error).__name__}: {plain(str(error))}"]

        # IPython calls `_render_traceback_` of an exception if it has this attribute.
        vars(error)["_render_traceback_"] = render


def _read_text(value: object) -> str | None:
    return value if isinstance(value, str) else None
