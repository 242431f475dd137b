"""Run a tool's code in the user's namespace, inside the running cell, as IPython runs a cell.

`run_code` changes neither the execution counter, nor `In`, `Out`, `_`, and the history.
`run_own_cell` runs the source of another cell, with a place in the history. No cell hooks run.

Source: `docs/notebook-tools.md`, `docs/cells.md`, `docs/decisions.md` D94, D295.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import inspect
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, TracebackType
from typing import Any, Final, Protocol

from jp_nb.notebook.cell_history import store_in_history
from jp_nb.notebook.display.capture import OutputCapture, capture_cell
from jp_nb.notebook.display.pending_output import list_open_figures, show_figures
from jp_nb.notebook.display.run_outputs import RunOutputs
from jp_nb.notebook.last_errors import CODE_FILE
from jp_nb.text import plain
from jp_nb.toolkit.function_tools.tool_errors import summarize_error
from jp_nb.toolkit.notebook_access import CodeRun

MAX_CODE_FRAMES: Final = 20
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)


RecordError = Callable[[BaseException, str], None]


class OwnCell(Protocol):
    """A cell whose code runs inside of another cell."""

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
    """Runs code with the file name `name`.

    With `outputs`, the code is that of a cell: values go into `Out`, and its error is an output.
    """

    shell: Any
    code: str
    name: str
    record_error: RecordError | None = None
    outputs: RunOutputs | None = None

    def run(self) -> CodeRun:
        figures = list_open_figures()
        error: BaseException | None = None

        with capture_cell(self.shell) as capture:
            try:
                _run(self.shell, self.code, self.name, capture, in_history=self.outputs is not None)
            except KeyboardInterrupt as exc:
                if self.outputs is not None:
                    self._show_error(exc, self._find_begin(exc), "")
                raise
            except BaseException as exc:  # including `SystemExit`: it ends the code, not the turn
                error = exc

            if list_open_figures() - figures:
                show_figures()

        if error is None:
            return CodeRun(capture.outputs())

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

        frames = _describe_frames(self.shell, error, begin, self.name)
        return CodeRun(capture.outputs(), plain(summary, limit=10_000), plain(frames, limit=10_000))

    def _find_begin(self, error: BaseException) -> TracebackType | None:
        """Return the traceback of `error` from the code on."""
        begin = error.__traceback__
        while begin is not None and begin.tb_frame.f_code.co_filename != self.name:
            begin = begin.tb_next
        return begin

    def _show_error(self, error: BaseException, begin: TracebackType | None, summary: str) -> None:
        shell = self.shell
        if isinstance(error, SyntaxError) and begin is None:
            lines = shell.SyntaxTB.structured_traceback(type(error), error, [])
        else:
            lines = shell.InteractiveTB.structured_traceback(type(error), error, begin)

        if self.outputs is not None:
            self.outputs.add_error(error, summary.partition(": ")[2], lines)
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
    _cache_lines(name, code)
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
            if cell.end(count, outputs):
                outputs.remove()
            else:
                outputs.keep()


def _cache_lines(name: str, source: str) -> None:
    # For debuggers and tracebacks. `linecache` looks for no file without a modification time.
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)


def _run(shell: Any, code: str, name: str, capture: OutputCapture, *, in_history: bool) -> None:
    source = shell.transform_cell(code)
    if source != code:
        _cache_lines(name, source)

    tree = shell.transform_ast(shell.compile.ast_parse(source, filename=name))
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if shell.autoawait else 0

    with ExitStack() as stack:
        stack.enter_context(shell.builtin_trap)
        stack.enter_context(shell.display_trap)
        if not in_history:
            # IPython does not display the value of code that ends with a semicolon.
            quiet = ";" in source and bool(shell.displayhook.semicolon_at_end_of_expression(source))
            stack.enter_context(_display_values(shell, capture, quiet=quiet))
        # The kernel's loop is busy with the cell, so top-level `await` runs in a separate one. With
        # a factory, the runner does not replace the event loop of the thread.
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        stack.callback(_without_running_loop()(runner.close))

        for node, mode in _statements(tree.body, shell.ast_node_interactivity):
            unit = ast.Interactive([node]) if mode == "single" else ast.Module([node], [])
            with shell.compile.extra_flags(flags):
                compiled: CodeType = shell.compile(unit, name, mode)

            result = eval(compiled, shell.user_global_ns, shell.user_ns)
            if compiled.co_flags & inspect.CO_COROUTINE:
                with _without_running_loop():
                    runner.run(result)


def _statements(body: list[ast.stmt], interactivity: str) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each statement and its compile mode; the mode `single` displays the value."""
    last = body[-1] if body else None
    if interactivity == "last_expr_or_assign" and isinstance(last, _ASSIGNMENTS):
        targets = last.targets if isinstance(last, ast.Assign) else [last.target]
        if len(targets) == 1 and isinstance(target := targets[0], ast.Name):
            shown = ast.Expr(ast.Name(target.id, ast.Load()))
            body = [*body, ast.fix_missing_locations(ast.copy_location(shown, last))]

    for index, node in enumerate(body):
        is_last = index == len(body) - 1
        match interactivity:
            case "all":
                displays = True
            case "none":
                displays = False
            case "last":
                displays = is_last
            case _:
                displays = is_last and isinstance(node, ast.Expr)

        mode = "single" if displays else "exec"
        yield node, mode


