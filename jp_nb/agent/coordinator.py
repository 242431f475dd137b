"""One batch of tool calls: events in, one response for each call out.

All calls start at once. Every change of state happens in one loop that takes events from one
queue; runs, inquiries and prompts are tasks that post an event when they end. Prompts wait in a
line with one of them on screen. No tool is known here by name.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Literal, TypeVar, assert_never

from pydantic import JsonValue

from jp_nb.agent.asking import Asking, BatchContext
from jp_nb.agent.calls import Call, traceback_of
from jp_nb.agent.changes import Changes
from jp_nb.agent.decisions import (
    INTERRUPT_FIRST,
    NOT_DELIVERED_BY_CONFIGURATION,
    SKIPPED,
    SKIPPED_REMEMBERED,
    UNDELIVERED,
    Delivery,
    Permission,
    delivery,
    permission,
)
from jp_nb.agent.display_events import (
    Display,
    FunctionBegins,
    FunctionEnds,
    InterruptHeard,
    Notice,
    ToolBegins,
    ToolEnds,
    Waits,
)
from jp_nb.agent.interrupts import CONTINUE, Choice, Interrupts, Verdict, menu, stopped
from jp_nb.agent.prompt_queue import Ask, Event, PromptQueue, is_cancelled, summary
from jp_nb.agent.prompts import Prompter, Unavailable
from jp_nb.agent.questions import TurnState
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.errors import ToolError
from jp_nb.record.edited_calls import edited_by_person
from jp_nb.record.events import ConfigDelta, Entry, ToolCallResponse
from jp_nb.record.thread import Thread
from jp_nb.tooling.arguments import coerce_arguments
from jp_nb.tooling.base import RUN, CallInterrupted, CellThread, Run
from jp_nb.tooling.context import ToolContext
from jp_nb.tooling.long_results import cut_middle
from jp_nb.tooling.outcome import Failure, NeedsInput, Outcome, Success
from jp_nb.tooling.question import Question

T = TypeVar("T")

log = logging.getLogger(__name__)

STOP_GRACE = 2.0
"""Seconds that cancelled tools have to clean up."""

UNAVAILABLE = (
    "Tool '{}' is not available. It may have been available earlier in this conversation but is "
    "no longer enabled. Do not retry this tool until it is available again in the list of enabled "
    "tools."
)
NOT_FORMATTED = "Tool '{}' was not executed because the argument formatter failed: {}"
CANCELLED_WITH_MESSAGE = "Tool run cancelled by user with a custom message:\n\n{}"
BROKE_OFF = "The turn broke off before this tool call ended; what it did until then may stand."
NEVER_RAN = "This tool call did not run: the turn ended before it could."
RESTARTED = "restarted"
DISCARDED = "⟳ The configuration changes that were approved in this batch are discarded"


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """How a batch ended.

    Attributes:
        responses: In call order.
        stopped: Whether the turn is to end.
        unsaid: What the person said to the model, if no call was left to carry it.
        change: The configuration changes that were approved, all in one.
    """

    responses: list[ToolCallResponse]
    stopped: bool = False
    unsaid: str = ""
    change: ConfigDelta | None = None


class Coordinator:
    """Runs batches of tool calls, one after the other.

    Args:
        record: Appends an entry to the conversation.
        prompter: Asks the person.
        cell: The cell's thread, for tools that need it.
        display: Shows what happens.
        state: What is remembered in this turn.
        interrupts: Decides what an interrupt does.
        context: Fields of `ToolContext` that are the same for every call: `root`,
            `conversation_id`.

    Attributes:
        unavailable: Why nobody could decide something that only a person may; None so far.
    """

    def __init__(
        self,
        *,
        record: Callable[[Entry], None],
        prompter: Prompter,
        cell: CellThread,
        display: Display,
        state: TurnState,
        interrupts: Interrupts,
        context: Mapping[str, str] | None = None,
    ) -> None:
        self._prompter = prompter
        self._cell = cell
        self._display = display
        self._state = state
        self._interrupts = interrupts
        self._context = dict(context or {})
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._prompts = PromptQueue(prompter, self._spawn)
        self._asking = Asking(
            self,
            record=record,
            display=display,
            prompter=prompter,
            prompts=self._prompts,
            spawn=self._spawn,
            state=state,
        )
        self._changes = Changes(self, display=display, prompter=prompter, prompts=self._prompts)
        self._calls: Sequence[Call] = ()
        self._batch = BatchContext(Thread())
        self._heard = 0
        self._menu_open = self._menu_due = False
        self._functions: set[_CellOfRun] = set()
        self._went_on: Verdict = CONTINUE
        self._verdict: Verdict | None = None
        self._cutting = False
        self._epoch = 0
        self.unavailable: str | None = None

    # --- the loop ----------------------------------------------------------------------------

    async def run(self, calls: Sequence[Call], batch: BatchContext) -> BatchEnd:
        """See `calls` through; every one of them has a response in the end.

        Cancelling it leaves calls open: `stop` then gives every call its response.
        """
        self._calls, self._batch = calls, batch
        self._changes.begin(batch.basis)
        seen: Counter[str] = Counter()
        for index, call in enumerate(calls):
            seen[call.request.id] += 1
            call.index, call.number = index, seen[call.request.id]
            call.started = monotonic()
            self._begin(call)
        # An interrupt that came with the last response is for this batch, too.
        while self._menu_open or self._open_calls() or not self._events.empty():
            handle = await self._events.get()
            handle()
            self._open_menu()
            if self._verdict is not None:
                verdict, self._verdict = self._verdict, None
                end = await self._carry_out(verdict)
                if end is not None:
                    return end
        return BatchEnd(self._responses(), change=self._changes.take())

    async def stop(self) -> list[ToolCallResponse]:
        """Cancel what runs, close what is open; the responses, in call order.

        Configuration changes that were approved are dropped: the batch did not end well.
        """
        await self._cut()
        for call in self._open_calls():
            self.finish(call, BROKE_OFF if call.ran else NEVER_RAN, skipped=True)
        self._discard_changes()
        return self._responses()

    def _discard_changes(self) -> list[Call]:
        """Drop the changes that were approved, and say so; the calls that proposed them."""
        calls = self._changes.discard()
        if calls:
            self._display(Notice(DISCARDED))
        return calls

    def _responses(self) -> list[ToolCallResponse]:
        return [call.response for call in self._calls if call.response is not None]

    def _open_calls(self) -> list[Call]:
        return [call for call in self._calls if call.response is None]

    def _spawn(self, work: Callable[[], Awaitable[Event]]) -> asyncio.Task[None]:
        """Run `work` beside the loop; what it returns is handled in the loop.

        What was begun before the calls were cut is not heard any more.
        """
        epoch = self._epoch

        async def run() -> None:
            try:
                handle = await work()
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                handle = partial(_raise, RuntimeError("something cancelled itself"))
            except Exception as exc:  # a fault of ours: the loop raises it, and nobody waits
                handle = partial(_raise, exc)
            if epoch == self._epoch:
                self._events.put_nowait(handle)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._cutting:
            task.cancel()
        return task

    # --- interrupts --------------------------------------------------------------------------

    def interrupt(self) -> None:
        """The kernel was interrupted; from the agent's loop, while a batch runs."""
        self._events.put_nowait(self._interrupted)

    def _interrupted(self) -> None:
        self._heard += 1
        settings = self._batch.interrupts
        again = self._menu_open or self._cutting
        verdict = self._interrupts.at_once("tool_call", settings, in_menu=again)
        self._prompter.interrupt()  # what is on screen ends first (D24)
        if verdict is not None and verdict.choice != "continue":
            self._decide(verdict)
            return
        self._menu_open = True
        if verdict is not None:
            self._go_on(verdict)
            return
        self._display(InterruptHeard("menu"))
        self._menu_due = True

    def _open_menu(self) -> None:
        """Put the menu that is due, once it is known which functions the interrupt cut."""
        if not self._menu_due or self._functions or not self._events.empty():
            return
        self._menu_due, settings = False, self._batch.interrupts
        self._prompts.add(
            lambda ask: menu(ask, "tool_call", settings, cannot=self._cannot()),
            settle=self._decide,
            first=True,
        )

    def _cannot(self) -> list[Choice]:
        """What would come to nothing: to go on where all was cut, to restart where all is done."""
        calls = self._open_calls()
        cannot: list[Choice] = []
        if calls and all(call.cut for call in calls):
            cannot.append("continue")
        if not calls and not self._changes.any_approved:
            cannot.append("restart")
        return cannot

    def _function_ended(self) -> None:
        if self._menu_due:
            self._events.put_nowait(_nothing)

    def _cut_short(self, call: Call, heard: int) -> None:
        """An interrupt cut the function of `call` short; what follows is about to be decided.

        Or it was decided already, if an interrupt was heard since the function began: more than
        the `heard` of that moment.
        """
        call.cut = True
        deciding = self._menu_open or self._cutting or self._verdict is not None
        if self._heard > heard and not deciding:
            self._stop_call(call, self._went_on)

    def _go_on(self, verdict: Verdict) -> None:
        """Continue behind whatever is on its way: the function that this interrupt cut short."""

        async def later() -> Event:
            return lambda: self._decide(verdict)

        self._spawn(later)

    def _decide(self, verdict: Verdict) -> None:
        self._display(InterruptHeard(verdict.choice))
        self._menu_open = self._menu_due = False
        if self._verdict is None or not self._verdict.escalated:
            self._verdict = verdict

    async def _carry_out(self, verdict: Verdict) -> BatchEnd | None:
        """Do what an interrupt came to; None if the batch goes on."""
        if verdict.choice == "continue":
            self._went_on = verdict
            for call in self._open_calls():
                if call.cut:
                    self._stop_call(call, verdict)
            self._cell.release()
            return None
        await self._cut()
        later, self._verdict = self._verdict, None
        if later is not None and later.escalated:
            verdict = later
        if verdict.choice == "restart":
            self._cell.release()
            self._restart_calls()
            return None
        if verdict.escalated:
            self._discard_changes()
        unsaid = self._cancel_batch(verdict)
        change = self._changes.take()
        if verdict.choice == "reply":
            self._cell.release()
            return BatchEnd(self._responses(), unsaid=unsaid, change=change)
        return BatchEnd(self._responses(), stopped=True, change=change)

    def _restart_calls(self) -> None:
        """Run again what has no response, or one that tells of a change which is discarded."""
        again = {call.index for call in (*self._open_calls(), *self._discard_changes())}
        for index in sorted(again):
            self._restart(self._calls[index])

    def _cancel_batch(self, verdict: Verdict) -> str:
        """Give every call its response; what of the verdict's words none of them carries."""
        for call in self._open_calls():  # its run is done, and its change will be
            if call.delivering or self._changes.is_approved(call):
                self.finish(call, UNDELIVERED.format(INTERRUPT_FIRST), skipped=True)
        cancelled = self._open_calls()
        for call in cancelled:
            self._stop_call(call, verdict)
        return "" if cancelled else verdict.text

    async def _cut(self) -> None:
        """End every task; what ended before still counts. Prompts and inquiries are dropped."""
        self._cutting = True
        try:
            running = list(self._tasks)
            self._prompts.clear()
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running, timeout=STOP_GRACE)
            while not self._events.empty():
                self._drain(self._events.get_nowait())
        finally:
            self._cutting = self._menu_open = self._menu_due = False
            self._epoch += 1
        self._prompts.clear()
        self._asking.drop()

    @staticmethod
    def _drain(handle: Event) -> None:
        """Handle what happened before the cut; a fault in it leaves the others their responses."""
        try:
            handle()
        except Exception:
            log.exception("An event of a batch that was cut failed")

    def _stop_call(self, call: Call, verdict: Verdict) -> None:
        """End `call` as `verdict` says: cancelled if somebody wanted that, else just stopped."""
        text = stopped(verdict, ran=call.ran)
        if verdict.text:
            text = CANCELLED_WITH_MESSAGE.format(verdict.text)
        elif verdict.choice != "continue" and verdict.by != "nobody" and call.tool is not None:
            text = call.tool.cancellation_response
        self.finish(call, text, skipped=True)

    def _restart(self, call: Call) -> None:
        if call.begun and call.response is None:
            self._show_end(call, RESTARTED, is_error=False, skipped=True)
        call.begin_again()
        self._begin(call)

    # --- one call ----------------------------------------------------------------------------

    def _begin(self, call: Call) -> None:
        tool = call.tool
        if tool is None:
            self._fail(call, UNAVAILABLE.format(call.request.name))
            return
        if call.bad_arguments is not None:
            self._fail(call, call.bad_arguments)
            return
        prepared = _prepare(tool, call.request.arguments)
        if isinstance(prepared, Failure):
            self._fail(call, prepared.message)
            return
        call.arguments = prepared
        match tool.run:
            case "skip":
                self.finish(call, SKIPPED, skipped=True)
            case "unattended":
                self._start(call, tool)
            case "ask" | "edit":
                self._show_begin(call, tool)
                self._ask_permission(call, tool)
            case _:
                assert_never(tool.run)

    def _start(self, call: Call, tool: OfferedTool) -> None:
        self._formatted(call, tool, lambda: self._start_formatted(call, tool))

    def _start_formatted(self, call: Call, tool: OfferedTool) -> None:
        self._show_begin(call, tool)
        self.run_again(call, tool)

    def _show_begin(self, call: Call, tool: OfferedTool) -> None:
        """Show the call; again only if it changed."""
        if call.begun and not call.changed:
            return
        shown: Literal["line", "json", "off"] = "line"
        if tool.formatter is not None or tool.parameters == "off":
            shown = "off"
        elif tool.parameters == "json":
            shown = "json"
        call.begun, call.changed = True, False
        self._display(
            ToolBegins(
                call.key,
                call.request.name,
                call.arguments,
                tool.hidden,
                parameters=shown,
                formatted=call.formatted,
                edited=call.edited is not None,
            )
        )

    def _formatted(self, call: Call, tool: OfferedTool, then: Event) -> None:
        """Have the arguments written for the person, if that is configured, and go on."""
        formatter = tool.formatter
        if formatter is None or call.formatted is not None:
            then()
            return
        context = self._tool_context(call, tool, shows=True)

        async def write() -> Event:
            try:
                text = await formatter.format(copy.deepcopy(call.arguments), context)
            except (Exception, asyncio.CancelledError) as exc:
                if is_cancelled():
                    raise
                problem = str(exc) if isinstance(exc, ToolError) else summary(exc)
                return lambda: self._fail(call, NOT_FORMATTED.format(tool.name, problem))
            return lambda: shown(text)

        def shown(text: str) -> None:
            call.formatted, call.changed = text, True
            if call.begun:
                self._show_begin(call, tool)
            then()

        self._spawn(write)

    def run_again(self, call: Call, tool: OfferedTool) -> None:
        """Run `tool` for `call`, with all that is known by now."""
        self._display(Waits(call.key, call.title))
        self._spawn(lambda: self._execute(call, tool))

    def _tool_context(self, call: Call, tool: OfferedTool, *, shows: bool = False) -> ToolContext:
        """What a run of `tool` is told; one that only `shows` the call learns less."""
        return ToolContext(
            name=tool.name,
            call_id=call.request.id,
            answers=copy.deepcopy(call.answers),
            options=copy.deepcopy(dict(tool.options)),
            access=copy.deepcopy(tool.access),
            config=None if shows else self._changes.visible(tool),
            delta_rejection=None if shows else call.rejection,
            catalog=self._batch.catalog,
            action="format_arguments" if shows else "run",
            **self._context,
        )

    async def _execute(self, call: Call, tool: OfferedTool) -> Event:
        call.ran = True
        context, run = self._tool_context(call, tool), Run()
        cell = _CellOfRun(
            self._cell,
            call,
            self._display,
            heard=lambda: self._heard,
            running=self._functions,
            ended=self._function_ended,
        )
        RUN.set(run)  # in the context of this task
        try:
            arguments = copy.deepcopy(call.arguments)  # a run may change what it gets
            outcome = await tool.executor.run(arguments, context, cell)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            outcome = Failure("The tool cancelled itself.")
        except ToolError as exc:
            outcome = Failure(str(exc))
        except BaseException as exc:
            if _was_interrupted(exc):
                return lambda: self._cut_short(call, cell.heard)
            # SystemExit and KeyboardInterrupt out of a task would end the agent's loop.
            outcome = Failure(summary(exc))
            call.traceback = traceback_of(exc)
        finally:
            run.over = True
        outcome = self._state.secrets.hide_in(outcome)
        return lambda: self._settle_run(call, tool, outcome)

    def _settle_run(self, call: Call, tool: OfferedTool, outcome: Outcome) -> None:
        match outcome:
            case Success() if outcome.proposes and tool.executor.may_propose:
                if not self._cutting:  # else nobody may agree any more, nor the tool run again
                    self._changes.propose(call, tool, outcome)
            case Success(content=content):
                if outcome.proposes:
                    log.warning("%s may not propose configuration changes: dropped", tool.name)
                self.config_settled(call, tool, content)
            case Failure(message=message, trace=trace):
                text = "\n".join([message, "", "Trace:", *trace]) if trace else message
                self._deliver(call, tool, Delivery(text, is_error=True))
            case NeedsInput(question=question):
                self._asking.ask(call, tool, question, self._batch)
            case _:
                assert_never(outcome)

    def config_settled(self, call: Call, tool: OfferedTool, content: str) -> None:
        """Deliver what a run came to: whatever it proposed is decided."""
        self._deliver(call, tool, Delivery(content))

    def answered(
        self, call: Call, tool: OfferedTool, question: Question, answer: JsonValue
    ) -> None:
        """Run `tool` again, with one answer more."""
        call.answers[question.id] = answer
        self._state.secrets.answered(question, answer)
        self.run_again(call, tool)

    def nobody_decides(self, nobody: Unavailable) -> None:
        """Note that a person was needed and nobody is there."""
        self.unavailable = nobody.reason

    def _fail(self, call: Call, text: str) -> None:
        self.finish(call, text if call.tool is None else _cut(text, call.tool), is_error=True)

    def finish(
        self, call: Call, content: str, *, is_error: bool = False, skipped: bool = False
    ) -> None:
        """Give `call` its response, and show it."""
        metadata: dict[str, JsonValue] = {}
        if call.edited is not None:
            metadata = edited_by_person(copy.deepcopy(call.arguments), call.edited)
        call.response = ToolCallResponse(
            id=call.request.id, content=content, is_error=is_error, metadata=metadata
        )
        self._show_end(call, content, is_error=is_error, skipped=skipped)

    def _show_end(self, call: Call, content: str, *, is_error: bool, skipped: bool) -> None:
        tool = call.tool
        self._display(
            ToolEnds(
                call_id=call.key,
                name=call.request.name,
                content=content,
                is_error=is_error,
                seconds=monotonic() - call.started,
                hidden=tool is not None and tool.hidden,
                traceback=self._state.secrets.hide(call.traceback) if call.traceback else None,
                skipped=skipped,
                result_lines=0 if tool is None or skipped else _lines(tool, is_error=is_error),
            )
        )

    # --- permission and delivery -------------------------------------------------------------

    def _ask_permission(self, call: Call, tool: OfferedTool) -> None:
        nobody = self._prompter.nobody()
        if nobody is not None:
            self._refuse_for_want_of_a_person(call, tool, "run", nobody)
        elif tool.format == "unattended":
            self._formatted(call, tool, lambda: self._queue_permission(call, tool))
        else:
            self._queue_permission(call, tool)

    def _queue_permission(self, call: Call, tool: OfferedTool) -> None:
        def decide(ask: Ask) -> Awaitable[Permission]:
            context = self._tool_context(call, tool)
            return permission(
                ask,
                tool,
                call.arguments,
                lambda given: _prepare(tool, given),
                formatted=call.formatted,
                command=lambda arguments: tool.executor.command_line(arguments, context),
            )

        self._display(Waits(call.key, f"your permission to run {call.title}", person=True))
        self._prompts.add(
            decide,
            settle=lambda decided: self._settle_permission(call, tool, decided),
            skip=lambda: self._use_remembered_permission(call, tool),
        )

    def _use_remembered_permission(self, call: Call, tool: OfferedTool) -> bool:
        remembered = self._state.permission(tool)
        if remembered is None:
            return False
        if remembered:
            self._start(call, tool)
        else:
            self.finish(call, SKIPPED_REMEMBERED, skipped=True)
        return True

    def _settle_permission(self, call: Call, tool: OfferedTool, decided: Permission) -> None:
        if decided.nobody is not None:
            self._refuse_for_want_of_a_person(call, tool, "run", decided.nobody)
            return
        if decided.remembered:
            self._state.permissions[tool.name] = (tool, decided.runs)
        if not decided.runs:
            self.finish(call, decided.skipped, skipped=True)
            return
        if decided.arguments is not None:
            call.arguments, call.edited, call.formatted = decided.arguments, decided.channel, None
            call.changed = True
        self._start(call, tool)

    def _refuse_for_want_of_a_person(
        self, call: Call, tool: OfferedTool, setting: str, nobody: Unavailable
    ) -> None:
        self.nobody_decides(nobody)
        what = f"{tool.name} did not run: it needs a person's decision"
        if setting == "result":
            what = f"{tool.name} ran and its result is not delivered: it needs a person's decision"
        self._fail(
            call,
            f"{what} and nobody can be asked: {nobody.reason}. The owner may set "
            f'conversation.tools.{tool.name}.{setting} = "unattended". Do not retry this tool call '
            "in this turn.",
        )

    def _deliver(self, call: Call, tool: OfferedTool, result: Delivery) -> None:
        result = replace(result, content=_cut(result.content, tool))
        match tool.result:
            case "skip":
                self.finish(call, NOT_DELIVERED_BY_CONFIGURATION, skipped=True)
            case "unattended":
                self.finish(call, result.content, is_error=result.is_error)
            case "ask" | "edit":
                self._ask_delivery(call, tool, result)
            case _:
                assert_never(tool.result)

    def _ask_delivery(self, call: Call, tool: OfferedTool, result: Delivery) -> None:
        def settle(decided: Delivery) -> None:
            if decided.nobody is not None:
                self._refuse_for_want_of_a_person(call, tool, "result", decided.nobody)
                return
            self.finish(call, decided.content, is_error=decided.is_error, skipped=decided.withheld)

        nobody = self._prompter.nobody()
        if nobody is not None:
            self._refuse_for_want_of_a_person(call, tool, "result", nobody)
            return
        call.delivering = True
        self._display(Waits(call.key, f"your word on the result of {call.title}", person=True))
        self._prompts.add(lambda ask: delivery(ask, tool, result), settle=settle)


