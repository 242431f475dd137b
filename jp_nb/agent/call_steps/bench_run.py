"""Run tool calls outside of a conversation, as `jp.call` does, and report their outcomes.

The calls run in batches, like those of a turn, with permissions, questions, and proposed changes.
Their record is discarded afterwards, and no change takes effect.

Source: `docs/turns.md`, `docs/decisions.md` D100, `docs/guide.md`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal

from pydantic import JsonValue

from jp_nb.agent.call_steps.batch import Batch
from jp_nb.agent.calls.call import Call
from jp_nb.agent.display import InterruptReceived
from jp_nb.agent.prompting.prompts import ProposedChange
from jp_nb.agent.turn_state import BatchContext, TurnContext
from jp_nb.images import Image, count_images
from jp_nb.record.entries.events import ConfigDelta, ToolCallResponse
from jp_nb.record.reading.marks import SKIPPED_KEY
from jp_nb.record.reading.turn_reader import read_turn
from jp_nb.record.reading.turn_view import Inquiry
from jp_nb.text import one_line
from jp_nb.toolkit.command_tools.processes import PROCESS_LOG, ProcessRun


@dataclass(frozen=True, slots=True)
class CallChange:
    """A configuration change that a tool call proposed, a line for each path. It is never applied.

    `approved` if a turn would have applied it. `by` is as in `ChangeEnds`.
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
        call = one_line(f"{self.name}({arguments})", limit=80)

        kind = "error: " if self.is_error else ""
        if self.skipped:
            kind = "skipped: "
        text = one_line(self.content, limit=80)

        facts = [f"{kind}{text!r}", *count_images(self.images)]
        facts += _count_items("question", self.questions)
        facts += _count_items("proposed change", self.changes)
        return f"<call {call}: {', '.join(facts)}>"


def _count_items(noun: str, items: Sequence[object]) -> list[str]:
    if not items:
        return []
    return [f"1 {noun}"] if len(items) == 1 else [f"{len(items)} {noun}s"]


@dataclass(slots=True)
class BenchRun:
    """Runs batches of tool calls one after the other, as a turn does. `outcomes` has the results.

    The record and the state of `turn` are discarded after the run. The `approved` configuration
    change of each batch, or None, never takes effect.
    """

    batches: Sequence[Sequence[Call]]
    context: BatchContext
    turn: TurnContext
    stopped: bool = False
    interrupt_count: int = 0
    approved: list[ConfigDelta | None] = field(default_factory=list)
    processes: list[ProcessRun] = field(default_factory=list)
    _interrupt: Callable[[], None] | None = None

    async def run(self) -> bool:
        """Run all batches; return True unless the user stopped the run."""
        if self.interrupt_count:
            return False

        PROCESS_LOG.set(self.processes)  # also for the tasks that this task starts
        try:
            for calls in self.batches:
                self.turn.record.add(*(call.request for call in calls))
                batch = Batch(self.turn, calls, self.context)
                self._interrupt = batch.interrupt
                end = await batch.run()
                self.approved.append(end.change)
                if end.ends_turn is not None:
                    self.stopped = True
                    break
        finally:
            self._interrupt = None

        return not self.stopped

    def interrupt(self) -> None:
        """Handle an interrupt of the kernel, on the agent's event loop."""
        self.interrupt_count += 1
        if self._interrupt is not None:
            self.turn.display(InterruptReceived())
            self._interrupt()

    def outcomes(self) -> Iterator[tuple[Call, CallOutcome]]:
        """Yield each call that has a response, with its outcome, in call order."""
        inquiries = read_turn(0, self.turn.record.stream.current_turn()).inquiries
        processes = tuple(map(self._hide_in_process, self.processes))

        for call in chain.from_iterable(self.batches):
            response = call.state.response
            if response is not None:
                yield call, self._make_outcome(call, response, inquiries, processes)

    def _hide_in_process(self, run: ProcessRun) -> ProcessRun:
        hide = self.turn.secrets.hide
        return replace(run, stdin=hide(run.stdin), stdout=hide(run.stdout), stderr=hide(run.stderr))

    def _make_outcome(
        self,
        call: Call,
        response: ToolCallResponse,
        inquiries: Sequence[Inquiry],
        processes: tuple[ProcessRun, ...],
    ) -> CallOutcome:
        questions = [each for each in inquiries if each.id.startswith(f"{call.request.id}.")]
        changes = [
            CallChange(each.changes, each.applied, each.by, each.reason) for each in call.changes
        ]
        traceback = call.view.traceback
        if traceback:
            traceback = self.turn.secrets.hide(traceback)

        return CallOutcome(
            name=call.request.name,
            arguments=call.state.arguments or call.request.arguments,
            content=response.content,
            is_error=response.is_error,
            skipped=SKIPPED_KEY in response.metadata,
            images=call.state.result.shown_images.images,
            structured=response.metadata.get("structured"),
            questions=tuple(questions),
            changes=tuple(changes),
            seconds=call.state.seconds,
            traceback=traceback or None,
            exception=call.exception,
            whole_chars=call.state.result.whole_chars,
            processes=processes,
            unavailable=self.turn.unavailable_reason,
        )
