"""The agent's thread, and the runner of its work from a cell.

Source: `docs/architecture.md`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, Protocol, TypeVar

from jp_nb.agent.display import Display, DisplayEvent, InterruptReceived, ToolBegins, ToolEnds
from jp_nb.agent.turn_record import TurnRecord
from jp_nb.agent.turn_state import RecordedAnswer, TurnContext, UsageCounter
from jp_nb.config.tree.app import AppConfig
from jp_nb.errors import UsageError
from jp_nb.session.answers import SessionAnswers
from jp_nb.session.cell_loop import MAX_INTERRUPTS, CellLoop
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.host import Host, TurnOutput
from jp_nb.session.kept_rules import PermissionRules
from jp_nb.storage import environment
from jp_nb.storage.run_events import append_run_event, has_runner
from jp_nb.toolkit.cell_thread import TOOL_THREAD
from jp_nb.toolkit.secret_answers import SecretAnswers

T = TypeVar("T")

log = logging.getLogger(__name__)

MAX_START_S = 5.0  # time in which the event loop has to start a coroutine

_SERVING = threading.local()  # `is_here` is set on the threads of event loops
_SHOWS_TURNS: ContextVar[bool] = ContextVar("shows_turns", default=True)


@contextmanager
def showing_turns(shows: bool) -> Iterator[None]:
    """Show the turns of the `with` block, or only their questions."""
    token = _SHOWS_TURNS.set(shows)
    try:
        yield
    finally:
        _SHOWS_TURNS.reset(token)


class HiddenTurn:
    """Display of a turn that shows nothing. Its questions have their own outputs."""

    def begin(self) -> None:
        """Show nothing."""

    def __call__(self, event: DisplayEvent) -> None:
        """Show nothing."""

    def finish(self) -> None:
        """Show nothing."""


class _ContextExecutor(ThreadPoolExecutor):
    """Runs functions in a copy of the caller's context: in it, a tool is known as a tool."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Submit `fn` with the arguments."""
        return super().submit(copy_context().run, fn, *args, **kwargs)


class AgentThread:
    """A thread with an event loop, started on first use. Any thread can then give it work."""

    def __init__(self, name: str = "jp_nb agent") -> None:
        self._name = name
        self._starting = threading.Lock()  # guards `_loop` and `_thread` while they are set
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # asyncio itself holds them weakly

    def _running_loop(self) -> asyncio.AbstractEventLoop:
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
    def is_current() -> bool:
        """Return True if the caller runs on an event loop of this class, such as an async tool."""
        return getattr(_SERVING, "is_here", False)

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        _SERVING.is_here = True
        asyncio.set_event_loop(loop)
        try:
            while not _run_until_stopped(loop):
                pass
        finally:
            loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` on the loop; return a future for its result.

        It runs in a copy of the caller's context, so the output of tools goes to the caller's cell.
        """
        loop = self._running_loop()
        future = Future[T]()

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
            task = loop.create_task(deliver())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        loop.call_soon_threadsafe(start)  # copies the context
        return future

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` on the loop; return a future, which cancels the work if it is canceled."""
        return asyncio.run_coroutine_threadsafe(work, self._running_loop())

    def wait_for(
        self,
        work: Coroutine[Any, Any, T],
        *,
        serve: Callable[[Future[Any]], None] | None = None,
    ) -> T:
        """Run `work` on the loop and wait for its result; an interrupt ends the wait.

        `serve` runs meanwhile in the calling thread, until the future is done.

        Raises:
            UsageError: An `async def` tool is the caller, or blocks the loop.
        """
        loop = self._running_loop()
        started = threading.Event()
        cancelled = threading.Event()

        if threading.current_thread() is self._thread:  # it cannot wait for itself
            work.close()
            raise UsageError("an `async def` tool cannot do this. Use a `def` tool")

        tasks: list[asyncio.Task[object]] = []

        async def start() -> T:
            tasks.extend(task for task in [asyncio.current_task()] if task is not None)
            started.set()
            if cancelled.is_set():
                work.close()
                raise asyncio.CancelledError
            return await work

        try:
            # An interrupt may arrive before this returns, when the work has already started.
            future = asyncio.run_coroutine_threadsafe(start(), loop)
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
            for task in tasks:
                if not task.done():
                    loop.call_soon_threadsafe(task.cancel)
            raise

    def call(self, function: Callable[[], object]) -> None:
        """Schedule `function` on the loop; do nothing if the thread is not running."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(function)

    def close(self, *last: Coroutine[Any, Any, object]) -> None:
        """Run `last`, then end the loop and its thread. Errors are only logged.

        If the thread is not running, `last` does not run.
        """
        loop = self._loop
        thread = self._thread
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


def _report_calls(output: TurnOutput) -> Display:
    """Return `output`, and append an event of the run for the begin and the end of each call."""

    def show(event: DisplayEvent) -> None:
        match event:
            case ToolBegins(call_id=call, name=name):
                append_run_event(call=call, tool=name)
            case ToolEnds(call_id=call):
                append_run_event(call=call, tool=None)
        output(event)

    return show


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> bool:
    """Run `loop`; return False if a task of a tool ended it before it was stopped."""
    try:
        loop.run_forever()
    except (SystemExit, KeyboardInterrupt):
        # Its task holds the exception for the tool that awaits it.
        log.debug("a task raised an exception that ends an event loop", exc_info=True)
        return False
    return True


