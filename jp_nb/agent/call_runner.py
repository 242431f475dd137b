"""One tool call: its arguments, permission, runs, questions and result.

No tool is known here by name.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import Literal, assert_never

from pydantic import JsonValue

from jp_nb.agent.asking import Asking, BatchContext
from jp_nb.agent.batch_events import BatchEvents
from jp_nb.agent.call_display import call_begins, call_ends
from jp_nb.agent.calls import Call, prepare
from jp_nb.agent.cell_functions import CellFunctions, CellOfRun, was_interrupted
from jp_nb.agent.changes import Changes
from jp_nb.agent.consent import Consent
from jp_nb.agent.decisions import NOT_DELIVERED_BY_CONFIGURATION, SKIPPED, Delivery
from jp_nb.agent.display_events import Display, Waits
from jp_nb.agent.prompt_queue import Dialogues, Event
from jp_nb.agent.prompts import Prompter, Unavailable
from jp_nb.agent.questions import TurnState
from jp_nb.agent.recorded_results import RecordedResult
from jp_nb.agent.shown_images import NONE, admit
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.errors import ToolError
from jp_nb.json_values import copied, json_copy
from jp_nb.record.call_progress import CallStage
from jp_nb.record.events import Entry, InquiryEntry, ToolCallResponse
from jp_nb.record.recorded_images import image_entry, shows
from jp_nb.record.thread import Thread
from jp_nb.record.turn_marks import edited_by_person
from jp_nb.tooling.base import RUN, Run
from jp_nb.tooling.context import SharedContext, ToolContext
from jp_nb.tooling.faults import is_cancelled, summary, tool_frames, traceback_of
from jp_nb.tooling.long_results import cut_middle
from jp_nb.tooling.outcome import Failure, NeedsInput, Outcome, Success

log = logging.getLogger(__name__)

UNAVAILABLE = (
    "Tool '{}' is not available. It may have been available earlier in this conversation but is "
    "no longer enabled. Do not retry this tool until it is available again in the list of enabled "
    "tools."
)
NOT_RECORDED = (
    "The cassette has no result for this call, so the tool did not run. To run the "
    'tool, set `providers.cassette.tools = "run"`.'
)
RAN_BEFORE = (
    "This call may already have run, fully or partly, and its effects may remain. It "
    "did not run again: {}"
)
"""What the model is told of a call that does not run again, around why it does not."""
NOT_FORMATTED = "Tool '{}' was not executed because the argument formatter failed: {}"
CHANGE_LOST = (
    "The configuration change that this call proposed was not applied. The kernel "
    "stopped before the change was saved."
)
"""Ends the kept result of a call; the model reads it only if the kernel stops too early."""
RESTARTED = "restarted"


def nobody_debugs(call: Call, error: BaseException) -> None:
    """Forget what a tool raised."""


Reached = Callable[[Call, CallStage, Sequence[Entry]], None]
"""Keeps the progress of a call where it outlives this process; the result of one that finished.

