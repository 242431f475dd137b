"""Take a tool call through its steps, from the model's arguments to the response.

1. The arguments are completed. A *ruling* of the configuration permits the call, skips it, or lets
   the user decide about it.
2. The tool runs. If it asks questions, or its configuration change is rejected, it runs again.
3. The result is limited and perhaps reviewed. It becomes the response.

At any step the call can end with another response (`CallEnded`), for example if the user declines.

Source: `docs/turns.md`, `docs/guide.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import assert_never

from jp_nb.agent.approvals.call_rulings import Ruling, judge
from jp_nb.agent.call_steps.approved_changes import ApprovedChanges
from jp_nb.agent.call_steps.call_contexts import CallContexts
from jp_nb.agent.call_steps.call_results import CallResults
from jp_nb.agent.call_steps.change_review import ChangeReview
from jp_nb.agent.call_steps.permissions import (
    SKIPPED_BY_USER_TEXT,
    PermissionRequests,
    format_skipped_call,
)
from jp_nb.agent.call_steps.plan_approval import PlanApproval
from jp_nb.agent.call_steps.questions import ToolQuestions
from jp_nb.agent.call_steps.result_delivery import Delivery, DeliveryRequests
from jp_nb.agent.call_steps.tool_runs import ToolRuns
from jp_nb.agent.calls.call import Call, CallEnded
from jp_nb.agent.calls.call_decisions import CallDecisions
from jp_nb.agent.calls.call_display import CallDisplay
from jp_nb.agent.calls.call_progress import ProgressWriter
from jp_nb.agent.calls.call_response import (
    RAN_BEFORE_TEXT,
    describe_missing_tool,
    make_call_response,
    truncate_result,
)
from jp_nb.agent.calls.recorded_results import RecordedResult
from jp_nb.agent.calls.screen_queue import ScreenQueue
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.turn_plan import describe_refused_call
from jp_nb.agent.turn_state import BatchContext, TurnContext
from jp_nb.errors import ToolError
from jp_nb.json_values import copy_json
from jp_nb.toolkit.cancellation import raise_if_cancelled
from jp_nb.toolkit.function_tools.tool_errors import summarize_error
from jp_nb.toolkit.outcome import NeedsInput, NeedsReview, Success, ToolFailure

log = logging.getLogger(__name__)

NOT_RECORDED_TEXT = (
    "The cassette has no result for this call, so the tool did not run. To run the "
    'tool, set `providers.cassette.tools = "run"`.'
)
NOT_FORMATTED_TEXT = "Tool '{}' was not executed because the argument formatter failed: {}"
NOT_DELIVERED_BY_CONFIGURATION_TEXT = "Result delivery skipped by configuration."
RESTARTED = "restarted"
"""Displayed as the end of a run that the user has restarted."""


class CallRunner:
    """Takes each call of a batch from its arguments to its response.

    Attributes:
        questions: Gets the questions of the tools answered.
        approved: The approved configuration changes, which wait for the end of the batch.
        progress: Writes the progress of the calls to the journal.
    """

    def __init__(self, turn: TurnContext, batch: BatchContext, screen: ScreenQueue) -> None:
        self._turn = turn
        self._batch = batch
        self._screen = screen
        # In a turn that begins with a plan, only tools that change nothing may run until the user
        # approves it. This holds for the whole batch, also if one of its calls submits the plan:
        # the model wrote the other calls before the user decided.
        self._refuses_changes = turn.plan.is_pending

        self.approved = ApprovedChanges(batch.basis)
        self.progress = ProgressWriter(turn)
        self._display = CallDisplay(turn)
        self._results = CallResults(turn, batch, self.approved, self.progress)

        # The steps of a call.
        decisions = CallDecisions(turn)
        self._decisions = decisions
        self._permissions = PermissionRequests(turn, screen, decisions)
        self._plans = PlanApproval(turn, screen, decisions)
        self._contexts = CallContexts(turn, batch, self.progress, self._display)
        self._runs = ToolRuns(
            turn,
            screen.functions,
            self._contexts,
            self._results,
            self.progress,
            refuses_changes=self._refuses_changes,
        )
        self.questions = ToolQuestions(turn, screen)
        self._changes = ChangeReview(turn, batch.basis, self.approved, screen)
        self._deliveries = DeliveryRequests(turn, screen, decisions)

    async def run(self, call: Call, *, again: bool = False) -> bool:
        """Take `call` from its arguments to its response.

        `again` is True if the call has begun before, and the user chose in the menu of an interrupt
        to restart it. Return True if the user stopped the turn at a question.
        """
        if again:
            if call.view.is_displayed and call.state.response is None:
                # End its line before a new one begins.
                self._display.show_end(call, RESTARTED, is_error=False, skipped=True)
            self._results.drop_images(call)
            call.reset()

        try:
            result = await self._take_steps(call)
        except CallEnded as end:
            content = end.content
            if end.is_error and call.tool is not None:
                content = truncate_result(content, call.tool)
            self.finish(call, content, is_error=end.is_error, skipped=end.skipped)
            return end.stops_turn
        finally:
            # The batch abandons a task that ignores its cancellation, and tells the tool itself.
            if call.is_run_by_this_task():
                tell_tool_of_end(call)

        self.finish(call, result.content, is_error=result.is_error)
        return False

    async def _take_steps(self, call: Call) -> Delivery:
        """Return the result that the model gets.

        Raises:
            CallEnded: A step ended the call with another response.
        """
        if self._batch.results is not None:
            return self._find_recorded_result(call, self._batch.results)

        tool = self._prepare(call)
        ruling = judge(tool, call.state.arguments, self._turn.shared.get("root", ""))
        call.state.ruling = ruling
        # A tool that proposes edits of cells runs without permission, unless it is skipped: the
        # user decides about the edits, which are known after the run.
        if ruling.run == "skip" or not tool.executor.proposes_edits:
            await self._get_permission(call, tool, ruling)
        # For tools that always run unattended, the batch has written this at its start.
        if tool.run != "unattended" or tool.rules:
            self.progress.write(call, stage="permitted")

        await self._format_arguments(call, tool)
        if tool.executor.plan_argument:  # the tool with which a model submits its plan
            return await self._request_approval(call, tool)

        self._display.show_begin(call, tool)
        return await self._run_until_result(call, tool)

    def _find_recorded_result(self, call: Call, results: Sequence[RecordedResult]) -> Delivery:
        """Return the result of a replay, which runs no tool and asks no user."""
        if call.tool is not None:
            call.state.arguments = copy_json(call.request.arguments)
            self._display.show_begin(call, call.tool)

        if call.index >= len(results):
            raise CallEnded(NOT_RECORDED_TEXT, is_error=True)
        result = results[call.index]
        call.may_have_run = False  # its result is known: `finish` adds no warning about effects
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
        """Get the permission: by the configuration, a kept rule, the answers file, or the user.

        Raises:
            CallEnded: It may not run.
        """
        if ruling.run == "skip":
            raise CallEnded(format_skipped_call(ruling), skipped=True)

        if ruling.run == "unattended":
            return

        context = self._contexts.make_for_run(call, tool)
        if self._permissions.use_kept_rule(call, tool, ruling, context.root):
            return

        call.state.ruling = None  # from here on, the answers file decides, or the user
        self.progress.write(call, stage="asked")
        self._display.show_begin(call, tool, asked=True)

        permitted = self._decisions.decide_without_prompt("permission", tool, call.state)
        if permitted is False:
            raise CallEnded(SKIPPED_BY_USER_TEXT, skipped=True)
        if permitted is None:
            # The user has set `format` to `unattended`: the prompt shows the formatted arguments.
            # But if `run` is `unattended` too, that was only the default of `format`, and a rule
            # asks about this call. Then the formatter, a program, runs after the permission.
            if tool.format == "unattended" and tool.run != "unattended":
                await self._format_arguments(call, tool)
                context = self._contexts.make_for_run(call, tool)
            await self._permissions.request_run(call, tool, context, ruling)

    async def _format_arguments(self, call: Call, tool: OfferedTool) -> None:
        """Format the arguments for the user, if a formatter is configured."""
        if tool.formatter is None or call.view.formatted is not None:
            return

        context = self._contexts.make_for_formatter(call, tool)
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

    async def _request_approval(self, call: Call, tool: OfferedTool) -> Delivery:
        """Ask the user about a plan, and show the approved one."""
        self.progress.write(call, stage="asked")  # a form that a crash closes appears again
        self._display.show_begin(call, tool, asked=True)

        try:
            return await self._plans.request_approval(call, tool)
        finally:
            raise_if_cancelled()
            self._display.show_begin(call, tool)  # the form was above, and is gone

    async def _run_until_result(self, call: Call, tool: OfferedTool) -> Delivery:
        """Run `tool` until it has a result: after questions and rejected changes, it runs again."""
        while True:
            outcome = await self._runs.run_once(call, tool)
            # A function that ran in the cell's thread may have its response already: that thread
            # keeps it for the journal before the next function starts (`CallResults`).
            kept = call.state.result.kept
            if kept is not None:
                return Delivery(kept.content, kept.is_error)

            match outcome:
                case NeedsReview() | NeedsInput():
                    await self._ask_user(call, tool, outcome)
                case Success() if outcome.proposes and tool.executor.may_propose:
                    raise_if_cancelled()  # while the batch ends, nothing can be approved
                    if await self._changes.review(call, tool, outcome):
                        return await self._deliver(call, tool, outcome)
                    # Rejected: the tool runs again, and reads the reason.
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

        await EditRequests(self._turn, self._screen).ask(call, tool, outcome.review)

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
        """End `call` with a response, and display it.

        The cell's thread may have kept a response for the journal. It is the response then, unless
        the call is `skipped`.
        """
        # Its tool may have run before a restart or a crash, and has not started again. The effects
        # of that run remain, and the model has to know.
        if call.may_have_run and not call.state.ran:
            content = RAN_BEFORE_TEXT.format(content)

        # The images belong to the result of the tool. The model may get another text: one that the
        # user has edited, or the reason why the call ended.
        if skipped or content != call.state.result.delivered:
            self._results.drop_images(call)

        kept = call.state.result.kept
        if kept is not None and not skipped:
            response = kept
        else:
            response = make_call_response(call, content, is_error=is_error, skipped=skipped)
        call.state.response = response

        if skipped:
            # Not in the journal: a restart of the kernel may have closed the form. The next kernel
            # then asks again.
            self.progress.drop_result(call)
        elif kept is None:
            self._results.keep(call, response)
        self._display.show_end(call, content, is_error=is_error, skipped=skipped)


def tell_tool_of_end(call: Call) -> None:
    """Tell the tool of `call` that the call does not run again."""
    if call.tool is None:
        return
    try:
        call.tool.executor.ended(call.key)
    except Exception:  # the call has its response
        log.exception("The tool %s did not release a call", call.tool.name)
