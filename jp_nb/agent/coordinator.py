"""One batch of tool calls: events in, one response for each call out.

All calls start at once. Every change of state happens in one loop that takes events from one
queue; runs and prompts are tasks that post an event when they end. Prompts wait in a FIFO with
one of them active. No tool is known here by name.

Source: `spec/tools-and-turn-loop.md` sections 5 and 9.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import json
import logging
import os
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, assert_never

from pydantic import JsonValue

from jp_nb.agent.offer import OfferedTool
from jp_nb.agent.ports import (
    Action,
    ActionPrompt,
    Answered,
    CellThread,
    Display,
    NobodyThere,
    NotAnswered,
    Prompt,
    PromptEnd,
    Prompter,
    QuestionEnds,
    QuestionPrompt,
    ToolBegins,
    ToolEnds,
)
from jp_nb.agent.questions import (
    CANCELLED_BY_USER,
    AskModel,
    AskPerson,
    Refuse,
    TurnState,
    UseAnswer,
    answered,
    cancelled,
    closing,
    inquiry_request,
    reusable,
    route,
)
from jp_nb.errors import ToolError
from jp_nb.record.events import Entry, InquiryResponse, ToolCallRequest, ToolCallResponse
from jp_nb.tools.arguments import coerce_arguments
from jp_nb.tools.context import ToolContext
from jp_nb.tools.outcome import Failure, NeedsInput, Outcome, Success
from jp_nb.tools.question import BooleanAnswer, Question

log = logging.getLogger(__name__)

MACHINERY = tuple(
    str(folder) + os.sep
    for folder in (
        Path(__file__).resolve().parent.parent,
        Path(asyncio.__file__).parent,
        Path(concurrent.futures.__file__).parent,
    )
)
"""What runs tools: frames of it say nothing about why a tool failed."""
STOP_GRACE = 2.0
"""Seconds that cancelled tools have to clean up."""

UNAVAILABLE = (
    "Tool '{}' is not available. It may have been available earlier in this conversation but is "
    "no longer enabled. Do not retry this tool until it is available again in the list of enabled "
    "tools."
)
INQUIRY_FAILED = (
    "The tool '{tool}' asked a follow-up question (\"{text}\") that was routed to a secondary "
    "assistant for resolution, but the secondary assistant failed to provide a valid answer. "
    "Error: {error}. You may retry the tool call or end the turn."
)
NO_INQUIRY_BACKEND = "No inquiry backend is available"

PERMISSION = (
    Action("y", "Run", "run"),
    Action("Y", "Run, for this turn", "run_turn"),
    Action("n", "Skip", "skip"),
    Action("N", "Skip, for this turn", "skip_turn"),
)
DELIVERY = (Action("y", "Deliver", "deliver"), Action("n", "Skip", "skip"))
SOURCES = {"builtin": "built-in", "python": "Python", "local": "local", "mcp": "mcp"}


@dataclass(slots=True, eq=False)
class Call:
    """One tool call on its way to a response. `tool` is None if it is not on offer."""

    request: ToolCallRequest
    tool: OfferedTool | None
    bad_arguments: str | None = None
    arguments: dict[str, JsonValue] = field(default_factory=dict)
    answers: dict[str, JsonValue] = field(default_factory=dict)
    response: ToolCallResponse | None = None
    traceback: str | None = None
    started: float = 0.0


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A prompt in the queue; `settle` takes its end, `skip` says whether it is still needed."""

    prompt: Prompt
    settle: Callable[[PromptEnd], None]
    skip: Callable[[], bool]


