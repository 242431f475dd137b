"""Take a tool call through its steps, from the model's arguments to the response.

1. The arguments are completed, and the permission is found by rules or asked.
2. The tool runs. If it asks questions, or its configuration change is rejected, it runs again.
3. The result is limited and perhaps reviewed. It becomes the response.

At any step the call can end with another response (`CallEnded`), for example if the user declines.

Source: `docs/turns.md`, `docs/guide.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Literal, assert_never

from pydantic import JsonValue

from jp_nb.agent.approvals.permission_rules import Ruling, judge
from jp_nb.agent.call_steps.call_results import CallResults
from jp_nb.agent.call_steps.change_review import ConfigChanges
from jp_nb.agent.call_steps.permissions import (
    SKIPPED_BY_USER_TEXT,
    PermissionRequests,
    format_skipped_call,
)
from jp_nb.agent.call_steps.plan_approval import PlanApproval
from jp_nb.agent.call_steps.questions import ToolQuestions
from jp_nb.agent.call_steps.result_delivery import (
    NOT_DELIVERED_BY_CONFIGURATION_TEXT,
    Delivery,
    DeliveryRequests,
)
from jp_nb.agent.calls.call import Call, CallEnded
from jp_nb.agent.calls.call_decisions import CallDecisions
from jp_nb.agent.calls.call_display import CallDisplay
from jp_nb.agent.calls.call_progress import ProgressWriter
from jp_nb.agent.calls.call_response import (
    CANCELED_ITSELF_TEXT,
    RAN_BEFORE_TEXT,
    describe_missing_tool,
    format_stopped_response,
    make_call_response,
    truncate_result,
)
from jp_nb.agent.calls.cell_functions import CellCall
from jp_nb.agent.calls.prompt_line import PromptLine
from jp_nb.agent.calls.recorded_results import RecordedResult
from jp_nb.agent.display import Notice, Waits
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.turn_plan import CHANGE_REFUSED_TEXT, describe_refused_call
from jp_nb.agent.turn_state import BatchContext, TurnContext
from jp_nb.errors import ToolError
from jp_nb.json_values import copy_json
from jp_nb.toolkit.cancellation import raise_if_cancelled
from jp_nb.toolkit.cell_thread import (
    CURRENT_RUN,
    CallInterrupted,
    ControlFlowError,
    ToolRun,
)
from jp_nb.toolkit.function_tools.tool_errors import (
    find_tool_traceback,
    format_error_text,
    format_traceback,
    summarize_error,
)
from jp_nb.toolkit.outcome import (
    NeedsInput,
    NeedsReview,
    Outcome,
    Success,
    ToolFailure,
)
from jp_nb.toolkit.tool_context import DeltaRejection, ToolContext

if TYPE_CHECKING:
    from jp_nb.toolkit.editing.edit_review import EditOperation

log = logging.getLogger(__name__)

NOT_RECORDED_TEXT = (
    "The cassette has no result for this call, so the tool did not run. To run the "
    'tool, set `providers.cassette.tools = "run"`.'
)
NOT_FORMATTED_TEXT = "Tool '{}' was not executed because the argument formatter failed: {}"
RESTARTED = "restarted"


class CallRunner:
    """Takes each call of a batch from its arguments to its response."""

    def __init__(self, turn: TurnContext, batch: BatchContext, line: PromptLine) -> None:
        self._turn = turn
        self._batch = batch
        self._functions = line.functions
        self.questions = ToolQuestions(turn, line)
        self._decisions = CallDecisions(turn)
        self._permissions = PermissionRequests(turn, line, self._decisions)
        self._line = line
        self._deliveries = DeliveryRequests(turn, line, self._decisions)
        self._plans = PlanApproval(turn, line, self._decisions)
        # As it was at the start of the batch: the model wrote all calls before the user decided.
        self._refuses_changes = turn.plan.is_pending
        self.changes = ConfigChanges(turn, batch.basis, line)
        self.progress = ProgressWriter(turn)
        self._results = CallResults(turn, batch, self.changes, self.progress)
        self._display = CallDisplay(turn)

    async def run(self, call: Call, *, again: bool = False) -> bool:
        """Take `call` from its arguments to its response, perhaps `again`.

        Return True if the user stopped the turn at a question.
        """
        if again:
            if call.view.is_displayed and call.state.response is None:
                # End its line before a new one begins.
                self._display.show_end(call, RESTARTED, is_error=False, skipped=True)
            self._results.drop_images(call)
            call.reset()

        try:
            result = await self._run(call)
        except CallEnded as end:
            content = end.content
            if end.is_error and call.tool is not None:
                content = truncate_result(content, call.tool)
            self.finish(call, content, is_error=end.is_error, skipped=end.skipped)
            return end.stops_turn
        finally:
            if call.task is asyncio.current_task():  # else it was abandoned, and has ended before
                end_runs(call)

        self.finish(call, result.content, is_error=result.is_error)
        return False

    async def _run(self, call: Call) -> Delivery:
        if self._batch.results is not None:
            return self._find_recorded_result(call, self._batch.results)

        tool = self._prepare(call)
        ruling = judge(tool, call.state.arguments, self._turn.shared.get("root", ""))
        call.state.ruling = ruling
        # The user decides about proposed edits when they are known, not about the call before.
        if ruling.run == "skip" or not tool.executor.proposes_edits:
            await self._get_permission(call, tool, ruling)
        # The batch has written this for tools that always run unattended.
        if tool.run != "unattended" or tool.rules:
            self.progress.write(call, stage="permitted")

        await self._format_arguments(call, tool)
        if tool.executor.plan_argument:
            return await self._request_approval(call, tool)

        self._display.show_begin(call, tool)
        return await self._run_until_result(call, tool)

    async def _run_until_result(self, call: Call, tool: OfferedTool) -> Delivery:
        """Run `tool` until it has a result: after questions and rejected changes, it runs again."""
        while True:
            outcome = await self._execute(call, tool)
            kept = call.state.result.kept
            if kept is not None:
                return Delivery(kept.content, kept.is_error)

            match outcome:
                case NeedsReview() | NeedsInput():
                    await self._ask_user(call, tool, outcome)
                case Success() if outcome.proposes and tool.executor.may_propose:
                    raise_if_cancelled()  # while the batch ends, nothing can be approved
                    if await self.changes.review(call, tool, outcome):
                        return await self._deliver(call, tool, outcome)
                case Success() | ToolFailure():
                    return await self._deliver(call, tool, outcome)
                case _:
                    assert_never(outcome)

    async def _ask_user(
        self, call: Call, tool: OfferedTool, outcome: NeedsReview | NeedsInput
    ) -> None:
        """Get the answers or the decision that the next run of the tool needs."""
        if isinstance(outcome, NeedsInput):
            await self.questions.ask(call, tool, outcome, self._batch)
            return

        self.progress.write(call, stage="asked")
        from jp_nb.agent.call_steps.edit_requests import EditRequests  # most turns edit no cells

        await EditRequests(self._turn, self._line).ask(call, tool, outcome.review)

    def _find_recorded_result(self, call: Call, results: Sequence[RecordedResult]) -> Delivery:
        """Return the result of a replay, which runs no tool and asks no user."""
        if call.tool is not None:
            call.state.arguments = copy_json(call.request.arguments)
            self._display.show_begin(call, call.tool)

        if call.index >= len(results):
            raise CallEnded(NOT_RECORDED_TEXT, is_error=True)
        result = results[call.index]
        call.may_have_run = False  # its result is known
        return Delivery(result.content, is_error=result.is_error)

    def _prepare(self, call: Call) -> OfferedTool:
        """Set the arguments of `call`, and return its tool, unless the call cannot run."""
        if call.tool is None:
            raise CallEnded(describe_missing_tool(call.request.name), is_error=True)
        if call.bad_arguments is not None:
            raise CallEnded(call.bad_arguments, is_error=True)

        prepared = call.tool.prepare_arguments(call.request.arguments)
        if isinstance(prepared, ToolFailure):
            raise CallEnded(prepared.message, is_error=True)
        if self._refuses_changes and not call.tool.read_only:
            refused = describe_refused_call(call.tool, self._batch.tools)
            raise CallEnded(refused, is_error=True)
        call.state.arguments = prepared
        return call.tool

    async def _get_permission(self, call: Call, tool: OfferedTool, ruling: Ruling) -> None:
        if ruling.run == "skip":
            raise CallEnded(format_skipped_call(ruling), skipped=True)

        if ruling.run == "unattended":
            return

        context = self._make_tool_context(call, tool)
        if self._permissions.use_kept_rule(call, tool, ruling, context.root):
            return

        call.state.ruling = None  # the user decides, or the answers file
        self.progress.write(call, stage="asked")
        self._display.show_begin(call, tool, asked=True)

        permitted = self._decisions.decide_by_file("permission", tool, call.state)
        if permitted is False:
            raise CallEnded(SKIPPED_BY_USER_TEXT, skipped=True)
        if permitted is None:
            # By default, a tool that runs unattended formats first. It does not if a rule asks.
            if tool.format == "unattended" and tool.run != "unattended":
                await self._format_arguments(call, tool)
                context = self._make_tool_context(call, tool)
            await self._permissions.request_run(call, tool, context, ruling)

    async def _request_approval(self, call: Call, tool: OfferedTool) -> Delivery:
        """Ask the user about a plan, and show the approved one."""
        self.progress.write(call, stage="asked")  # a form that a crash closes appears again
        self._display.show_begin(call, tool, asked=True)

        try:
            return await self._plans.request_approval(call, tool)
        finally:
            raise_if_cancelled()
            self._display.show_begin(call, tool)  # the form was above, and is gone

    async def _format_arguments(self, call: Call, tool: OfferedTool) -> None:
        """Format the arguments for the user, if a formatter is configured."""
        if tool.formatter is None or call.view.formatted is not None:
            return

        context = self._make_tool_context(call, tool, for_formatter=True)
        await asyncio.sleep(0)  # the other calls of the batch begin first

        try:
            text = await tool.formatter.format(copy_json(call.state.arguments), context)
        except (Exception, asyncio.CancelledError) as exc:
            raise_if_cancelled()
            problem = str(exc) if isinstance(exc, ToolError) else summarize_error(exc)
            raise CallEnded(NOT_FORMATTED_TEXT.format(tool.name, problem), is_error=True) from exc

        raise_if_cancelled()
        call.view.formatted = text
        call.view.needs_redisplay = True
        if call.view.is_displayed:
            self._display.show_begin(call, tool, asked=call.view.texts_in_prompt)

    def _make_tool_context(
        self, call: Call, tool: OfferedTool, *, for_formatter: bool = False
    ) -> ToolContext:
        """Return the context for a run of `tool`, or for its formatter, which gets less."""
        action: Literal["run", "format_arguments"] = "format_arguments"
        config: JsonValue = None
        delta_rejection: DeltaRejection | None = None
        show_progress: Callable[[str], None] | None = None
        if not for_formatter:
            action = "run"
            config = self.changes.read_visible_config(tool)
            delta_rejection = call.state.rejection
            show_progress = partial(self._display.show_progress, call)

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
            edit_decision=call.state.edit_decision,
            edit_operation=self._make_edit_operation(call, tool),
            has_answers=self._has_answers(tool),
            show_progress=show_progress,
            **self._turn.shared,
        )

    def _make_edit_operation(self, call: Call, tool: OfferedTool) -> EditOperation | None:
        """Return the change of the notebook that `call` makes: the same one in each of its runs."""
        if not tool.executor.proposes_edits:
            return None

        from jp_nb.toolkit.editing.edit_review import EditOperation, make_operation_id

        if not call.operation:
            conversation = self._turn.shared.get("conversation_id", "")
            call.operation = make_operation_id(conversation, call.event_id)
        return EditOperation(
            call.operation,
            may_be_applied=call.may_have_run,
            change=call.change,
            note=partial(self._note_change, call),
            tell=self._tell,
        )

    def _note_change(self, call: Call, change: JsonValue) -> None:
        call.change = change
        self.progress.write(call, stage="started")

    def _tell(self, text: str) -> None:
        self._turn.display(Notice(text))

    def _has_answers(self, tool: OfferedTool) -> bool:
        if self._turn.prepared.answers_questions_of(tool.name):
            return True
        return any(question.answer is not None for question in tool.questions.values())

    async def _execute(self, call: Call, tool: OfferedTool) -> Outcome | NeedsReview:
        """Run `tool` once. The call ends if an interrupt ended its function."""
        raise_if_cancelled()
        self._turn.display(Waits(call.key, call.title))
        await asyncio.sleep(0)  # the other calls of the batch begin first

        run = ToolRun(call_id=call.key)
        cell = self._begin_run(call, tool, run)
        outcome, error = await self._run_tool(call, tool, run, cell)

        if call.task is not asyncio.current_task():  # abandoned: it ignored its cancellation
            raise asyncio.CancelledError

        if isinstance(error, CallInterrupted) and isinstance(error.__cause__, KeyboardInterrupt):
            call.state.was_interrupted = True
            raise_if_cancelled()
            verdict = await self._functions.wait_for_decision(cell)
            raise CallEnded(format_stopped_response(call, verdict), skipped=True)

        if error is not None:
            self._report_error(call, error)
        if isinstance(outcome, NeedsReview):
            return outcome

        outcome = self._refuse_early_change(tool, outcome)
        return self._turn.secrets.hide_in_outcome(outcome)

    def _begin_run(self, call: Call, tool: OfferedTool, run: ToolRun) -> CellCall:
        """Note the start of a run in the journal, and return its access to the cell's thread."""
        cell = CellCall(self._functions, call)
        write_start = partial(self.progress.write, call, stage="started")

        if tool.executor.waits_for_cell:  # it starts when the functions before have ended
            cell.on_start = write_start
            cell.on_result = partial(self._results.settle_function_result, call, tool, run)
        else:
            write_start()

        call.state.ran = True
        return cell

    async def _run_tool(
        self, call: Call, tool: OfferedTool, run: ToolRun, cell: CellCall
    ) -> tuple[Outcome | NeedsReview, BaseException | None]:
        """Run `tool` once; return the outcome, and the exception if the tool failed with one."""
        context = self._make_tool_context(call, tool)
        CURRENT_RUN.set(run)  # in the context of this task
        began = monotonic()

        try:
            arguments = copy_json(call.state.arguments)  # a run may change what it gets
            return await tool.executor.run(arguments, context, cell), None
        except asyncio.CancelledError:
            raise_if_cancelled()
            return ToolFailure(CANCELED_ITSELF_TEXT), None
        except ToolError as exc:
            return ToolFailure(str(exc)), None
        except BaseException as exc:
            # SystemExit and KeyboardInterrupt out of a task would end the agent's loop.
            error = _unwrap_error(exc)
            return ToolFailure(format_error_text(error)), error
        finally:
            run.is_over = True
            seconds = monotonic() - began
            if tool.executor.waits_for_cell:
                seconds = cell.total_seconds
            call.state.seconds += seconds
            call.runs.append(self._turn.times.make_span(seconds))
            if call.state.result.kept is None:
                # The result is kept before the loop comes to it: what follows does not wait.
                asyncio.get_running_loop().call_soon(cell.settled.set)

    def _refuse_early_change(self, tool: OfferedTool, outcome: Outcome) -> Outcome:
        """Return `outcome`; a failure if it changes settings before the plan is approved."""
        if self._refuses_changes and isinstance(outcome, Success) and outcome.proposes:
            return ToolFailure(CHANGE_REFUSED_TEXT.format(tool.name))
        return outcome

    def _report_error(self, call: Call, error: BaseException) -> None:
        call.view.traceback = format_traceback(error)
        call.exception = error
        if self._turn.on_tool_error is not None:
            self._turn.on_tool_error(error.with_traceback(find_tool_traceback(error)))

    async def _deliver(
        self, call: Call, tool: OfferedTool, outcome: Success | ToolFailure
    ) -> Delivery:
        """Return the result for the model, reviewed by the user if configured."""
        result = self._results.limit(call, tool, outcome)

        if tool.result == "skip":
            raise CallEnded(NOT_DELIVERED_BY_CONFIGURATION_TEXT, skipped=True)
        if tool.result == "unattended":
            return result
        return await self._deliveries.request_delivery(call, tool, result)

    def finish(
        self, call: Call, content: str, *, is_error: bool = False, skipped: bool = False
    ) -> None:
        """End `call` with a response, and display it."""
        if call.may_have_run and not call.state.ran:
            content = RAN_BEFORE_TEXT.format(content)
        if skipped or content != call.state.result.delivered:  # the user may have edited the text
            self._results.drop_images(call)

        kept = call.state.result.kept
        if kept is not None and not skipped:
            response = kept
        else:
            response = make_call_response(call, content, is_error=is_error, skipped=skipped)
        call.state.response = response

        if skipped:  # it has no result: a restart of the kernel may have closed a form
            self.progress.drop_result(call)
        elif kept is None:
            self._results.keep(call, response)
        self._display.show_end(call, content, is_error=is_error, skipped=skipped)


def end_runs(call: Call) -> None:
    """Tell the tool of `call` that the call does not run again."""
    if call.tool is None:
        return
    try:
        call.tool.executor.ended(call.key)
    except Exception:  # the call has its response
        log.exception("The tool %s did not release a call", call.tool.name)


def _unwrap_error(exc: BaseException) -> BaseException:
    """Return the exception that the tool raised: the cause of an exception that replaced it."""
    cause = exc.__cause__
    if isinstance(exc, CallInterrupted) and isinstance(cause, KeyboardInterrupt):
        return exc
    if isinstance(exc, CallInterrupted | ControlFlowError) and cause is not None:
        return cause
    return exc