Called in the coordinator's loop, and on the cell's thread when a function starts there.
"""


def keep_no_progress(call: Call, stage: CallStage, result: Sequence[Entry]) -> None:
    """Start tools at once: nothing is kept outside of this process."""


class CallRunner:
    """Takes each call of a batch from its arguments to its response.

    All of it in the coordinator's loop, but for the runs themselves.

    Args:
        events: Runs work beside the loop.
        prompts: Where prompts wait.
        cell: The cell's thread, for tools that need it.
        record: Appends an entry to the conversation.
        prompter: Asks the person.
        display: Shows what happens.
        state: What is remembered in this turn.
        context: What tools are told in every call.
        cut_short: Called when an interrupt of the cell cut the function of a call, with the number
            of interrupts that were heard when it began.
        stop_turn: Called when the person, asked by a tool, stops the turn.
        faulted: Is given what a tool raised, for a debugger: its traceback begins in the tool.
        reached: Keeps the progress of calls.

    Attributes:
        changes: The configuration changes that the calls proposed.
        unavailable: Why nobody could decide something that only a person may; None so far.
    """

    def __init__(
        self,
        events: BatchEvents,
        prompts: Dialogues,
        cell: CellFunctions,
        *,
        record: Callable[[InquiryEntry], None],
        prompter: Prompter,
        display: Display,
        state: TurnState,
        context: SharedContext,
        cut_short: Callable[[Call, int], None],
        stop_turn: Callable[[], None],
        faulted: Callable[[Call, BaseException], None] = nobody_debugs,
        reached: Reached = keep_no_progress,
    ) -> None:
        self._events = events
        self._cell = cell
        self._display = display
        self._state = state
        self._context = context
        self._cut_short = cut_short
        self.stop_turn = stop_turn
        self._faulted = faulted
        self._reached = reached
        self._batch = BatchContext(Thread())
        self._asking = Asking(
            self,
            record=record,
            display=display,
            prompter=prompter,
            prompts=prompts,
            spawn=events.spawn,
            when_idle=events.when_idle,
            state=state,
        )
        self._consent = Consent(
            self, display=display, prompter=prompter, prompts=prompts, state=state
        )
        self.changes = Changes(
            self, display=display, prompter=prompter, prompts=prompts, prepared=state.prepared
        )
        self.unavailable: str | None = None

    def begin_batch(self, batch: BatchContext) -> None:
        """Take what the next calls have in common."""
        self._batch = batch
        self.changes.begin(batch.basis)

    def drop_questions(self, end: Literal["cancelled", "interrupted"]) -> None:
        """Close the questions that are open with that `end`: the calls that asked were cut."""
        self._asking.drop(end)

    def restart(self, call: Call) -> None:
        """Run `call` again from the beginning."""
        if call.begun and call.response is None:
            self._show_end(call, RESTARTED, is_error=False, skipped=True)
        self._drop_images(call)
        call.begin_again()
        self.begin(call)

    def begin(self, call: Call) -> None:
        """Run `call`, ask for permission to, or say why it cannot run."""
        tool = call.tool
        if self._batch.results is not None:
            self._take_recorded(call, self._batch.results)
            return
        if tool is None:
            self.fail(call, UNAVAILABLE.format(call.request.name))
            return
        if call.bad_arguments is not None:
            self.fail(call, call.bad_arguments)
            return
        prepared = prepare(tool, call.request.arguments)
        if isinstance(prepared, Failure):
            self.fail(call, prepared.message)
            return
        call.arguments = prepared
        match tool.run:
            case "skip":
                self.finish(call, SKIPPED, skipped=True)
            case "unattended":
                self.start(call, tool)
            case "ask" | "edit":
                self._note(call, "asked")
                self._show_begin(call, tool, asked=True)
                self._consent.to_run(call, tool)
            case _:
                assert_never(tool.run)

    def _take_recorded(self, call: Call, results: Sequence[RecordedResult]) -> None:
        """Give `call` the result that it had; nothing runs, and nobody is asked."""
        if call.tool is not None:
            call.arguments = copied(call.request.arguments)
            self._show_begin(call, call.tool)
        if call.index < len(results):
            result, call.may_have_run = results[call.index], False  # what it came to is known
            self.finish(call, result.content, is_error=result.is_error)
        else:
            self.fail(call, NOT_RECORDED)

    def start(self, call: Call, tool: OfferedTool) -> None:
        """Run `tool`: that is permitted."""
        self._note(call, "permitted")
        self.formatted(call, tool, lambda: self._start_formatted(call, tool))

    def _note(self, call: Call, stage: CallStage) -> None:
        """Have the progress of `call` kept; one that may have run before has started."""
        if stage != "finished":
            self._reached(call, "started" if call.may_have_run else stage, ())
            return
        assert call.response is not None
        response = call.response
        if self.changes.is_approved(call):  # it is saved when the batch ends
            content = f"{response.content}\n\n{CHANGE_LOST}"
            response = response.model_copy(update={"content": content})
        self._reached(call, stage, (*map(image_entry, call.shown.images), response))

    def _start_formatted(self, call: Call, tool: OfferedTool) -> None:
        self._show_begin(call, tool)
        self.run_again(call, tool)

    def _show_begin(self, call: Call, tool: OfferedTool, *, asked: bool = False) -> None:
        """Show the call; again only if it changed."""
        if call.begun and not call.changed and call.asked == asked:
            return
        begins = call_begins(call, tool, asked=asked)
        if call.begun and not call.changed and call.asked == begins.asked:
            return
        call.begun, call.changed, call.asked = True, False, begins.asked
        self._display(begins)

    def formatted(self, call: Call, tool: OfferedTool, then: Event) -> None:
        """Have the arguments written for the person, if that is configured, and go on."""
        formatter = tool.formatter
        if formatter is None or call.formatted is not None:
            then()
            return
        context = self.tool_context(call, tool, shows=True)

        async def write() -> Event:
            try:
                text = await formatter.format(copied(call.arguments), context)
            except (Exception, asyncio.CancelledError) as exc:
                if is_cancelled():
                    raise
                problem = str(exc) if isinstance(exc, ToolError) else summary(exc)
                return lambda: self.fail(call, NOT_FORMATTED.format(tool.name, problem))
            return lambda: shown(text)

        def shown(text: str) -> None:
            call.formatted, call.changed = text, True
            if call.begun:
                self._show_begin(call, tool, asked=call.asked)
            then()

        self._events.spawn(write)

    def run_again(self, call: Call, tool: OfferedTool) -> None:
        """Run `tool` for `call`, with all that is known by now."""
        self._display(Waits(call.key, call.title))
        self._events.spawn(lambda: self._execute(call, tool))

    def tool_context(self, call: Call, tool: OfferedTool, *, shows: bool = False) -> ToolContext:
        """Return what a run of `tool` is told; one that only `shows` the call learns less."""
        return ToolContext(
            name=tool.name,
            call_id=call.request.id,
            answers=copied(call.answers),
            ends=dict(call.ends),
            reply=call.reply,
            options=copied(dict(tool.options)),
            access=copied(tool.access),
            config=None if shows else self.changes.visible(tool),
            delta_rejection=None if shows else call.rejection,
            catalog=self._batch.catalog,
            action="format_arguments" if shows else "run",
            **self._context,
        )

    async def _execute(self, call: Call, tool: OfferedTool) -> Event:
        in_cell = tool.executor.waits_for_cell
        if not in_cell:
            self._note(call, "started")
        call.ran = True
        context, run = self.tool_context(call, tool), Run()
        cell = self._cell.for_run(
            call, starts=lambda: self._note(call, "started") if in_cell else None
        )
        RUN.set(run)  # in the context of this task
        began = monotonic()
        try:
            arguments = copied(call.arguments)  # a run may change what it gets
            outcome = await tool.executor.run(arguments, context, cell)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            outcome = Failure("The tool cancelled itself.")
        except ToolError as exc:
            outcome = Failure(str(exc))
        except BaseException as exc:
            if was_interrupted(exc):
                return _settling(cell, lambda: self._cut_short(call, cell.interrupts))
            # SystemExit and KeyboardInterrupt out of a task would end the agent's loop.
            outcome = Failure(summary(exc))
            call.traceback = traceback_of(exc)
            self._faulted(call, exc.with_traceback(tool_frames(exc)))
        finally:
            run.over = True
            call.seconds += cell.seconds if in_cell else monotonic() - began
        outcome = self._state.secrets.hide_in(outcome)
        return _settling(cell, lambda: self._settle_run(call, tool, outcome))

    def _settle_run(self, call: Call, tool: OfferedTool, outcome: Outcome) -> None:
        call.structured = None if isinstance(outcome, NeedsInput) else outcome.structured
        call.given = outcome.images if isinstance(outcome, Success) else ()
        match outcome:
            case Success() if outcome.proposes and tool.executor.may_propose:
                # Once all is being ended nobody may agree any more, nor may the tool run again.
                if not self._events.cutting:
                    self.changes.propose(call, tool, outcome)
            case Success(content=content):
                if outcome.proposes:
                    log.warning("%s may not propose configuration changes: ignored", tool.name)
                self.config_settled(call, tool, content)
            case Failure(message=message, trace=trace):
                text = "\n".join([message, "", "Trace:", *trace]) if trace else message
                self._deliver(call, tool, Delivery(text, is_error=True))
            case NeedsInput():
                self._asking.ask(call, tool, outcome, self._batch)
            case _:
                assert_never(outcome)

    def config_settled(self, call: Call, tool: OfferedTool, content: str) -> None:
        """Deliver what a run came to: whatever it proposed is decided."""
        self._deliver(call, tool, Delivery(content))

    def nobody_decides(self, nobody: Unavailable) -> None:
        """Note that a person was needed and nobody is there."""
        self.unavailable = nobody.reason

    def fail(self, call: Call, text: str) -> None:
        """End `call` with an error."""
        shown = text if call.tool is None else _shortened(text, call.tool)
        self.finish(call, shown, is_error=True)

    def finish(
        self, call: Call, content: str, *, is_error: bool = False, skipped: bool = False
    ) -> None:
        """Give `call` its response, and show it."""
        metadata: dict[str, JsonValue] = {}
        if call.may_have_run and not call.ran:
            content = RAN_BEFORE.format(content)
        if call.edited is not None:
            metadata = edited_by_person(copied(call.arguments), call.edited)
        if skipped or content != call.delivered:
            self._drop_images(call)
        elif call.structured is not None:
            metadata["structured"] = json_copy(call.structured)
        metadata |= shows(call.shown.images)
        call.response = ToolCallResponse(
            id=call.request.id, content=content, is_error=is_error, metadata=metadata
        )
        if not skipped:  # else it has no result; a restart of the kernel interrupts forms, too
            self._note(call, "finished")
        self._show_end(call, content, is_error=is_error, skipped=skipped)

    def _deliver(self, call: Call, tool: OfferedTool, result: Delivery) -> None:
        limits = self._batch.basis.config.record
        call.shown = admit(call.given, limits, before=self._state.images)
        self._state.images += len(call.shown.images)
        short = _shortened(result.content, tool)
        call.whole_chars = None if short == result.content else len(result.content)
        content = call.shown.added_to(short)
        result = replace(result, content=content, images=call.shown.images)
        call.delivered = content
        match tool.result:
            case "skip":
                self.finish(call, NOT_DELIVERED_BY_CONFIGURATION, skipped=True)
            case "unattended":
                self.finish(call, result.content, is_error=result.is_error)
            case "ask" | "edit":
                self._consent.to_deliver(call, tool, result)
            case _:
                assert_never(tool.result)

    def _drop_images(self, call: Call) -> None:
        """Note that the model sees no images of `call`."""
        self._state.images -= len(call.shown.images)
        call.shown = NONE

    def _show_end(self, call: Call, content: str, *, is_error: bool, skipped: bool) -> None:
        traceback = self._state.secrets.hide(call.traceback) if call.traceback else None
        self._display(
            call_ends(call, content, traceback=traceback, is_error=is_error, skipped=skipped)
        )


def _settling(cell: CellOfRun, event: Event) -> Event:
    """Return `event`, after which the next function may run on the cell's thread."""

    def settle() -> None:
        try:
            event()
        finally:
            cell.settled()

    return settle


def _shortened(text: str, tool: OfferedTool) -> str:
    path = f"conversation.tools.{tool.name}.result_max_chars"
    return cut_middle(text, tool.result_max_chars, path)