class _CellOfRun:
    """The cell's thread for one run of a tool.

    Functions wait for each other, and for what an interrupt of the one before comes to: what was
    heard when the run was asked for says nothing about the interrupt that cuts its function.

    Args:
        cell: The cell's thread.
        call: Whose run it is.
        display: Shows when its function begins and ends.
        heard: Tells how many interrupts were heard so far.
        running: Of all runs, those whose function has begun and not ended.
        ended: Called when one has.

    Attributes:
        heard: How many interrupts were heard when the function began.
    """

    def __init__(
        self,
        cell: CellThread,
        call: Call,
        display: Display,
        *,
        heard: Callable[[], int],
        running: set[_CellOfRun],
        ended: Callable[[], None],
    ) -> None:
        self._cell = cell
        self._call = call
        self._display = display
        self._heard = heard
        self._running = running
        self._ended = ended
        self.heard = heard()

    async def call(self, function: Callable[[], T]) -> T:
        def begin() -> T:
            self.heard = self._heard()
            self._running.add(self)
            self._display(FunctionBegins(self._call.key, self._call.title))
            try:
                return function()
            finally:
                self._display(FunctionEnds(self._call.key))

        try:
            return await self._cell.call(begin)
        finally:
            self._running.discard(self)
            self._ended()

    def release(self) -> None:
        self._cell.release()


