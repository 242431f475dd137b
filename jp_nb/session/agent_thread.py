"""The thread on which turns run: one event loop per kernel, started at the first turn.

Source: `docs/architecture.md`
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from jp_nb.errors import UsageError

T = TypeVar("T")

log = logging.getLogger(__name__)

LONGEST_BUSY = 5.0
"""Seconds that the loop may take until it begins something."""


class AgentThread:
    """An event loop on a thread of its own. Every method is safe from any other thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # asyncio itself holds them weakly

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._serve, args=(loop,), name="jp_nb agent", daemon=True
            )
            self._thread.start()
            self._loop = loop
        return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` on the loop; the future has its result.

        It runs in a copy of the caller's context: what a tool prints belongs to the caller's cell.
        """
        loop, future = self._running_loop(), Future[T]()
        context = contextvars.copy_context()

        async def deliver() -> None:
            try:
                result = await work
            except BaseException as exc:
                future.set_exception(exc)
                if isinstance(exc, asyncio.CancelledError):
                    raise
            else:
                future.set_result(result)

        def start() -> None:
            task = loop.create_task(deliver(), context=context)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        loop.call_soon_threadsafe(start)
        return future

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and return its result; the caller's thread waits, interruptibly.

        Raises:
            UsageError: If an `async def` tool asks, or blocks the loop.
        """
        loop, began, left = self._running_loop(), threading.Event(), threading.Event()
        if threading.current_thread() is self._thread:  # it cannot wait for itself
            work.close()
            raise UsageError("an `async def` tool cannot do this. Use a `def` tool")
        tasks: list[asyncio.Task[object]] = []

        async def begin() -> T:
            tasks.extend(task for task in [asyncio.current_task()] if task is not None)
            began.set()
            if left.is_set():
                work.close()
                raise asyncio.CancelledError
            return await work

        try:
            # An interrupt may come before this returns, when the work has begun already.
            future = asyncio.run_coroutine_threadsafe(begin(), loop)
            if not began.wait(LONGEST_BUSY):
                work.close()
                raise UsageError(
                    "an `async def` tool still blocks the thread on which turns run. "
                    "Wait until it ends, or restart the kernel"
                )
            return future.result()
        except BaseException:
            left.set()
            for task in tasks:
                if not task.done():
                    loop.call_soon_threadsafe(task.cancel)
            raise

    def call(self, function: Callable[[], object]) -> None:
        """Run `function` on the loop soon."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(function)

    def close(self, *last: Coroutine[Any, Any, object]) -> None:
        """Run `last`, then end the loop and its thread."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            for work in last:
                work.close()
            return
        for work in last:
            try:
                self.run(work).result(timeout=5)
            except (Exception, asyncio.CancelledError):
                # A connection that does not close must not keep the kernel alive.
                log.debug("a provider did not close", exc_info=True)
        self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=5)
