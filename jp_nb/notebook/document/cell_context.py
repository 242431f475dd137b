"""Sending comm messages from threads other than the cell's.

Any thread may send: ipykernel hands iopub messages to a thread of its own, in the order of the
calls. But each carries a parent, and nbclient drops what does not belong to the cell that runs.
ipykernel 6 takes the newest cell as parent. ipykernel 7 keeps the parent in a context variable:
in another thread it is missing (7.0: an error) or that of the cell that started the thread.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class CellContext:
    """The context of the running cell, for other threads. Made in the cell's thread.

    Without `shell` it stays that of the cell that made it.
    """

    def __init__(self, shell: Any = None) -> None:
        self._context = copy_context()
        self._shell = shell
        if shell is not None:
            shell.events.register("pre_run_cell", self._cell_begins)

    def _cell_begins(self, info: Any) -> None:
        self._context = copy_context()

    def run(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call `function` as the running cell would. From any thread."""
        # A context can be entered once at a time, a copy is cheap.
        return self._context.copy().run(function, *args, **options)

    def close(self) -> None:
        """Follow the cells no longer."""
        if self._shell is not None:
            self._shell.events.unregister("pre_run_cell", self._cell_begins)
            self._shell = None
