"""Run the tool calls of one response concurrently, and deliver their results in call order.

All calls start at once. Each is a task that takes its call through all steps. Prompts wait in line,
and one of them is on screen. An interrupt of the kernel opens a menu, which may cancel the tasks.

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

from jp_nb.agent.activity import Activity
from jp_nb.agent.call import Call
from jp_nb.agent.call_decisions import INTERRUPT_FIRST_REASON, STOPPED_FIRST_REASON
from jp_nb.agent.call_runner import CANCELED_ITSELF_TEXT, CallRunner, end_runs, stopped_text
from jp_nb.agent.cell_functions import CellFunctions
from jp_nb.agent.display import InterruptReceived, Notice
from jp_nb.agent.interrupts import (
    USER_STOPPED_VERDICT,
    Choice,
    Verdict,
    ask_menu,
    decide_without_menu,
    tool_menu,
)
from jp_nb.agent.prompt_line import PromptLine
from jp_nb.agent.result_delivery import UNDELIVERED_TEXT
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.agent.turn_state import BatchContext, TurnContext
from jp_nb.images import Image
from jp_nb.record.events import ConfigDelta
from jp_nb.toolkit.cancellation import raise_if_cancelled

log = logging.getLogger(__name__)

CLEANUP_GRACE_S = 2.0
"""Seconds that canceled tools have to clean up."""
BROKEN_OFF_TEXT = (
    "The turn ended before this tool call finished. Its effects up to then may remain."
)
NEVER_RAN_TEXT = "This tool call did not run. The turn ended first."
DISCARDED_CHANGES_NOTICE = (
    "⟳ The turn ended before these tool calls finished, so their approved configuration changes "
    "are not applied"
)


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """The end of a batch.

    Attributes:
        ends_turn: None: the turn continues. `stopped`: the user stopped it at a question of a tool.
        unsent_message: Message of the user to the model, if no response has it.
    """

    ends_turn: Literal["interrupted", "stopped"] | None = None
    unsent_message: str = ""
    change: ConfigDelta | None = None


class Batch:
    """Runs the tool calls of one response: a task for each call."""

    def __init__(self, turn: TurnContext, calls: Sequence[Call], context: BatchContext) -> None:
        self._turn = turn
        self._calls = calls
        self._settings = context.basis.config.interrupt
        self._is_replay = context.results is not None
        self._activity = Activity()
        self._functions = CellFunctions(turn.cell, turn.display)
        self._line = PromptLine(turn.prompter, self._activity, self._functions)
        self._runner = CallRunner(turn, context, self._line)
        self._changed = asyncio.Event()
        self._new_interrupts = 0
        self._is_canceling = False
        self._menu: asyncio.Task[None] | None = None
        self._verdict: Verdict | None = None
        self._error: BaseException | None = None

    async def run(self) -> BatchEnd:
        """Run the calls, and record their responses and configuration changes in one step."""
        try:
            end = await self._run()
        except (asyncio.CancelledError, Exception):  # the record stays well formed
            await self._cancel_tasks()
            for call in self._open_calls():
                content = BROKEN_OFF_TEXT if call.state.ran else NEVER_RAN_TEXT
                self._runner.finish(call, content, skipped=True)
            self._discard_changes()
            self._record()
            raise

        changes = [] if end.change is None else [end.change]
        self._record(*changes)
        return end

    def _record(self, *changes: ConfigDelta) -> None:
        responses = [call.state.response for call in self._calls if call.state.response is not None]
        images: list[Image] = []
        for call in self._calls:
            images += call.state.result.shown_images.images
        self._turn.record.add(*responses, *changes, images=images)

    async def _run(self) -> BatchEnd:
        """Run the calls until each of them has a response."""
        seen: Counter[str] = Counter()
        if not self._is_replay:
            # A call of a tool with rules is permitted when its arguments have been judged.
            free = [call for call in self._calls if _runs_unattended(call.tool)]
            self._runner.progress.write(*free, stage="permitted")

        for index, call in enumerate(self._calls):
            seen[call.request.id] += 1
            call.index = index
            call.number = seen[call.request.id]
            self._start(call)
        await asyncio.sleep(0)  # every call begins before an interrupt takes effect

        while True:
            self._changed.clear()
            if self._error is not None:
                raise self._error
            if self._verdict is not None:
                verdict = self._verdict
                self._verdict = None
                end = await self._carry_out(verdict)
                if end is not None:
                    return end
            elif self._new_interrupts:  # also one that came with the last response
                self._handle_interrupts()
            elif self._menu is not None or any(call.task is not None for call in self._calls):
                self._runner.progress.write_results()
                await self._changed.wait()
            else:
                return BatchEnd(change=self._runner.changes.take())

    def _start(self, call: Call, *, again: bool = False) -> None:
        self._activity.begin()
        call.task = asyncio.get_running_loop().create_task(self._runner.run(call, again=again))
        call.task.add_done_callback(partial(self._on_call_end, call))

    def _on_call_end(self, call: Call, task: asyncio.Task[bool]) -> None:
        self._activity.end()
        if self._is_canceling or call.task is not task:
            return

        call.task = None
        if task.cancelled():
            if call.state.response is None:
                self._runner.questions.drop("cancelled", call)
                self._runner.finish(call, CANCELED_ITSELF_TEXT, is_error=True)
        elif task.exception() is not None:
            self._error = task.exception()
        elif task.result():
            self._verdict = self._verdict or USER_STOPPED_VERDICT

        has_ended = all(each.task is None for each in self._calls)
        if has_ended or self._error is not None or self._verdict is not None:
            self._changed.set()
        else:
            self._runner.progress.write_results()

    def _discard_changes(self) -> list[Call]:
        """Discard the approved changes; return the calls that proposed them."""
        calls = self._runner.changes.discard()
        if calls:
            self._turn.display(Notice(DISCARDED_CHANGES_NOTICE))
        return calls

    def _open_calls(self) -> list[Call]:
        return [call for call in self._calls if call.state.response is None]

    def interrupt(self) -> None:
        """Handle an interrupt of the kernel, on the agent's event loop."""
        self._line.hold()  # no other prompt appears before the effect is decided
        self._new_interrupts += 1
        self._changed.set()

    def _handle_interrupts(self) -> None:
        while self._new_interrupts:
            self._new_interrupts -= 1
            self._functions.note_interrupt()
            in_menu = self._menu is not None or self._is_canceling
            verdict = decide_without_menu(self._turn, "tool_call", self._settings, in_menu=in_menu)
            interrupted = self._open_names()
            self._turn.prompter.interrupt()  # closes the current prompt first: D24
            if verdict is not None:
                self._decide(verdict)
                continue

            self._turn.display(InterruptReceived("menu"))
            self._activity.begin()
            self._menu = asyncio.get_running_loop().create_task(self._show_menu(interrupted))
            self._menu.add_done_callback(self._on_menu_end)

    async def _show_menu(self, interrupted: Sequence[str]) -> None:
        # The interrupt may have ended functions: the menu offers what is then possible.
        await self._functions.wait_until_ended()
        async with self._line.turn(first=True) as ask:
            calls = self._open_calls()
            disabled: list[Choice] = []  # choices without effect
            if calls and all(call.state.was_interrupted for call in calls):
                disabled.append("continue")
            if not calls and not self._runner.changes.has_approved:
                disabled.append("restart")

            menu = tool_menu(self._open_names(), interrupted=interrupted, disabled=disabled)
            verdict = await ask_menu(ask, "tool_call", self._settings, menu)
            raise_if_cancelled()
            self._menu = None
            self._decide(verdict)

    def _on_menu_end(self, menu: asyncio.Task[None]) -> None:
        self._activity.end()
        if menu is self._menu and not self._is_canceling:  # it ended without a decision
            if menu.cancelled():
                self._error = RuntimeError("the menu failed")
            else:
                self._error = menu.exception()
        self._changed.set()

    def _open_names(self) -> list[str]:
        return [call.request.name for call in self._open_calls()]

    def _decide(self, verdict: Verdict) -> None:
        self._turn.display(InterruptReceived(verdict.choice))
        if verdict.choice == "continue":
            self._line.release()
            self._functions.resume(verdict)
            return

        self._line.hold()  # no other prompt appears before the calls are canceled
        if self._verdict is None or not self._verdict.escalated:  # escalation is final
            self._verdict = verdict
        self._changed.set()

    async def _carry_out(self, verdict: Verdict) -> BatchEnd | None:
        """Cancel the calls as the user decided; return None if they run again."""
        if verdict.interrupted:
            await self._cancel_tasks(asked="interrupted")
        else:
            await self._cancel_tasks(asked="cancelled")
        later = self._verdict
        self._verdict = None
        if later is not None and later.escalated:  # a second interrupt during the cancellation
            verdict = later

        if verdict.choice == "restart":
            self._functions.resume()
            calls = [*self._open_calls(), *self._discard_changes()]
            again = {call.index for call in calls}
            for index in sorted(again):
                self._start(self._calls[index], again=True)
            await asyncio.sleep(0)  # every call begins again
            return None

        if verdict.escalated:
            self._discard_changes()
        why = INTERRUPT_FIRST_REASON if verdict.interrupted else STOPPED_FIRST_REASON
        unsent_message = verdict.text
        for call in self._open_calls():
            ran_to_its_end = call.state.result.is_under_review
            if ran_to_its_end or self._runner.changes.is_approved(call):
                self._runner.finish(call, UNDELIVERED_TEXT.format(why), skipped=True)
            else:
                self._runner.finish(call, stopped_text(call, verdict), skipped=True)
                unsent_message = ""

        change = self._runner.changes.take()
        if verdict.choice == "reply":
            self._functions.resume()
            return BatchEnd(unsent_message=unsent_message, change=change)
        if verdict.interrupted:
            return BatchEnd("interrupted", change=change)
        return BatchEnd("stopped", change=change)

    async def _cancel_tasks(
        self, *, asked: Literal["cancelled", "interrupted"] = "interrupted"
    ) -> None:
        """Cancel all tasks, and give open questions the outcome `asked`."""
        every = (*(call.task for call in self._calls), self._menu)
        tasks = [task for task in every if task is not None and not task.done()]

        self._is_canceling = True
        try:
            for task in tasks:
                task.cancel()
            if tasks:
                # A tool that ignores its cancellation must not block the turn.
                await asyncio.wait(tasks, timeout=CLEANUP_GRACE_S)
            self._handle_interrupts()
        finally:
            self._is_canceling = False

        for task in tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                # The other calls still get their responses.
                log.error("A canceled tool call failed", exc_info=task.exception())

        for call in self._calls:
            if call.task is not None and not call.task.done():  # it ignores its cancellation
                end_runs(call)
            call.task = None
        self._menu = None
        self._error = None
        self._functions.settled.set()  # the function before was canceled
        self._line.clear()
        self._runner.questions.drop(asked)


def _runs_unattended(tool: OfferedTool | None) -> bool:
    return tool is not None and tool.run == "unattended" and not tool.rules
