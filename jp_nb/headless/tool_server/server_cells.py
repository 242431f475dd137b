"""Threads for the functions of served tools, in place of the thread of a running cell.

Source: `docs/mcp.md` (our tools for others).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from jp_nb.toolkit.cell_thread import CallInterrupted, ControlFlowError

T = TypeVar("T")


class InlineCell:
    """A `CellThread` that runs functions in the thread of the event loop, as a kernel does.

    It is for functions that need this thread (`ToolHost(inline=True)`). The server cannot answer
    while one runs.
    """

    async def call(self, function: Callable[[], T]) -> T:
        """Run `function` and return its result."""
        return _call_safely(function)

    def release(self) -> None:
        """Do nothing. Only an interrupted cell holds calls, and a server has no cell."""


class ThreadCell:
    """A `CellThread` that runs functions one at a time in a thread, while the server answers."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jp-nb tools")

    async def call(self, function: Callable[[], T]) -> T:
        """Run `function` and return its result."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, _call_safely, function)

    def release(self) -> None:
        """Do nothing. Only an interrupted cell holds calls, and a server has no cell."""


def _call_safely(function: Callable[[], T]) -> T:
    """Return the result of `function`, and raise its errors in a form that fits an event loop.

    The original exception is the `__cause__` of the one that replaces it.
    """
    try:
        return function()
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as exc:  # would end the event loop
        raise CallInterrupted(str(exc)) from exc
    except StopIteration as exc:  # a future cannot raise it
        raise ControlFlowError(str(exc)) from exc