@contextmanager
def _display_values(shell: Any, capture: OutputCapture, *, quiet: bool) -> Iterator[None]:
    """Display values without setting `Out` and `_`. A display hook of the user stays in place."""

    def display(value: object) -> None:
        if value is None or quiet:
            return

        capture.value = True
        try:
            data, metadata = shell.display_formatter.format(value)
            if data:
                shell.display_pub.publish(data=data, metadata=metadata)
        finally:
            capture.value = False

    outer = sys.displayhook
    if outer is shell.displayhook:
        sys.displayhook = display

    try:
        yield
    finally:
        if sys.displayhook is display:
            sys.displayhook = outer


@contextmanager
def _without_running_loop() -> Iterator[None]:
    """Suspend the running event loop, so that another one can run on this thread.

    Source: https://docs.python.org/3/library/asyncio-extending.html
    """
    loop = asyncio._get_running_loop()
    task = asyncio.current_task(loop) if loop is not None else None
    if loop is not None and task is not None:
        asyncio.tasks._leave_task(loop, task)

    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        if loop is not None and task is not None:
            asyncio.tasks._enter_task(loop, task)


def _describe_frames(
    shell: Any, error: BaseException, begin: TracebackType | None, name: str
) -> str:
    """Return the traceback for the model: lines of the code and of cells, no files.

    Shape:
        line 2, in <module>: half(0)
        line 1, in half (in a cell): return 1 / number
    """
    if isinstance(error, SyntaxError) and error.filename == name:
        # The line with the error, and a caret below it.
        lines = "".join(traceback.format_exception_only(type(error), error)).split("\n")
        shown = filter(None, lines[1:-2])
        return "\n".join([f"line {error.lineno}:", *shown])

    frames = []
    for frame, number in traceback.walk_tb(begin):
        file = frame.f_code.co_filename
        origin = "" if file == name else _describe_origin(shell, file)
        if origin is not None:
            text = linecache.getline(file, number).strip()
            frames.append(f"line {number}, in {frame.f_code.co_name}{origin}: {text}")

    omitted = len(frames) - MAX_CODE_FRAMES
    if omitted > 0:
        frames[MAX_CODE_FRAMES // 2 : -MAX_CODE_FRAMES // 2] = [f"… {omitted} more frames"]

    return "\n".join(frames)


def _describe_origin(shell: Any, file: str) -> str | None:
    """Return a suffix for a frame of earlier code or a cell; None for others."""
    if file.startswith(CODE_FILE):
        return " (in earlier code)"

    format_name = getattr(shell.compile, "format_code_name", None)
    if file.startswith("<ipython-input-") or (format_name is not None and format_name(file)):
        return " (in a cell)"

    return None
