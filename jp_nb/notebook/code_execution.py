"""Execute code in the user's namespace as IPython executes a cell, without its bookkeeping.

IPython's own `run_cell` would count the code, store it in the history, and call hooks. So this
module repeats the parts that are needed: transformers, display of values, and top-level `await`.

Source: `docs/notebook-tools.md`, `docs/decisions.md` D94.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import linecache
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType
from typing import Any

from jp_nb.notebook.display.capture import OutputCapture

_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)


def cache_source_lines(name: str, source: str) -> None:
    """Let debuggers and tracebacks find the lines of code that is in no file."""
    # The None is the modification time: without one, `linecache` looks for no file.
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)


def execute_code(
    shell: Any, code: str, name: str, capture: OutputCapture, *, in_history: bool
) -> None:
    """Execute `code`, whose file name in tracebacks is `name`, and raise its errors.

    With `in_history`, displayed values go into `Out` and `_`.
    """
    source = shell.transform_cell(code)  # magics become Python
    if source != code:
        cache_source_lines(name, source)

    tree = shell.transform_ast(shell.compile.ast_parse(source, filename=name))
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if shell.autoawait else 0

    with ExitStack() as stack:
        stack.enter_context(shell.builtin_trap)
        stack.enter_context(shell.display_trap)
        if not in_history:
            # IPython does not display the value of code that ends with a semicolon.
            quiet = ";" in source and bool(shell.displayhook.semicolon_at_end_of_expression(source))
            stack.enter_context(_display_without_history(shell, capture, quiet=quiet))

        # The kernel's loop is busy with the cell, so top-level `await` runs in a separate one. With
        # a factory, the runner does not replace the event loop of the thread.
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        stack.callback(_close_runner, runner)

        for node, mode in _iter_statements(tree.body, shell.ast_node_interactivity):
            unit = ast.Interactive([node]) if mode == "single" else ast.Module([node], [])
            with shell.compile.extra_flags(flags):
                compiled: CodeType = shell.compile(unit, name, mode)

            result = eval(compiled, shell.user_global_ns, shell.user_ns)
            if compiled.co_flags & inspect.CO_COROUTINE:
                with _suspend_running_loop():
                    runner.run(result)


def _iter_statements(body: list[ast.stmt], interactivity: str) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each statement and its compile mode; the mode `single` displays the value.

    `interactivity` is IPython's setting `ast_node_interactivity`.
    """
    if interactivity == "last_expr_or_assign":
        body = [*body, *_read_assigned_name(body)]

    for index, node in enumerate(body):
        is_last = index == len(body) - 1
        match interactivity:
            case "all":
                displays = True
            case "none":
                displays = False
            case "last":
                displays = is_last
            case _:  # "last_expr", or "last_expr_or_assign", whose name was appended above
                displays = is_last and isinstance(node, ast.Expr)

        mode = "single" if displays else "exec"
        yield node, mode


def _read_assigned_name(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the expression `x` if the last statement assigns to the name `x`."""
    last = body[-1] if body else None
    if not isinstance(last, _ASSIGNMENTS):
        return

    targets = last.targets if isinstance(last, ast.Assign) else [last.target]
    if len(targets) == 1 and isinstance(target := targets[0], ast.Name):
        expression = ast.Expr(ast.Name(target.id, ast.Load()))
        yield ast.fix_missing_locations(ast.copy_location(expression, last))


@contextmanager
def _display_without_history(shell: Any, capture: OutputCapture, *, quiet: bool) -> Iterator[None]:
    """Display values without setting `Out` and `_`. A display hook of the user stays in place."""

    def display(value: object) -> None:
        if value is None or quiet:
            return

        with capture.showing_value():  # the model gets it as the result, not as a display
            data, metadata = shell.display_formatter.format(value)
            if data:
                shell.display_pub.publish(data=data, metadata=metadata)

    outer = sys.displayhook
    if outer is shell.displayhook:
        sys.displayhook = display

    try:
        yield
    finally:
        if sys.displayhook is display:
            sys.displayhook = outer


@contextmanager
def _suspend_running_loop() -> Iterator[None]:
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


def _close_runner(runner: asyncio.Runner) -> None:
    with _suspend_running_loop():
        runner.close()
