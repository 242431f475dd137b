"""Runs code as IPython runs a cell, in the user's namespace, and leaves no trace of a cell.

Neither the execution counter nor `In`, `Out`, `_` and the history change, and no hook of a cell
fires: the cell that runs is another one.

Source: `docs/notebook-tools.md`, `docs/decisions.md` D94.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import inspect
import linecache
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, TracebackType
from typing import Any, Final

from jp_nb.notebook.cells import CODE_FILE
from jp_nb.notebook.display.capture import OutputCapture, capturing, open_figures, show_figures
from jp_nb.text import plain
from jp_nb.tools.base import error_summary
from jp_nb.tools.notebook_access import CodeRun

MAX_FRAMES: Final = 20
MAX_ERROR_CHARS: Final = 10_000
"""Of the text of an exception, as a model reads it."""
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)


def run_code(
    shell: Any, code: str, failed: Callable[[BaseException, str], None] | None = None
) -> CodeRun:
    """Run `code` in the namespace of `shell`; on the cell's thread. `failed` gets what ended it.

    Raises:
        KeyboardInterrupt: If the kernel is interrupted meanwhile.
    """
    figures = open_figures()
    name = _file_for(code)
    error: BaseException | None = None
    with capturing(shell) as capture:
        try:
            _run(shell, code, name, capture)
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # `SystemExit`, too: it ends the code, not the turn
            error = exc
        if open_figures() - figures:
            show_figures()
    if error is None:
        return CodeRun(capture.outputs())
    told = _Told(shell, error, name)
    told.remember()
    if failed is not None:
        failed(error, code)
    told.show()
    return CodeRun(capture.outputs(), told.summary, told.frames())


def _file_for(code: str) -> str:
    """Return the file name of `code`, under which debuggers and tracebacks find its lines."""
    digest = hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    name = f"{CODE_FILE}{digest}>"
    # Without a time of its last change nobody looks for the file.
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    return name


# --- running ---------------------------------------------------------------------------------


def _run(shell: Any, code: str, name: str, capture: OutputCapture) -> None:
    source = shell.transform_cell(code)
    if source != code:
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    tree = shell.transform_ast(shell.compile.ast_parse(source, filename=name))
    with ExitStack() as stack:
        stack.enter_context(shell.builtin_trap)
        stack.enter_context(shell.display_trap)
        stack.enter_context(_displayhook(shell, capture, quiet=_is_quiet(shell, source)))
        awaiting = stack.enter_context(_Awaiting())
        for node, mode in _statements(tree.body, shell.ast_node_interactivity):
            compiled = _compiled(shell, node, name, mode)
            result = eval(compiled, shell.user_global_ns, shell.user_ns)
            if compiled.co_flags & inspect.CO_COROUTINE:
                awaiting.run(result)


def _statements(body: list[ast.stmt], interactivity: str) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each statement with the mode in which it is compiled: `single` displays its value."""
    last = body[-1] if body else None
    if interactivity == "last_expr_or_assign" and isinstance(last, _ASSIGNMENTS):
        targets = last.targets if isinstance(last, ast.Assign) else [last.target]
        if len(targets) == 1 and isinstance(target := targets[0], ast.Name):
            shown = ast.Expr(ast.Name(target.id, ast.Load()))
            body = [*body, ast.fix_missing_locations(ast.copy_location(shown, last))]
    for index, node in enumerate(body):
        is_last = index == len(body) - 1
        displays = {"all": True, "none": False, "last": is_last}.get(
            interactivity, is_last and isinstance(node, ast.Expr)
        )
        yield node, "single" if displays else "exec"


def _compiled(shell: Any, node: ast.stmt, name: str, mode: str) -> CodeType:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if shell.autoawait else 0
    unit = ast.Interactive([node]) if mode == "single" else ast.Module([node], [])
    with shell.compile.extra_flags(flags):
        compiled: CodeType = shell.compile(unit, name, mode)
    return compiled


def _is_quiet(shell: Any, source: str) -> bool:
    """Return True if `source` ends with a semicolon, which keeps a value back."""
    return ";" in source and bool(shell.displayhook.semicolon_at_end_of_expression(source))


@contextmanager
def _displayhook(shell: Any, capture: OutputCapture, *, quiet: bool) -> Iterator[None]:
    """Have values displayed without `Out` and `_`; a hook of the user's own stays in place."""

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