class Coordinator:
    """Runs batches of tool calls, one after the other.

    Args:
        record: Appends an entry to the conversation.
        prompter: Asks the person.
        cell: The cell's thread, for tools that need it.
        display: Shows what happens.
        state: What is remembered in this turn.
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
        context: Mapping[str, str] | None = None,
    ) -> None:
        self._record = record
        self._prompter = prompter
        self._cell = cell
        self._display = display
        self._state = state
        self._context = dict(context or {})
        self._events: asyncio.Queue[Callable[[], None]] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._prompts: deque[_Waiting] = deque()
        self._active: _Waiting | None = None
        self._open: dict[str, tuple[Call, Question]] = {}
        self._calls: Sequence[Call] = ()
        self._stopping = False
        self.unavailable: str | None = None

    # --- the loop ----------------------------------------------------------------------------

    async def run(self, calls: Sequence[Call]) -> list[ToolCallResponse]:
        """The responses to `calls`, in call order.

        Cancelling it leaves calls open: `stop` then gives every call its response.
        """
        self._calls = calls
        for call in calls:
            self._begin(call)
        while any(call.response is None for call in calls):
            handle = await self._events.get()
            handle()
        return [call.response for call in calls if call.response is not None]

    async def stop(self) -> list[ToolCallResponse]:
        """Cancel what runs, close what is open; the responses, in call order.

        A call whose prompt is dropped ends as if the person had cancelled that prompt, any other
        one with its tool's `cancellation_response`.
        """
        self._stopping = True
        running = list(self._tasks)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=STOP_GRACE)
        while not self._events.empty():  # ends that came before the cancellation still count
            self._events.get_nowait()()
        while self._active is not None:
            dropped, self._active = self._active, None
            dropped.settle(NotAnswered("interrupted"))
            self._show_next()
        for inquiry_id, (call, question) in list(self._open.items()):
            end = cancelled(inquiry_id, "user", end="interrupted")
            self._close(call, question, end)
        for call in self._calls:
            if call.response is None:
                text = call.tool.cancellation_response if call.tool else CANCELLED_BY_USER
                self._finish(call, text, is_error=False)
        return [call.response for call in self._calls if call.response is not None]

    def _spawn(self, work: Coroutine[Any, Any, Callable[[], None]]) -> None:
        """Run `work` beside the loop; what it returns is handled in the loop."""
        if self._stopping:
            work.close()
            return

        async def run() -> None:
            self._events.put_nowait(await work)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- one call ----------------------------------------------------------------------------

    def _begin(self, call: Call) -> None:
        call.started = monotonic()
        tool = call.tool
        if tool is not None:
            given = copy.deepcopy(call.request.arguments)  # the record's own is nobody else's
            call.arguments = coerce_arguments(given, tool.definition.parameters)
        if tool is None:
            self._finish(call, UNAVAILABLE.format(call.request.name), is_error=True)
        elif call.bad_arguments is not None:
            self._finish(call, call.bad_arguments, is_error=True)
        elif tool.run == "skip":
            self._finish(call, "Tool skipped by user.", is_error=False)
        elif tool.run == "ask":
            self._ask_permission(call, tool)
        else:
            self._start(call, tool)

    def _start(self, call: Call, tool: OfferedTool) -> None:
        request = call.request
        self._display(ToolBegins(request.id, request.name, call.arguments, tool.hidden))
        self._run_again(call, tool)

    def _run_again(self, call: Call, tool: OfferedTool) -> None:
        self._spawn(self._execute(call, tool))

    async def _execute(self, call: Call, tool: OfferedTool) -> Callable[[], None]:
        context = ToolContext(
            name=tool.name,
            call_id=call.request.id,
            answers=dict(call.answers),
            options=tool.options,
            **self._context,  # type: ignore[arg-type]  # its keys are texts
        )
        try:
            arguments = copy.deepcopy(call.arguments)  # a run may change what it gets
            outcome = await tool.executor.run(arguments, context, self._cell)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            outcome = Failure("The tool cancelled itself.")
        except ToolError as exc:
            outcome = Failure(str(exc))
        except BaseException as exc:
            if isinstance(exc.__cause__, KeyboardInterrupt):  # the cell was interrupted
                text = tool.cancellation_response
                return lambda: self._finish(call, text, is_error=False)
            # SystemExit and KeyboardInterrupt out of a task would end the agent's loop.
            outcome = Failure(_summary(exc))
            call.traceback = _traceback(exc)
        return lambda: self._settle_run(call, tool, outcome)

    def _settle_run(self, call: Call, tool: OfferedTool, outcome: Outcome) -> None:
        match outcome:
            case Success() if outcome.config is not None or outcome.unset:
                text = f"{tool.name} proposed a configuration change, which no tool may do here."
                self._finish(call, text, is_error=True)
            case Success(content=content):
                self._deliver(call, tool, content, is_error=False)
            case Failure(message=message, trace=trace):
                text = "\n".join([message, "", "Trace:", *trace]) if trace else message
                self._deliver(call, tool, text, is_error=True)
            case NeedsInput(question=question):
                self._ask(call, tool, question)
            case _:
                assert_never(outcome)

    def _finish(self, call: Call, content: str, *, is_error: bool) -> None:
        call.response = ToolCallResponse(id=call.request.id, content=content, is_error=is_error)
        hidden = call.tool is not None and call.tool.hidden
        self._display(
            ToolEnds(
                call_id=call.request.id,
                name=call.request.name,
                content=content,
                is_error=is_error,
                seconds=monotonic() - call.started,
                hidden=hidden,
                traceback=call.traceback,
            )
        )

    # --- prompts: one at a time, first come first served -------------------------------------

    def _enqueue(self, waiting: _Waiting) -> None:
        self._prompts.append(waiting)
        self._show_next()

    def _show_next(self) -> None:
        while self._prompts and self._active is None:
            waiting = self._prompts.popleft()
            if waiting.skip():
                continue
            self._active = waiting
            self._spawn(self._prompt(waiting))

    async def _prompt(self, waiting: _Waiting) -> Callable[[], None]:
        try:
            end = await self._prompter.ask(waiting.prompt)
        except Exception as exc:
            log.exception("A prompt failed")
            end = NobodyThere(f"the prompt failed: {_summary(exc)}")

        def settle() -> None:
            self._active = None
            waiting.settle(end)
            self._show_next()

        return settle

    # --- permission and delivery -------------------------------------------------------------

    def _ask_permission(self, call: Call, tool: OfferedTool) -> None:
        nobody = self._prompter.nobody()
        if nobody is not None:
            self._refuse_for_want_of_a_person(call, tool, "run", nobody)
            return
        arguments = json.dumps(call.arguments, ensure_ascii=False, indent=2)
        prompt = ActionPrompt(
            text=f"Run {SOURCES.get(tool.kind, tool.kind)} {tool.name} tool?",
            actions=PERMISSION,
            tool=tool.name,
            detail=arguments if call.arguments else None,
        )
        self._enqueue(
            _Waiting(
                prompt,
                settle=lambda end: self._settle_permission(call, tool, end),
                skip=lambda: self._use_remembered_permission(call, tool),
            )
        )

    def _use_remembered_permission(self, call: Call, tool: OfferedTool) -> bool:
        remembered = self._state.permissions.get(tool.name)
        if remembered is None:
            return False
        if remembered:
            self._start(call, tool)
        else:
            self._finish(call, "Tool skipped by user (remembered).", is_error=False)
        return True

    def _settle_permission(self, call: Call, tool: OfferedTool, end: PromptEnd) -> None:
        if isinstance(end, NobodyThere):
            self._refuse_for_want_of_a_person(call, tool, "run", end)
            return
        decision = end.value if isinstance(end, Answered) else "skip"
        if decision in ("run_turn", "skip_turn"):
            self._state.permissions[tool.name] = decision == "run_turn"
        if decision in ("run", "run_turn"):
            self._start(call, tool)
        else:
            self._finish(call, "Tool skipped by user.", is_error=False)

    def _refuse_for_want_of_a_person(
        self, call: Call, tool: OfferedTool, setting: str, nobody: NobodyThere
    ) -> None:
        self.unavailable = nobody.reason
        text = (
            f"{tool.name} needs a person's decision and nobody can be asked: {nobody.reason}. The "
            f'owner may set conversation.tools.{tool.name}.{setting} = "unattended". Do not retry '
            "this tool call in this turn."
        )
        self._finish(call, text, is_error=True)

    def _deliver(self, call: Call, tool: OfferedTool, content: str, *, is_error: bool) -> None:
        if tool.result == "skip":
            self._finish(call, "Result delivery skipped by configuration.", is_error=False)
        elif tool.result == "unattended":
            self._finish(call, content, is_error=is_error)
        else:
            self._ask_delivery(call, tool, content, is_error)

    def _ask_delivery(self, call: Call, tool: OfferedTool, content: str, is_error: bool) -> None:
        def settle(end: PromptEnd) -> None:
            if isinstance(end, NobodyThere):
                self._refuse_for_want_of_a_person(call, tool, "result", end)
            elif isinstance(end, Answered) and end.value == "deliver":
                self._finish(call, content, is_error=is_error)
            else:
                self._finish(call, "Result delivery skipped by user.", is_error=False)

        nobody = self._prompter.nobody()
        if nobody is not None:
            settle(nobody)
            return
        prompt = ActionPrompt(
            text=f"Deliver {tool.name} result to assistant?",
            actions=DELIVERY,
            tool=tool.name,
            detail=content,
            default="deliver",
        )
        self._enqueue(_Waiting(prompt, settle=settle, skip=lambda: False))

    # --- questions ---------------------------------------------------------------------------

    def _ask(self, call: Call, tool: OfferedTool, question: Question) -> None:
        inquiry_id = self._state.inquiry_id(call.request.id, question.id)
        source = tool.executor.inquiry_source(tool.name)
        self._record(inquiry_request(inquiry_id, source, question))
        self._open[inquiry_id] = call, question
        self._route(call, tool, question, inquiry_id, self._prompter.nobody())

    def _route(
        self,
        call: Call,
        tool: OfferedTool,
        question: Question,
        inquiry_id: str,
        nobody: NobodyThere | None,
    ) -> None:
        config = tool.questions.get(question.id)
        way = route(
            tool.name,
            question,
            config,
            remembered=self._state.remembered(tool.name, question),
            nobody=nobody is not None,
        )
        match way:
            case UseAnswer(answer=answer, channel=channel):
                self._close(call, question, answered(inquiry_id, question, answer, channel))
                self._answer(call, tool, question, answer)
            case Refuse(text=text, reason=reason):
                end = "unavailable" if reason == "no_prompt_backend" else None
                if nobody is not None and end:
                    self.unavailable = nobody.reason
                self._close(call, question, cancelled(inquiry_id, reason, end=end))
                self._finish(call, text, is_error=True)
            case AskModel():
                if nobody is not None:
                    self.unavailable = nobody.reason
                self._close(call, question, cancelled(inquiry_id, "backend_error"))
                error = INQUIRY_FAILED.format(
                    tool=tool.name, text=question.text, error=NO_INQUIRY_BACKEND
                )
                self._finish(call, error, is_error=True)
            case AskPerson():
                self._prompt_for(call, tool, question, inquiry_id)
            case _:
                assert_never(way)

    def _prompt_for(
        self, call: Call, tool: OfferedTool, question: Question, inquiry_id: str
    ) -> None:
        config = tool.questions.get(question.id)
        prompt = QuestionPrompt(
            question,
            label=config.prompt_label if config else None,
            tool=None if tool.hidden else tool.name,
            remember=isinstance(question.answer_type, BooleanAnswer) and reusable(question),
        )

        def use_remembered() -> bool:
            answer = self._state.remembered(tool.name, question)
            if answer is None:
                return False
            self._close(call, question, answered(inquiry_id, question, answer, "remembered"))
            self._answer(call, tool, question, answer)
            return True

        def settle(end: PromptEnd) -> None:
            if isinstance(end, NobodyThere):
                self._route(call, tool, question, inquiry_id, end)
                return
            self._close(call, question, closing(inquiry_id, question, end))
            match end:
                case Answered(value=value, remember=remember):
                    if remember and prompt.remember:
                        self._state.remember(tool.name, question, value)
                    self._answer(call, tool, question, value)
                case NotAnswered():
                    self._finish(call, CANCELLED_BY_USER, is_error=False)
                case _:
                    assert_never(end)

        self._enqueue(_Waiting(prompt, settle=settle, skip=use_remembered))

    def _answer(self, call: Call, tool: OfferedTool, question: Question, answer: JsonValue) -> None:
        call.answers[question.id] = answer
        self._run_again(call, tool)

    def _close(self, call: Call, question: Question, entry: InquiryResponse) -> None:
        self._open.pop(entry.id, None)
        self._record(entry)
        end, channel = entry.metadata.get("end"), entry.metadata.get("channel")
        config = call.tool.questions.get(question.id) if call.tool else None
        self._display(
            QuestionEnds(
                call_id=call.request.id,
                tool=call.request.name,
                question=question,
                outcome=entry.outcome,
                answer=entry.answer,
                reason=entry.reason,
                end=end if isinstance(end, str) else None,
                channel=channel if isinstance(channel, str) else None,
                label=config.prompt_label if config else None,
            )
        )


def _summary(exc: BaseException) -> str:
    """Type and text of `exc`, whatever its own code makes of that."""
    try:
        text = str(exc)
    except Exception:
        text = ""
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def _traceback(exc: BaseException) -> str:
    """The traceback of `exc` from the first frame that is the tool's."""
    frame = exc.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(MACHINERY):
        frame = frame.tb_next
    return "".join(traceback.format_exception(type(exc), exc, frame))
