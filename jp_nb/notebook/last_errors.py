"""The last error of a cell or of a tool, which `%jp why` explains.

`%load_ext` loads this module, so it imports little.
"""

from __future__ import annotations

import sys
from typing import Any

from jp_nb.errors import JpNbError, UsageError
from jp_nb.session.host import LastError
from jp_nb.text import one_line

CODE_FILE = "<code "  # prefix of the file names of code that a model ran


class LastErrors:
    """The last error of a cell or a tool, but no interrupts, and no errors of jp_nb."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

        # The last error, with the source and the id of its cell if they are known.
        self._error: Exception | None = None
        self._raw_cell: str | None = None
        self._cell_id: str | None = None

        # The last error of jp_nb, to tell the user why there is nothing to explain.
        self._jp_nb_error: JpNbError | None = None

    def on_cell_end(self, result: Any) -> None:
        """Record the error of a cell. This is a callback for `post_run_cell`."""
        # A syntax error ends a cell before its execution.
        error = getattr(result, "error_before_exec", None) or getattr(result, "error_in_exec", None)
        info = getattr(result, "info", None)
        raw_cell = getattr(info, "raw_cell", None)
        if not isinstance(raw_cell, str):
            raw_cell = None
        cell_id = getattr(info, "cell_id", None)
        if not isinstance(cell_id, str):
            cell_id = None
        self.record(error, raw_cell, cell_id)

    def record(
        self,
        error: BaseException | None,
        raw_cell: str | None = None,
        cell_id: str | None = None,
    ) -> None:
        """Record `error` of a tool, or of the cell with this id and source."""
        if isinstance(error, JpNbError):
            self._jp_nb_error = error
        elif isinstance(error, Exception):
            self._error = error
            self._raw_cell = raw_cell
            self._cell_id = cell_id

    def read(self) -> LastError:
        """Return the last error.

        Raises:
            UsageError: There is none.
        """
        error = self._error
        if error is None:  # a cell may have failed before the extension was loaded
            error = getattr(sys, "last_value", None)

        if isinstance(error, Exception) and not isinstance(error, JpNbError):
            # `_find_cell_label` is called for each frame of the traceback that the model gets.
            return LastError(error, self._find_cell_label, self._raw_cell, self._cell_id)
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
