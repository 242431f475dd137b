"""Questions of a tool: select who answers, ask, and record the answer.

Source: `docs/turns.md`, `docs/record.md`, `docs/answers.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, assert_never, get_args

from pydantic import JsonValue

from jp_nb.agent.display import Display, QuestionEnds, UserMessage, Waits
from jp_nb.agent.inquiry import InquiryBackend, InquiryError, ModelInquiry
from jp_nb.agent.prompts import (
    ANSWERS,
    NOTHING_PREPARED,
    Answered,
    Ask,
    Channel,
    DeclinedByFile,
    FormEnd,
    FormPrompt,
    FormPromptEnd,
    GivenAnswer,
    InvalidAnswer,
    Mark,
    NotAnswered,
    OpenDecision,
    PreparedAnswers,
    PreparedDecision,
    PromptEnd,
    Prompter,
    PromptEvent,
    Prompts,
    QuestionPrompt,
    Spawn,
    Unavailable,
    apply_timeout_default,
    ask_form,
    needs_form,
)
from jp_nb.agent.provider import Usage
from jp_nb.agent.recording import RecordedResult
from jp_nb.agent.tokens import UsageCounter
from jp_nb.agent.tool_call import Call, CallCallbacks
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.tree.app import Interrupt as InterruptConfig
from jp_nb.config.tree.tools import QuestionConfig
from jp_nb.json_values import sorted_json
from jp_nb.record.context import RequestContext
from jp_nb.record.events import (
    BY,
    CancelReason,
    InquiryAnswerType,
    InquiryEntry,
    InquiryQuestion,
    InquiryRequest,
    InquiryResponse,
    InquirySource,
    answer_marks,
    recorded_by,
)
from jp_nb.record.marks import ModelUsage, with_usage
from jp_nb.tools.answer_types import Misfit
from jp_nb.tools.base import QuestionEnd, QuestionEndKind, is_cancelled
from jp_nb.tools.outcome import NeedsInput
from jp_nb.tools.question import Question
from jp_nb.tools.secrets import SecretAnswers


@dataclass(frozen=True, slots=True)
class UseAnswer:
    """The answer is known, and nobody is asked.

    `channel` says from where; None for the automatic answer of an optional question: nobody is
    there to decide.
    """

    answer: JsonValue
    channel: str | None


@dataclass(frozen=True, slots=True)
class LeaveOpen:
    """Nobody is there to answer, and nobody has to."""


@dataclass(frozen=True, slots=True)
class Decline:
    """Nobody is asked: it was said beforehand that there is no answer."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Nobody may answer; the call ends with the error `text`.

    `open` says why nobody decided: nobody is there, or what was prepared is no answer; None if it
    is refused whoever is there.
    """

    text: str
    reason: CancelReason
    open: str | None = None


@dataclass(frozen=True, slots=True)
class PromptUser:
    """A person is asked."""


@dataclass(frozen=True, slots=True)
class AskModel:
    """A model is asked."""


Route = UseAnswer | LeaveOpen | Decline | Refuse | PromptUser | AskModel


def route(
    tool: str,
    question: Question,
    config: QuestionConfig | None,
    *,
    remembered: JsonValue,
    unavailable_reason: str | None,
    prepared: PreparedDecision | None = None,
) -> Route:
    """Return who answers `question` of `tool`, by the order of precedence in `docs/turns.md`.

    Args:
        tool: Name of the tool, for messages alone.
        question: What it asks.
        config: What the user configured for that question.
        remembered: A fitting answer of this turn, or None.
        unavailable_reason: None if a user may be available.
        prepared: What was said beforehand in the place of a person.
    """
    config = config or QuestionConfig()
    if config.answer is not None:
        return _configured(tool, question, config.answer)
    if prepared is not None:
        return _beforehand(tool, prepared)
    if remembered is not None:
        return UseAnswer(remembered, "remembered")
    if config.is_answered_by_model:
        if question.human_only:
            return Refuse(
                f"{tool} requires a human answer and cannot be routed to the assistant. Do not "
                "retry this tool call in this turn.",
                "assistant_routing_denied",
            )
        return AskModel()
    return (
        PromptUser()
        if unavailable_reason is None
        else _without_person(tool, question, unavailable_reason)
    )


def _beforehand(tool: str, prepared: PreparedDecision) -> Route:
    match prepared:
        case GivenAnswer(value=value):
            return UseAnswer(value, ANSWERS)
        case DeclinedByFile():
            return Decline()
        case InvalidAnswer(why=why):
            return Refuse(f"{tool}: {why}. Do not retry.", "invalid_static_answer", why)
        case _:
            assert_never(prepared)


def _without_person(tool: str, question: Question, unavailable_reason: str) -> Route:
    if question.may_stay_open:
        automatic = question.automatic
        return LeaveOpen() if automatic is None else UseAnswer(automatic, None)
    if question.human_only:
        return Refuse(no_user_error(tool), "no_prompt_backend", unavailable_reason)
    return AskModel()


def no_user_error(tool: str) -> str:
    """Return the error that the model reads if `tool` needs a user and none is available.

    Source: RFD 083, which fixes the words.
    """
    return (
        f"{tool} cannot run because no interactive terminal is available. Do not retry this tool "
        "call in this turn; continue without user input or explain what information is missing."
    )


def _configured(tool: str, question: Question, configured: JsonValue) -> Route:
    answer = question.answer_type.normalized(configured)
    misfit = question.misfit(answer)
    if misfit is None:
        return UseAnswer(answer, "configured")
    why = question.answer_type.format_problem(answer)
    return Refuse(_bad_static(tool, question.id, misfit, why), "invalid_static_answer")


def _bad_static(tool: str, question_id: str, misfit: Misfit, why: str) -> str:
    what = {
        "type": "does not match the question's answer_type",
        "option": "is not one of the question's options",
        "value": f"does not fit: {why}",
    }[misfit]
    return (
        f"{tool}: the configured conversation.tools.{tool}.questions.{question_id}.answer value "
        f"{what}. Update the configuration; do not retry."
    )


CANCELLED_BY_USER = "Tool input cancelled by user."
STOPPED_BY_USER = "The user stopped the turn and cancelled the questions."
REASON_NOT_ANSWERED: Mapping[str, str] = {
    "declined": "Tool input declined by user.",
    "cancelled": CANCELLED_BY_USER,
    "timed_out": "The tool's question was not answered in time.",
    "interrupted": "The tool's question was not answered: an interrupt closed it.",
}
"""What the model is told of a call whose question got no answer, by how the prompt ended."""


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """An answer that the same question of the same call had before.

    Attributes:
        question: What was asked, as it is recorded: it is an answer to that alone.
        channel: Where it was from: a tool that runs again is told the same.
    """

    question: InquiryQuestion
    answer: JsonValue
    channel: str | None = None


@dataclass(slots=True)
class TurnState:
    """Answers and decisions that count for the rest of a turn, and are never stored.

    Attributes:
        answers: Remembered answers by `<tool>.<question id>`.
        permissions: Remembered permission decisions by tool and arguments, each with the tool that
            it was about. "" stands for all arguments.
        attempts: How often a question of a tool call was asked, by `<call>.<question>`.
        secrets: What tools may not repeat; of the whole session.
        images: How many the turn shows, those included that somebody is still asked about.
        recorded: Answers that count before all others, by the id of the inquiry.
        prepared: What was decided before anybody asked; longer than a turn.
    """

    answers: dict[str, JsonValue] = field(default_factory=dict)
    permissions: dict[tuple[str, str], tuple[OfferedTool, bool]] = field(default_factory=dict)
    attempts: Counter[str] = field(default_factory=Counter)
    secrets: SecretAnswers = field(default_factory=SecretAnswers)
    images: int = 0
    recorded: Mapping[str, RecordedAnswer] = field(default_factory=dict)
    prepared: PreparedAnswers = NOTHING_PREPARED

    def permission(self, tool: OfferedTool, arguments: Mapping[str, JsonValue]) -> bool | None:
        """Return the remembered decision about a call of `tool` as it is now; None if none is."""
        for covered in ("", sorted_json(dict(arguments))):
            about, decided = self.permissions.get((tool.name, covered), (None, None))
            if about == tool:
                return decided
        return None

    def remember_permission(
        self, tool: OfferedTool, arguments: Mapping[str, JsonValue], *, runs: bool
    ) -> None:
        """Reuse a decision about a call for the rest of the turn.

        Permission covers the arguments that the user saw if these are what runs. A refusal covers
        the tool.
        """
        covered = sorted_json(dict(arguments)) if runs and tool.covers == "arguments" else ""
        self.permissions[tool.name, covered] = (tool, runs)

    def inquiry_id(self, call_id: str, question_id: str) -> str:
        """Return a new `<call>.<question>.<attempt>`, unique in the turn."""
        asked = f"{call_id}.{question_id}"  # of any dots: one text, one count
        self.attempts[asked] += 1
        return f"{asked}.{self.attempts[asked]}"

    def remembered(self, tool: str, question: Question) -> JsonValue:
        """Return the remembered answer to `question`; None if none fits or may be used."""
        if not is_reusable(question):
            return None
        answer = self.answers.get(f"{tool}.{question.id}")
        return None if answer is None or question.misfit(answer) else answer

    def repeated(self, inquiry_id: str, question: Question) -> UseAnswer | None:
        """Return the recorded answer, if it is one to `question` as it is now."""
        found = self.recorded.get(inquiry_id)
        if found is None or found.question != recorded_question(question):
            return None
        return None if question.misfit(found.answer) else UseAnswer(found.answer, found.channel)

    def remember(self, tool: str, question: Question, answer: JsonValue) -> None:
        """Reuse `answer` for the rest of the turn, if `question` allows it."""
        if is_reusable(question):
            self.answers[f"{tool}.{question.id}"] = answer


def is_reusable(question: Question) -> bool:
    """Return True if answers of `question` may be remembered for the turn."""
    return question.persistence == "turn" and not question.answer_type.has_secret


# --- recording -------------------------------------------------------------------------------


def inquiry_request(inquiry_id: str, source: InquirySource, question: Question) -> InquiryRequest:
    """Return the entry that opens an inquiry, as the tool declared the question."""
    return InquiryRequest(id=inquiry_id, source=source, question=recorded_question(question))


def recorded_question(question: Question) -> InquiryQuestion:
    """Return `question` as a record has it."""
    return InquiryQuestion(
        text=question.text,
        answer_type=InquiryAnswerType.model_validate(question.answer_type.to_record()),
        default=None if question.answer_type.has_secret else question.default,
        context=question.context,
        exclusive=question.exclusive,
        persistence=question.persistence,
        header=question.header,
        required=question.required,
    )


def answer_entry(
    inquiry_id: str,
    question: Question,
    answer: JsonValue,
    channel: str | None,
    marks: Collection[Mark] = (),
    by: str | None = None,
) -> InquiryResponse:
    """Return the entry that closes an inquiry with an answer; a secret is redacted."""
    metadata = _about("answered", channel, by)
    metadata |= dict.fromkeys(sorted(marks), True)
    if question.answer_type.secret:
        return InquiryResponse(id=inquiry_id, outcome="redacted", metadata=metadata)
    kept = question.answer_type.redacted(answer)
    return InquiryResponse(id=inquiry_id, outcome="answered", answer=kept, metadata=metadata)


def cancellation_entry(
    inquiry_id: str,
    reason: CancelReason,
    *,
    end: str | None = None,
    channel: str | None = None,
    by: str | None = None,
) -> InquiryResponse:
    """Return the entry that closes an inquiry without an answer."""
    metadata = _about(end, channel, by)
    return InquiryResponse(id=inquiry_id, outcome="cancelled", reason=reason, metadata=metadata)


def _about(end: str | None, channel: str | None, by: str | None) -> dict[str, JsonValue]:
    known = {"end": end, "channel": channel, BY: by}
    return {key: said for key, said in known.items() if said is not None}


def marks_of(entry: InquiryResponse) -> frozenset[Mark]:
    """Return what is remarkable about an answer, as its entry has it."""
    return frozenset(answer_marks(entry.metadata))


def question_end(entry: InquiryResponse) -> QuestionEnd:
    """Return what a tool is told of the end of its question."""
    ends: tuple[QuestionEndKind, ...] = get_args(QuestionEndKind)
    known = [one for one in ends if one == entry.metadata.get("end")]
    channel = entry.metadata.get("channel")
    return QuestionEnd(
        known[0] if known else "cancelled",
        channel if isinstance(channel, str) else None,
        **dict.fromkeys(marks_of(entry), True),
    )


def closing_entry(
    inquiry_id: str, question: Question, end: Answered | NotAnswered
) -> InquiryResponse:
    """Return the entry for the way that a person's turn at a question ended."""
    if isinstance(end, NotAnswered):
        return cancellation_entry(inquiry_id, "user", end=end.end, channel=end.channel, by=end.by)
    return answer_entry(inquiry_id, question, end.value, end.channel, end.marks, end.by)


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

    thread: RequestContext
    inquiry: InquiryBackend | None = None
    catalog: Mapping[str, str] = field(default_factory=dict)
    interrupts: InterruptConfig = field(default_factory=InterruptConfig)
    basis: ConfigSnapshot = field(default_factory=ConfigSnapshot)
    tokens: UsageCounter = field(default_factory=UsageCounter)
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