class Interruptible(Protocol):
    """Work on the agent's loop that handles interrupts of the kernel, and counts them."""

    interrupt_count: int

    def interrupt(self) -> None:
        """Handle an interrupt of the kernel."""


class AgentRunner:
    """Runs work of the agent from the cell's thread, one job at a time."""

    def __init__(self, host: Host, active: ActiveConversation) -> None:
        self._host = host
        self._active = active
        self.cell = CellLoop()
        self.agent = AgentThread()
        self.front_end = host.front_end(self.cell, self.agent.call)
        self.secrets = SecretAnswers()
        self.output: TurnOutput | None = None
        self.early_output: TurnOutput | None = None
        self._answers = SessionAnswers()

    def tool_threads(self) -> dict[object, int]:
        """Return the threads in which `def` tools run, by an object for each run."""
        threads = threading.enumerate()
        found: dict[object, int] = {
            each: each.ident
            for each in threads
            if each.name.startswith(TOOL_THREAD) and each.ident is not None
        }

        if (call := self.cell.running_call) is not None:
            found[call] = self.cell.thread or 0

        return found

    def begin_early_turn(self, config: AppConfig) -> None:
        """Show the turn before it begins, because its tools are not ready yet."""
        if self.early_output is None and _SHOWS_TURNS.get():
            self.early_output = self.front_end.begin_turn(config)
            self.early_output.begin()

    @contextmanager
    def slow_start(self) -> Iterator[None]:
        """End the display of a slow start if the turn of the `with` block does not begin."""
        try:
            yield
        finally:
            self.end_early_turn()

    def end_early_turn(self) -> None:
        """End the display of a turn that does not begin."""
        if self.early_output is not None:
            self.front_end.end()
            self.early_output.finish()
            self.early_output = None

    def begin_turn(self, config: AppConfig) -> TurnOutput:
        """Return the display of a turn in the running cell; later prompts appear in that cell."""
        if self.early_output is not None:
            self.output = self.early_output
            self.early_output = None
            return self.output

        if _SHOWS_TURNS.get():
            self.output = self.front_end.begin_turn(config)
        else:
            self.front_end.begin_question(config)
            self.output = HiddenTurn()

        return self.output

    def load_answers(self, config: AppConfig) -> SessionAnswers:
        """Return the answers of the run's answers file, or of the one in `config`."""
        file = os.environ.get(environment.ANSWERS_VARIABLE) or config.prompt.answers
        self._answers.load(file, self._active.files)
        return self._answers

    def turn_context(
        self,
        record: TurnRecord,
        config: AppConfig,
        recorded: Mapping[str, RecordedAnswer],
        *,
        is_bench: bool = False,
    ) -> TurnContext:
        """Return the context of a turn in the running cell, with `recorded` answers.

        A bench (`is_bench`) keeps no journal, and applies no configuration change.
        """
        prepared = self.load_answers(config)  # before the output begins
        output = self.begin_turn(config)
        display = _report_calls(output) if has_runner() else output
        usage_display = None if is_bench else display
        progress = None if is_bench else self._active.keep_progress

        return TurnContext(
            record=record,
            prompter=self.front_end.prompter,
            cell=self.cell,
            display=display,
            prepared=prepared,
            secrets=self.secrets,
            recorded=recorded,
            kept_rules=PermissionRules(self._active),
            tokens=UsageCounter(usage_display),
            shared={
                "root": str(self._active.files.root),
                "conversation_id": self._active.document.conversation.id,
                "history": self._active.questions.read,
                "notebook": self._host.notebook_access(self._active.store),
                "image_side": self._active.settings.projection.config().values.image_side,
            },
            # A tool may raise it on any thread.
            on_tool_error=lambda error: self.cell.post(lambda: self._host.keep_error(error)),
            progress=progress,
            applies_changes=not is_bench,
        )

    @contextmanager
    def display(self, output: TurnOutput) -> Iterator[None]:
        """Show the events of the `with` block in `output`. Interrupts can end only `cell.serve`."""
        with self.cell.interrupts.defer():
            try:
                self.cell.interrupts.on_interrupt = lambda: output(InterruptReceived())
                output.begin()
                yield
            finally:
                self.cell.interrupts.on_interrupt = None
                self.front_end.end()
                output.finish()

    def run(self, job: Coroutine[Any, Any, T], work: Interruptible) -> T | None:
        """Run `job` of `work`, and serve the queue of the cell's thread meanwhile.

        Return its result. Return None if it was cancelled, or if an interrupt arrived as it ended:
        the caller then starts no further work.

        Raises:
            KeyboardInterrupt: `MAX_INTERRUPTS` interrupts were not handled, for
                example because a tool blocks the loop.
        """
        future = self.agent.run(job)
        self._active.running = future
        future.add_done_callback(lambda _: self.cell.wake())
        self.cell.release()

        interrupts = 0
        line = self._active.line
        interrupted = False

        def must_stop() -> bool:
            nonlocal interrupted
            interrupted = line.takes_interrupt()
            return interrupted

        while True:
            try:
                self.cell.serve(lambda: future.done() or must_stop())
                if interrupted:  # the cell, while this thread runs the turn
                    interrupted = False
                    raise KeyboardInterrupt

                result = future.result()
                return None if interrupts > work.interrupt_count else result
            except (CancelledError, asyncio.CancelledError):
                return None
            except KeyboardInterrupt:
                interrupts += 1
                if interrupts - work.interrupt_count >= MAX_INTERRUPTS:
                    raise
                self.cell.hold()  # no tool starts until the user has decided
                self.agent.call(work.interrupt)
