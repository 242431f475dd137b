"""A thread with an event loop, to which other threads give coroutines.

Turns run in such a thread, because the event loop of ipykernel's main thread cannot run anything
while a cell runs. `jp.complete` has another one. The thread starts with the first work. `async def`
tools run on its loop, so they may not wait for it.

Source: `docs/architecture.md` (two threads).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Final, TypeVar

from jp_nb.errors import UsageError

T = TypeVar("T")

log = logging.getLogger(__name__)

MAX_START_S: Final = 5.0  # time in which the event loop has to start a coroutine
_SERVING: Final = threading.local()  # `is_here` is set on the threads of event loops


class AgentThread:
    """A thread with an event loop, started on first use. Any thread can then give it work."""

    def __init__(self, name: str = "jp_nb agent") -> None:
        self._name = name
        # Two threads may give the first work at once. The lock guards `_loop` and `_thread` while
        # one of them sets both.
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # asyncio itself holds them weakly

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        """Return the running loop; start it and its thread on first use."""
        with self._starting:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                loop.set_default_executor(_ContextExecutor(thread_name_prefix="asyncio"))
                self._thread = threading.Thread(
                    target=self._serve, args=(loop,), name=self._name, daemon=True
                )
                self._thread.start()
                self._loop = loop
            return self._loop

    @staticmethod
    def is_on_any_loop() -> bool:
        """Return True if the loop of any `AgentThread` runs the caller, such as an async tool."""
        return getattr(_SERVING, "is_here", False)

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        """Run `loop` until it is stopped; this is the function of the thread."""
        _SERVING.is_here = True
        asyncio.set_event_loop(loop)
        try:
            is_stopped = False
            while not is_stopped:
                is_stopped = _run_until_stopped(loop)
        finally:
            loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` on the loop; return a future for its result.

        Canceling the future does not cancel `work`. This is for turns: an interrupt is handled by
        the work itself, which then still records what it has. `submit` is for work that ends with
        its future.

        It runs in a copy of the caller's context, so the output of tools goes to the caller's cell.
        """
        loop = self._start_loop()
        future = Future[T]()
        future.set_running_or_notify_cancel()  # from now on, `cancel` has no effect

        async def deliver() -> None:
            try:
                result = await work
            except BaseException as exc:
                future.set_exception(exc)
                # The task is then a canceled one for asyncio too. Any other exception, even a
                # `SystemExit`, is only for the future: here it would end the event loop.
                if isinstance(exc, asyncio.CancelledError):
                    raise
            else:
                future.set_result(result)

        def schedule() -> None:
            task = loop.create_task(deliver())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        loop.call_soon_threadsafe(schedule)  # copies the context
        return future

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` on the loop; return a future, which cancels the work if it is canceled."""
        return asyncio.run_coroutine_threadsafe(work, self._start_loop())

    def wait_for(
        self,
        work: Coroutine[Any, Any, T],
        *,
        serve: Callable[[Future[Any]], None] | None = None,
    ) -> T:
        """Run `work` on the loop and wait for its result; an interrupt ends the wait.

        `serve` runs meanwhile in the calling thread, until the future is done. If an exception ends
        the wait, `work` is canceled.

        Raises:
            UsageError: An `async def` tool is the caller, or blocks the loop.
        """
        loop = self._start_loop()
        if threading.current_thread() is self._thread:  # it cannot wait for itself
            work.close()
            raise UsageError("an `async def` tool cannot do this. Use a `def` tool")

        # An interrupt may arrive at any step below, before or after the work begins on the loop. So
        # `cancelled` tells it not to begin, and `task` is canceled if it has begun. A second
        # `work.close()` is harmless.
        started = threading.Event()
        cancelled = threading.Event()
        task: asyncio.Task[object] | None = None

        async def run_unless_cancelled() -> T:
            nonlocal task
            task = asyncio.current_task()
            started.set()
            if cancelled.is_set():
                work.close()
                raise asyncio.CancelledError
            return await work

        try:
            future = asyncio.run_coroutine_threadsafe(run_unless_cancelled(), loop)
            if not started.wait(MAX_START_S):
                work.close()
                raise UsageError(
                    "an `async def` tool still blocks the thread on which turns run. "
                    "Wait until it ends, or restart the kernel"
                )

            if serve is not None:
                serve(future)
            return future.result()
        except BaseException:
            cancelled.set()
            if task is not None and not task.done():
                loop.call_soon_threadsafe(task.cancel)
            raise

    def call(self, function: Callable[[], object]) -> None:
        """Schedule `function` on the loop; do nothing if the thread is not running."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(function)

    def close(self, *final_work: Coroutine[Any, Any, object]) -> None:
        """Run `final_work`, then end the loop and its thread. Errors are only logged.

        If the thread is not running, `final_work` does not run: nothing was opened that it closes.
        """
        loop = self._loop
        thread = self._thread
        if loop is None or thread is None:
            for work in final_work:
                work.close()
            return

        for work in final_work:
            try:
                self.run(work).result(timeout=5)
            except (Exception, asyncio.CancelledError):
                # A connection that does not close must not keep the kernel alive.
                log.debug("the final work failed", exc_info=True)

        self._loop = None
        self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=5)


class _ContextExecutor(ThreadPoolExecutor):
    """Runs functions of `run_in_executor` in a copy of the caller's context.

    The context has `CURRENT_RUN`, from which code knows that it is inside of a tool.
    """

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Submit `fn` with the arguments."""
        return super().submit(copy_context().run, fn, *args, **kwargs)


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> bool:
    """Run `loop`; return False if a task of a tool ended it before it was stopped."""
    try:
        loop.run_forever()
    except (SystemExit, KeyboardInterrupt):
        # Its task holds the exception for the tool that awaits it.
        log.debug("a task raised an exception that ends an event loop", exc_info=True)
        return False
    return True
