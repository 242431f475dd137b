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

from jp_nb.notebook.cell_watch import watch_cells


@contextmanager
def store_in_history(shell: Any, source: str) -> Iterator[int]:
    """Store `source` in the history, and yield its execution count. Use on the cell's thread.

    Inside of the block, the displayed value goes into `Out` and `_`.
    """
    history = shell.history_manager
    hook = shell.displayhook
    outer_count = shell.execution_count
    outer_result = getattr(hook, "exec_result", None)

    # `prompt_count` is the number that a value gets in `Out` now: that of the running cell. The
    # next free number is the length of the history, whose entry 0 is empty.
    running_count = hook.prompt_count
    count = max(len(history.input_hist_raw), running_count)
    history.store_inputs(count, _transform(shell, source), source)

    # IPython derives `prompt_count` from `execution_count`, which is the same number, or one more
    # in IPython 9, which counts a cell when it starts. So shift it by the difference.
    shell.execution_count += count - running_count
    hook.exec_result = None  # it belongs to the running cell

    try:
        yield count
        history.store_output(count)
    finally:
        hook.exec_result = outer_result
        shell.execution_count = outer_count
        _continue_behind(shell, count)


def _transform(shell: Any, source: str) -> str:
    """Return `source` as Python, in which magics are calls."""
    try:
        return str(shell.transform_cell(source))
    except Exception:  # a transformer of the user may raise anything, and so it does when it runs
        return source


def _continue_behind(shell: Any, count: int) -> None:
    """Let the cell after the running one have a number behind `count`.

    The number changes when the running cell has ended, because its reply to the front end has the
    shell's number minus one as its own. `RunningCells` (`running_cells.py`) calls functions after
    this reply. A kernel that is not ipykernel's has none: then the next cell has the same number as
    the last cell of the turn.
    """
    kernel: Any = getattr(shell, "kernel", None)
    cells = watch_cells(kernel)
    if cells is not None:
        cells.call_at_end(kernel.get_parent("shell"), partial(_skip_to, shell, count + 1))


def _skip_to(shell: Any, count: int) -> None:
    shell.execution_count = max(shell.execution_count, count)