def _was_interrupted(exc: BaseException) -> bool:
    """Whether the cell was interrupted while the function ran; the turn hears of that too."""
    return isinstance(exc, CallInterrupted) and isinstance(exc.__cause__, KeyboardInterrupt)


def _nothing() -> None:
    """Only has the loop look again."""


def _raise(exc: Exception) -> None:
    raise exc


def _prepare(tool: OfferedTool, given: Mapping[str, JsonValue]) -> dict[str, JsonValue] | Failure:
    """The arguments `given` as `tool` will get them, or why it cannot run with them."""
    schema = tool.definition.parameters
    own = copy.deepcopy(dict(given))  # the record's are nobody else's
    try:
        prepared = tool.executor.prepare(tool.name, coerce_arguments(own, schema), schema)
    except Exception as exc:  # a tool's own code
        return Failure(summary(exc))
    return prepared if isinstance(prepared, Failure) else dict(prepared)


def _cut(text: str, tool: OfferedTool) -> str:
    path = f"conversation.tools.{tool.name}.result_max_chars"
    return cut_middle(text, tool.result_max_chars, path)


def _lines(tool: OfferedTool, *, is_error: bool) -> int | None:
    """How many lines of a result are shown below the call; None: all of them."""
    shown = tool.inline_results
    if is_error and tool.inline_errors is not None:
        shown = tool.inline_errors
    return None if shown == "full" else shown if isinstance(shown, int) else 0
