"""Give code that a turn runs a place in IPython's history, as if the user had run its cell.

The running cell keeps its own execution count. The cells that it runs get the next ones, and the
cell after it continues behind them.

Source: `docs/cells.md`, https://ipython.readthedocs.io/en/stable/interactive/reference.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from jp_nb.notebook.running_cells import RunningCells


@contextmanager
def store_in_history(shell: Any, source: str) -> Iterator[int]:
    """Store `source` in the history, and yield its execution count. Use on the cell's thread.

    Inside of the block, the displayed value goes into `Out` and `_`.
    """
    history = shell.history_manager
    hook = shell.displayhook
    outer_count = shell.execution_count
    outer_result = getattr(hook, "exec_result", None)

    # The entry 0 is empty, and the running cell has one if it is stored in the history.
    count = max(len(history.input_hist_raw), hook.prompt_count)
    history.store_inputs(count, _transform(shell, source), source)
    # IPython 9 counts a cell when it starts, and earlier releases when it ends.
    shell.execution_count += count - hook.prompt_count
    hook.exec_result = None  # it belongs to the running cell

    try:
        yield count
        history.store_output(count)
    finally:
        hook.exec_result = outer_result
        shell.execution_count = outer_count
        _continue_behind(shell, count)


def _transform(shell: Any, source: str) -> str:
    try:
        return str(shell.transform_cell(source))
    except Exception:  # a transformer of the user may raise anything, and so it does when it runs
        return source


def _continue_behind(shell: Any, count: int) -> None:
    """Let the cell after the running one have a number behind `count`.

    Not before the running cell has ended: its reply to the front end has the shell's number minus
    one as its own.
    """
    kernel: Any = getattr(shell, "kernel", None)
    cells = RunningCells.of(kernel)
    if cells is not None:
        cells.call_at_end(kernel.get_parent("shell"), partial(_skip_to, shell, count + 1))


def _skip_to(shell: Any, count: int) -> None:
    shell.execution_count = max(shell.execution_count, count)
