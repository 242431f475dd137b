"""The context of the running cell, in which other threads send messages to a page.

Any thread may send: ipykernel passes iopub messages to one thread, in the order of the calls. Each
message has a *parent*, the request that runs the cell; nbclient drops messages with another one.
ipykernel 7 keeps the parent in a context variable. In another thread, this variable is missing (an
error in 7.0), or names the cell that started the thread. So `CellContext` keeps it.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")

T = TypeVar("T")


class CellContext:
    """Context variables of the running cell, for other threads. Create it in the cell's thread.

    With a `shell`, it follows the cells: from the start of each later one, it has that cell's.
    Otherwise, it stays that of the cell that created it.
    """

    def __init__(self, shell: Any = None) -> None:
        self._context = copy_context()
        self._shell = shell
        if shell is not None:
            shell.events.register("pre_run_cell", self._update)

    def _update(self, info: Any) -> None:
        self._context = copy_context()

    def run(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call `function` in the context of the running cell. Thread-safe."""
        # Two threads cannot enter one context at once; a copy is cheap.
        return self._context.copy().run(function, *args, **options)

    def close(self) -> None:
        """Stop following the cells."""
        if self._shell is not None:
            self._shell.events.unregister("pre_run_cell", self._update)
            self._shell = None