class ToolQuestions:
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
        prompts: Prompts,
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
        self._route(asked, asked.rounds, self._prompter.unavailable())

    def drop(self, end: Literal["cancelled", "interrupted"]) -> None:
        """Close what is open with that `end`: the calls that asked were cut."""
        for each in list(self._open.values()):
            each.asked.over = True
            self._close(each, cancellation_entry(each.id, "user", end=end))

    def _route(
        self, asked: _CallQuestions, rounds: list[_Round], unavailable: Unavailable | None
    ) -> None:
        """Have each of `rounds` answered by whoever is to; those of the person are one prompt."""
        ways = [(each, self._way(each, unavailable)) for each in rounds]
        refused = [(each, way) for each, way in ways if isinstance(way, Refuse)]
        if refused:  # before anything is taken for an answer
            self._refuse(asked, refused)
            return
        for each, way in ways:
            self._go(each, way)
            if asked.over:
                return
        for each in asked.for_models:
            self._spawn(partial(self._inquire, each, unavailable))
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
                self._close(
                    each, cancellation_entry(each.id, "no_prompt_backend", end="unavailable")
                )
                self._count(each)
            case Decline():
                self._decline(each)
            case AskModel():
                each.asked.for_models.append(each)
            case PromptUser():
                each.asked.for_person.append(each)

    def _way(self, each: _Round, unavailable: Unavailable | None) -> Route:
        tool = each.tool
        repeated = self._state.repeated(each.id, each.question)
        each.repeated = repeated is not None
        return repeated or route(
            tool.name,
            each.question,
            tool.questions.get(each.question.id),
            remembered=self._state.remembered(tool.name, each.question),
            unavailable_reason=None if unavailable is None else unavailable.reason,
            prepared=self._state.prepared.answer(tool.name, each.question),
        )

    def _note_open(self, each: _Round, why: str) -> None:
        decision = OpenDecision("question", each.tool.name, why, each.question)
        self._state.prepared.note_open(decision)

    def _decline(self, each: _Round) -> None:
        """Take that there is no answer, as somebody said beforehand."""
        asked = each.asked
        self._close(each, cancellation_entry(each.id, "user", end="declined", channel=ANSWERS))
        self._count(each)
        if each.question.required and not asked.needs.partial and not asked.over:
            self._fail(asked, REASON_NOT_ANSWERED["declined"], "user", end="declined", skipped=True)

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
                self._calls.note_unavailable(way.open)
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
                self._close(each, cancellation_entry(each.id, reason, end=end))
        self._calls.finish(asked.call, text, is_error=not skipped, skipped=skipped)

    def _settle(self, each: _Round, answer: JsonValue, channel: str | None) -> None:
        """Take an answer that no person gave."""
        marks: tuple[Mark, ...] = ("auto",) if channel is None else ()
        self._answer(each, answer, answer_entry(each.id, each.question, answer, channel, marks))
        self._count(each)

    def _count(self, each: _Round) -> None:
        """Count a question that ended with no person near; end a call that goes on asking it."""
        call, question_id = each.call, each.question.id
        call.automatic_answer_counts[question_id] += 1
        if call.automatic_answer_counts[question_id] >= MAX_UNASKED and not each.asked.over:
            text = ASKS_FOREVER.format(each.tool.name, question_id, MAX_UNASKED)
            self._fail(each.asked, text, "backend_error")

    def _answer(self, each: _Round, answer: JsonValue, entry: InquiryResponse) -> None:
        self._close(each, entry)
        each.answer = answer
        self._state.secrets.add_answer(each.question, answer)

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
                text = REASON_NOT_ANSWERED.get(each.end.end, CANCELLED_BY_USER)
                self._calls.finish(call, text, skipped=True)
                return
            if is_answered or not partial_:
                call.answers[question.id] = each.answer
            call.question_ends[question.id] = each.end
        self._calls.run(call, asked.tool)

    # --- a model answers ---------------------------------------------------------------------

    async def _inquire(self, each: _Round, unavailable: Unavailable | None) -> PromptEvent:
        """Let a model answer; `unavailable` says why no user could."""
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
        return lambda: self._not_inquired(each, problem, unavailable)

    def _spent(self, each: _Round, model: str, usage: Usage) -> None:
        tokens = each.asked.batch.tokens.count(usage)
        each.used = ModelUsage(model, each.used.tokens + tokens)

    def _inquired(self, each: _Round, answer: JsonValue) -> None:
        if not each.asked.over:
            each.asked.for_models.remove(each)
            self._settle(each, answer, "model")
            self._advance(each.asked)

    def _not_inquired(self, each: _Round, problem: str, unavailable: Unavailable | None) -> None:
        if each.asked.over:
            return
        if unavailable is not None:
            self._calls.note_unavailable(unavailable.reason)
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
                    self._display(UserMessage(asked.call.reply))
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
            self._take(each, apply_timeout_default(each.question, end))
        takes_it = asked.needs.partial and end.end != "interrupted"
        if takes_it or end.end == "timed_out":
            self._advance(asked)
            return
        asked.over = True
        self._calls.finish(asked.call, REASON_NOT_ANSWERED[end.end], skipped=True)

    def _take(self, each: _Round, end: Answered | NotAnswered) -> None:
        entry = closing_entry(each.id, each.question, end)
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
            stopped = cancellation_entry(each.id, "user", end="cancelled", channel=channel, by=by)
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
                by=recorded_by(entry.metadata),
            )
        )


def _rememberable(question: Question) -> bool:
    return question.answer_type.rememberable and is_reusable(question)


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
