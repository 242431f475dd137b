"""Run the tool calls of one response concurrently, and deliver their results in call order.

All calls start at once. One loop makes every change of state: it takes events from one queue.
Runs, inquiries, and prompts are tasks that post an event when they end. Prompts wait in a queue,
and one of them is on screen. The module treats all tools alike.

Source: `docs/turns.md`, `docs/guide.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Literal, assert_never

from pydantic import JsonValue

from jp_nb.agent.config_changes import ConfigChanges
from jp_nb.agent.display import InterruptReceived, Notice, ToolBegins, ToolEnds, Waits
from jp_nb.agent.interrupts import (
    CONTINUE,
    USER_STOPPED,
    Choice,
    Interrupts,
    Verdict,
    ask_menu,
    stopped_call_text,
    tool_menu,
)
from jp_nb.agent.permissions import (
    INTERRUPT_FIRST,
    NOT_DELIVERED_BY_CONFIGURATION,
    SKIPPED,
    STOPPED_FIRST,
    UNDELIVERED,
    Delivery,
    PermissionRequests,
)
from jp_nb.agent.prompts import PromptEvent, Prompts, SafeAsk
from jp_nb.agent.questions import BatchContext, ToolQuestions, TurnContext
from jp_nb.agent.recording import RecordedResult
from jp_nb.agent.tasks import BatchEvents, CellCall, CellFunctions, was_interrupted
from jp_nb.agent.tool_call import NO_IMAGES, Call, limit_images, prepare_arguments
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.config.tree.app import Interrupt as InterruptConfig
from jp_nb.errors import ToolError
from jp_nb.json_values import copy_json, copy_nested_json
from jp_nb.record.context import RequestContext
from jp_nb.record.events import (
    ConfigDelta,
    ToolCallResponse,
    image_entry,
    images_metadata,
)
from jp_nb.record.journal import CallStage
from jp_nb.record.marks import edit_metadata
from jp_nb.tools.base import (
    CURRENT_RUN,
    Run,
    ToolContext,
    error_summary,
    format_traceback,
    is_cancelled,
    tool_frames,
)
from jp_nb.tools.outcome import Failure, NeedsInput, Outcome, Success, truncate_middle
from jp_nb.tools.parameters import text_arguments


def make_begin_event(call: Call, tool: OfferedTool, *, asked: bool = False) -> ToolBegins:
    """Return the display event for a call before it runs. `asked`: the user has to permit it."""
    texts = text_arguments(tool.definition.parameters, call.arguments)
    shown: Literal["line", "json", "off"] = "line"
    if tool.formatter is not None or tool.parameters == "off":
        shown = "off"
    elif tool.parameters == "json":
        shown = "json"
    return ToolBegins(
        call.key,
        call.request.name,
        call.arguments,
        tool.hidden,
        parameters=shown,
        formatted=call.formatted,
        edited=call.edited is not None,
        texts=texts,
        asked=asked and bool(texts),
    )


def _visible_result_lines(tool: OfferedTool, *, is_error: bool) -> int | None:
    shown = tool.inline_results
    if is_error and tool.inline_errors is not None:
        shown = tool.inline_errors
    return None if shown == "full" else shown if isinstance(shown, int) else 0


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
"""Response to a call that does not run again, with the reason."""
NOT_FORMATTED = "Tool '{}' was not executed because the argument formatter failed: {}"
CHANGE_LOST = (
    "The configuration change that this call proposed was not applied. The kernel "
    "stopped before the change was saved."
)
"""Last words of a journaled result. The model gets them only if the kernel stops too early."""
RESTARTED = "restarted"


class CallRunner:
    """Takes each call of a batch from its arguments to its response.

    Everything but the runs themselves happens in the coordinator's loop.

    Args:
        turn: State and ports of the turn.
        events: Runs work as tasks.
        prompts: Prompts of the turn.
        cell: Functions on the cell's thread.
        on_function_interrupted: Called when an interrupt of the cell ended the function of a call,
            with the number of interrupts when it began.
        stop_turn: Called when the user stops the turn at a question.

    Attributes:
        changes: The configuration changes that the calls proposed.
        unavailable_reason: Set when a decision needed a user and none was available.
    """

    def __init__(
        self,
        turn: TurnContext,
        events: BatchEvents,
        prompts: Prompts,
        cell: CellFunctions,
        *,
        on_function_interrupted: Callable[[Call, int], None],
        stop_turn: Callable[[], None],
    ) -> None:
        self._turn = turn
        self._events = events
        self._cell = cell
        self._on_function_interrupted = on_function_interrupted
        self.stop_turn = stop_turn
        self._batch = BatchContext(RequestContext())
        self._questions = ToolQuestions(self, turn, prompts, events)
        self._permissions = PermissionRequests(self, turn, prompts)
        self.changes = ConfigChanges(self, turn, prompts)
        self.unavailable_reason: str | None = None

    def begin_batch(self, batch: BatchContext) -> None:
        """Set the context of the next calls."""
        self._batch = batch
        self.changes.begin(batch.basis)

    def drop_questions(self, end: Literal["cancelled", "interrupted"]) -> None:
        """Close the open questions of canceled calls."""
        self._questions.drop(end)

    def restart(self, call: Call) -> None:
        """Run `call` again from the beginning."""
        if call.is_displayed and call.response is None:  # end its line before a new one begins
            self._show_end(call, RESTARTED, is_error=False, skipped=True)
        self._drop_images(call)
        call.reset()
        self.begin(call)

    def begin(self, call: Call) -> None:
        """Run `call`, ask for permission, or report why it cannot run."""
        tool = call.tool
        if self._batch.results is not None:  # a replay runs no tool and asks no user
            self._use_recorded_result(call, self._batch.results)
            return
        if tool is None:
            self.fail(call, UNAVAILABLE.format(call.request.name))
            return
        if call.bad_arguments is not None:
            self.fail(call, call.bad_arguments)
            return
        prepared = prepare_arguments(tool, call.request.arguments)
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
                self._report_progress(call, "asked")
                self._show_begin(call, tool, asked=True)
                self._permissions.request_run(call, tool)
            case _:
                assert_never(tool.run)

    def _use_recorded_result(self, call: Call, results: Sequence[RecordedResult]) -> None:
        if call.tool is not None:
            call.arguments = copy_json(call.request.arguments)
            self._show_begin(call, call.tool)
        if call.index < len(results):
            result, call.may_have_run = results[call.index], False  # its result is known
            self.finish(call, result.content, is_error=result.is_error)
        else:
            self.fail(call, NOT_RECORDED)

    def start(self, call: Call, tool: OfferedTool) -> None:
        """Run `tool`, which is permitted, for the first time."""
        self._report_progress(call, "permitted")

        def show_and_run() -> None:
            self._show_begin(call, tool)
            self.run(call, tool)

        self.format_arguments(call, tool, show_and_run)

    def _report_progress(self, call: Call, stage: CallStage) -> None:
        """Report the progress of `call` to the journal."""
        if self._turn.on_progress is None:
            return
        if stage != "finished":
            self._turn.on_progress(call, "started" if call.may_have_run else stage, ())
            return
        assert call.response is not None
        response = call.response
        if self.changes.is_approved(call):  # it is saved when the batch ends
            content = f"{response.content}\n\n{CHANGE_LOST}"
            response = response.model_copy(update={"content": content})
        self._turn.on_progress(call, stage, (*map(image_entry, call.shown_images.images), response))

    def _show_begin(self, call: Call, tool: OfferedTool, *, asked: bool = False) -> None:
        if call.is_displayed and not call.needs_redisplay and call.texts_in_prompt == asked:
            return
        begins = make_begin_event(call, tool, asked=asked)
        if call.is_displayed and not call.needs_redisplay and call.texts_in_prompt == begins.asked:
            return
        call.is_displayed, call.needs_redisplay, call.texts_in_prompt = True, False, begins.asked
        self._turn.display(begins)

    def format_arguments(self, call: Call, tool: OfferedTool, then: PromptEvent) -> None:
        """Format the arguments for the user, if a formatter is configured, and call `then`."""
        formatter = tool.formatter
        if formatter is None or call.formatted is not None:
            then()
            return
        context = self.tool_context(call, tool, for_formatter=True)

        async def write() -> PromptEvent:
            try:
                text = await formatter.format(copy_json(call.arguments), context)
            except (Exception, asyncio.CancelledError) as exc:
                if is_cancelled():
                    raise
                problem = str(exc) if isinstance(exc, ToolError) else error_summary(exc)
                return lambda: self.fail(call, NOT_FORMATTED.format(tool.name, problem))
            return lambda: use(text)

        def use(text: str) -> None:
            call.formatted, call.needs_redisplay = text, True
            if call.is_displayed:
                self._show_begin(call, tool, asked=call.texts_in_prompt)
            then()

        self._events.spawn(write)

    def run(self, call: Call, tool: OfferedTool) -> None:
        """Run `tool` with the current state of `call`."""
        self._turn.display(Waits(call.key, call.title))
        self._events.spawn(lambda: self._execute(call, tool))

    def tool_context(
        self, call: Call, tool: OfferedTool, *, for_formatter: bool = False
    ) -> ToolContext:
        """Return the context for a run of `tool`, or for its formatter, which gets less."""
        return ToolContext(
            name=tool.name,
            call_id=call.request.id,
            answers=copy_json(call.answers),
            ends=dict(call.question_ends),
            reply=call.reply,
            options=copy_json(dict(tool.options)),
            access=copy_json(tool.access),
            config=None if for_formatter else self.changes.visible_config(tool),
            delta_rejection=None if for_formatter else call.rejection,
            catalog=self._batch.catalog,
            action="format_arguments" if for_formatter else "run",
            **self._turn.shared,
        )

    async def _execute(self, call: Call, tool: OfferedTool) -> PromptEvent:
        in_cell = tool.executor.waits_for_cell
        if not in_cell:  # a function in the cell may wait for others before it starts
            self._report_progress(call, "started")
        call.ran = True
        context, run = self.tool_context(call, tool), Run()
        cell = CellCall(
            self._cell, call, lambda: self._report_progress(call, "started") if in_cell else None
        )
        CURRENT_RUN.set(run)  # in the context of this task
        began = monotonic()
        try:
            arguments = copy_json(call.arguments)  # a run may change what it gets
            outcome = await tool.executor.run(arguments, context, cell)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            outcome = Failure("The tool cancelled itself.")
        except ToolError as exc:
            outcome = Failure(str(exc))
        except BaseException as exc:
            if was_interrupted(exc):
                return _release_cell_after(
                    cell, lambda: self._on_function_interrupted(call, cell.interrupts)
                )
            # SystemExit and KeyboardInterrupt out of a task would end the agent's loop.
            outcome = Failure(error_summary(exc))
            call.traceback = format_traceback(exc)
            if self._turn.on_tool_error is not None:
                self._turn.on_tool_error(call, exc.with_traceback(tool_frames(exc)))
        finally:
            run.is_over = True
            call.seconds += cell.seconds if in_cell else monotonic() - began
        outcome = self._turn.state.secrets.hide_in_outcome(outcome)
        return _release_cell_after(cell, lambda: self._handle_outcome(call, tool, outcome))

    def _handle_outcome(self, call: Call, tool: OfferedTool, outcome: Outcome) -> None:
        call.structured = None if isinstance(outcome, NeedsInput) else outcome.structured
        call.result_images = outcome.images if isinstance(outcome, Success) else ()
        match outcome:
            case Success() if outcome.proposes and tool.executor.may_propose:
                # While the batch ends, the user cannot approve, and the tool cannot run again.
                if not self._events.is_canceling:
                    self.changes.propose(call, tool, outcome)
            case Success(content=content):
                if outcome.proposes:
                    log.warning("%s may not propose configuration changes: ignored", tool.name)
                self.deliver(call, tool, content)
            case Failure(message=message, trace=trace):
                text = "\n".join([message, "", "Trace:", *trace]) if trace else message
                self._deliver(call, tool, Delivery(text, is_error=True))
            case NeedsInput():
                self._questions.ask(call, tool, outcome, self._batch)
            case _:
                assert_never(outcome)

    def deliver(self, call: Call, tool: OfferedTool, content: str) -> None:
        """Deliver the result of a successful run."""
        self._deliver(call, tool, Delivery(content))

    def note_unavailable(self, reason: str) -> None:
        """Note why no user was available for a decision that needed one."""
        self.unavailable_reason = reason

    def fail(self, call: Call, text: str) -> None:
        """End `call` with an error."""
        shown = text if call.tool is None else _truncate_result(text, call.tool)
        self.finish(call, shown, is_error=True)

    def finish(
        self, call: Call, content: str, *, is_error: bool = False, skipped: bool = False
    ) -> None:
        """End `call` with a response, and display it."""
        metadata: dict[str, JsonValue] = {}
        if call.may_have_run and not call.ran:
            content = RAN_BEFORE.format(content)
        if call.edited is not None:
            metadata = edit_metadata(copy_json(call.arguments), call.edited)
        if skipped or content != call.delivered:  # the user may have edited the text
            self._drop_images(call)
        elif call.structured is not None:
            metadata["structured"] = copy_nested_json(call.structured)
        metadata |= images_metadata(call.shown_images.images)
        call.response = ToolCallResponse(
            id=call.request.id, content=content, is_error=is_error, metadata=metadata
        )
        if not skipped:  # else it has no result, and a restart of the kernel may have closed a form
            self._report_progress(call, "finished")
        self._show_end(call, content, is_error=is_error, skipped=skipped)

    def _deliver(self, call: Call, tool: OfferedTool, result: Delivery) -> None:
        limits = self._batch.basis.config.record
        call.shown_images = limit_images(call.result_images, limits, before=self._turn.state.images)
        self._turn.state.images += len(call.shown_images.images)
        short = _truncate_result(result.content, tool)
        call.whole_chars = None if short == result.content else len(result.content)
        content = call.shown_images.add_omissions_to(short)
        result = replace(result, content=content, images=call.shown_images.images)
        call.delivered = content
        match tool.result:
            case "skip":
                self.finish(call, NOT_DELIVERED_BY_CONFIGURATION, skipped=True)
            case "unattended":
                self.finish(call, result.content, is_error=result.is_error)
            case "ask" | "edit":
                self._permissions.request_delivery(call, tool, result)
            case _:
                assert_never(tool.result)

    def _drop_images(self, call: Call) -> None:
        """Omit the images of `call` from the context."""
        self._turn.state.images -= len(call.shown_images.images)
        call.shown_images = NO_IMAGES

    def _show_end(self, call: Call, content: str, *, is_error: bool, skipped: bool) -> None:
        tool = call.tool
        self._turn.display(
            ToolEnds(
                call_id=call.key,
                name=call.request.name,
                content=content,
                is_error=is_error,
                seconds=call.seconds,
                hidden=tool is not None and tool.hidden,
                traceback=self._turn.state.secrets.hide(call.traceback) if call.traceback else None,
                skipped=skipped,
                images=call.shown_images.images,
                omitted_images=call.shown_images.omitted,
                result_lines=(
                    0 if tool is None or skipped else _visible_result_lines(tool, is_error=is_error)
                ),
            )
        )


def _release_cell_after(cell: CellCall, event: PromptEvent) -> PromptEvent:
    """Return `event`, after which the next function may run on the cell's thread."""

    def settle() -> None:
        try:
            event()
        finally:
            cell.settled()

    return settle


