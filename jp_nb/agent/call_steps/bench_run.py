"""Run tool calls outside of a conversation, as `jp.call` does, and collect their outcomes.

This is a *bench run*, in which tools are tried. The calls run in batches, like those of a turn,
with permissions, questions, and proposed changes. Their record is discarded afterwards, and no
change takes effect.

Source: `docs/turns.md`, `docs/decisions.md` D100, `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from jp_nb.agent.call_steps.batch import Batch
from jp_nb.agent.call_steps.call_outcome import CallChange, CallOutcome
from jp_nb.agent.calls.call import Call
from jp_nb.agent.display import InterruptReceived
from jp_nb.agent.turn_state import BatchContext, TurnContext
from jp_nb.record.entries.events import ConfigDelta, ToolCallResponse
from jp_nb.record.reading.call_marks import SKIPPED_KEY
from jp_nb.record.reading.turn_reader import read_turn
from jp_nb.record.reading.turn_view import Inquiry
from jp_nb.toolkit.command_tools.processes import PROCESS_LOG, ProcessRun


@dataclass(slots=True)
class BenchRun:
    """Runs batches of tool calls one after the other, as a turn does.

    The record and the state of `turn` are discarded after the run.

    Attributes:
        batches: The calls of each batch, in order.
        context: The tools and the configuration of all batches.
        turn: Ports, record, and state, made for this run.
        stopped: True if the user stopped the run.
        interrupt_count: Number of interrupts so far.
        approved: The approved configuration change of each batch, or None. It never takes effect.
        processes: The processes that the calls started.
    """

    batches: Sequence[Sequence[Call]]
    context: BatchContext
    turn: TurnContext
    stopped: bool = False
    interrupt_count: int = 0
    approved: list[ConfigDelta | None] = field(default_factory=list)
    processes: list[ProcessRun] = field(default_factory=list)
    _interrupt: Callable[[], None] | None = None  # interrupts the running batch

    async def run_all(self) -> bool:
        """Run all batches; return True unless the user stopped the run."""
        if self.interrupt_count:  # it came before the first batch, and only a batch can handle one
            self.stopped = True
            return False

        # Each process of a tool that exits is appended, also in the tasks that this task starts.
        PROCESS_LOG.set(self.processes)
        try:
            for calls in self.batches:
                self.turn.record.add(*(call.request for call in calls))
                batch = Batch(self.turn, calls, self.context)
                self._interrupt = batch.interrupt
                end = await batch.run()
                self.approved.append(end.change)
                if end.ends_turn is not None:  # the user stopped it, or an interrupt did
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

    def iter_outcomes(self) -> Iterator[tuple[Call, CallOutcome]]:
        """Yield each call that has a response, with its outcome, in call order.

        Each outcome has the processes of the whole run: the log does not say which call started
        which.
        """
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
        prefix = f"{call.request.id}."  # of an inquiry's id `<call>.<question>.<attempt>`
        questions = [inquiry for inquiry in inquiries if inquiry.id.startswith(prefix)]
        changes = [
            CallChange(end.changes, end.applied, end.by, end.reason) for end in call.config_changes
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
