"""Questions of tools: recorded first, then routed, put to somebody, and closed.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, Protocol, assert_never

from pydantic import JsonValue

from jp_nb.agent.calls import Call, EndCallbacks
from jp_nb.agent.display_events import Display, PersonSays, QuestionEnds, Waits
from jp_nb.agent.model_events import Usage
from jp_nb.agent.model_inquiry import InquiryBackend, InquiryError, ModelInquiry
from jp_nb.agent.prepared_answers import ANSWERS, OpenDecision
from jp_nb.agent.prompt_queue import Ask, Dialogues, Event, Spawn, ask_form
from jp_nb.agent.prompts import (
    Answered,
    Channel,
    FormEnd,
    FormPrompt,
    FormPromptEnd,
    Mark,
    NotAnswered,
    PromptEnd,
    Prompter,
    QuestionPrompt,
    Unavailable,
    chosen_late,
    needs_form,
)
from jp_nb.agent.questions import (
    CANCELLED_BY_USER,
    NOT_ANSWERED,
    STOPPED_BY_USER,
    TurnState,
    answered,
    cancelled,
    closing,
    inquiry_request,
    marks_of,
    question_end,
    reusable,
)
from jp_nb.agent.recorded_results import RecordedResult
from jp_nb.agent.routes import (
    AskModel,
    AskPerson,
    Decline,
    LeaveOpen,
    Refuse,
    Route,
    UseAnswer,
    route,
)
from jp_nb.agent.token_count import TokenCount
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.tree.style_config import Interrupt as InterruptConfig
from jp_nb.record.events import CancelReason, InquiryEntry, InquiryResponse
from jp_nb.record.inquiry_events import who_in
from jp_nb.record.thread import Thread
from jp_nb.record.usage import ModelUsage, with_usage
from jp_nb.tooling.context import QuestionEnd
from jp_nb.tooling.faults import is_cancelled
from jp_nb.tooling.outcome import NeedsInput
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
    "{} asked the question '{}' {} times and got an outcome each time, but it does "
    "not use the outcome. Do not retry this tool call in this turn."
)
ASSISTANT = "Assistant"
"""Stands above questions that the model asks through a tool."""
NOBODY_HAS_TO = "the question is optional, and no user was available"
NO_INQUIRY_BACKEND = "No model is available to answer the question"
NO_TOKENS_LEFT = "The turn has reached its token limit"
NONE_USED: Final = ModelUsage("")


@dataclass(frozen=True, slots=True)
class BatchContext:
    """The circumstances that the calls of one batch have in common.

    Attributes:
        thread: What a provider sees of the conversation, for questions that a model answers.
        inquiry: Asks a model; None if there is none.
        catalog: Documentation of the tools on offer, by name.
        interrupts: What an interrupt does.
        basis: The configuration with which the batch begins.
        tokens: Counts those of the turn.
        results: The results of the calls, in their order, if they are known: then no tool runs.
    """

    thread: Thread
    inquiry: InquiryBackend | None = None
    catalog: Mapping[str, str] = field(default_factory=dict)
    interrupts: InterruptConfig = field(default_factory=InterruptConfig)
    basis: ConfigSnapshot = field(default_factory=ConfigSnapshot)
    tokens: TokenCount = field(default_factory=TokenCount)
    results: Sequence[RecordedResult] | None = None


@dataclass(slots=True, eq=False)
class _CallQuestions:
    """The questions of one run of a call's tool, on their way to an end.

    Models answer first: a model that fails ends the call before a person takes the trouble.

    Attributes:
        label: Who asks, where nothing else is configured; None: the tool.
        for_models: Those that models are thinking about.
        for_person: Those that the person is asked after that.
        over: True once the call goes on without those that are open.
    """

    call: Call
    tool: OfferedTool
    needs: NeedsInput
    batch: BatchContext
    label: str | None = None
    rounds: list[_Round] = field(default_factory=list)
    for_models: list[_Round] = field(default_factory=list)
    for_person: list[_Round] = field(default_factory=list)
    over: bool = False


@dataclass(slots=True, eq=False)
class _Round:
    """One question, from the request to the response in the record: its `end`, None until then.

    Attributes:
        used: What the model took that was asked.
        repeated: True if its answer is the recorded one of a turn that runs again.
    """

    id: str
    asked: _CallQuestions
    question: Question
    answer: JsonValue = None
    end: QuestionEnd | None = None
    used: ModelUsage = NONE_USED
    repeated: bool = False

    @property
    def call(self) -> Call:
        return self.asked.call

    @property
    def tool(self) -> OfferedTool:
        return self.asked.tool

    @property
    def label(self) -> str | None:
        config = self.tool.questions.get(self.question.id)
        return (config.prompt_label if config else None) or self.asked.label


class CallCallbacks(EndCallbacks, Protocol):
    """Receives the calls that asked, once they are answered."""

    def run_again(self, call: Call, tool: OfferedTool) -> None:
        """Run `tool` again: `call` has all answers that it asked for."""
        ...

    def stop_turn(self) -> None:
        """End the turn as the person wishes, once what happens now is done."""
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
        when_idle: Waits, in such work, until no other is under way that does not wait so.
        state: What is remembered in this turn.
    """

    def __init__(
        self,
        calls: CallCallbacks,
        *,
        record: Callable[[InquiryEntry], None],
        display: Display,
        prompter: Prompter,
        prompts: Dialogues,
        spawn: Spawn,
        when_idle: Callable[[], Awaitable[None]],
        state: TurnState,
    ) -> None:
        self._calls = calls
        self._record = record
        self._display = display
        self._prompter = prompter
        self._prompts = prompts
        self._spawn = spawn
        self._when_idle = when_idle
        self._state = state
        self._open: dict[str, _Round] = {}

    def ask(self, call: Call, tool: OfferedTool, needs: NeedsInput, batch: BatchContext) -> None:
        """Record what `tool` asks, have all of it answered, and run the tool again."""
        source = tool.executor.inquiry_source(tool.name)
        label = ASSISTANT if source.source == "assistant" else None
        asked = _CallQuestions(call, tool, needs, batch, label)
        for question in needs.questions:
            inquiry_id = self._state.inquiry_id(call.request.id, question.id)
            self._record(inquiry_request(inquiry_id, source, question))
            asked.rounds.append(_Round(inquiry_id, asked, question))
            self._open[inquiry_id] = asked.rounds[-1]
        self._route(asked, asked.rounds, self._prompter.nobody())

    def drop(self, end: Literal["cancelled", "interrupted"]) -> None:
        """Close what is open with that `end`: the calls that asked were cut."""
        for each in list(self._open.values()):
            each.asked.over = True
            self._close(each, cancelled(each.id, "user", end=end))

    def _route(
        self, asked: _CallQuestions, rounds: list[_Round], nobody: Unavailable | None
    ) -> None:
        """Have each of `rounds` answered by whoever is to; those of the person are one prompt."""
        ways = [(each, self._way(each, nobody)) for each in rounds]
        refused = [(each, way) for each, way in ways if isinstance(way, Refuse)]
        if refused:  # before anything is taken for an answer
            self._refuse(asked, refused)
            return
        for each, way in ways:
            self._go(each, way)
            if asked.over:
                return
        for each in asked.for_models:
            self._spawn(partial(self._inquire, each, nobody))
        self._advance(asked)

    def _go(self, each: _Round, way: Route) -> None:
        """Have `each` answered that `way`, which refuses nothing."""
        match way:
            case UseAnswer(answer=answer, channel=channel):
                if channel is None:
                    self._note_open(each, NOBODY_HAS_TO)
                self._settle(each, answer, channel)
            case LeaveOpen():
                self._note_open(each, NOBODY_HAS_TO)
                self._close(each, cancelled(each.id, "no_prompt_backend", end="unavailable"))
                self._count(each)
            case Decline():
                self._decline(each)
            case AskModel():
                each.asked.for_models.append(each)
            case AskPerson():
                each.asked.for_person.append(each)

    def _way(self, each: _Round, nobody: Unavailable | None) -> Route:
        tool = each.tool
        repeated = self._state.repeated(each.id, each.question)
        each.repeated = repeated is not None
        return repeated or route(
            tool.name,
            each.question,
            tool.questions.get(each.question.id),
            remembered=self._state.remembered(tool.name, each.question),
            nobody=None if nobody is None else nobody.reason,
            prepared=self._state.prepared.answer(tool.name, each.question),
        )

    def _note_open(self, each: _Round, why: str) -> None:
        decision = OpenDecision("question", each.tool.name, why, each.question)
        self._state.prepared.left_open(decision)

    def _decline(self, each: _Round) -> None:
        """Take that there is no answer, as somebody said beforehand."""
        asked = each.asked
        self._close(each, cancelled(each.id, "user", end="declined", channel=ANSWERS))
        self._count(each)
        if each.question.required and not asked.needs.partial and not asked.over:
            self._fail(asked, NOT_ANSWERED["declined"], "user", end="declined", skipped=True)

    def _advance(self, asked: _CallQuestions) -> None:
        """Ask the person what no model answers, once these are done; then run the tool again."""
        if asked.over or asked.for_models:
            return
        if rounds := asked.for_person:
            asked.for_person = []
            self._prompt_for(asked, rounds)
        elif all(each.end is not None for each in asked.rounds):
            self._go_on(asked)

    def _refuse(self, asked: _CallQuestions, refused: list[tuple[_Round, Refuse]]) -> None:
        for each, way in refused:
            if way.open is not None:
                self._calls.nobody_decides(Unavailable(way.open))
                self._note_open(each, way.open)
        way = refused[0][1]
        end = "unavailable" if way.reason == "no_prompt_backend" else None
        self._fail(asked, way.text, way.reason, end=end)

    def _fail(
        self,
        asked: _CallQuestions,
        text: str,
        reason: CancelReason,
        *,
        end: str | None = None,
        skipped: bool = False,
    ) -> None:
        """End the call with the error `text`; what it asks beside goes unanswered, too.

        With `skipped`, somebody wanted that, and it is no error.
        """
        asked.over = True
        for each in asked.rounds:
            if each.end is None:
                self._close(each, cancelled(each.id, reason, end=end))
        self._calls.finish(asked.call, text, is_error=not skipped, skipped=skipped)

    def _settle(self, each: _Round, answer: JsonValue, channel: str | None) -> None:
        """Take an answer that no person gave."""
        marks: tuple[Mark, ...] = ("auto",) if channel is None else ()
        self._answer(each, answer, answered(each.id, each.question, answer, channel, marks))
        self._count(each)

    def _count(self, each: _Round) -> None:
        """Count a question that ended with no person near; end a call that goes on asking it."""
        call, question_id = each.call, each.question.id
        call.unasked[question_id] += 1
        if call.unasked[question_id] >= MAX_UNASKED and not each.asked.over:
            text = ASKS_FOREVER.format(each.tool.name, question_id, MAX_UNASKED)
            self._fail(each.asked, text, "backend_error")

    def _answer(self, each: _Round, answer: JsonValue, entry: InquiryResponse) -> None:
        self._close(each, entry)
        each.answer = answer
        self._state.secrets.answered(each.question, answer)

    def _go_on(self, asked: _CallQuestions) -> None:
        """Run the tool again: every question has an end."""
        for each in asked.rounds:
            if each.end is not None and (each.end.timed_out or each.end.end == "timed_out"):
                self._count(each)
        if asked.over:
            return
        asked.over = True
        partial_, call = asked.needs.partial, asked.call
        for each in asked.rounds:
            assert each.end is not None
            question, is_answered = each.question, each.end.end == "answered"
            if question.required and not is_answered and not partial_:
                text = NOT_ANSWERED.get(each.end.end, CANCELLED_BY_USER)
                self._calls.finish(call, text, skipped=True)
                return
            if is_answered or not partial_:
                call.answers[question.id] = each.answer
            call.ends[question.id] = each.end
        self._calls.run_again(call, asked.tool)

    # --- a model answers ---------------------------------------------------------------------

    async def _inquire(self, each: _Round, nobody: Unavailable | None) -> Event:
        """Let a model answer; `nobody` says why no person could."""
        batch, call = each.asked.batch, each.call
        problem = NO_INQUIRY_BACKEND
        if batch.tokens.is_over:
            problem = NO_TOKENS_LEFT
        elif batch.inquiry is not None:
            inquiry = ModelInquiry(
                each.id,
                call.request.id,
                each.tool.name,
                each.question,
                call.number,
                waits=partial(self._wait_for_model, call),
                spent=partial(self._spent, each),
                when_idle=self._when_idle,
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
                return lambda: self._inquired(each, answer)
        return lambda: self._not_inquired(each, problem, nobody)

    def _spent(self, each: _Round, model: str, usage: Usage) -> None:
        tokens = each.asked.batch.tokens.count(usage)
        each.used = ModelUsage(model, each.used.tokens + tokens)

    def _inquired(self, each: _Round, answer: JsonValue) -> None:
        if not each.asked.over:
            each.asked.for_models.remove(each)
            self._settle(each, answer, "model")
            self._advance(each.asked)

    def _not_inquired(self, each: _Round, problem: str, nobody: Unavailable | None) -> None:
        if each.asked.over:
            return
        if nobody is not None:
            self._calls.nobody_decides(nobody)
        text = INQUIRY_FAILED.format(tool=each.tool.name, text=each.question.text, error=problem)
        self._fail(each.asked, text, "backend_error")

    def _wait_for_model(
        self, call: Call, model: str, *, again: str = "", until: float | None = None
    ) -> None:
        text = f"{model}, which is answering a question of {call.title}"
        self._display(Waits(call.key, f"{text}: {again}" if again else text, until))

    # --- a person answers --------------------------------------------------------------------

    def _prompt_for(self, asked: _CallQuestions, rounds: list[_Round]) -> None:
        """Put `rounds` to the person: those that no remembered answer settles until then."""

        def use_remembered() -> bool:
            if asked.over:
                return True
            for each in self._still_open(rounds):
                answer = self._state.remembered(asked.tool.name, each.question)
                if answer is not None:
                    self._settle(each, answer, "remembered")
            if self._still_open(rounds):
                return False
            self._advance(asked)
            return True

        async def dialogue(ask: Ask) -> tuple[list[_Round], PromptEnd | FormPromptEnd]:
            shown = self._still_open(rounds)
            prompt = _prompt(asked, shown)
            if isinstance(prompt, FormPrompt):
                return shown, await ask_form(self._prompter, prompt)
            return shown, await ask(prompt)

        questions = "a question" if len(rounds) == 1 else f"{len(rounds)} questions"
        who = "the assistant" if asked.label == ASSISTANT else asked.call.title
        text = f"your answer to {questions} from {who}"
        self._display(Waits(asked.call.key, text, person=True))
        self._prompts.add(
            dialogue, settle=lambda ended: self._prompted(asked, *ended), skip=use_remembered
        )

    def _still_open(self, rounds: list[_Round]) -> list[_Round]:
        return [each for each in rounds if each.end is None]

    def _prompted(
        self, asked: _CallQuestions, rounds: list[_Round], end: PromptEnd | FormPromptEnd
    ) -> None:
        if asked.over:
            return
        match end:
            case Unavailable():
                self._route(asked, rounds, end)
                return
            case FormEnd(then="stop", ends=ends):
                self._stop(asked, ends[0].channel, ends[0].by)
                return
            case FormEnd(ends=ends):
                for each, one in zip(rounds, ends, strict=True):
                    self._take(each, one)
                asked.call.reply = end.text if end.then == "reply" else None
                if asked.call.reply is not None:
                    self._display(PersonSays(asked.call.reply))
            case NotAnswered():
                self._unanswered(asked, rounds, end)
                return
            case Answered(value=value, remember=remember):
                [each] = rounds
                if remember and _rememberable(each.question):
                    self._state.remember(asked.tool.name, each.question, value)
                self._take(each, end)
            case _:
                assert_never(end)
        self._advance(asked)

    def _unanswered(self, asked: _CallQuestions, rounds: list[_Round], end: NotAnswered) -> None:
        """Take that a prompt ended as a whole: so does the call, unless it takes what there is."""
        if end.end == "cancelled" and asked.needs.menu:
            self._stop(asked, end.channel, end.by)
            return
        for each in rounds:
            self._take(each, chosen_late(each.question, end))
        takes_it = asked.needs.partial and end.end != "interrupted"
        if takes_it or end.end == "timed_out":
            self._advance(asked)
            return
        asked.over = True
        self._calls.finish(asked.call, NOT_ANSWERED[end.end], skipped=True)

    def _take(self, each: _Round, end: Answered | NotAnswered) -> None:
        entry = closing(each.id, each.question, end)
        if isinstance(end, Answered):
            self._answer(each, end.value, entry)
        else:
            self._close(each, entry)

    def _stop(
        self, asked: _CallQuestions, channel: Channel | None = None, by: str | None = None
    ) -> None:
        """End the turn. Nothing that was not sent is an answer."""
        asked.over = True
        for each in self._still_open(asked.rounds):
            stopped = cancelled(each.id, "user", end="cancelled", channel=channel, by=by)
            self._close(each, stopped)
        self._calls.finish(asked.call, STOPPED_BY_USER, is_error=True, skipped=True)
        self._calls.stop_turn()

    def _close(self, each: _Round, entry: InquiryResponse) -> None:
        self._open.pop(entry.id, None)
        self._record(with_usage(entry, each.used))
        each.end = question_end(entry)
        end, channel = entry.metadata.get("end"), entry.metadata.get("channel")
        if each.repeated:
            channel = "recorded"
        self._display(
            QuestionEnds(
                call_id=each.call.key,
                tool=each.call.request.name,
                question=each.question,
                outcome=entry.outcome,
                answer=entry.answer,
                reason=entry.reason,
                end=end if isinstance(end, str) else None,
                channel=channel if isinstance(channel, str) else None,
                label=each.label,
                marks=marks_of(entry),
                by=who_in(entry.metadata),
            )
        )


def _rememberable(question: Question) -> bool:
    return question.answer_type.rememberable and reusable(question)


def _prompt(asked: _CallQuestions, rounds: list[_Round]) -> QuestionPrompt | FormPrompt:
    """Return one question as it is, anything else as a form."""
    needs, tool = asked.needs, asked.tool
    alone = len(needs.questions) == 1 and not (needs.partial or needs.menu)
    pages = tuple(
        QuestionPrompt(
            each.question,
            label=each.label,
            tool=None if tool.hidden else tool.name,
            remember=alone and _rememberable(each.question),
        )
        for each in rounds
    )
    if alone and not needs_form(pages[0].question):
        return pages[0]
    return FormPrompt(pages, partial=needs.partial, menu=needs.menu)
