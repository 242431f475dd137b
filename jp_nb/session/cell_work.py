"""Work of the agent that a cell waits for: shown in it, served by its thread, interrupted with it.

Turns run this way, and so do tool calls on the bench.

Source: `docs/architecture.md`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from jp_nb.agent.calls import Call
from jp_nb.agent.display_events import InterruptHeard
from jp_nb.agent.secret_answers import Secrets
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.record.stream import ConversationStream
from jp_nb.session.active_conversation import ActiveConversation
from jp_nb.session.agent_thread import AgentThread
from jp_nb.session.cell_loop import CellLoop
from jp_nb.session.host import Host, TurnOutput
from jp_nb.session.prepared import SessionAnswers
from jp_nb.tooling.context import SharedContext
from jp_nb.workspace import variables

UNHEARD_BEFORE_GIVING_UP = 3
"""Interrupts that the agent's loop takes no notice of: a tool blocks it."""

T = TypeVar("T")


class Interruptible(Protocol):
    """Work that hears interrupts of the kernel, on the agent's loop.

    Attributes:
        interrupts_heard: How many it took notice of; none after its end.
    """

    interrupts_heard: int

    def interrupt(self) -> None:
        """Hear that the kernel was interrupted."""
        ...


class CellWork:
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
        self.secrets = Secrets()
        self.output: TurnOutput | None = None
        self._prepared = SessionAnswers()

    def begin(self, config: AppConfig) -> TurnOutput:
        """Return what shows the work in the running cell; prompts are put there from now on."""
        self.output = output = self.front_end.begin_turn(config)
        return output

    def prepared(self, config: AppConfig) -> SessionAnswers:
        """Return what was decided beforehand, where the run or else `config` says.

        Raises:
            ConfigError: If the file cannot be read, or is wrong.
        """
        file = os.environ.get(variables.ANSWERS) or config.prompt.answers
        self._prepared.load(file, self._active.files)
        return self._prepared

    def context(self, stream: ConversationStream) -> SharedContext:
        """Return what every tool is told that is called in `stream`."""
        return {
            "root": str(self._active.files.root),
            "conversation_id": stream.id,
            "history": self._active.questions.read,
            "notebook": self._host.notebook_access(self._active.store),
            "image_side": self._active.settings.projection.config().values.image_side,
        }

    def faulted(self, call: Call, error: BaseException) -> None:
        """Keep the `error` that the tool of `call` raised for a debugger; from any thread."""
        self.cell.post(lambda: self._host.keep_error(error))

    @contextmanager
    def shown(self, output: TurnOutput) -> Iterator[None]:
        """A block in which `output` shows what happens; no interrupt lands between its lines."""
        with self.cell.sheltered():
            try:
                self.cell.hear_interrupts(lambda: output(InterruptHeard()))
                output.begin()
                yield
            finally:
                self.cell.hear_interrupts(None)
                self.front_end.end()
                output.finish()

    def serve(self, job: Coroutine[Any, Any, T], work: Interruptible) -> T | None:
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
                return None if interrupts > work.interrupts_heard else result
            except (CancelledError, asyncio.CancelledError):
                return None
            except KeyboardInterrupt:
                interrupts += 1
                if interrupts - work.interrupts_heard >= UNHEARD_BEFORE_GIVING_UP:
                    raise
                self.cell.hold()  # no tool starts before it is decided what goes on
                self.agent.call(work.interrupt)
