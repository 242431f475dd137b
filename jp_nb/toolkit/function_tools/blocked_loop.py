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
WAITS_FOR_CELL: Final = (
    "the tool waits for the event loop of the cell, which continues only after the cell. Make the "
    "tool an `async def` function that awaits the coroutine"
)
_WAITS: Final = (Future.result.__code__, Future.exception.__code__)
_CALLBACK: Final = "run_coroutine_threadsafe.<locals>.callback"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _QueuedCoroutine:
    """A coroutine that a loop has not started, and the future that waits for it."""

    handle: asyncio.Handle
    coroutine: Any
    future: Future[Any]


class WatchedCall:
    """A call of a function that another thread runs while the agent's loop watches its waits.

    Attributes:
        loop: The event loop of the cell, which does not run meanwhile: that of the thread of the
            function, or else the given one. None if it is not known.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self.loop = loop
        self._thread: int | None = None  # set by the function's thread

    def run(self, function: Callable[[], T]) -> T:
        """Call `function`, in its thread."""
        self.loop = running_loop() or self.loop
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
        previous: asyncio.Handle | None = None
        while True:
            await asyncio.sleep(CHECK_S)
            found = self._find_wait()
            if found is None or found.handle is not previous:
                # The loop would take a new one at its next step, if it ran.
                previous = None if found is None else found.handle
                continue

            found.handle.cancel()
            found.coroutine.close()
            with suppress(InvalidStateError):  # it was cancelled just now
                found.future.set_exception(RuntimeError(WAITS_FOR_CELL))

    def _find_wait(self) -> _QueuedCoroutine | None:
        """Return the coroutine for which the function waits, if the cell's loop has to start it."""
        thread = self._thread
        if thread is None or self.loop is None:
            return None

        frame: FrameType | None = sys._current_frames().get(thread)
        while frame is not None and frame.f_code is not WatchedCall.run.__code__:
            if frame.f_code in _WAITS:
                return _find_queued(self.loop, frame.f_locals["self"])
            frame = frame.f_back
        return None


def _find_queued(loop: asyncio.AbstractEventLoop, future: Future[Any]) -> _QueuedCoroutine | None:
    ready: deque[asyncio.Handle] = getattr(loop, "_ready", deque())  # only of asyncio's own loops

    for handle in ready.copy():
        callback = getattr(handle, "_callback", None)
        if not inspect.isfunction(callback) or callback.__qualname__ != _CALLBACK:
            continue
        variables = inspect.getclosurevars(callback).nonlocals
        if variables.get("future") is future:
            return _QueuedCoroutine(handle, variables["coro"], future)
    return None


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
