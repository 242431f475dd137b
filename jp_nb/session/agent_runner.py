"""The agent's thread with its event loop, and the work of a cell that runs on it.

Source: `docs/architecture.md`.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from jp_nb.agent.display import InterruptReceived
from jp_nb.agent.tool_call import Call
from jp_nb.config.tree.app import AppConfig
from jp_nb.errors import UsageError
from jp_nb.record.stream import ConversationStream
from jp_nb.session.ask import SessionAnswers
from jp_nb.session.cell_loop import CellLoop
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.host import Host, TurnOutput
from jp_nb.storage import environment
from jp_nb.tools.base import SharedContext
from jp_nb.tools.secrets import SecretAnswers

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


UNHEARD_BEFORE_GIVING_UP = 3
"""Interrupts that the agent's loop takes no notice of: a tool blocks it."""


class Interruptible(Protocol):
    """Work that hears interrupts of the kernel, on the agent's loop.

    Attributes:
        interrupt_count: How many it took notice of; none after its end.
    """

    interrupt_count: int

    def interrupt(self) -> None:
        """Hear that the kernel was interrupted."""
        ...


class AgentRunner:
    """Runs work of the agent from the cell's thread, one at a time.

    Args:
        host: Where the session runs.
        active: Its conversation, which is told what runs.

    Attributes:
        cell: The cell's thread.
        agent: The thread on which the work runs.
        front_end: The person's side.
        secrets: What tools may not repeat.
        output: The display of what runs, or ran last.
    """

    def __init__(self, host: Host, active: ActiveConversation) -> None:
        self._host = host
        self._active = active
        self.cell = CellLoop()
        self.agent = AgentThread()
        self.front_end = host.front_end(self.cell, self.agent.call)
        self.secrets = SecretAnswers()
        self.output: TurnOutput | None = None
        self._prepared = SessionAnswers()

    def begin_turn(self, config: AppConfig) -> TurnOutput:
        """Return what shows the work in the running cell; prompts are put there from now on."""
        self.output = output = self.front_end.begin_turn(config)
        return output

    def load_answers(self, config: AppConfig) -> SessionAnswers:
        """Return what was decided beforehand, where the run or else `config` says.

        Raises:
            ConfigError: If the file cannot be read, or is wrong.
        """
        file = os.environ.get(environment.ANSWERS) or config.prompt.answers
        self._prepared.load(file, self._active.files)
        return self._prepared

    def tool_context(self, stream: ConversationStream) -> SharedContext:
        """Return what every tool is told that is called in `stream`."""
        return {
            "root": str(self._active.files.root),
            "conversation_id": stream.id,
            "history": self._active.questions.read,
            "notebook": self._host.notebook_access(self._active.store),
            "image_side": self._active.settings.projection.config().values.image_side,
        }

    def on_tool_error(self, call: Call, error: BaseException) -> None:
        """Keep the `error` that the tool of `call` raised for a debugger; from any thread."""
        self.cell.post(lambda: self._host.keep_error(error))

    @contextmanager
    def display(self, output: TurnOutput) -> Iterator[None]:
        """A block in which `output` shows what happens; no interrupt lands between its lines."""
        with self.cell.defer_interrupts():
            try:
                self.cell.set_interrupt_handler(lambda: output(InterruptReceived()))
                output.begin()
                yield
            finally:
                self.cell.set_interrupt_handler(None)
                self.front_end.end()
                output.finish()

    def run(self, job: Coroutine[Any, Any, T], work: Interruptible) -> T | None:
        """Run `job` of `work`, and do what the cell's thread has to do until it is done.

        Returns its result; None if it was cancelled, or an interrupt came as it ended: that one
        still stops what would run next.
        """
        self._active.running = future = self.agent.run(job)
        future.add_done_callback(lambda _: self.cell.wake())
        self.cell.release()
        interrupts = 0
        while True:
            try:
                self.cell.serve(future.done)
                result = future.result()
                return None if interrupts > work.interrupt_count else result
            except (CancelledError, asyncio.CancelledError):
                return None
            except KeyboardInterrupt:
                interrupts += 1
                if interrupts - work.interrupt_count >= UNHEARD_BEFORE_GIVING_UP:
                    raise
                self.cell.hold()  # no tool starts before it is decided what goes on
                self.agent.call(work.interrupt)
