"""Take a tool call through its steps: permission, runs, questions, changes, and delivery.

Source: `docs/turns.md`, `docs/guide.md`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Literal, assert_never

from pydantic import JsonValue

from jp_nb.agent.call import Call, CallEnded, prepare_arguments
from jp_nb.agent.call_decisions import CallDecisions
from jp_nb.agent.call_progress import ProgressWriter
from jp_nb.agent.cell_functions import CellCall
from jp_nb.agent.change_review import ConfigChanges
from jp_nb.agent.display import ToolBegins, ToolEnds, Waits
from jp_nb.agent.image_limits import NO_IMAGES, limit_images
from jp_nb.agent.interrupts import (
    Verdict,
    stopped_call_text,
)
from jp_nb.agent.permission_rules import Ruling, judge
from jp_nb.agent.permissions import SKIPPED_BY_USER_TEXT, PermissionRequests, skipped_text
from jp_nb.agent.prompt_line import PromptLine
from jp_nb.agent.questions import ToolQuestions
from jp_nb.agent.recorded_results import RecordedResult
from jp_nb.agent.result_delivery import (
    NOT_DELIVERED_BY_CONFIGURATION_TEXT,
    Delivery,
    DeliveryRequests,
)
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.agent.turn_state import BatchContext, TurnContext
from jp_nb.errors import ToolError
from jp_nb.json_values import copy_json, copy_nested_json
from jp_nb.record.entry_images import make_images_metadata
from jp_nb.record.events import ToolCallResponse
from jp_nb.record.marks import RULE, make_edit_metadata, make_server_marks
from jp_nb.record.marks import SKIPPED_KEY as SKIPPED_MARK
from jp_nb.toolkit.cancellation import raise_if_cancelled
from jp_nb.toolkit.cell_thread import (
    CURRENT_RUN,
    CallInterrupted,
    ControlFlowError,
    PendingResult,
    Run,
)
from jp_nb.toolkit.outcome import (
    MAX_TRACE_CHARS,
    STRUCTURED_OMITTED,
    NeedsInput,
    Outcome,
    Success,
    ToolFailure,
)
from jp_nb.toolkit.text_arguments import text_arguments
from jp_nb.toolkit.tool_context import DeltaRejection, ToolContext
from jp_nb.toolkit.tool_errors import (
    error_summary,
    format_error_text,
    format_traceback,
    tool_frames,
)
from jp_nb.toolkit.truncation import join_lines, truncate_middle

log = logging.getLogger(__name__)

UNAVAILABLE_TOOL_TEXT = (
    "Tool '{}' is not available. It may have been available earlier in this conversation but is "
    "no longer enabled. Do not retry this tool until it is available again in the list of enabled "
    "tools."
)
NO_SUCH_NAME_TEXT = (
    "There is no tool {}, so nothing ran. Call one of the tools in your list by its exact name."
)
"""Response to a call whose name no tool can have."""
MAX_MADE_UP_NAME_CHARS = 80
"""Maximum number of characters of such a name that are repeated to the model."""
_POSSIBLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
NOT_RECORDED_TEXT = (
    "The cassette has no result for this call, so the tool did not run. To run the "
    'tool, set `providers.cassette.tools = "run"`.'
)
RAN_BEFORE_TEXT = (
    "This call may already have run, fully or partly, and its effects may remain. It "
    "did not run again: {}"
)
"""Response to a call that does not run again, with the reason."""
NOT_FORMATTED_TEXT = "Tool '{}' was not executed because the argument formatter failed: {}"
CHANGE_LOST_TEXT = (
    "The configuration change that this call proposed was not applied. The kernel "
    "stopped before the change was saved."
)
"""Last words of a journaled result. The model gets them only if the kernel stops too early."""
RESTARTED = "restarted"
CANCELED_ITSELF_TEXT = "The tool cancelled itself."
CANCELLED_WITH_MESSAGE_TEXT = "Tool run cancelled by user with a custom message:\n\n{}"


class CallRunner:
    """Takes each call of a batch from its arguments to its response."""

    def __init__(self, turn: TurnContext, batch: BatchContext, line: PromptLine) -> None:
        self._turn = turn
        self._batch = batch
        self._functions = line.functions
        self.questions = ToolQuestions(turn, line)
        self._decisions = CallDecisions(turn)
        self._permissions = PermissionRequests(turn, line, self._decisions)
        self._deliveries = DeliveryRequests(turn, line, self._decisions)
        self.changes = ConfigChanges(turn, batch.basis, line)
        self.progress = ProgressWriter(turn)

    async def run(self, call: Call, *, again: bool = False) -> bool:
        """Take `call` from its arguments to its response, perhaps `again`.

        Return True if the user stopped the turn at a question.
        """
        if again:
            if call.view.is_displayed and call.state.response is None:
                # End its line before a new one begins.
                self._show_end(call, RESTARTED, is_error=False, skipped=True)
            self._drop_images(call)
            call.reset()

        try:
            result = await self._run(call)
        except CallEnded as end:
            content = end.content
            if end.is_error and call.tool is not None:
                content = _truncate_result(content, call.tool)
            self.finish(call, content, is_error=end.is_error, skipped=end.skipped)
            return end.stops_turn
        finally:
            if call.task is asyncio.current_task():  # else it was abandoned, and has ended before
                end_runs(call)

        self.finish(call, result.content, is_error=result.is_error)
        return False

    async def _run(self, call: Call) -> Delivery:
        if self._batch.results is not None:
            return self._recorded_result(call, self._batch.results)

        tool = self._prepare(call)
        call.state.ruling = judge(tool, call.state.arguments, self._turn.shared.get("root", ""))
        if call.state.ruling.run != "unattended":
            await self._get_permission(call, tool, call.state.ruling)
        if tool.run != "unattended" or tool.rules:
            self.progress.write(call, stage="permitted")
        await self._format_arguments(call, tool)
        self._show_begin(call, tool)

        while True:
            outcome = await self._execute(call, tool)
            kept = call.state.result.kept
            if kept is not None:
                return Delivery(kept.content, kept.is_error)

            match outcome:
                case NeedsInput():
                    await self.questions.ask(call, tool, outcome, self._batch)
                case Success() if outcome.proposes and tool.executor.may_propose:
                    raise_if_cancelled()  # while the batch ends, nothing can be approved
                    if await self.changes.review(call, tool, outcome):
                        return await self._deliver(call, tool, outcome)
                case Success() | ToolFailure():
                    return await self._deliver(call, tool, outcome)
                case _:
                    assert_never(outcome)

    def _recorded_result(self, call: Call, results: Sequence[RecordedResult]) -> Delivery:
        """Return the result of a replay, which runs no tool and asks no user."""
        if call.tool is not None:
            call.state.arguments = copy_json(call.request.arguments)
            self._show_begin(call, call.tool)

        if call.index >= len(results):
            raise CallEnded(NOT_RECORDED_TEXT, is_error=True)
        result = results[call.index]
        call.may_have_run = False  # its result is known
        return Delivery(result.content, is_error=result.is_error)

    def _prepare(self, call: Call) -> OfferedTool:
        """Set the arguments of `call`, and return its tool, unless the call cannot run."""
        if call.tool is None:
            raise CallEnded(_describe_missing_tool(call.request.name), is_error=True)
        if call.bad_arguments is not None:
            raise CallEnded(call.bad_arguments, is_error=True)

        prepared = prepare_arguments(call.tool, call.request.arguments)
        if isinstance(prepared, ToolFailure):
            raise CallEnded(prepared.message, is_error=True)
        call.state.arguments = prepared
        return call.tool

    async def _get_permission(self, call: Call, tool: OfferedTool, ruling: Ruling) -> None:
        if ruling.run == "skip":
            raise CallEnded(skipped_text(ruling), skipped=True)

        context = self._tool_context(call, tool)
        if self._permissions.find_kept_rule(call, tool, ruling, context.root):
            return

        call.state.ruling = None  # the user decides, or the answers file
        self.progress.write(call, stage="asked")
        self._show_begin(call, tool, asked=True)

        permitted = self._decisions.decide_by_file("permission", tool, call.state)
        if permitted is False:
            raise CallEnded(SKIPPED_BY_USER_TEXT, skipped=True)
        if permitted is None:
            # By default, a tool that runs unattended formats first. It does not if a rule asks.
            if tool.format == "unattended" and tool.run != "unattended":
                await self._format_arguments(call, tool)
                context = self._tool_context(call, tool)
            await self._permissions.request_run(call, tool, context, ruling)

    def _keep_result(self, call: Call, response: ToolCallResponse) -> None:
        if self.changes.is_approved(call):  # it is saved when the batch ends
            content = f"{response.content}\n\n{CHANGE_LOST_TEXT}"
            response = response.model_copy(update={"content": content})
        self.progress.keep_result(call, response)

    def _keep_result_of_function(
        self, call: Call, tool: OfferedTool, run: Run, outcome: object
    ) -> bool:
        """Keep a result that needs no decision, on the cell's thread; return False for another.

        The next function writes it before it starts. It does not wait for a result that the agent's
        loop awaits, as it does not wait for `async def` tools.
        """
        if isinstance(outcome, PendingResult):
            return True
        if (
            not isinstance(outcome, Success | ToolFailure)
            or tool.result != "unattended"
            or run.is_over
        ):
            return False
        if isinstance(outcome, Success) and (outcome.proposes or outcome.images):
            return False

        hidden = self._turn.secrets.hide_in_outcome(outcome)
        assert not isinstance(hidden, NeedsInput)
        result = self._limit_result(call, tool, hidden)
        response = _make_response(call, result.content, is_error=result.is_error)
        self._keep_result(call, response)
        call.state.result.kept = response
        return True

    def _show_begin(self, call: Call, tool: OfferedTool, *, asked: bool = False) -> None:
        texts = text_arguments(tool.definition.parameters, call.state.arguments)
        asked = asked and bool(texts)
        view = call.view
        if view.is_displayed and not view.needs_redisplay and view.texts_in_prompt == asked:
            return

        view.is_displayed = True
        view.needs_redisplay = False
        view.texts_in_prompt = asked

        shown: Literal["line", "json", "off"] = "line"
        if tool.formatter is not None or tool.parameters == "off":
            shown = "off"
        elif tool.parameters == "json":
            shown = "json"

        ruling = call.state.ruling
        rule = None if ruling is None else ruling.words
        begins = ToolBegins(
            call.key,
            call.request.name,
            call.state.arguments,
            tool.hidden,
            shown,
            formatted=view.formatted,
            edited=call.state.edited is not None,
            texts=texts,
            asked=asked,
            rule=rule,
        )
        self._turn.display(begins)

    async def _format_arguments(self, call: Call, tool: OfferedTool) -> None:
        """Format the arguments for the user, if a formatter is configured."""
        if tool.formatter is None or call.view.formatted is not None:
            return

        context = self._tool_context(call, tool, for_formatter=True)
        await asyncio.sleep(0)  # the other calls of the batch begin first

        try:
            text = await tool.formatter.format(copy_json(call.state.arguments), context)
        except (Exception, asyncio.CancelledError) as exc:
            raise_if_cancelled()
            problem = str(exc) if isinstance(exc, ToolError) else error_summary(exc)
            raise CallEnded(NOT_FORMATTED_TEXT.format(tool.name, problem), is_error=True) from exc

        raise_if_cancelled()
        call.view.formatted = text
        call.view.needs_redisplay = True
        if call.view.is_displayed:
            self._show_begin(call, tool, asked=call.view.texts_in_prompt)

    def _tool_context(
        self, call: Call, tool: OfferedTool, *, for_formatter: bool = False
    ) -> ToolContext:
        """Return the context for a run of `tool`, or for its formatter, which gets less."""
        action: Literal["run", "format_arguments"] = "format_arguments"
        config: JsonValue = None
        delta_rejection: DeltaRejection | None = None
        show_progress: Callable[[str], None] | None = None
        if not for_formatter:
            action = "run"
            config = self.changes.visible_config(tool)
            delta_rejection = call.state.rejection
            show_progress = partial(self._show_progress, call)

        return ToolContext(
            name=tool.name,
            call_id=call.request.id,
            answers=copy_json(call.state.answers.values),
            ends=dict(call.state.answers.ends),
            reply=call.state.answers.reply,
            options=copy_json(dict(tool.options)),
            access=copy_json(tool.access),
            config=config,
            delta_rejection=delta_rejection,
            catalog=self._batch.catalog,
            action=action,
            call_key=call.key,
            has_answers=self._has_answers(tool),
            show_progress=show_progress,
            **self._turn.shared,
        )

    def _has_answers(self, tool: OfferedTool) -> bool:
        if self._turn.prepared.answers_questions_of(tool.name):
            return True
        return any(question.answer is not None for question in tool.questions.values())

    def _show_progress(self, call: Call, text: str) -> None:
        if call.state.response is None:
            self._turn.display(Waits(call.key, call.title, progress=text))

    async def _execute(self, call: Call, tool: OfferedTool) -> Outcome:
        """Run `tool` once. The call ends if an interrupt ended its function."""
        raise_if_cancelled()
        self._turn.display(Waits(call.key, call.title))
        await asyncio.sleep(0)  # the other calls of the batch begin first

        run = Run(call_id=call.key)
        cell = CellCall(self._functions, call)
        write_start = partial(self.progress.write, call, stage="started")
        in_cell = tool.executor.waits_for_cell
        if in_cell:  # it may wait for others before it starts
            cell.on_start = write_start
            cell.on_result = partial(self._keep_result_of_function, call, tool, run)
        else:
            write_start()

        call.state.ran = True
        context = self._tool_context(call, tool)
        CURRENT_RUN.set(run)  # in the context of this task
        began = monotonic()
        error: BaseException | None = None

        try:
            arguments = copy_json(call.state.arguments)  # a run may change what it gets
            outcome = await tool.executor.run(arguments, context, cell)
        except asyncio.CancelledError:
            raise_if_cancelled()
            outcome = ToolFailure(CANCELED_ITSELF_TEXT)
        except ToolError as exc:
            outcome = ToolFailure(str(exc))
        except BaseException as exc:
            # SystemExit and KeyboardInterrupt out of a task would end the agent's loop.
            error = _original_error(exc)
            outcome = ToolFailure(format_error_text(error))
        finally:
            run.is_over = True
            call.state.seconds += cell.total_seconds if in_cell else monotonic() - began
            if call.state.result.kept is None:
                # The result is kept before the loop comes to it: what follows does not wait.
                asyncio.get_running_loop().call_soon(cell.settled.set)

        if call.task is not asyncio.current_task():  # abandoned: it ignored its cancellation
            raise asyncio.CancelledError

        if isinstance(error, CallInterrupted) and isinstance(error.__cause__, KeyboardInterrupt):
            call.state.was_interrupted = True
            raise_if_cancelled()
            verdict = await self._functions.decision_about(cell)
            raise CallEnded(stopped_text(call, verdict), skipped=True)

        if error is not None:
            call.view.traceback = format_traceback(error)
            call.exception = error
            if self._turn.on_tool_error is not None:
                self._turn.on_tool_error(error.with_traceback(tool_frames(error)))

        return self._turn.secrets.hide_in_outcome(outcome)

    async def _deliver(
        self, call: Call, tool: OfferedTool, outcome: Success | ToolFailure
    ) -> Delivery:
        """Return the result for the model, reviewed by the user if configured."""
        result = self._limit_result(call, tool, outcome)
        self._turn.images += len(result.images)

        if tool.result == "skip":
            raise CallEnded(NOT_DELIVERED_BY_CONFIGURATION_TEXT, skipped=True)
        if tool.result == "unattended":
            return result
        return await self._deliveries.request_delivery(call, tool, result)

    def _limit_result(
        self, call: Call, tool: OfferedTool, outcome: Success | ToolFailure
    ) -> Delivery:
        """Return the result for the model, within the limits of texts and images."""
        if isinstance(outcome, ToolFailure):
            content = outcome.message
            if outcome.trace:
                content += f"\n\nTrace:\n{join_lines(outcome.trace, MAX_TRACE_CHARS)}"
            result = Delivery(content, is_error=True)
        else:
            result = Delivery(outcome.content, images=outcome.images)
            if outcome.proposes and not tool.executor.may_propose:
                log.warning("%s may not propose configuration changes: ignored", tool.name)

        limits = self._batch.basis.config.record
        shown = limit_images(result.images, limits, before=self._turn.images)
        short = _truncate_result(result.content, tool)
        whole_chars = None if short == result.content else len(result.content)
        if outcome.omits_structured:
            short = f"{short}\n\n{STRUCTURED_OMITTED}".lstrip()
        delivered = shown.add_omissions_to(short)

        state = call.state.result
        state.structured = outcome.structured
        state.shown_images = shown
        state.whole_chars = whole_chars
        state.delivered = delivered
        return Delivery(delivered, result.is_error, shown.images)

    def finish(
        self, call: Call, content: str, *, is_error: bool = False, skipped: bool = False
    ) -> None:
        """End `call` with a response, and display it."""
        if call.may_have_run and not call.state.ran:
            content = RAN_BEFORE_TEXT.format(content)
        if skipped or content != call.state.result.delivered:  # the user may have edited the text
            self._drop_images(call)

        kept = call.state.result.kept
        if kept is not None and not skipped:
            response = kept
        else:
            response = _make_response(call, content, is_error=is_error, skipped=skipped)
        call.state.response = response

        if skipped:  # it has no result: a restart of the kernel may have closed a form
            self.progress.drop_result(call)
        elif kept is None:
            self._keep_result(call, response)
        self._show_end(call, content, is_error=is_error, skipped=skipped)

    def _drop_images(self, call: Call) -> None:
        self._turn.images -= len(call.state.result.shown_images.images)
        call.state.result.shown_images = NO_IMAGES

    def _show_end(self, call: Call, content: str, *, is_error: bool, skipped: bool) -> None:
        tool = call.tool
        lines = None if tool is None else tool.inline_results
        if tool is not None and is_error and tool.inline_errors is not None:
            lines = tool.inline_errors
        folds = tool is not None and lines is None and not skipped
        if skipped or not (lines == "full" or isinstance(lines, int)):
            lines = 0
        max_lines = None if lines == "full" else lines

        shown_images = call.state.result.shown_images
        traceback = call.view.traceback
        if traceback:
            traceback = self._turn.secrets.hide(traceback)
        self._turn.display(
            ToolEnds(
                call_id=call.key,
                name=call.request.name,
                content=content,
                is_error=is_error,
                seconds=call.state.seconds,
                hidden=tool is not None and tool.hidden,
                traceback=traceback or None,
                skipped=skipped,
                images=shown_images.images,
                omitted_images=shown_images.omitted,
                result_lines=max_lines,
                folds_result=folds,
            )
        )


def end_runs(call: Call) -> None:
    """Tell the tool of `call` that the call does not run again."""
    if call.tool is None:
        return
    try:
        call.tool.executor.ended(call.key)
    except Exception:  # the call has its response
        log.exception("The tool %s did not release a call", call.tool.name)


def _original_error(exc: BaseException) -> BaseException:
    """Return the exception that the tool raised: the cause of an exception that replaced it."""
    cause = exc.__cause__
    if isinstance(exc, CallInterrupted) and isinstance(cause, KeyboardInterrupt):
        return exc
    if isinstance(exc, CallInterrupted | ControlFlowError) and cause is not None:
        return cause
    return exc


def _make_response(
    call: Call, content: str, *, is_error: bool, skipped: bool = False
) -> ToolCallResponse:
    state = call.state
    result = state.result
    metadata: dict[str, JsonValue] = {}

    if call.tool is not None:
        metadata |= make_server_marks(call.tool.executor.server, call.tool.executor.server_tool)
    if state.edited is not None:
        metadata |= make_edit_metadata(copy_json(state.arguments), state.edited)
    if result.structured is not None and not skipped and content == result.delivered:
        metadata["structured"] = copy_nested_json(result.structured)
    if state.ruling is not None and state.ruling.metadata is not None:
        metadata[RULE] = copy_nested_json(state.ruling.metadata)
    metadata |= make_images_metadata(result.shown_images.images)
    if skipped:
        metadata[SKIPPED_MARK] = True

    return ToolCallResponse(
        id=call.request.id, content=content, is_error=is_error, metadata=metadata
    )


def _truncate_result(text: str, tool: OfferedTool) -> str:
    path = f"conversation.tools.{tool.name}.result_max_chars"
    return truncate_middle(text, tool.result_max_chars, path)


def stopped_text(call: Call, verdict: Verdict) -> str:
    """Return the response to a call that the user canceled, or that was stopped."""
    if verdict.text:
        return CANCELLED_WITH_MESSAGE_TEXT.format(verdict.text)

    # Not if the user only left a question.
    is_canceled = verdict.choice != "continue" and verdict.by != "unattended"
    if is_canceled and verdict.interrupted and call.tool is not None:
        return call.tool.cancellation_response
    return stopped_call_text(verdict, ran=call.state.ran)


def _describe_missing_tool(name: str) -> str:
    """Return the response to a call of a tool that is not offered."""
    if _POSSIBLE_NAME.fullmatch(name):
        return UNAVAILABLE_TOOL_TEXT.format(name)
    if not name.strip():
        return NO_SUCH_NAME_TEXT.format("without a name")

    # A word such as `<|channel|>` may be a command of the model's format.
    shown = re.sub("[^A-Za-z0-9_.:-]", "_", name)[:MAX_MADE_UP_NAME_CHARS]
    return NO_SUCH_NAME_TEXT.format(f"with the name `{shown}`")
