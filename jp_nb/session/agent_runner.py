"""Run work of the agent from a cell, while the cell's thread serves displays, prompts, and tools.

`AgentRunner.run` starts a job in the agent's thread, such as a turn. It serves the queues of the
cell's thread until the job has ended: displays, prompts, and `def` tools run there. It also passes
interrupts of the kernel to the job.

Source: `docs/architecture.md` (two threads).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, Protocol, TypeVar

from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.host import Host
from jp_nb.session.threads.active_output import ActiveOutput
from jp_nb.session.threads.agent_thread import AgentThread
from jp_nb.session.threads.cell_loop import CellLoop
from jp_nb.session.threads.deferred_interrupts import MAX_INTERRUPTS
from jp_nb.toolkit.current_run import TOOL_THREAD
from jp_nb.toolkit.secrets.secret_answers import SecretAnswers

T = TypeVar("T")


class Interruptible(Protocol):
    """Work on the agent's loop that handles interrupts of the kernel, and counts them."""

    @property
    def interrupt_count(self) -> int:
        """Number of interrupts that it has handled so far."""

    def interrupt(self) -> None:
        """Handle an interrupt of the kernel."""


class AgentRunner:
    """Runs work of the agent from the cell's thread, one job at a time.

    Attributes:
        cell: The loop of the cell's thread.
        agent: The agent's thread.
        front_end: The front end of the running cell, with its prompter.
        output: The display of the running turn.
        secrets: The secrets that are hidden from models and records.
    """

    def __init__(self, host: Host, active: ActiveConversation) -> None:
        self._active = active
        self.cell = CellLoop()
        self.agent = AgentThread()
        self.front_end = host.make_front_end(self.cell, self.agent.call)
        self.output = ActiveOutput(self.front_end, self.cell.interrupts)
        self.secrets = SecretAnswers()

    def find_tool_threads(self) -> dict[object, int]:
        """Return the ids of the threads in which `def` tools run, by an object for each run.

        `TurnLine` makes threads wait while a turn runs. If a tool of that turn waits for such a
        thread, both would wait forever. `TurnLine` finds these tools by the ids. The objects tell a
        tool from a later one in the same thread.
        """
        thread_ids: dict[object, int] = {}
        for thread in threading.enumerate():
            if thread.name.startswith(TOOL_THREAD) and thread.ident is not None:
                thread_ids[thread] = thread.ident

        call = self.cell.running_call  # a new object for each tool in the cell's thread
        if call is not None:
            thread_ids[call] = self.cell.thread or 0

        return thread_ids

    def run(self, job: Coroutine[Any, Any, T], work: Interruptible) -> T | None:
        """Run `job` of `work`, and serve the queues of the cell's thread meanwhile.

        Return its result. Return None if it was canceled, or if an interrupt arrived too late for
        it: the user wanted to stop, so the caller starts no further work.

        Each interrupt is passed to `work`, which runs on the agent's loop and counts those that it
        has handled. Until it has handled all of them, no tool starts.

        Raises:
            KeyboardInterrupt: `MAX_INTERRUPTS` interrupts were not handled, for
                example because a tool blocks the loop.
        """
        future = self.agent.run(job)
        self._active.running = future  # commands refuse to change the conversation until it ends
        future.add_done_callback(lambda _: self.cell.wake())  # so that `serve` calls `must_stop`
        self.cell.release()  # an interrupt of the last job may have held the calls of tools

        interrupt_count = 0
        line = self._active.line
        # A thread of the user's code may run this turn. Python raises an interrupt only in the
        # thread of the running cell, which passes it on through the line of turns.
        has_passed_interrupt = False

        def must_stop() -> bool:
            nonlocal has_passed_interrupt
            if future.done():
                return True
            has_passed_interrupt = line.take_interrupt()  # True once after an interrupt
            return has_passed_interrupt

        while True:
            try:
                # Runs queued jobs and tools until `must_stop()`. Raises `KeyboardInterrupt`.
                self.cell.serve(must_stop)
                if has_passed_interrupt:
                    has_passed_interrupt = False
                    raise KeyboardInterrupt  # handled below, as an interrupt of this thread

                result = future.result()
                # `work.interrupt` was posted to the loop, but the job ended before it ran.
                has_late_interrupt = interrupt_count > work.interrupt_count
                return None if has_late_interrupt else result
            except (CancelledError, asyncio.CancelledError):
                return None
            except KeyboardInterrupt:
                interrupt_count += 1
                unhandled_count = interrupt_count - work.interrupt_count
                if unhandled_count >= MAX_INTERRUPTS:
                    raise
                self.cell.hold()  # no tool starts until the user has decided
                self.agent.call(work.interrupt)