def _truncate_result(text: str, tool: OfferedTool) -> str:
    path = f"conversation.tools.{tool.name}.result_max_chars"
    return truncate_middle(text, tool.result_max_chars, path)


CANCELLED_WITH_MESSAGE = "Tool run cancelled by user with a custom message:\n\n{}"
BROKE_OFF = "The turn ended before this tool call finished. Its effects up to then may remain."
NEVER_RAN = "This tool call did not run. The turn ended first."
DISCARDED = (
    "⟳ The turn ended before these tool calls finished, so their approved configuration changes "
    "are not applied"
)


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """The end of a batch.

    Attributes:
        responses: In call order.
        stopped: True if the turn is to end.
        abandoned: True if the user stopped the turn at a question of a tool.
        unsent_message: Message of the user to the model, if no response has it.
        change: The approved configuration changes, merged.
    """

    responses: list[ToolCallResponse]
    stopped: bool = False
    abandoned: bool = False
    unsent_message: str = ""
    change: ConfigDelta | None = None


class Coordinator:
    """Runs batches of tool calls, one after the other."""

    def __init__(self, turn: TurnContext, interrupts: Interrupts) -> None:
        self._turn = turn
        self._interrupts = interrupts
        self._events = BatchEvents()
        self._prompts = Prompts(turn.prompter, self._events.spawn)
        self._functions = CellFunctions(turn.cell, turn.display, self._function_ended)
        self._runner = CallRunner(
            turn,
            self._events,
            self._prompts,
            self._functions,
            on_function_interrupted=self._on_function_interrupted,
            stop_turn=self._stop_turn,
        )
        self._calls: Sequence[Call] = ()
        self._settings = InterruptConfig()
        self._menu_open = self._menu_due = False
        self._interrupted_names: Sequence[str] = ()
        self._last_continue: Verdict = CONTINUE
        self._verdict: Verdict | None = None

    @property
    def unavailable_reason(self) -> str | None:
        """Set when a decision needed a user and none was available."""
        return self._runner.unavailable_reason

    async def run(self, calls: Sequence[Call], batch: BatchContext) -> BatchEnd:
        """Run `calls` until each of them has a response.

        If this is canceled, `stop` gives the open calls their responses.
        """
        self._calls, self._settings = calls, batch.interrupts
        self._runner.begin_batch(batch)
        seen: Counter[str] = Counter()
        for index, call in enumerate(calls):
            seen[call.request.id] += 1
            call.index, call.number = index, seen[call.request.id]
            self._runner.begin(call)
        # An interrupt that came with the last response still belongs to this batch.
        while self._menu_open or self._open_calls() or self._events.has_events:
            event = await self._events.next()
            event()
            self._open_menu()
            if self._verdict is not None:
                verdict, self._verdict = self._verdict, None
                end = await self._carry_out(verdict)
                if end is not None:
                    return end
        return BatchEnd(self._responses(), change=self._runner.changes.take())

    async def stop(self) -> list[ToolCallResponse]:
        """Cancel all tasks and close all calls; return the responses in call order.

        Approved configuration changes are discarded, because the batch is incomplete.
        """
        await self._cancel_tasks()
        for call in self._open_calls():
            self._runner.finish(call, BROKE_OFF if call.ran else NEVER_RAN, skipped=True)
        self._discard_changes()
        return self._responses()

    def _discard_changes(self) -> list[Call]:
        """Discard the approved changes; return the calls that proposed them."""
        calls = self._runner.changes.discard()
        if calls:
            self._turn.display(Notice(DISCARDED))
        return calls

    def _responses(self) -> list[ToolCallResponse]:
        return [call.response for call in self._calls if call.response is not None]

    def _open_calls(self) -> list[Call]:
        return [call for call in self._calls if call.response is None]

    def interrupt(self) -> None:
        """Handle an interrupt of the kernel, on the agent's event loop while a batch runs."""
        self._events.post(self._on_interrupt)

    def _on_interrupt(self) -> None:
        self._functions.interrupts += 1
        in_menu = self._menu_open or self._events.is_canceling
        verdict = self._interrupts.decide_without_menu("tool_call", self._settings, in_menu=in_menu)
        self._interrupted_names = self._open_names()
        self._turn.prompter.interrupt()  # closes the current prompt first: docs/decisions.md D24
        if verdict is not None and verdict.choice != "continue":
            self._decide(verdict)
            return
        self._menu_open = True
        self._prompts.hold()  # the next choice may close a new form
        if verdict is not None:
            self._events.spawn(lambda: self._decide_later(verdict))
            return
        self._turn.display(InterruptReceived("menu"))
        self._menu_due = True

    def _open_menu(self) -> None:
        """Open the due menu once all functions that the interrupt may have ended have returned."""
        if not self._menu_due or self._functions.running or self._events.has_events:
            return
        self._menu_due, settings = False, self._settings

        async def show(ask: SafeAsk) -> Verdict:
            menu = tool_menu(
                self._open_names(),
                interrupted=self._interrupted_names,
                disabled=self._disabled_choices(),
            )
            return await ask_menu(ask, "tool_call", settings, menu)

        self._prompts.add(show, settle=self._decide, first=True)
        self._prompts.release()

    def _open_names(self) -> list[str]:
        return [call.request.name for call in self._open_calls()]

    def _disabled_choices(self) -> list[Choice]:
        """Return the choices without effect."""
        calls = self._open_calls()
        disabled: list[Choice] = []
        if calls and all(call.was_interrupted for call in calls):
            disabled.append("continue")
        if not calls and not self._runner.changes.has_approved:
            disabled.append("restart")
        return disabled

    def _function_ended(self) -> None:
        if self._menu_due:
            self._events.post(lambda: None)  # wakes the loop

    def _on_function_interrupted(self, call: Call, count_before: int) -> None:
        """Note that an interrupt ended the function of `call`."""
        call.was_interrupted = True
        # The decision follows, unless it was made between the interrupt and this event.
        deciding = self._menu_open or self._events.is_canceling or self._verdict is not None
        if self._functions.interrupts > count_before and not deciding:
            self._stop_call(call, self._last_continue)

    def _stop_turn(self) -> None:
        if self._verdict is None:
            self._verdict = USER_STOPPED

    async def _decide_later(self, verdict: Verdict) -> PromptEvent:
        """Decide after the events in the queue, such as the end of an interrupted function."""
        return lambda: self._decide(verdict)

    def _decide(self, verdict: Verdict) -> None:
        self._turn.display(InterruptReceived(verdict.choice))
        self._menu_open = self._menu_due = False
        self._prompts.release()
        if self._verdict is None or not self._verdict.escalated:  # escalation is final
            self._verdict = verdict

    async def _carry_out(self, verdict: Verdict) -> BatchEnd | None:
        """Apply the decision about an interrupt; return None if the batch continues."""
        if verdict.choice == "continue":
            self._last_continue = verdict
            for call in self._open_calls():
                if call.was_interrupted:
                    self._stop_call(call, verdict)
            self._functions.cell.release()
            return None
        await self._cancel_tasks(asked="interrupted" if verdict.interrupted else "cancelled")
        later, self._verdict = self._verdict, None
        if later is not None and later.escalated:  # a second interrupt during the cancellation
            verdict = later
        if verdict.choice == "restart":
            self._functions.cell.release()
            self._restart_calls()
            return None
        if verdict.escalated:
            self._discard_changes()
        unsent_message = self._cancel_batch(verdict)
        change = self._runner.changes.take()
        if verdict.choice == "reply":
            self._functions.cell.release()
            return BatchEnd(self._responses(), unsent_message=unsent_message, change=change)
        abandoned = not verdict.interrupted
        return BatchEnd(self._responses(), stopped=True, abandoned=abandoned, change=change)

    def _restart_calls(self) -> None:
        """Run the open calls again, and those whose approved change is discarded."""
        again = {call.index for call in (*self._open_calls(), *self._discard_changes())}
        for index in sorted(again):
            self._runner.restart(self._calls[index])

    def _cancel_batch(self, verdict: Verdict) -> str:
        """Close every call; return the message of `verdict` if no response contains it."""
        why = INTERRUPT_FIRST if verdict.interrupted else STOPPED_FIRST
        for call in self._open_calls():  # these have run to their end
            if call.delivering or self._runner.changes.is_approved(call):
                self._runner.finish(call, UNDELIVERED.format(why), skipped=True)
        cancelled = self._open_calls()
        for call in cancelled:
            self._stop_call(call, verdict)
        return "" if cancelled else verdict.text

    async def _cancel_tasks(
        self, *, asked: Literal["cancelled", "interrupted"] = "interrupted"
    ) -> None:
        """Cancel all tasks, prompts, and inquiries, and give open questions the outcome `asked`."""
        self._prompts.clear()
        try:
            await self._events.cancel_all()
        finally:
            self._menu_open = self._menu_due = False
            self._functions.forget_runs()
        self._prompts.clear()  # events of ended tasks may have queued more
        self._prompts.release()
        self._runner.drop_questions(asked)

    def _stop_call(self, call: Call, verdict: Verdict) -> None:
        """End `call` as canceled by the user, or as stopped."""
        text = stopped_call_text(verdict, ran=call.ran)
        if verdict.text:
            text = CANCELLED_WITH_MESSAGE.format(verdict.text)
        elif _is_cancellation(verdict) and call.tool is not None:
            text = call.tool.cancellation_response
        self._runner.finish(call, text, skipped=True)


def _is_cancellation(verdict: Verdict) -> bool:
    """Return True if the user chose to cancel the calls, and did not only leave a question."""
    return verdict.choice != "continue" and verdict.by != "unattended" and verdict.interrupted
