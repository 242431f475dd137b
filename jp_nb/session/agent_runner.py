"""Run the work of the agent from a cell: turns, and calls of tools on the bench.

On the *bench*, the user calls a tool without a turn of the conversation. `AgentRunner.run` starts a
job in the agent's thread, and serves the queues of the cell's thread until the job has ended:
displays, prompts, and `def` tools run there. `begin_turn` gives the job what it needs from the cell
and the session.

Source: `docs/architecture.md` (two threads).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import CancelledError
from typing import Any, Protocol, TypeVar

from jp_nb.agent.display import Display, DisplayEvent, ToolBegins, ToolEnds
from jp_nb.agent.turn_record import TurnRecord
from jp_nb.agent.turn_state import RecordedAnswer, TurnContext
from jp_nb.agent.turn_times import TurnTimes
from jp_nb.agent.usage_counter import UsageCounter
from jp_nb.config.tree.app import AppConfig
from jp_nb.session.configuration.edit_consent import allows_unattended_edits
from jp_nb.session.configuration.kept_rules import PermissionRules
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.host import Host, TurnOutput
from jp_nb.session.questions.answers import SessionAnswers
from jp_nb.session.threads.active_output import ActiveOutput
from jp_nb.session.threads.agent_thread import AgentThread
from jp_nb.session.threads.cell_loop import CellLoop
from jp_nb.session.threads.deferred_interrupts import MAX_INTERRUPTS
from jp_nb.storage import environment
from jp_nb.storage.configuration.project_files import ProjectFiles
from jp_nb.storage.run_events import append_run_event, has_event_file
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
        self._host = host
        self._active = active
        self.cell = CellLoop()
        self.agent = AgentThread()
        self.front_end = host.make_front_end(self.cell, self.agent.call)
        self.output = ActiveOutput(self.front_end, self.cell.interrupts)
        self.secrets = SecretAnswers()
        self._answers = SessionAnswers()

    def find_tool_threads(self) -> dict[object, int]:
        """Return the ids of the threads in which `def` tools run, by an object for each run.

        `TurnLine` makes threads wait while a turn runs. If a tool of that turn waits for such a
        thread, both would wait forever: it uses the ids to find these tools.
        """
        thread_ids: dict[object, int] = {}
        for thread in threading.enumerate():
            if thread.name.startswith(TOOL_THREAD) and thread.ident is not None:
                thread_ids[thread] = thread.ident

        call = self.cell.running_call  # a new object for each tool in the cell's thread
        if call is not None:
            thread_ids[call] = self.cell.thread or 0

        return thread_ids

    def load_answers(self, config: AppConfig) -> SessionAnswers:
        """Return the answers of the run's answers file, or of the one in `config`."""
        file = os.environ.get(environment.ANSWERS_VARIABLE) or config.prompt.answers
        self._answers.load(file, self._active.files)
        return self._answers

    def begin_turn(
        self,
        record: TurnRecord,
        config: AppConfig,
        recorded: Mapping[str, RecordedAnswer],
        *,
        is_bench: bool = False,
    ) -> TurnContext:
        """Begin the output of a turn in the running cell, and return the context of the turn.

        `recorded` are answers of the record, which tools get again. A call on the bench
        (`is_bench`) keeps no journal, measures nothing, and applies no configuration change.
        """
        prepared = self.load_answers(config)  # an invalid file raises before the output begins
        output = self.output.choose(config)
        display = _report_calls(output) if has_event_file() else output
        usage_display = None if is_bench else display
        progress = None if is_bench else self._active.journal_use.keep_progress

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
            times=TurnTimes(may_measure=not is_bench),
            # Values of `ToolContext`, for all tools of the turn.
            shared={
                "root": str(self._active.files.root),
                "conversation_id": self._active.document.conversation.id,
                "history": self._active.questions.reader.read_for_model,
                "notebook": self._host.make_notebook_access(self._active.store),
                "needs_review": not allows_unattended_edits(config, self._active.files),
                "read_skill": ProjectFiles(self._active.files).read_skill,
                "image_side": self._active.settings.projection.config().values.image_side,
            },
            # A tool may raise it on any thread.
            on_tool_error=lambda error: self.cell.post(lambda: self._host.keep_error(error)),
            progress=progress,
            applies_changes=not is_bench,
        )

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
