"""One batch of tool calls: events in, one response for each call out.

All calls start at once. Every change of state happens in one loop that takes events from one
queue; runs, inquiries and prompts are tasks that post an event when they end. Prompts wait in a
line with one of them on screen. No tool is known here by name.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from jp_nb.agent.asking import BatchContext
from jp_nb.agent.batch_events import BatchEvents
from jp_nb.agent.call_runner import CallRunner, Reached, keep_no_progress, nobody_debugs
from jp_nb.agent.calls import Call
from jp_nb.agent.cell_functions import CellFunctions
from jp_nb.agent.decisions import INTERRUPT_FIRST, STOPPED_FIRST, UNDELIVERED
from jp_nb.agent.display_events import Display, InterruptHeard, Notice
from jp_nb.agent.interrupts import (
    CONTINUE,
    LEFT,
    Choice,
    Interrupts,
    Verdict,
    menu,
    stopped,
    tool_menu,
)
from jp_nb.agent.prompt_queue import Dialogues, Event
from jp_nb.agent.prompts import ActionPrompt, Prompter
from jp_nb.agent.questions import TurnState
from jp_nb.config.tree.style_config import Interrupt as InterruptConfig
from jp_nb.record.events import ConfigDelta, InquiryEntry, ToolCallResponse
from jp_nb.tooling.base import CellThread
from jp_nb.tooling.context import SharedContext

CANCELLED_WITH_MESSAGE = "Tool run cancelled by user with a custom message:\n\n{}"
BROKE_OFF = "The turn ended before this tool call finished. Its effects up to then may remain."
NEVER_RAN = "This tool call did not run. The turn ended first."
DISCARDED = "⟳ The approved configuration changes of these tool calls are discarded"


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """The end of a batch.

    Attributes:
        responses: In call order.
        stopped: True if the turn is to end.
        left: True if it ends because the person stopped it where a tool asked them.
        unsaid: What the person said to the model, if no call was left to carry it.
        change: The configuration changes that were approved, all in one.
    """

    responses: list[ToolCallResponse]
    stopped: bool = False
    left: bool = False
    unsaid: str = ""
    change: ConfigDelta | None = None


class Coordinator:
    """Runs batches of tool calls, one after the other.

    Args:
        record: Appends what a tool asks, or how that ended, to the conversation.
        prompter: Asks the person.
        cell: The cell's thread, for tools that need it.
        display: Shows what happens.
        state: What is remembered in this turn.
        interrupts: Decides what an interrupt does.
        context: What tools are told in every call.
        faulted: Is given what a tool raised, for a debugger.
        reached: Keeps the progress of calls.
    """

    def __init__(
        self,
        *,
        record: Callable[[InquiryEntry], None],
        prompter: Prompter,
        cell: CellThread,
        display: Display,
        state: TurnState,
        interrupts: Interrupts,
        context: SharedContext | None = None,
        faulted: Callable[[Call, BaseException], None] = nobody_debugs,
        reached: Reached = keep_no_progress,
    ) -> None:
        self._prompter = prompter
        self._display = display
        self._interrupts = interrupts
        self._events = BatchEvents()
        self._prompts = Dialogues(prompter, self._events.spawn)
        self._functions = CellFunctions(cell, display, self._function_ended)
        self._runner = CallRunner(
            self._events,
            self._prompts,
            self._functions,
            record=record,
            prompter=prompter,
            display=display,
            state=state,
            context=context or {},
            cut_short=self._cut_short,
            stop_turn=self._stop_turn,
            faulted=faulted,
            reached=reached,
        )
        self._calls: Sequence[Call] = ()
        self._settings = InterruptConfig()
        self._menu_open = self._menu_due = False
        self._interrupted_names: Sequence[str] = ()
        self._went_on: Verdict = CONTINUE
        self._verdict: Verdict | None = None

    @property
    def unavailable(self) -> str | None:
        """The reason why nobody could decide what only a person may; None if somebody could."""
        return self._runner.unavailable

    # --- the loop ----------------------------------------------------------------------------

    async def run(self, calls: Sequence[Call], batch: BatchContext) -> BatchEnd:
        """Run `calls` until every one of them has a response.

        Cancelling it leaves calls open: `stop` then gives every call its response.
        """
        self._calls, self._settings = calls, batch.interrupts
        self._runner.begin_batch(batch)
        seen: Counter[str] = Counter()
        for index, call in enumerate(calls):
            seen[call.request.id] += 1
            call.index, call.number = index, seen[call.request.id]
            self._runner.begin(call)
        # An interrupt that came with the last response is for this batch, too.
        while self._menu_open or self._open_calls() or self._events.waiting:
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
        """Cancel what runs and close what is open; return the responses, in call order.

        Configuration changes that were approved are dropped: the batch did not end well.
        """
        await self._cut()
        for call in self._open_calls():
            self._runner.finish(call, BROKE_OFF if call.ran else NEVER_RAN, skipped=True)
        self._discard_changes()
        return self._responses()

    def _discard_changes(self) -> list[Call]:
        """Drop the changes that were approved, and say so; return the calls that proposed them."""
        calls = self._runner.changes.discard()
        if calls:
            self._display(Notice(DISCARDED))
        return calls

    def _responses(self) -> list[ToolCallResponse]:
        return [call.response for call in self._calls if call.response is not None]

    def _open_calls(self) -> list[Call]:
        return [call for call in self._calls if call.response is None]

    # --- interrupts --------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Hear that the kernel was interrupted; called on the agent's loop while a batch runs."""
        self._events.post(self._interrupted)

    def _interrupted(self) -> None:
        self._functions.interrupts += 1
        again = self._menu_open or self._events.cutting
        verdict = self._interrupts.at_once("tool_call", self._settings, in_menu=again)
        self._interrupted_names = self._open_names()
        self._prompter.interrupt()  # what is on screen ends first: docs/decisions.md D24
        if verdict is not None and verdict.choice != "continue":
            self._decide(verdict)
            return
        self._menu_open = True
        self._prompts.hold()  # nobody fills in a form that the next choice may close
        if verdict is not None:
            self._events.spawn(lambda: self._decide_later(verdict))
            return
        self._display(InterruptHeard("menu"))
        self._menu_due = True

    def _open_menu(self) -> None:
        """Show the menu that is due, once it is known which functions the interrupt cut."""
        if not self._menu_due or self._functions.running or self._events.waiting:
            return
        self._menu_due, settings = False, self._settings
        self._prompts.add(
            lambda ask: menu(ask, "tool_call", settings, self._menu()),
            settle=self._decide,
            first=True,
        )
        self._prompts.release()

    def _menu(self) -> ActionPrompt:
        return tool_menu(
            self._open_names(), interrupted=self._interrupted_names, cannot=self._cannot()
        )

    def _open_names(self) -> list[str]:
        return [call.request.name for call in self._open_calls()]

    def _cannot(self) -> list[Choice]:
        """Return the choices without effect: to go on if all was cut, to restart if all is done."""
        calls = self._open_calls()
        cannot: list[Choice] = []
        if calls and all(call.cut for call in calls):
            cannot.append("continue")
        if not calls and not self._runner.changes.any_approved:
            cannot.append("restart")
        return cannot

    def _function_ended(self) -> None:
        if self._menu_due:
            self._events.post(_nothing)

    def _cut_short(self, call: Call, heard: int) -> None:
        """Note that an interrupt cut the function of `call`; what follows is about to be decided.

        Or it was decided already, if an interrupt was heard since the function began: more than
        the `heard` of that moment.
        """
        call.cut = True
        deciding = self._menu_open or self._events.cutting or self._verdict is not None
        if self._functions.interrupts > heard and not deciding:
            self._stop_call(call, self._went_on)

    def _stop_turn(self) -> None:
        """End the turn as somebody wishes who was asked a question."""
        if self._verdict is None:
            self._verdict = LEFT

    async def _decide_later(self, verdict: Verdict) -> Event:
        """Decide behind whatever is on its way: the function that this interrupt cut short."""
        return lambda: self._decide(verdict)

    def _decide(self, verdict: Verdict) -> None:
        self._display(InterruptHeard(verdict.choice))
        self._menu_open = self._menu_due = False
        self._prompts.release()
        if self._verdict is None or not self._verdict.escalated:
            self._verdict = verdict

    async def _carry_out(self, verdict: Verdict) -> BatchEnd | None:
        """Do what was decided about an interrupt; return None if the batch goes on."""
        if verdict.choice == "continue":
            self._went_on = verdict
            for call in self._open_calls():
                if call.cut:
                    self._stop_call(call, verdict)
            self._functions.cell.release()
            return None
        await self._cut(asked="interrupted" if verdict.interrupted else "cancelled")
        later, self._verdict = self._verdict, None
        if later is not None and later.escalated:
            verdict = later
        if verdict.choice == "restart":
            self._functions.cell.release()
            self._restart_calls()
            return None
        if verdict.escalated:
            self._discard_changes()
        unsaid = self._cancel_batch(verdict)
        change = self._runner.changes.take()
        if verdict.choice == "reply":
            self._functions.cell.release()
            return BatchEnd(self._responses(), unsaid=unsaid, change=change)
        left = not verdict.interrupted
        return BatchEnd(self._responses(), stopped=True, left=left, change=change)

    def _restart_calls(self) -> None:
        """Run again what has no response, or one that tells of a change which is discarded."""
        again = {call.index for call in (*self._open_calls(), *self._discard_changes())}
        for index in sorted(again):
            self._runner.restart(self._calls[index])

    def _cancel_batch(self, verdict: Verdict) -> str:
        """Give every call its response; return the verdict's words if no response carries them."""
        why = INTERRUPT_FIRST if verdict.interrupted else STOPPED_FIRST
        for call in self._open_calls():  # its run is done, and its change will be
            if call.delivering or self._runner.changes.is_approved(call):
                self._runner.finish(call, UNDELIVERED.format(why), skipped=True)
        cancelled = self._open_calls()
        for call in cancelled:
            self._stop_call(call, verdict)
        return "" if cancelled else verdict.text

    async def _cut(self, *, asked: Literal["cancelled", "interrupted"] = "interrupted") -> None:
        """End every task; what ended before still counts. Prompts and inquiries are dropped.

        `asked` is how questions end that are open.
        """
        self._prompts.clear()
        try:
            await self._events.cut()
        finally:
            self._menu_open = self._menu_due = False
            self._functions.forget_runs()
        self._prompts.clear()
        self._prompts.release()
        self._runner.drop_questions(asked)

    def _stop_call(self, call: Call, verdict: Verdict) -> None:
        """End `call` as `verdict` says: cancelled if somebody wanted that, else just stopped."""
        text = stopped(verdict, ran=call.ran)
        if verdict.text:
            text = CANCELLED_WITH_MESSAGE.format(verdict.text)
        elif _cancels(verdict) and call.tool is not None:
            text = call.tool.cancellation_response
        self._runner.finish(call, text, skipped=True)


def _cancels(verdict: Verdict) -> bool:
    """True if somebody chose to cancel what runs, and not only to leave a question."""
    return verdict.choice != "continue" and verdict.by != "nobody" and verdict.interrupted


def _nothing() -> None:
    """Do nothing but have the loop look again."""
