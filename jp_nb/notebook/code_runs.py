"""Run a tool's code in the user's namespace, inside the running cell, as IPython runs a cell.

`run_code` changes neither the execution counter, nor `In`, `Out`, `_`, and the history.
`run_own_cell` runs the source of another cell, with a place in the history. No cell hooks run.

While the source of another cell runs in a turn, its outputs appear in the turn. `RunOutputs`
collects them for the other cell. Once they are stored there, it removes them from the turn. If they
cannot be stored, they stay in the turn.

Source: `docs/notebook-tools.md`, `docs/cells.md`, `docs/decisions.md` D94, D295.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from jp_nb.notebook.cell_history import store_in_history
from jp_nb.notebook.code_execution import cache_source_lines, execute_code
from jp_nb.notebook.code_tracebacks import describe_code_frames
from jp_nb.notebook.display.capture import OutputCapture
from jp_nb.notebook.display.cell_capture import capture_cell
from jp_nb.notebook.display.pending_output import list_open_figures, show_figures
from jp_nb.notebook.display.run_outputs import RunOutputs
from jp_nb.notebook.last_errors import CODE_FILE
from jp_nb.text import plain
from jp_nb.toolkit.function_tools.tool_errors import summarize_error
from jp_nb.toolkit.notebook_access import CodeRun

RecordError = Callable[[BaseException, str], None]
"""Notes an error, and the code that raised it, so that `%jp why` can explain it."""


class OwnCell(Protocol):
    """A cell whose code runs inside of another cell, and which gets the outputs.

    `CellOfPage` (`page_own_cell.py`) and `CellOfFile` (`file_cells.py`) implement it.
    """

    @property
    def shows_in_turn(self) -> bool:
        """True if its outputs appear in the turn while it runs."""
        ...

    def begin(self) -> None:
        """Note that the cell runs."""
        ...

    def end(self, count: int, outputs: RunOutputs) -> bool:
        """Store the execution count and the outputs; return False if that was not possible."""
        ...


@dataclass(frozen=True, slots=True)
class _CodeRunner:
    """Runs code once.

    Attributes:
        shell: The IPython shell.
        code: The source.
        name: The file name of the code in tracebacks.
        record_error: Called with the error that ends the code.
        outputs: The outputs of the cell whose source the code is. Then values go into `Out`, and
            the error is an output of that cell. None for other code.
    """

    shell: Any
    code: str
    name: str
    record_error: RecordError | None = None
    outputs: RunOutputs | None = None

    def run(self) -> CodeRun:
        """Run the code, and return its outputs and its error. Raise only `KeyboardInterrupt`."""
        earlier_figures = list_open_figures()
        in_history = self.outputs is not None
        error: BaseException | None = None

        with capture_cell(self.shell) as capture:
            try:
                execute_code(self.shell, self.code, self.name, capture, in_history=in_history)
            except KeyboardInterrupt as exc:
                if self.outputs is not None:
                    self._show_error(exc, self._find_begin(exc), summary="")
                raise
            except BaseException as exc:  # including `SystemExit`: it ends the code, not the turn
                error = exc

            # As at the end of a cell, matplotlib shows the figures that the code has made.
            if list_open_figures() - earlier_figures:
                show_figures()

        if error is None:
            return CodeRun(capture.list_outputs())
        return self._describe_failure(error, capture)

    def _describe_failure(self, error: BaseException, capture: OutputCapture) -> CodeRun:
        """Show the error to the user, remember it for debuggers, and describe it for the model."""
        begin = self._find_begin(error)
        sys.last_type = type(error)
        sys.last_value = error
        sys.last_traceback = begin
        if sys.version_info >= (3, 12):
            sys.last_exc = error

        if self.record_error is not None:
            self.record_error(error, self.code)

        summary = summarize_error(error)
        if isinstance(error, SyntaxError):  # `str` of it contains the internal file name
            summary = f"{type(error).__name__}: {error.msg}"
        self._show_error(error, begin, summary)

        frames = describe_code_frames(self.shell, error, begin, self.name)
        return CodeRun(
            capture.list_outputs(), plain(summary, limit=10_000), plain(frames, limit=10_000)
        )

    def _find_begin(self, error: BaseException) -> TracebackType | None:
        """Return the traceback of `error` from the code on, without the frames of jp_nb."""
        begin = error.__traceback__
        while begin is not None and begin.tb_frame.f_code.co_filename != self.name:
            begin = begin.tb_next
        return begin

    def _show_error(self, error: BaseException, begin: TracebackType | None, summary: str) -> None:
        """Show the traceback from `begin` on, as IPython shows it.

        `summary` is the type of the error and its message, such as `ValueError: no`.
        """
        shell = self.shell
        if isinstance(error, SyntaxError) and begin is None:
            lines = shell.SyntaxTB.structured_traceback(type(error), error, [])
        else:
            lines = shell.InteractiveTB.structured_traceback(type(error), error, begin)

        if self.outputs is not None:
            _, _, message = summary.partition(": ")
            self.outputs.add_error(error, message, lines)
            return

        # Not as an `error` output, because runners would count the whole cell as failed.
        print(shell.InteractiveTB.stb2text(lines), file=sys.stderr)


def run_code(shell: Any, code: str, record_error: RecordError | None = None) -> CodeRun:
    """Run `code` in the namespace of `shell`, on the cell's thread.

    If the code raises an exception, `record_error` is called with the exception and the code.

    Raises:
        KeyboardInterrupt: If the kernel is interrupted.
    """
    digest = hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    name = f"{CODE_FILE}{digest}>"
    cache_source_lines(name, code)
    return _CodeRunner(shell, code, name, record_error).run()


def run_own_cell(
    shell: Any, source: str, cell: OwnCell, record_error: RecordError | None = None
) -> CodeRun:
    """Run the `source` of `cell` as `run_code` does, with a place in the history.

    Its outputs are stored in the cell, or stay in the turn if that is not possible.

    Raises:
        KeyboardInterrupt: If the kernel is interrupted.
    """
    kernel = shell.kernel
    cell.begin()

    with store_in_history(shell, source) as count:
        outputs = RunOutputs(kernel, count, shows=cell.shows_in_turn)
        name = shell.compile.cache(source, count, raw_code=source)
        runner = _CodeRunner(shell, source, name, record_error, outputs)
        try:
            with outputs.collecting():
                return runner.run()
        finally:
            is_stored = cell.end(count, outputs)
            if is_stored:
                outputs.remove()  # from the turn
            else:
                outputs.keep()
