"""Runs tool calls outside of a turn, by the coordinator of turns, on a record of their own.

Source: `docs/turns.md`, `docs/decisions.md` D100.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from jp_nb.agent.asking import BatchContext
from jp_nb.agent.call_outcome import CallChange, CallOutcome
from jp_nb.agent.calls import Call
from jp_nb.agent.coordinator import Coordinator
from jp_nb.agent.display_events import (
    ChangeEnds,
    Display,
    DisplayEvent,
    InterruptHeard,
    ToolEnds,
)
from jp_nb.agent.interrupts import Interrupts
from jp_nb.agent.prompts import Prompter
from jp_nb.agent.questions import TurnState
from jp_nb.agent.turn import run_batch
from jp_nb.agent.turn_record import TurnRecord
from jp_nb.record.events import ConfigDelta
from jp_nb.record.turn_view import Inquiry, read_turn
from jp_nb.tooling.base import CellThread
from jp_nb.tooling.context import SharedContext
from jp_nb.tooling.process_log import PROCESS_LOG, ProcessRun


@dataclass(slots=True)
class BenchRun:
    """Runs batches of calls, one after the other, as a turn would; `ended` has what came of it.

    What a call asks is recorded in `record`, which nobody keeps. Changes that are approved are in
    `approved`, one for each batch, and count nowhere.

    Attributes:
        batches: The calls, in the order of the batches.
        context: What the batches have in common.
        record: Takes what a turn would append.
        state: Answers that are known already; what is remembered is forgotten at the end.
        shared: What tools are told in every call.
        faulted: Is given what a tool raised, for a debugger.
        stopped: True if somebody ended it before its end; `left` if that was where a tool asked.
        interrupts_heard: How many interrupts it took notice of.
    """

    batches: Sequence[Sequence[Call]]
    context: BatchContext
    record: TurnRecord
    state: TurnState
    prompter: Prompter
    cell: CellThread
    display: Display
    shared: SharedContext
    faulted: Callable[[Call, BaseException], None]
    stopped: bool = False
    left: bool = False
    interrupts_heard: int = 0
    approved: list[ConfigDelta | None] = field(default_factory=list)
    processes: list[ProcessRun] = field(default_factory=list)
    unavailable: str | None = None
    _ends: dict[tuple[int, str], ToolEnds] = field(default_factory=dict)
    _changes: dict[tuple[int, str], list[CallChange]] = field(default_factory=dict)
    _raised: dict[Call, BaseException] = field(default_factory=dict)
    _batch: int = 0
    _interrupt: Callable[[], None] | None = None

    async def run(self) -> bool:
        """Run all batches; return True unless somebody stopped it."""
        if self.interrupts_heard:
            return False
        PROCESS_LOG.set(self.processes)  # in the context of this task and those that it begins
        coordinator = Coordinator(
            record=self.record.add_question,
            prompter=self.prompter,
            cell=self.cell,
            display=self._show,
            state=self.state,
            interrupts=Interrupts(self.prompter),
            context=self.shared,
            faulted=self._faulted,
        )
        self._interrupt = coordinator.interrupt
        try:
            for number, calls in enumerate(self.batches):
                self._batch = number
                self.record.add(*(call.request for call in calls))
                end = await run_batch(coordinator, calls, self.context, self.record)
                self.approved.append(end.change)
                self.unavailable = coordinator.unavailable
                if end.stopped:
                    self.stopped, self.left = True, end.left
                    break
        finally:
            self._interrupt = None
        return not self.stopped

    def interrupt(self) -> None:
        """Hear that the kernel was interrupted; called on the agent's loop."""
        self.interrupts_heard += 1
        if self._interrupt is not None:
            self.display(InterruptHeard())
            self._interrupt()

    def _faulted(self, call: Call, error: BaseException) -> None:
        self._raised[call] = error
        self.faulted(call, error)

    def _show(self, event: DisplayEvent) -> None:
        match event:
            case ToolEnds():
                self._ends[self._batch, event.call_id] = event
            case ChangeEnds():
                change = CallChange(event.changes, event.applied, event.by, event.reason)
                self._changes.setdefault((self._batch, event.call_id), []).append(change)
                event = replace(event, counts=False)
        self.display(event)

    def ended(self) -> Iterator[tuple[Call, CallOutcome]]:
        """Yield each call that has ended and what came of it, in call order."""
        turn = read_turn(0, self.record.stream.current_turn())
        for number, calls in enumerate(self.batches):
            for call in calls:
                if call.response is not None:
                    yield call, self._outcome(number, call, turn.inquiries)

    def _outcome(self, batch: int, call: Call, inquiries: Sequence[Inquiry]) -> CallOutcome:
        assert call.response is not None
        end = self._ends[batch, call.key]
        asked = f"{call.request.id}."
        structured = call.response.metadata.get("structured")
        return CallOutcome(
            name=call.request.name,
            arguments=call.arguments or call.request.arguments,
            content=call.response.content,
            is_error=call.response.is_error,
            skipped=end.skipped,
            images=call.shown.images,
            structured=structured,
            questions=tuple(one for one in inquiries if one.id.startswith(asked)),
            changes=tuple(self._changes.get((batch, call.key), ())),
            seconds=end.seconds,
            traceback=end.traceback,
            exception=self._raised.get(call),
            whole_chars=call.whole_chars,
            processes=tuple(map(self._hidden, self.processes)),
            unavailable=self.unavailable,
        )

    def _hidden(self, run: ProcessRun) -> ProcessRun:
        hide = self.state.secrets.hide
        return replace(run, stdin=hide(run.stdin), stdout=hide(run.stdout), stderr=hide(run.stderr))
