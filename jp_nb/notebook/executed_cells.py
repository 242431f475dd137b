"""The cells that were executed, and the last error.

`%load_ext` loads this module, so it imports little.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jp_nb.errors import JpNbError, UsageError
from jp_nb.session.host import LastError
from jp_nb.text import one_line

if TYPE_CHECKING:
    from jp_nb.toolkit.notebook_access import CellState, NotebookCell


class ExecutedCells:
    """Source and state of each executed cell. Cells before `%load_ext` come from IPython.

    IPython's history omits cells that a runner executes with `store_history=False`.
    """

    def __init__(self, shell: Any) -> None:
        history = getattr(shell, "history_manager", None)
        earlier = enumerate(history.input_hist_raw) if history is not None else ()
        # IPython counts cells from 1; entry 0 is empty.
        self._cells: list[tuple[str, int | None, CellState]] = [
            (source, count, "ran") for count, source in earlier if count and source
        ]
        # The cell with `%load_ext` started before its `pre_run_cell` could be observed.
        kernel: Any = getattr(shell, "kernel", None)
        request: Mapping[str, Any] = {}
        if hasattr(kernel, "get_parent"):
            request = kernel.get_parent("shell") or {}
        content = request.get("content", {})
        if not content.get("code") or content.get("silent"):
            return

        if not content.get("store_history", True):
            self._cells.append((content["code"], None, "running"))
        elif self._cells:
            source, count, _ = self._cells[-1]
            self._cells[-1] = source, count, "running"

    def on_cell_start(self, info: Any) -> None:
        """Add a cell. This is a callback for `pre_run_cell`."""
        if info.raw_cell and not info.silent:
            self._cells.append((info.raw_cell, None, "running"))

    def on_cell_end(self, result: Any) -> None:
        """Set the state of the last cell. This is a callback for `post_run_cell`."""
        if self._cells and self._cells[-1][2] == "running":
            state: CellState = "done" if result.success else "failed"
            count = result.execution_count if result.info.store_history else None
            self._cells[-1] = self._cells[-1][0], count, state

    def __iter__(self) -> Iterator[NotebookCell]:
        """Yield the cells, the running one last."""
        from jp_nb.toolkit.notebook_access import NotebookCell

        for number, (source, count, state) in enumerate(self._cells):
            yield NotebookCell(number, source, execution_count=count, state=state)


CODE_FILE = "<code "  # prefix of the file names of code that a model ran


class LastErrors:
    """The last error of a cell or a tool, but no interrupts, and no errors of jp_nb."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._error: Exception | None = None
        self._raw_cell: str | None = None
        self._jp_nb_error: JpNbError | None = None

    def on_cell_end(self, result: Any) -> None:
        """Record the error of a cell. This is a callback for `post_run_cell`."""
        error = getattr(result, "error_before_exec", None) or getattr(result, "error_in_exec", None)
        raw_cell = getattr(getattr(result, "info", None), "raw_cell", None)
        if not isinstance(raw_cell, str):
            raw_cell = None
        self.record(error, raw_cell)

    def record(self, error: BaseException | None, raw_cell: str | None = None) -> None:
        """Record `error` of a tool, or of the cell with the source `raw_cell`."""
        if isinstance(error, JpNbError):
            self._jp_nb_error = error
        elif isinstance(error, Exception):
            self._error = error
            self._raw_cell = raw_cell

    def read(self) -> LastError:
        """Return the last error.

        Raises:
            UsageError: There is none.
        """
        error = self._error
        if error is None:  # a cell may have failed before the extension was loaded
            error = getattr(sys, "last_value", None)

        if isinstance(error, Exception) and not isinstance(error, JpNbError):
            return LastError(error, self._find_cell_label, self._raw_cell)
        if (ours := self._jp_nb_error) is None:
            message = "There is no error to explain: no cell of this kernel has failed yet."
            raise UsageError(message)

        raise UsageError(
            "There is nothing to explain: the last error came from jp_nb itself. "
            f"{type(ours).__name__}: {one_line(str(ours))}"
        )

    def _find_cell_label(self, filename: str) -> str | None:
        """Return IPython's label of the cell with this file name, such as `Cell In[3]`."""
        if filename.startswith(CODE_FILE):
            return "Code that the model ran"
        format_name = getattr(self._shell.compile, "format_code_name", None)
        label = format_name(filename) if format_name is not None else None
        return " ".join(label) if label else None
