"""`Host` for a kernel and for a terminal.

Source: `docs/architecture.md`, `docs/prompts.md`, `docs/notebook-tools.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from jp_nb.notebook.cells import Collaborators, ExecutedCells, LastErrors
from jp_nb.notebook.page.locate import find_storage
from jp_nb.session.host import CellRun, NotebookStorage
from jp_nb.text import plain

if TYPE_CHECKING:
    from jp_nb.notebook.front_end import NotebookFrontEnd
    from jp_nb.session.cell_loop import CellLoop
    from jp_nb.session.host import RecordStore
    from jp_nb.session.last_error import LastError
    from jp_nb.tools.notebook_access import NotebookAccess


class NotebookHost:
    """An IPython shell around a session; implements `session.host.Host`."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.errors = LastErrors(shell)
        self.ran_cells = ExecutedCells(shell)

    @property
    def namespace(self) -> dict[str, Any]:
        """The user's variables, by name."""
        namespace: dict[str, Any] = self.shell.user_ns
        return namespace

    def find_home(self) -> NotebookStorage:
        """Find out which notebook this is and who keeps it."""
        return find_storage(self.shell)

    def cell_run(self) -> CellRun:
        """Return what names the running cell, as its request does."""
        kernel: Any = getattr(self.shell, "kernel", None)
        request = (kernel.get_parent("shell") if hasattr(kernel, "get_parent") else None) or {}
        return CellRun(
            _text(request.get("metadata", {}).get("cellId")),
            _text(request.get("header", {}).get("msg_id")),
            Collaborators.of(kernel).sender_of(request) if request else None,
        )

    def front_end(
        self, cell: CellLoop, elsewhere: Callable[[Callable[[], None]], None]
    ) -> NotebookFrontEnd:
        """Make displays and prompts, at the first turn or question."""
        from jp_nb.notebook.front_end import NotebookFrontEnd  # loads forms and displays

        return NotebookFrontEnd(self.shell, cell, elsewhere)

    def notebook_access(self, store: RecordStore) -> NotebookAccess:
        """Return what tools may see of the notebook; at the first turn."""
        from jp_nb.notebook.front_end import KernelNotebook

        return KernelNotebook(self.shell, store, self.ran_cells, failed=self.errors.keep)

    def show(self, bundle: Mapping[str, str]) -> None:
        """Display a MIME `bundle` in the running cell."""
        self.shell.display_pub.publish(data=dict(bundle), metadata={})

    def keep_error(self, error: BaseException) -> None:
        """Have `%debug` open where a tool raised `error`; nothing is shown.

        Source: https://docs.python.org/3/library/sys.html#sys.last_exc
        """
        sys.last_type, sys.last_value = type(error), error
        sys.last_traceback = error.__traceback__
        self.shell.InteractiveTB.tb = error.__traceback__  # IPython looks there first
        vars(sys)["last_exc"] = error  # what Python 3.12 and later look at
        self.errors.keep(error)

    def last_error(self) -> LastError:
        """Return the last error that left a cell of this kernel and is not jp_nb's own."""
        return self.errors.read()

    def show_in_one_line(self, error: BaseException) -> None:
        """Have IPython show `error` without our own traceback, unless `%xmode Verbose` is on."""

        def render() -> list[str]:
            renderer = self.shell.InteractiveTB
            if getattr(renderer, "mode", "") == "Verbose":
                return list(renderer.structured_traceback(type(error), error, error.__traceback__))
            if isinstance(error, KeyboardInterrupt):
                said = plain(str(error)) or "Interrupted"
                # A sentence says all there is to say, as that of a call outside of a turn does.
                kept = "Everything received so far is in the record."
                return [said if said.endswith(".") else f"{said}. {kept}"]
            return [f"{type(error).__name__}: {plain(str(error))}"]

        # IPython asks an exception for its own rendering before it makes one.
        vars(error)["_render_traceback_"] = render


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
