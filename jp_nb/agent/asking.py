"""Questions of tools: recorded first, then routed, put to somebody, and closed.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, assert_never

from pydantic import JsonValue

from jp_nb.agent.calls import Call, EndCallbacks
from jp_nb.agent.display_events import Display, QuestionEnds, Waits
from jp_nb.agent.model_inquiry import InquiryBackend, InquiryError, ModelInquiry
from jp_nb.agent.prompt_queue import Dialogues, Event, Spawn
from jp_nb.agent.prompts import (
    Answered,
    NotAnswered,
    PromptEnd,
    Prompter,
    QuestionPrompt,
    Unavailable,
)
from jp_nb.agent.questions import (
    NOT_ANSWERED,
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
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.tree.style_config import Interrupt as InterruptConfig
from jp_nb.record.events import Entry, InquiryResponse
from jp_nb.record.thread import Thread
from jp_nb.tooling.faults import is_cancelled
from jp_nb.tooling.question import Question

log = logging.getLogger(__name__)

INQUIRY_FAILED = (
    "The tool '{tool}' asked a follow-up question (\"{text}\") that was routed to a secondary "
    "assistant for resolution, but the secondary assistant failed to provide a valid answer. "
    "Error: {error}. You may retry the tool call or end the turn."
)
MAX_UNASKED = 20
"""So often a call may ask one question that no person answers: then it does not read the answer."""
ASKS_FOREVER = (
    "{} asked the question '{}' {} times and was answered each time: it does not seem to take the "
    "answer. Do not retry this tool call in this turn."
)
NO_INQUIRY_BACKEND = "No inquiry backend is available"


@dataclass(frozen=True, slots=True)
class BatchContext:
    """The circumstances that the calls of one batch have in common.

    Attributes:
        thread: What a provider sees of the conversation, for questions that a model answers.
        inquiry: Asks a model; None if there is none.
        catalog: Documentation of the tools on offer, by name.
        interrupts: What an interrupt does.
        basis: The configuration with which the batch begins.
    """

    thread: Thread
    inquiry: InquiryBackend | None = None
    catalog: Mapping[str, str] = field(default_factory=dict)
    interrupts: InterruptConfig = field(default_factory=InterruptConfig)
    basis: ConfigSnapshot = field(default_factory=ConfigSnapshot)


@dataclass(frozen=True, slots=True, eq=False)
class _Round:
    """One question of one call, from the request to the response in the record.

    Attributes:
        others: Those that the call asks after this one.
    """

    id: str
    call: Call
    tool: OfferedTool
    question: Question
    others: tuple[Question, ...]
    batch: BatchContext

    @property
    def label(self) -> str | None:
        config = self.tool.questions.get(self.question.id)
        return config.prompt_label if config else None


class CallCallbacks(EndCallbacks, Protocol):
    """Receives the calls that asked, once they are answered."""

    def run_again(self, call: Call, tool: OfferedTool) -> None:
        """Run `tool` again: `call` has all answers that it asked for."""
        ...


class Asking:
    """Gets the questions of one turn's calls answered. All of it in the coordinator's loop.

    Args:
        calls: What becomes of the calls that ask.
        record: Appends an entry to the conversation.
        display: Shows what happens.
        prompter: Says if somebody is there.
        prompts: Where prompts wait.
        spawn: Runs work beside the loop; what the work returns is called in the loop.
        state: What is remembered in this turn.
    """

    def __init__(
        self,
        calls: CallCallbacks,
        *,
        record: Callable[[Entry], None],
        display: Display,
        prompter: Prompter,
        prompts: Dialogues,
        spawn: Spawn,
        state: TurnState,
    ) -> None:
        self._calls = calls
        self._record = record
        self._display = display
        self._prompter = prompter
        self._prompts = prompts
        self._spawn = spawn
        self._state = state
        self._open: dict[str, _Round] = {}

    def ask(
        self, call: Call, tool: OfferedTool, questions: tuple[Question, ...], batch: BatchContext
    ) -> None:
        """Record that `tool` asks the first of `questions`, and have it answered, then the next."""
        question, others = questions[0], questions[1:]
        inquiry_id = self._state.inquiry_id(call.request.id, question.id)
        source = tool.executor.inquiry_source(tool.name)
        self._record(inquiry_request(inquiry_id, source, question))
        asked = self._open[inquiry_id] = _Round(inquiry_id, call, tool, question, others, batch)
        self._route(asked, self._prompter.nobody())

    def drop(self) -> None:
        """Close what is open: the calls that asked were cut."""
        for asked in list(self._open.values()):
            self._close(asked, cancelled(asked.id, "user", end="interrupted"))

    def _route(self, asked: _Round, nobody: Unavailable | None) -> None:
        tool, question = asked.tool, asked.question
        way = route(
            tool.name,
            question,
            tool.questions.get(question.id),
            remembered=self._state.remembered(tool.name, question),
            nobody=nobody is not None,
        )
        match way:
            case UseAnswer(answer=answer, channel=channel):
                self._settle(asked, answer, channel)
            case Refuse(text=text, reason=reason):
                end = "unavailable" if reason == "no_prompt_backend" else None
                if nobody is not None and end:
                    self._calls.nobody_decides(nobody)
                self._close(asked, cancelled(asked.id, reason, end=end))
                self._calls.finish(asked.call, text, is_error=True)
            case AskModel():
                self._spawn(lambda: self._inquire(asked, nobody))
            case AskPerson():
                self._prompt_for(asked)
            case _:
                assert_never(way)

    def _settle(self, asked: _Round, answer: JsonValue, channel: str) -> None:
        self._close(asked, answered(asked.id, asked.question, answer, channel))
        asked.call.unasked[asked.question.id] += 1
        if asked.call.unasked[asked.question.id] >= MAX_UNASKED:
            text = ASKS_FOREVER.format(asked.tool.name, asked.question.id, MAX_UNASKED)
            self._calls.finish(asked.call, text, is_error=True)
            return
        self._go_on(asked, answer)

    def _go_on(self, asked: _Round, answer: JsonValue) -> None:
        """Ask the next question of the call, or run its tool again with one answer more."""
        asked.call.answers[asked.question.id] = answer
        secrets = self._state.secrets
        secrets.answered(asked.question, answer)
        if others := tuple(map(secrets.hide_in_question, asked.others)):
            self.ask(asked.call, asked.tool, others, asked.batch)
        else:
            self._calls.run_again(asked.call, asked.tool)

    # --- a model answers ---------------------------------------------------------------------

    async def _inquire(self, asked: _Round, nobody: Unavailable | None) -> Event:
        """Let a model answer; `nobody` says why no person could."""
        batch, call = asked.batch, asked.call
        problem = NO_INQUIRY_BACKEND
        if batch.inquiry is not None:
            inquiry = ModelInquiry(
                asked.id,
                call.request.id,
                asked.tool.name,
                asked.question,
                call.number,
                waits=partial(self._wait_for_model, call),
            )
            try:
                answer = await batch.inquiry.inquire(batch.thread, inquiry)
            except InquiryError as exc:
                problem = str(exc)
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                problem = "Inquiry cancelled"
            except Exception as exc:
                log.exception("An inquiry failed")
                problem = type(exc).__name__
            else:
                return lambda: self._settle(asked, answer, "model")
        return lambda: self._fail(asked, problem, nobody)

    def _wait_for_model(
        self, call: Call, model: str, *, again: str = "", until: float | None = None
    ) -> None:
        text = f"{model}, which answers a question of {call.title}"
        self._display(Waits(call.key, f"{text}: {again}" if again else text, until))

    def _fail(self, asked: _Round, problem: str, nobody: Unavailable | None) -> None:
        if nobody is not None:
            self._calls.nobody_decides(nobody)
        self._close(asked, cancelled(asked.id, "backend_error"))
        text = INQUIRY_FAILED.format(tool=asked.tool.name, text=asked.question.text, error=problem)
        self._calls.finish(asked.call, text, is_error=True)

    # --- a person answers --------------------------------------------------------------------

    def _prompt_for(self, asked: _Round) -> None:
        tool, question = asked.tool, asked.question
        prompt = QuestionPrompt(
            question,
            label=asked.label,
            tool=None if tool.hidden else tool.name,
            remember=question.answer_type.rememberable and reusable(question),
        )

        def use_remembered() -> bool:
            answer = self._state.remembered(tool.name, question)
            if answer is None:
                return False
            self._settle(asked, answer, "remembered")
            return True

        text = f"your answer to a question of {asked.call.title}"
        self._display(Waits(asked.call.key, text, person=True))
        self._prompts.add(
            lambda ask: ask(prompt),
            settle=lambda end: self._prompted(asked, prompt, end),
            skip=use_remembered,
        )

    def _prompted(self, asked: _Round, prompt: QuestionPrompt, end: PromptEnd) -> None:
        if isinstance(end, Unavailable):
            self._route(asked, end)
            return
        self._close(asked, closing(asked.id, asked.question, end))
        match end:
            case Answered(value=value, remember=remember):
                if remember and prompt.remember:
                    self._state.remember(asked.tool.name, asked.question, value)
                self._go_on(asked, value)
            case NotAnswered(end=how):
                self._calls.finish(asked.call, NOT_ANSWERED[how], skipped=True)
            case _:
                assert_never(end)

    def _close(self, asked: _Round, entry: InquiryResponse) -> None:
        self._open.pop(entry.id, None)
        self._record(entry)
        end, channel = entry.metadata.get("end"), entry.metadata.get("channel")
        self._display(
            QuestionEnds(
                call_id=asked.call.key,
                tool=asked.call.request.name,
                question=asked.question,
                outcome=entry.outcome,
                answer=entry.answer,
                reason=entry.reason,
                end=end if isinstance(end, str) else None,
                channel=channel if isinstance(channel, str) else None,
                label=asked.label,
            )
        )
