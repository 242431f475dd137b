"""Run tool calls outside of a conversation, and report their outcomes.

Source: `docs/turns.md`, `docs/decisions.md` D100, `docs/guide.md`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import JsonValue

from jp_nb.agent.batch import Coordinator
from jp_nb.agent.display import (
    ChangeEnds,
    Display,
    DisplayEvent,
    InterruptReceived,
    ToolEnds,
)
from jp_nb.agent.interrupts import Interrupts
from jp_nb.agent.prompts import Prompter, ProposedChange
from jp_nb.agent.tool_call import Call
from jp_nb.agent.turn_state import BatchContext, TurnContext, TurnRecord, TurnState
from jp_nb.images import Image
from jp_nb.record.events import ConfigDelta
from jp_nb.record.turns import Inquiry, read_turn
from jp_nb.text import one_line
from jp_nb.tools.base import CellThread, SharedContext
from jp_nb.tools.process import PROCESS_LOG, ProcessRun

MAX_REPR_CHARS = 80


@dataclass(frozen=True, slots=True)
class CallChange:
    """A configuration change that a tool call proposed. It is never applied.

    Attributes:
        lines: The changes, one for each path.
        approved: True if a turn would have applied the change.
        by: `person` for the user; `grant` if the tool's rules need no approval; `nobody` if no user
            was available.
        reason: Why no user was available; None otherwise.
    """

    lines: tuple[ProposedChange, ...]
    approved: bool
    by: Literal["person", "grant", "nobody"]
    reason: str | None = None

    def __repr__(self) -> str:
        verdict = "approved" if self.approved else "not approved"
        return f"<{verdict}: {'; '.join(map(str, self.lines))}>"


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """Outcome of `jp.call`. It is not part of the conversation.

    Attributes:
        name: Name of the tool.
        arguments: The arguments of the call, including edits by the user.
        content: The text that the model would read.
        is_error: True if `content` is an error message.
        skipped: True if the user skipped or stopped the call.
        images: The images that the model would see.
        structured: Data for programs that a turn would record but not send; None if there is none.
        questions: The questions of the tool, each with its answer.
        changes: The configuration changes that the tool proposed.
        seconds: Duration of the call, including the time for questions.
        traceback: Traceback of an exception in the tool, without the frames of `jp_nb`; None if
            there was no exception.
        exception: The exception that the tool raised; None if there was none.
        whole_chars: Length of the result before truncation, in characters; None if the result was
            not truncated.
        processes: The `stdin`, `stdout`, `stderr`, and `exit_code` of each process that the run
            started. Secrets are hidden.
        unavailable: Why no user was available for a decision that the run needed; None otherwise.
    """

    name: str
    arguments: Mapping[str, JsonValue]
    content: str
    is_error: bool = False
    skipped: bool = False
    images: tuple[Image, ...] = ()
    structured: JsonValue = None
    questions: tuple[Inquiry, ...] = ()
    changes: tuple[CallChange, ...] = ()
    seconds: float = field(default=0.0, compare=False)
    traceback: str | None = field(default=None, compare=False)
    exception: BaseException | None = field(default=None, compare=False)
    whole_chars: int | None = field(default=None, compare=False)
    processes: tuple[ProcessRun, ...] = field(default=(), compare=False)
    unavailable: str | None = field(default=None, compare=False)

    @property
    def is_cut(self) -> bool:
        """True if the result was truncated."""
        return self.whole_chars is not None

    def __repr__(self) -> str:
        arguments = ", ".join(
            f"{name}={json.dumps(value, ensure_ascii=False)}"
            for name, value in self.arguments.items()
        )
        call = one_line(f"{self.name}({arguments})", limit=MAX_REPR_CHARS)
        kind = "skipped: " if self.skipped else "error: " if self.is_error else ""
        text = one_line(self.content, limit=MAX_REPR_CHARS)
        counts = [
            f"{len(items)} {word}{'' if len(items) == 1 else 's'}"
            for items, word in (
                (self.images, "image"),
                (self.questions, "question"),
                (self.changes, "proposed change"),
            )
            if items
        ]
        return f"<call {call}: {', '.join([f'{kind}{text!r}', *counts])}>"


@dataclass(slots=True)
class BenchRun:
    """Runs batches of tool calls one after the other, as a turn does. `outcomes` has the results.

    Attributes:
        context: Context of all batches.
        record: Receives the entries that a turn would append. It is discarded after the run.
        state: Known answers. It is discarded after the run.
        shared: The part of the tool context that all calls share.
        on_tool_error: Receives the exception of a tool, for a debugger.
        stopped: True if the user stopped the run early.
        abandoned: True if the user stopped the run at a question of a tool.
        interrupt_count: Number of interrupts.
        approved: The approved configuration change of each batch, or None. It never takes effect.
    """

    batches: Sequence[Sequence[Call]]
    context: BatchContext
    record: TurnRecord
    state: TurnState
    prompter: Prompter
    cell: CellThread
    display: Display
    shared: SharedContext
    on_tool_error: Callable[[Call, BaseException], None]
    stopped: bool = False
    abandoned: bool = False
    interrupt_count: int = 0
    approved: list[ConfigDelta | None] = field(default_factory=list)
    processes: list[ProcessRun] = field(default_factory=list)
    unavailable: str | None = None
    _ends: dict[tuple[int, str], ToolEnds] = field(default_factory=dict)
    _changes: dict[tuple[int, str], list[CallChange]] = field(default_factory=dict)
    _raised: dict[Call, BaseException] = field(default_factory=dict)
    _batch: int = 0
    _interrupt: Callable[[], None] | None = None

    async def run(self) -> bool:
        """Run all batches; return True unless the user stopped the run."""
        if self.interrupt_count:
            return False
        PROCESS_LOG.set(self.processes)  # also for the tasks that this task starts
        context = TurnContext(
            record=self.record.add_question,
            prompter=self.prompter,
            cell=self.cell,
            display=self._show,
            state=self.state,
            shared=self.shared,
            on_tool_error=self._on_tool_error,
        )
        coordinator = Coordinator(context, Interrupts(self.prompter))
        self._interrupt = coordinator.interrupt
        try:
            for number, calls in enumerate(self.batches):
                self._batch = number
                self.record.add(*(call.request for call in calls))
                end = await coordinator.run(calls, self.context, self.record)
                self.approved.append(end.change)
                self.unavailable = coordinator.unavailable_reason
                if end.stopped:
                    self.stopped, self.abandoned = True, end.abandoned
                    break
        finally:
            self._interrupt = None
        return not self.stopped

    def interrupt(self) -> None:
        """Handle an interrupt of the kernel, on the agent's event loop."""
        self.interrupt_count += 1
        if self._interrupt is not None:
            self.display(InterruptReceived())
            self._interrupt()

    def _on_tool_error(self, call: Call, error: BaseException) -> None:
        self._raised[call] = error
        self.on_tool_error(call, error)

    def _show(self, event: DisplayEvent) -> None:
        match event:
            case ToolEnds():
                self._ends[self._batch, event.call_id] = event
            case ChangeEnds():
                change = CallChange(event.changes, event.applied, event.by, event.reason)
                self._changes.setdefault((self._batch, event.call_id), []).append(change)
                event = replace(event, counts=False)
        self.display(event)

    def outcomes(self) -> Iterator[tuple[Call, CallOutcome]]:
        """Yield each call that has a response, with its outcome, in call order."""
        turn = read_turn(0, self.record.stream.current_turn())
        for number, calls in enumerate(self.batches):
            for call in calls:
                if call.response is not None:
                    yield call, self._make_outcome(number, call, turn.inquiries)

    def _make_outcome(self, batch: int, call: Call, inquiries: Sequence[Inquiry]) -> CallOutcome:
        assert call.response is not None
        end = self._ends[batch, call.key]
        prefix = f"{call.request.id}."
        structured = call.response.metadata.get("structured")
        return CallOutcome(
            name=call.request.name,
            arguments=call.arguments or call.request.arguments,
            content=call.response.content,
            is_error=call.response.is_error,
            skipped=end.skipped,
            images=call.shown_images.images,
            structured=structured,
            questions=tuple(one for one in inquiries if one.id.startswith(prefix)),
            changes=tuple(self._changes.get((batch, call.key), ())),
            seconds=end.seconds,
            traceback=end.traceback,
            exception=self._raised.get(call),
            whole_chars=call.whole_chars,
            processes=tuple(map(self._hide_secrets, self.processes)),
            unavailable=self.unavailable,
        )

    def _hide_secrets(self, run: ProcessRun) -> ProcessRun:
        hide = self.state.secrets.hide
        return replace(run, stdin=hide(run.stdin), stdout=hide(run.stdout), stderr=hide(run.stderr))