class _Awaiting:
    """Runs coroutines inside of a cell, whose event loop cannot go on before the cell ends.

    They have a loop of their own. It ends with the code, and the tasks that still run in it.
    """

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def __enter__(self) -> _Awaiting:
        return self

    def __exit__(self, *_: object) -> None:
        if self._runner is not None:
            with _no_loop_runs():
                self._runner.close()

    def run(self, awaited: Coroutine[Any, Any, object]) -> None:
        """Await `awaited`."""
        # With a factory, the runner leaves the loop alone that the thread has.
        self._runner = self._runner or asyncio.Runner(loop_factory=asyncio.new_event_loop)
        with _no_loop_runs():
            self._runner.run(awaited)


@contextmanager
def _no_loop_runs() -> Iterator[None]:
    """Open a block in which another event loop may run on this thread.

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


# --- what went wrong -------------------------------------------------------------------------


class _Told:
    """An exception of the code, as a person and as a model read it.

    Attributes:
        summary: Its type and text.
    """

    def __init__(self, shell: Any, error: BaseException, name: str) -> None:
        self._shell, self._error, self._name = shell, error, name
        self._begin = _first_frame(error.__traceback__, name)
        # The text of a wrong line names the file, which nobody needs to see.
        where = f"{type(error).__name__}: {error.msg}" if isinstance(error, SyntaxError) else None
        self.summary = plain(where or error_summary(error), limit=MAX_ERROR_CHARS)

    def remember(self) -> None:
        """Have `%debug` and `%tb` find it."""
        sys.last_type, sys.last_value = type(self._error), self._error
        sys.last_traceback = self._begin
        if sys.version_info >= (3, 12):
            sys.last_exc = self._error

    def show(self) -> None:
        """Print it in the cell, as IPython renders it."""
        # Not as an `error`: with one in its outputs, runners take the whole cell as failed.
        kind = type(self._error)
        if isinstance(self._error, SyntaxError) and self._begin is None:
            lines = self._shell.SyntaxTB.structured_traceback(kind, self._error, [])
        else:
            lines = self._shell.InteractiveTB.structured_traceback(kind, self._error, self._begin)
        print(self._shell.InteractiveTB.stb2text(lines), file=sys.stderr)

    def frames(self) -> str:
        """Return where it was raised, in the code and in cells, without anything of this machine.

        Shape:
            line 2, in <module>: half(0)
            line 1, in half (in a cell): return 1 / number
        """
        if isinstance(self._error, SyntaxError) and self._error.filename == self._name:
            return plain(_caret(self._error), limit=MAX_ERROR_CHARS)
        found = list(self._own_frames())
        left_out = len(found) - MAX_FRAMES
        if left_out > 0:
            found[MAX_FRAMES // 2 : -MAX_FRAMES // 2] = [f"… {left_out} more frames"]
        return plain("\n".join(found), limit=MAX_ERROR_CHARS)

    def _own_frames(self) -> Iterator[str]:
        for frame, line in traceback.walk_tb(self._begin):
            place = self._place(frame.f_code.co_filename)
            if place is not None:
                text = linecache.getline(frame.f_code.co_filename, line).strip()
                yield f"line {line}, in {frame.f_code.co_name}{place}: {text}"

    def _place(self, file: str) -> str | None:
        """Return whose code is in `file`; None if it is nobody's here."""
        if file == self._name:
            return ""
        if file.startswith(CODE_FILE):
            return " (in earlier code)"
        return " (in a cell)" if _is_cell(self._shell, file) else None


def _caret(error: SyntaxError) -> str:
    """Return the line that is wrong, and below it where."""
    lines = "".join(traceback.format_exception_only(type(error), error)).split("\n")[1:]
    return "\n".join([f"line {error.lineno}:", *(line for line in lines[:-2] if line)])


def _is_cell(shell: Any, file: str) -> bool:
    named = getattr(shell.compile, "format_code_name", None)
    return file.startswith("<ipython-input-") or bool(named is not None and named(file))


def _first_frame(found: TracebackType | None, name: str) -> TracebackType | None:
    """Return the traceback from the first frame of the file `name` on; None if there is none."""
    while found is not None and found.tb_frame.f_code.co_filename != name:
        found = found.tb_next
    return found
