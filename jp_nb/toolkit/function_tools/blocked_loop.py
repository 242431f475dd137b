"""End a tool's wait for the event loop of the cell, which continues only after the cell.

`asyncio.run_coroutine_threadsafe(…, loop).result()` would wait for as long as the turn waits for
the tool. Waits for an event, a lock or a queue that code of the loop would set are not detected.

Source: `docs/tools.md`.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from threading import get_ident
from types import FrameType
from typing import Any, Final, TypeVar

CHECK_S: Final = 0.25
"""Seconds between two looks at the function's thread."""
WAITS_FOR_CELL: Final = (
    "the tool waits for the event loop of the cell, which continues only after the cell. Make the "
    "tool an `async def` function that awaits the coroutine"
)
_WAITING_CODE: Final = (Future.result.__code__, Future.exception.__code__)
_CALLBACK_NAME: Final = "run_coroutine_threadsafe.<locals>.callback"
"""The callback by which asyncio starts the coroutine. It has the variables `coro` and `future`."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _QueuedCoroutine:
    """A coroutine that a loop has not started.

    Attributes:
        handle: The entry in the queue of the loop, which would start it.
        coroutine: The coroutine.
        future: The future for which the function of the tool waits. It gets the result.
    """

    handle: asyncio.Handle
    coroutine: Any
    future: Future[Any]


class WatchedCall:
    """A call of a function that another thread runs while the agent's loop watches its waits.

    The other thread calls `run`, inside of a block of `watching` on the agent's loop. The two
    threads share `loop` and the id of the function's thread. The function's thread sets both, and
    the agent's thread only reads them, so there is no lock.

    Attributes:
        loop: The event loop of the cell, which does not run meanwhile: that of the thread of the
            function, or else the given one. None if it is not known.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self.loop = loop
        self._thread: int | None = None  # None while the function does not run

    def run(self, function: Callable[[], T]) -> T:
        """Call `function`, in its thread."""
        self.loop = get_loop_of_thread() or self.loop
        self._thread = get_ident()
        try:
            return function()
        finally:
            self._thread = None

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """End a wait for the cell's loop in the block, with an exception that names the reason."""
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()

    async def _watch(self) -> None:
        """End each wait for a coroutine that two looks in a row found in the queue of the loop."""
        previous_handle: asyncio.Handle | None = None
        while True:
            await asyncio.sleep(CHECK_S)
            queued = self._find_awaited_coroutine()
            if queued is None:
                previous_handle = None
                continue

            if queued.handle is not previous_handle:
                # A loop that runs starts the coroutine before the next look.
                previous_handle = queued.handle
                continue

            # Without this, the loop would still run the coroutine after the cell.
            queued.handle.cancel()
            queued.coroutine.close()
            with suppress(InvalidStateError):  # it was cancelled just now
                queued.future.set_exception(RuntimeError(WAITS_FOR_CELL))

    def _find_awaited_coroutine(self) -> _QueuedCoroutine | None:
        """Return the coroutine for which the function waits, if the cell's loop has to start it."""
        thread = self._thread
        if thread is None or self.loop is None:
            return None

        frame: FrameType | None = sys._current_frames().get(thread)
        while frame is not None and frame.f_code is not WatchedCall.run.__code__:
            if frame.f_code in _WAITING_CODE:
                return _find_queued(self.loop, frame.f_locals["self"])
            frame = frame.f_back
        return None


def _find_queued(loop: asyncio.AbstractEventLoop, future: Future[Any]) -> _QueuedCoroutine | None:
    """Return the coroutine in the queue of `loop` whose result `future` gets; None without one."""
    ready: deque[asyncio.Handle] = getattr(loop, "_ready", deque())  # only of asyncio's own loops

    for handle in ready.copy():
        callback = getattr(handle, "_callback", None)
        if not inspect.isfunction(callback) or callback.__qualname__ != _CALLBACK_NAME:
            continue
        variables = inspect.getclosurevars(callback).nonlocals
        if variables.get("future") is future:
            return _QueuedCoroutine(handle, variables["coro"], future)
    return None


def get_loop_of_thread() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
