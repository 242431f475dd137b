"""The last error that left a cell, kept until the next one.

Light: it is loaded with the extension. The error is read when somebody asks.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jp_nb.errors import JpNbError, UsageError
from jp_nb.safe_text import one_line

if TYPE_CHECKING:
    from jp_nb.session.last_error import LastError

CODE_FILE = "<code "
"""Prefix of the file names of code that a model ran."""
CODE = "Code that the model ran"


@dataclass(frozen=True, slots=True)
class _Failed:
    """What left a cell, and the cell's source; IPython keeps the error alive, too."""

    error: Exception
    raw_cell: str | None = None


class LastErrors:
    """Knows with what the last cell failed that did; an interrupt is not an error.

    What jp_nb says itself is passed over: its message tells what to do.

    Args:
        shell: The IPython shell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._failed: _Failed | None = None
        self._own: JpNbError | None = None

    def after_cell(self, result: Any) -> None:
        """Look at how a cell ended."""
        error = getattr(result, "error_before_exec", None) or getattr(result, "error_in_exec", None)
        raw_cell = getattr(getattr(result, "info", None), "raw_cell", None)
        self.keep(error, raw_cell if isinstance(raw_cell, str) else None)

    def keep(self, error: BaseException | None, raw_cell: str | None = None) -> None:
        """Take `error`, which came of a cell's code or of a tool's, for the last one."""
        if isinstance(error, JpNbError):
            self._own = error
        elif isinstance(error, Exception):
            self._failed = _Failed(error, raw_cell)

    def read(self) -> LastError:
        """Return the last error that is not jp_nb's own.

        Raises:
            UsageError: If there is none.
        """
        failed = self._failed or self._before_loading()
        if failed is None:
            raise UsageError(self._nothing())
        from jp_nb.session.last_error import read_error

        return read_error(failed.error, self._label_of, raw_cell=failed.raw_cell)

    def _before_loading(self) -> _Failed | None:
        """Return the error of a cell that was run before the extension was loaded."""
        error = getattr(sys, "last_value", None)
        if not isinstance(error, Exception) or isinstance(error, JpNbError):
            return None
        return _Failed(error)

    def _nothing(self) -> str:
        if self._own is None:
            return "There is no error to explain: no cell of this kernel has failed yet."
        said = f"{type(self._own).__name__}: {one_line(str(self._own))}"
        return f"There is nothing to explain: the last error came from jp_nb itself. {said}"

    def _label_of(self, filename: str) -> str | None:
        """Return what IPython calls the cell of a file name, such as `Cell In[3]`."""
        if filename.startswith(CODE_FILE):
            return CODE
        name_of = getattr(self._shell.compile, "format_code_name", None)
        found = name_of(filename) if name_of is not None else None
        return " ".join(found) if found else None
