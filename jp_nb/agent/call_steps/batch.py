"""Run the tool calls of one response concurrently, and deliver their results in call order.

All calls start at once. Each is a task that takes its call through all steps (`CallRunner`).
Prompts wait in a queue, and one of them is on screen. The batch ends when each call has a response.
An interrupt of the kernel may cancel the tasks, and start some of them again (`BatchInterrupts`).

Source: `docs/turns.md`, `docs/guide.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from jp_nb.agent.call_steps.batch_interrupts import BatchInterrupts
from jp_nb.agent.call_steps.call_runner import CallRunner, tell_tool_of_end
from jp_nb.agent.call_steps.result_delivery import UNDELIVERED_TEXT
from jp_nb.agent.calls.activity import Activity
from jp_nb.agent.calls.call import Call
from jp_nb.agent.calls.call_decisions import INTERRUPT_FIRST_REASON
from jp_nb.agent.calls.call_response import CANCELED_ITSELF_TEXT, format_stopped_response
from jp_nb.agent.calls.cell_functions import CellFunctions
from jp_nb.agent.calls.screen_queue import ScreenQueue
from jp_nb.agent.display import Notice
from jp_nb.agent.interrupts import Verdict
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.turn_state import BatchContext, TurnContext
from jp_nb.images import Image
from jp_nb.record.entries.events import ConfigDelta

log = logging.getLogger(__name__)

CLEANUP_GRACE_S = 2.0
"""Seconds that canceled tools have to clean up."""
BROKEN_OFF_TEXT = (
    "The turn ended before this tool call finished. Its effects up to then may remain."
)
NEVER_RAN_TEXT = "This tool call did not run. The turn ended first."
STOPPED_FIRST_REASON = "the user stopped the turn first"
DISCARDED_CHANGES_NOTICE = (
    "⟳ The turn ended before these tool calls finished, so their approved configuration changes "
    "are not applied"
)


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """The end of a batch.

    Attributes:
        ends_turn: `interrupted` if an interrupt ends the turn, `stopped` if the user stopped it at
            a question of a tool; None if the turn continues.
        unsent_message: Message of the user to the model that no response contains; else "".
        change: The approved configuration changes as one entry; None if there are none.
    """

    ends_turn: Literal["interrupted", "stopped"] | None = None
    unsent_message: str = ""
    change: ConfigDelta | None = None


class Batch:
    """Runs the tool calls of one response: a task for each call.

    A call is *open* until it has a response. `_run` is the loop of the batch: it sleeps until a
    task, the menu of an interrupt, or an interrupt sets `_changed`.

    `BatchInterrupts` decides what an interrupt does. A decision that cancels the tasks comes here
    as a *verdict*, with one of these choices (`Verdict.choice`):

    - `restart`: the open calls run again.
    - `reply`: the open calls get the user's message to the model (`Verdict.text`) as their
      response, and the turn continues.
    - `stop` and `abort`: the open calls get a response, and the turn ends.

    A verdict is *escalated* if a second interrupt came soon after the first one. It is a `stop`,
    and the approved configuration changes are discarded too.
    """

    def __init__(self, turn: TurnContext, calls: Sequence[Call], context: BatchContext) -> None:
        self._turn = turn
        self._calls = calls
        self._is_replay = context.results is not None
        self._activity = Activity()  # counts working tasks: replayed inquiries wait for them
        self._functions = CellFunctions(turn.cell, turn.display)
        self._screen = ScreenQueue(turn.prompter, self._activity, self._functions, turn.times)
        self._runner = CallRunner(turn, context, self._screen)
        self._changed = asyncio.Event()  # the loop in `_run` has something to do
        self._error: BaseException | None = None  # of the task of a call: it ends the batch
        self._interrupts = BatchInterrupts(
            turn=turn,
            screen=self._screen,
            calls=calls,
            approved=self._runner.approved,
            settings=context.basis.config.interrupt,
            wake=self._changed.set,
        )

    async def run(self) -> BatchEnd:
        """Run the calls, and record their responses and configuration changes in one step."""
        try:
            end = await self._run()
        except (asyncio.CancelledError, Exception):  # the record stays well formed
            await self._cancel_tasks()
            for call in self._list_open_calls():
                content = BROKEN_OFF_TEXT if call.state.ran else NEVER_RAN_TEXT
                self._runner.finish(call, content, skipped=True)
            self._discard_changes()
            self._record()
            raise

        changes = [] if end.change is None else [end.change]
        self._record(*changes)
        return end

    def _record(self, *changes: ConfigDelta) -> None:
        """Append the responses and `changes` to the record, after the images of the results."""
        ended = [
            (call.state.response, call.runs)
            for call in self._calls
            if call.state.response is not None
        ]
        responses = self._turn.times.attach_runs(ended)
        images: list[Image] = []
        for call in self._calls:
            images += call.state.result.shown_images.images
        self._turn.record.add(*responses, *changes, images=images)

    async def _run(self) -> BatchEnd:
        """Run the calls until each of them has a response, or a verdict ends the batch."""
        await self._start_all()

        while True:
            self._changed.clear()
            error = self._error or self._interrupts.error
            if error is not None:
                raise error

            verdict = self._interrupts.take_verdict()
            if verdict is not None:
                end = await self._carry_out(verdict)
                if end is not None:
                    return end
            elif self._interrupts.has_new_interrupts:  # also one that came with the last response
                self._interrupts.decide_new_interrupts()
            elif self._interrupts.menu is not None or self._has_running_calls():
                self._runner.progress.write_results()
                await self._changed.wait()
            else:
                return BatchEnd(change=self._runner.approved.take())

    async def _start_all(self) -> None:
        if not self._is_replay:
            # A call of a tool with rules is permitted when its arguments have been judged.
            always_permitted = [call for call in self._calls if _is_unattended(call.tool)]
            self._runner.progress.write(*always_permitted, stage="permitted")

        same_id_counts: Counter[str] = Counter()
        for index, call in enumerate(self._calls):
            same_id_counts[call.request.id] += 1
            call.index = index
            call.number = same_id_counts[call.request.id]
            self._start(call)
        await asyncio.sleep(0)  # every call begins before an interrupt takes effect

    def _has_running_calls(self) -> bool:
        return any(call.task is not None for call in self._calls)

    def _start(self, call: Call, *, again: bool = False) -> None:
        self._activity.begin()
        call.task = asyncio.get_running_loop().create_task(self._runner.run(call, again=again))
        call.task.add_done_callback(partial(self._on_call_end, call))

    def _on_call_end(self, call: Call, task: asyncio.Task[bool]) -> None:
        """Handle the end of a task: the callback of each of them.

        `_cancel_tasks` itself handles the tasks that it cancels.
        """
        self._activity.end()
        is_abandoned = call.task is not task  # `_cancel_tasks` took the task away from its call
        if self._interrupts.is_canceling or is_abandoned:
            return

        call.task = None
        if task.cancelled():
            if call.state.response is None:
                self._runner.questions.inquiries.drop("cancelled", call)
                self._runner.finish(call, CANCELED_ITSELF_TEXT, is_error=True)
        elif task.exception() is not None:
            self._error = task.exception()
        elif task.result():  # the user stopped the turn at a question
            self._interrupts.stop_turn()

        ends_early = self._error is not None or self._interrupts.has_verdict
        if ends_early or not self._has_running_calls():
            self._changed.set()
        else:  # the loop in `_run` still sleeps, so it does not write the result
            self._runner.progress.write_results()

    def _discard_changes(self) -> list[Call]:
        """Discard the approved changes; return the calls that proposed them."""
        calls = self._runner.approved.discard()
        if calls:
            self._turn.display(Notice(DISCARDED_CHANGES_NOTICE))
        return calls

    def _list_open_calls(self) -> list[Call]:
        return [call for call in self._calls if call.state.response is None]

    def interrupt(self) -> None:
        """Handle an interrupt of the kernel, on the agent's event loop."""
        self._interrupts.receive()

    async def _carry_out(self, verdict: Verdict) -> BatchEnd | None:
        """Cancel the calls as the user decided; return None if they run again."""
        verdict = await self._cancel_for(verdict)
        if verdict.choice == "restart":
            await self._restart_calls()
            return None

        if verdict.escalated:
            self._discard_changes()
        is_message_sent = self._end_open_calls(verdict)

        change = self._runner.approved.take()
        if verdict.choice == "reply":
            self._functions.resume()  # the interrupt has stopped their queue
            unsent_message = "" if is_message_sent else verdict.text
            return BatchEnd(unsent_message=unsent_message, change=change)
        if verdict.by_interrupt:
            return BatchEnd("interrupted", change=change)
        return BatchEnd("stopped", change=change)

    async def _cancel_for(self, verdict: Verdict) -> Verdict:
        """Cancel the tasks because of `verdict`, and return the verdict that counts.

        An interrupt that arrives meanwhile escalates: it ends the turn, whatever the user chose
        before. Any other new verdict comes too late, since the calls are canceled already.
        """
        question_end: Literal["cancelled", "interrupted"] = "cancelled"
        if verdict.by_interrupt:
            question_end = "interrupted"
        await self._cancel_tasks(question_end=question_end)

        later = self._interrupts.take_verdict()
        return later if later is not None and later.escalated else verdict

    async def _restart_calls(self) -> None:
        """Run the open calls again, and those whose approved changes are discarded with it."""
        self._functions.resume()  # the interrupt has stopped their queue
        calls = [*self._list_open_calls(), *self._discard_changes()]
        indexes = {call.index for call in calls}
        for index in sorted(indexes):
            self._start(self._calls[index], again=True)
        await asyncio.sleep(0)  # every call begins again

    def _end_open_calls(self, verdict: Verdict) -> bool:
        """Give each open call a response; return True if one has the user's message."""
        reason = INTERRUPT_FIRST_REASON if verdict.by_interrupt else STOPPED_FIRST_REASON
        is_message_sent = False

        for call in self._list_open_calls():
            # The tool has ended if its result is reviewed, or if its change is already approved.
            is_under_review = call.state.result.is_under_review
            if is_under_review or self._runner.approved.has_change_of(call):
                self._runner.finish(call, UNDELIVERED_TEXT.format(reason), skipped=True)
            else:
                self._runner.finish(call, format_stopped_response(call, verdict), skipped=True)
                is_message_sent = True

        return is_message_sent

    async def _cancel_tasks(
        self, *, question_end: Literal["cancelled", "interrupted"] = "interrupted"
    ) -> None:
        """Cancel all tasks, and give open questions the outcome `question_end`.

        A task that has not ended after `CLEANUP_GRACE_S` is abandoned: it may still run, but cannot
        change its call any more. Errors of the tasks are only logged.
        """
        all_tasks = [*(call.task for call in self._calls), self._interrupts.menu]
        tasks = [task for task in all_tasks if task is not None and not task.done()]

        self._interrupts.is_canceling = True  # from now on, an interrupt escalates
        try:
            for task in tasks:
                task.cancel()
            if tasks:
                # A tool that ignores its cancellation must not block the turn.
                await asyncio.wait(tasks, timeout=CLEANUP_GRACE_S)
            self._interrupts.decide_new_interrupts()  # those that arrived meanwhile
        finally:
            self._interrupts.is_canceling = False

        for task in tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                # The other calls still get their responses.
                log.error("A canceled tool call failed", exc_info=task.exception())

        for call in self._calls:
            if call.task is not None and not call.task.done():
                tell_tool_of_end(call)
            call.task = None  # the task is abandoned if it still runs

        self._interrupts.menu = None
        self._interrupts.error = None
        self._error = None
        self._functions.settle_canceled()
        self._screen.clear()
        self._runner.questions.inquiries.drop(question_end)


def _is_unattended(tool: OfferedTool | None) -> bool:
    """Return True if each call of `tool` may run, whatever its arguments are."""
    return tool is not None and tool.run == "unattended" and not tool.rules
