"""Questions of a tool: select who answers, ask, and record the answer.

Source: `docs/turns.md`, `docs/record.md`, `docs/answers.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
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
    AnyEnd,
    Channel,
    DeclinedByFile,
    FormEnd,
    FormPrompt,
    GivenAnswer,
    InvalidAnswer,
    Mark,
    NotAnswered,
    OpenDecision,
    PreparedAnswers,
    PreparedDecision,
    Prompt,
    Prompter,
    PromptEvent,
    Prompts,
    QuestionPrompt,
    SafeAsk,
    Unavailable,
    apply_timeout_default,
    needs_form,
)
from jp_nb.agent.provider import Usage
from jp_nb.agent.recording import RecordedResult
from jp_nb.agent.tasks import BatchEvents
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
    Entry,
    InquiryAnswerType,
    InquiryEntry,
    InquiryQuestion,
    InquiryRequest,
    InquiryResponse,
    InquirySource,
    answer_marks,
    recorded_by,
)
from jp_nb.record.journal import CallStage
from jp_nb.record.marks import ModelUsage, with_usage
from jp_nb.tools.answer_types import Misfit
from jp_nb.tools.base import CellThread, QuestionEnd, QuestionEndKind, SharedContext, is_cancelled
from jp_nb.tools.outcome import NeedsInput
from jp_nb.tools.question import Question
from jp_nb.tools.secrets import SecretAnswers


@dataclass(frozen=True, slots=True)
class UseAnswer:
    """Use a known answer.

    `channel` is its source; None for the automatic answer of an optional question.
    """

    answer: JsonValue
    channel: str | None


@dataclass(frozen=True, slots=True)
class Refuse:
    """End the call with the error `text`.

    `open` is set if a user or a valid prepared answer could have helped.
    """

    text: str
    reason: CancelReason
    open: str | None = None


Route = UseAnswer | Refuse | Literal["leave_open", "decline", "user", "model"]
"""Source of the outcome of a question. `user` and `model` are asked."""


def route(
    tool: str,
    question: Question,
    config: QuestionConfig | None,
    *,
    remembered: JsonValue,
    unavailable_reason: str | None,
    prepared: PreparedDecision | None = None,
) -> Route:
    """Select who answers `question` of `tool`, by the precedence in `docs/turns.md`.

    Args:
        tool: Name of the tool, for messages.
        question: The question.
        config: Settings for the question.
        remembered: A valid answer from this turn, or None.
        unavailable_reason: None if a user may be available.
        prepared: A prepared answer in place of the user.
    """
    config = config or QuestionConfig()
    if config.answer is not None:
        return _configured_route(tool, question, config.answer)
    if prepared is not None:
        return _prepared_route(tool, prepared)
    if remembered is not None:
        return UseAnswer(remembered, "remembered")
    if config.is_answered_by_model:
        if question.human_only:
            return Refuse(
                f"{tool} requires a human answer and cannot be routed to the assistant. Do not "
                "retry this tool call in this turn.",
                "assistant_routing_denied",
            )
        return "model"
    return (
        "user"
        if unavailable_reason is None
        else _unattended_route(tool, question, unavailable_reason)
    )


def _prepared_route(tool: str, prepared: PreparedDecision) -> Route:
    match prepared:
        case GivenAnswer(value=value):
            return UseAnswer(value, ANSWERS)
        case DeclinedByFile():
            return "decline"
        case InvalidAnswer(why=why):
            return Refuse(f"{tool}: {why}. Do not retry.", "invalid_static_answer", why)
        case _:
            assert_never(prepared)


def _unattended_route(tool: str, question: Question, unavailable_reason: str) -> Route:
    if question.may_stay_open:
        automatic = question.automatic
        return "leave_open" if automatic is None else UseAnswer(automatic, None)
    if question.human_only:
        return Refuse(no_user_error(tool), "no_prompt_backend", unavailable_reason)
    return "model"


def no_user_error(tool: str) -> str:
    """Return the error for the model if `tool` needs a user and none is available.

    Source: RFD 083, which fixes the words.
    """
    return (
        f"{tool} cannot run because no interactive terminal is available. Do not retry this tool "
        "call in this turn; continue without user input or explain what information is missing."
    )


def _configured_route(tool: str, question: Question, configured: JsonValue) -> Route:
    answer = question.answer_type.normalized(configured)
    misfit = question.misfit(answer)
    if misfit is None:
        return UseAnswer(answer, "configured")
    why = question.answer_type.format_problem(answer)
    return Refuse(_invalid_answer_error(tool, question.id, misfit, why), "invalid_static_answer")


def _invalid_answer_error(tool: str, question_id: str, misfit: Misfit, why: str) -> str:
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
"""Response to a call whose question got no answer, by the outcome of the prompt."""


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """The answer to the same question of the same call, before the turn was interrupted.

    Attributes:
        question: The recorded question. The answer is valid for no other.
        channel: Source of the answer, for the tool.
    """

    question: InquiryQuestion
    answer: JsonValue
    channel: str | None = None


@dataclass(slots=True)
class TurnState:
    """Answers and decisions for the rest of a turn. They are not stored.

    Attributes:
        answers: Remembered answers by `<tool>.<question id>`.
        permissions: Remembered permissions by tool and arguments, each with its tool. "" stands for
            all arguments.
        attempts: Number of times a question was asked, by `<call>.<question>`.
        secrets: Secrets of the session, which are hidden in results.
        images: Number of images in the turn, including results that wait for delivery.
        recorded: Answers with precedence over all others, by the id of the inquiry.
        prepared: Prepared answers and decisions. They outlive the turn.
    """

    answers: dict[str, JsonValue] = field(default_factory=dict)
    permissions: dict[tuple[str, str], tuple[OfferedTool, bool]] = field(default_factory=dict)
    attempts: Counter[str] = field(default_factory=Counter)
    secrets: SecretAnswers = field(default_factory=SecretAnswers)
    images: int = 0
    recorded: Mapping[str, RecordedAnswer] = field(default_factory=dict)
    prepared: PreparedAnswers = NOTHING_PREPARED

    def permission(self, tool: OfferedTool, arguments: Mapping[str, JsonValue]) -> bool | None:
        """Return the remembered decision for `tool` with these arguments, if any."""
        for covered in ("", sorted_json(dict(arguments))):
            about, decided = self.permissions.get((tool.name, covered), (None, None))
            if about == tool:
                return decided
        return None

    def remember_permission(
        self, tool: OfferedTool, arguments: Mapping[str, JsonValue], *, runs: bool
    ) -> None:
        """Reuse a decision about a call for the rest of the turn.

        A permission covers the displayed arguments, or the tool. A refusal covers the tool.
        """
        covered = sorted_json(dict(arguments)) if runs and tool.covers == "arguments" else ""
        self.permissions[tool.name, covered] = (tool, runs)

    def inquiry_id(self, call_id: str, question_id: str) -> str:
        """Return a new id `<call>.<question>.<attempt>`, unique in the turn."""
        key = f"{call_id}.{question_id}"  # ids may contain dots: equal texts share a count
        self.attempts[key] += 1
        return f"{key}.{self.attempts[key]}"

    def remembered(self, tool: str, question: Question) -> JsonValue:
        """Return the remembered answer to `question` if it is valid, else None."""
        if not is_reusable(question):
            return None
        answer = self.answers.get(f"{tool}.{question.id}")
        return None if answer is None or question.misfit(answer) else answer

    def recorded_answer(self, inquiry_id: str, question: Question) -> UseAnswer | None:
        """Return the recorded answer if `question` has not changed."""
        found = self.recorded.get(inquiry_id)
        if found is None or found.question != recorded_question(question):
            return None
        return None if question.misfit(found.answer) else UseAnswer(found.answer, found.channel)

    def remember(self, tool: str, question: Question, answer: JsonValue) -> None:
        """Reuse `answer` for the rest of the turn, if `question` allows it."""
        if is_reusable(question):
            self.answers[f"{tool}.{question.id}"] = answer


@dataclass(frozen=True, slots=True)
class TurnContext:
    """State and ports that the tool calls of a turn share.

    Attributes:
        record: Appends an entry of an inquiry to the conversation.
        shared: The part of the tool context that is the same for all calls.
        on_tool_error: Receives the exception of a tool, for a debugger. Its traceback begins in the
            tool.
        on_progress: Stores the progress of a call in the journal, with the result of a finished
            call. It is also called on the cell's thread, when a function starts there.
    """

    record: Callable[[InquiryEntry], None]
    prompter: Prompter
    cell: CellThread
    display: Display
    state: TurnState
    shared: SharedContext = field(default_factory=SharedContext)
    on_tool_error: Callable[[Call, BaseException], None] | None = None
    on_progress: Callable[[Call, CallStage, Sequence[Entry]], None] | None = None


def is_reusable(question: Question) -> bool:
    """Return True if answers to `question` may be reused in the turn."""
    return question.persistence == "turn" and not question.answer_type.has_secret


def inquiry_request(inquiry_id: str, source: InquirySource, question: Question) -> InquiryRequest:
    """Return the entry that opens an inquiry."""
    return InquiryRequest(id=inquiry_id, source=source, question=recorded_question(question))


def recorded_question(question: Question) -> InquiryQuestion:
    """Return the form of `question` for the record, without secrets."""
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
    """Return the entry that closes an inquiry with an answer. A secret is redacted."""
    metadata = _outcome_metadata("answered", channel, by)
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
    metadata = _outcome_metadata(end, channel, by)
    return InquiryResponse(id=inquiry_id, outcome="cancelled", reason=reason, metadata=metadata)


def _outcome_metadata(end: str | None, channel: str | None, by: str | None) -> dict[str, JsonValue]:
    metadata = {"end": end, "channel": channel, BY: by}
    return {key: value for key, value in metadata.items() if value is not None}


def marks_of(entry: InquiryResponse) -> frozenset[Mark]:
    """Return the marks of an answer."""
    return frozenset(answer_marks(entry.metadata))


def question_end(entry: InquiryResponse) -> QuestionEnd:
    """Return the outcome of a question for the tool."""
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
    """Return the entry that closes an inquiry, for the outcome of a prompt."""
    if isinstance(end, NotAnswered):
        return cancellation_entry(inquiry_id, "user", end=end.end, channel=end.channel, by=end.by)
    return answer_entry(inquiry_id, question, end.value, end.channel, end.marks, end.by)


log = logging.getLogger(__name__)

INQUIRY_FAILED = (
    "The tool '{tool}' asked a follow-up question (\"{text}\") that was routed to a secondary "
    "assistant for resolution, but the secondary assistant failed to provide a valid answer. "
    "Error: {error}. You may retry the tool call or end the turn."
)
MAX_AUTOMATIC_ANSWERS = 20
"""Maximum number of automatic answers to one question of a call. Beyond, the tool ignores them."""
IGNORES_ANSWERS = (
    "{} asked the question '{}' {} times and got an outcome each time, but it does "
    "not use the outcome. Do not retry this tool call in this turn."
)
ASSISTANT = "Assistant"
"""Header of questions that the model asks through a tool."""
OPTIONAL_WITHOUT_USER = "the question is optional, and no user was available"
NO_INQUIRY_BACKEND = "No model is available to answer the question"
NO_TOKENS_LEFT = "The turn has reached its token limit"
NO_USAGE: Final = ModelUsage("")


@dataclass(frozen=True, slots=True)
class BatchContext:
    """Context of all calls of a batch.

    Attributes:
        thread: Context of the conversation, for questions that a model answers.
        inquiry: Asks a model; None if that is not possible.
        catalog: Documentation of the available tools, by name.
        interrupts: Settings for interrupts.
        basis: Configuration at the start of the batch.
        tokens: Usage of the turn.
        results: Recorded results in the order of the calls. If set, no tool runs.
    """

    thread: RequestContext
    inquiry: InquiryBackend | None = None
    catalog: Mapping[str, str] = field(default_factory=dict)
    interrupts: InterruptConfig = field(default_factory=InterruptConfig)
    basis: ConfigSnapshot = field(default_factory=ConfigSnapshot)
    tokens: UsageCounter = field(default_factory=UsageCounter)
    results: Sequence[RecordedResult] | None = None


@dataclass(slots=True, eq=False)
class _InquiryGroup:
    """Questions of one run of a tool, until each has an outcome.

    Models answer before the user, because a model that fails ends the call.

    Attributes:
        label: Header without a configured one; None: the tool.
        for_models: Questions that models are answering.
        for_user: Questions for the user, after the models.
        is_over: True once the call continues without the open questions.
    """

    call: Call
    tool: OfferedTool
    needs: NeedsInput
    batch: BatchContext
    label: str | None = None
    inquiries: list[_OpenInquiry] = field(default_factory=list)
    for_models: list[_OpenInquiry] = field(default_factory=list)
    for_user: list[_OpenInquiry] = field(default_factory=list)
    is_over: bool = False


@dataclass(slots=True, eq=False)
class _OpenInquiry:
    """One question from its request to its response in the record.

    Attributes:
        end: Outcome; None while the question is open.
        usage: Usage of the model that answered.
        is_recorded: True if the answer is the recorded one of a turn that runs again.
    """

    id: str
    group: _InquiryGroup
    question: Question
    answer: JsonValue = None
    end: QuestionEnd | None = None
    usage: ModelUsage = NO_USAGE
    is_recorded: bool = False

    @property
    def call(self) -> Call:
        return self.group.call

    @property
    def tool(self) -> OfferedTool:
        return self.group.tool

    @property
    def label(self) -> str | None:
        config = self.tool.questions.get(self.question.id)
        return (config.prompt_label if config else None) or self.group.label


class ToolQuestions:
    """Gets the questions of a turn's calls answered, in the coordinator's loop."""

    def __init__(
        self, calls: CallCallbacks, turn: TurnContext, prompts: Prompts, events: BatchEvents
    ) -> None:
        self._calls = calls
        self._turn = turn
        self._prompts = prompts
        self._events = events
        self._open: dict[str, _OpenInquiry] = {}

    def ask(self, call: Call, tool: OfferedTool, needs: NeedsInput, batch: BatchContext) -> None:
        """Record the questions of `tool`, get answers, and run the tool again."""
        source = tool.executor.inquiry_source(tool.name)
        label = ASSISTANT if source.source == "assistant" else None
        group = _InquiryGroup(call, tool, needs, batch, label)
        for question in needs.questions:
            inquiry_id = self._turn.state.inquiry_id(call.request.id, question.id)
            self._turn.record(inquiry_request(inquiry_id, source, question))
            group.inquiries.append(_OpenInquiry(inquiry_id, group, question))
            self._open[inquiry_id] = group.inquiries[-1]
        self._route_all(group, group.inquiries, self._turn.prompter.unavailable())

    def drop(self, end: Literal["cancelled", "interrupted"]) -> None:
        """Close all questions with the outcome `end`, because their calls were canceled."""
        for inquiry in list(self._open.values()):
            inquiry.group.is_over = True
            self._close(inquiry, cancellation_entry(inquiry.id, "user", end=end))

    def _route_all(
        self, group: _InquiryGroup, inquiries: list[_OpenInquiry], unavailable: Unavailable | None
    ) -> None:
        """Get answers to `inquiries`. The questions for the user are one prompt."""
        routes = [(inquiry, self._select_route(inquiry, unavailable)) for inquiry in inquiries]
        refused = [(inquiry, chosen) for inquiry, chosen in routes if isinstance(chosen, Refuse)]
        if refused:  # before any answer is used
            self._refuse(group, refused)
            return
        for inquiry, chosen in routes:
            self._apply_route(inquiry, chosen)
            if group.is_over:
                return
        for inquiry in group.for_models:
            self._events.spawn(partial(self._ask_model, inquiry, unavailable))
        self._advance(group)

    def _apply_route(self, inquiry: _OpenInquiry, chosen: Route) -> None:
        match chosen:
            case UseAnswer(answer=answer, channel=channel):
                if channel is None:
                    self._note_open(inquiry, OPTIONAL_WITHOUT_USER)
                self._use_answer(inquiry, answer, channel)
            case "leave_open":
                self._note_open(inquiry, OPTIONAL_WITHOUT_USER)
                self._close(
                    inquiry, cancellation_entry(inquiry.id, "no_prompt_backend", end="unavailable")
                )
                self._count_automatic_answer(inquiry)
            case "decline":
                self._decline(inquiry)
            case "model":
                inquiry.group.for_models.append(inquiry)
            case "user":
                inquiry.group.for_user.append(inquiry)

    def _select_route(self, inquiry: _OpenInquiry, unavailable: Unavailable | None) -> Route:
        tool = inquiry.tool
        recorded_answer = self._turn.state.recorded_answer(inquiry.id, inquiry.question)
        inquiry.is_recorded = recorded_answer is not None
        return recorded_answer or route(
            tool.name,
            inquiry.question,
            tool.questions.get(inquiry.question.id),
            remembered=self._turn.state.remembered(tool.name, inquiry.question),
            unavailable_reason=None if unavailable is None else unavailable.reason,
            prepared=self._turn.state.prepared.answer(tool.name, inquiry.question),
        )

    def _note_open(self, inquiry: _OpenInquiry, why: str) -> None:
        decision = OpenDecision("question", inquiry.tool.name, why, inquiry.question)
        self._turn.state.prepared.note_open(decision)

    def _decline(self, inquiry: _OpenInquiry) -> None:
        group = inquiry.group
        self._close(
            inquiry, cancellation_entry(inquiry.id, "user", end="declined", channel=ANSWERS)
        )
        self._count_automatic_answer(inquiry)
        if inquiry.question.required and not group.needs.partial and not group.is_over:
            self._fail(group, REASON_NOT_ANSWERED["declined"], "user", end="declined", skipped=True)

    def _advance(self, group: _InquiryGroup) -> None:
        """Prompt the user once the models are done, then run the tool again."""
        if group.is_over or group.for_models:
            return
        if inquiries := group.for_user:
            group.for_user = []
            self._queue_prompt(group, inquiries)
        elif all(inquiry.end is not None for inquiry in group.inquiries):
            self._run_tool_again(group)

    def _refuse(self, group: _InquiryGroup, refused: list[tuple[_OpenInquiry, Refuse]]) -> None:
        for inquiry, chosen in refused:
            if chosen.open is not None:
                self._calls.note_unavailable(chosen.open)
                self._note_open(inquiry, chosen.open)
        chosen = refused[0][1]
        end = "unavailable" if chosen.reason == "no_prompt_backend" else None
        self._fail(group, chosen.text, chosen.reason, end=end)

    def _fail(
        self,
        group: _InquiryGroup,
        text: str,
        reason: CancelReason,
        *,
        end: str | None = None,
        skipped: bool = False,
    ) -> None:
        """End the call with the error `text`, and close its other questions.

        `skipped` is True for a decision of the user, which is no error.
        """
        group.is_over = True
        for inquiry in group.inquiries:
            if inquiry.end is None:
                self._close(inquiry, cancellation_entry(inquiry.id, reason, end=end))
        self._calls.finish(group.call, text, is_error=not skipped, skipped=skipped)

    def _use_answer(self, inquiry: _OpenInquiry, answer: JsonValue, channel: str | None) -> None:
        """Use an answer that did not come from the user."""
        marks: tuple[Mark, ...] = ("auto",) if channel is None else ()
        self._record_answer(
            inquiry, answer, answer_entry(inquiry.id, inquiry.question, answer, channel, marks)
        )
        self._count_automatic_answer(inquiry)

    def _count_automatic_answer(self, inquiry: _OpenInquiry) -> None:
        """Count an answer without the user. End a call that ignores such answers."""
        call, question_id = inquiry.call, inquiry.question.id
        call.automatic_answer_counts[question_id] += 1
        count = call.automatic_answer_counts[question_id]
        if count >= MAX_AUTOMATIC_ANSWERS and not inquiry.group.is_over:
            text = IGNORES_ANSWERS.format(inquiry.tool.name, question_id, MAX_AUTOMATIC_ANSWERS)
            self._fail(inquiry.group, text, "backend_error")

    def _record_answer(
        self, inquiry: _OpenInquiry, answer: JsonValue, entry: InquiryResponse
    ) -> None:
        self._close(inquiry, entry)
        inquiry.answer = answer
        self._turn.state.secrets.add_answer(inquiry.question, answer)

    def _run_tool_again(self, group: _InquiryGroup) -> None:
        """Run the tool again: every question has an outcome."""
        for inquiry in group.inquiries:
            if inquiry.end is not None and (
                inquiry.end.timed_out or inquiry.end.end == "timed_out"
            ):
                self._count_automatic_answer(inquiry)
        if group.is_over:
            return
        group.is_over = True
        accepts_partial, call = group.needs.partial, group.call
        for inquiry in group.inquiries:
            assert inquiry.end is not None
            question, is_answered = inquiry.question, inquiry.end.end == "answered"
            if question.required and not is_answered and not accepts_partial:
                text = REASON_NOT_ANSWERED.get(inquiry.end.end, CANCELLED_BY_USER)
                self._calls.finish(call, text, skipped=True)
                return
            if is_answered or not accepts_partial:
                call.answers[question.id] = inquiry.answer
            call.question_ends[question.id] = inquiry.end
        self._calls.run(call, group.tool)

    async def _ask_model(
        self, inquiry: _OpenInquiry, unavailable: Unavailable | None
    ) -> PromptEvent:
        batch, call = inquiry.group.batch, inquiry.call
        problem = NO_INQUIRY_BACKEND
        if batch.tokens.is_over:
            problem = NO_TOKENS_LEFT
        elif batch.inquiry is not None:
            request = ModelInquiry(
                inquiry.id,
                call.request.id,
                inquiry.tool.name,
                inquiry.question,
                call.number,
                waits=partial(self._wait_for_model, call),
                spent=partial(self._count_usage, inquiry),
                when_idle=self._events.when_idle,
            )
            try:
                answer = await batch.inquiry.inquire(batch.thread, request)
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
                return lambda: self._use_model_answer(inquiry, answer)
        return lambda: self._fail_inquiry(inquiry, problem, unavailable)

    def _count_usage(self, inquiry: _OpenInquiry, model: str, usage: Usage) -> None:
        tokens = inquiry.group.batch.tokens.count(usage)
        inquiry.usage = ModelUsage(model, inquiry.usage.tokens + tokens)

    def _use_model_answer(self, inquiry: _OpenInquiry, answer: JsonValue) -> None:
        if not inquiry.group.is_over:
            inquiry.group.for_models.remove(inquiry)
            self._use_answer(inquiry, answer, "model")
            self._advance(inquiry.group)

    def _fail_inquiry(
        self, inquiry: _OpenInquiry, problem: str, unavailable: Unavailable | None
    ) -> None:
        if inquiry.group.is_over:
            return
        if unavailable is not None:
            self._calls.note_unavailable(unavailable.reason)
        text = INQUIRY_FAILED.format(
            tool=inquiry.tool.name, text=inquiry.question.text, error=problem
        )
        self._fail(inquiry.group, text, "backend_error")

    def _wait_for_model(
        self, call: Call, model: str, *, again: str = "", until: float | None = None
    ) -> None:
        text = f"{model}, which is answering a question of {call.title}"
        self._turn.display(Waits(call.key, f"{text}: {again}" if again else text, until))

    def _queue_prompt(self, group: _InquiryGroup, inquiries: list[_OpenInquiry]) -> None:
        """Prompt the user, unless answers that are remembered meanwhile settle all `inquiries`."""

        def use_remembered() -> bool:
            if group.is_over:
                return True
            # Another call may have asked the same question in the meantime.
            for inquiry in self._filter_open(inquiries):
                answer = self._turn.state.remembered(group.tool.name, inquiry.question)
                if answer is not None:
                    self._use_answer(inquiry, answer, "remembered")
            if self._filter_open(inquiries):
                return False
            self._advance(group)
            return True

        async def dialogue(ask: SafeAsk) -> tuple[list[_OpenInquiry], AnyEnd]:
            shown = self._filter_open(inquiries)
            return shown, await ask(_make_prompt(group, shown))

        questions = "a question" if len(inquiries) == 1 else f"{len(inquiries)} questions"
        who = "the assistant" if group.label == ASSISTANT else group.call.title
        text = f"your answer to {questions} from {who}"
        self._turn.display(Waits(group.call.key, text, person=True))
        self._prompts.add(
            dialogue,
            settle=lambda ended: self._handle_prompt_end(group, *ended),
            skip=use_remembered,
        )

    def _filter_open(self, inquiries: list[_OpenInquiry]) -> list[_OpenInquiry]:
        return [inquiry for inquiry in inquiries if inquiry.end is None]

    def _handle_prompt_end(
        self,
        group: _InquiryGroup,
        inquiries: list[_OpenInquiry],
        end: AnyEnd,
    ) -> None:
        if group.is_over:
            return
        match end:
            case Unavailable():
                self._route_all(group, inquiries, end)
                return
            case FormEnd(then="stop", ends=ends):
                self._stop_turn(group, ends[0].channel, ends[0].by)
                return
            case FormEnd(ends=ends):
                for inquiry, one in zip(inquiries, ends, strict=True):
                    self._record_outcome(inquiry, one)
                group.call.reply = end.text if end.then == "reply" else None
                if group.call.reply is not None:
                    self._turn.display(UserMessage(group.call.reply))
            case NotAnswered():
                self._handle_missing_answers(group, inquiries, end)
                return
            case Answered(value=value, remember=remember):
                [inquiry] = inquiries
                if remember and _rememberable(inquiry.question):
                    self._turn.state.remember(group.tool.name, inquiry.question, value)
                self._record_outcome(inquiry, end)
            case _:
                assert_never(end)
        self._advance(group)

    def _handle_missing_answers(
        self, group: _InquiryGroup, inquiries: list[_OpenInquiry], end: NotAnswered
    ) -> None:
        """Handle a prompt that ended as a whole. Most calls end with it."""
        if end.end == "cancelled" and group.needs.menu:
            self._stop_turn(group, end.channel, end.by)
            return
        for inquiry in inquiries:
            self._record_outcome(inquiry, apply_timeout_default(inquiry.question, end))
        accepts_it = group.needs.partial and end.end != "interrupted"
        if accepts_it or end.end == "timed_out":
            self._advance(group)
            return
        group.is_over = True
        self._calls.finish(group.call, REASON_NOT_ANSWERED[end.end], skipped=True)

    def _record_outcome(self, inquiry: _OpenInquiry, end: Answered | NotAnswered) -> None:
        entry = closing_entry(inquiry.id, inquiry.question, end)
        if isinstance(end, Answered):
            self._record_answer(inquiry, end.value, entry)
        else:
            self._close(inquiry, entry)

    def _stop_turn(
        self, group: _InquiryGroup, channel: Channel | None = None, by: str | None = None
    ) -> None:
        """End the turn. Unsent input is discarded."""
        group.is_over = True
        for inquiry in self._filter_open(group.inquiries):
            stopped = cancellation_entry(
                inquiry.id, "user", end="cancelled", channel=channel, by=by
            )
            self._close(inquiry, stopped)
        self._calls.finish(group.call, STOPPED_BY_USER, is_error=True, skipped=True)
        self._calls.stop_turn()

    def _close(self, inquiry: _OpenInquiry, entry: InquiryResponse) -> None:
        self._open.pop(entry.id, None)
        self._turn.record(with_usage(entry, inquiry.usage))
        inquiry.end = question_end(entry)
        end, channel = entry.metadata.get("end"), entry.metadata.get("channel")
        if inquiry.is_recorded:
            channel = "recorded"
        self._turn.display(
            QuestionEnds(
                call_id=inquiry.call.key,
                tool=inquiry.call.request.name,
                question=inquiry.question,
                outcome=entry.outcome,
                answer=entry.answer,
                reason=entry.reason,
                end=end if isinstance(end, str) else None,
                channel=channel if isinstance(channel, str) else None,
                label=inquiry.label,
                marks=marks_of(entry),
                by=recorded_by(entry.metadata),
            )
        )


def _rememberable(question: Question) -> bool:
    return question.answer_type.rememberable and is_reusable(question)


def _make_prompt(group: _InquiryGroup, inquiries: list[_OpenInquiry]) -> Prompt[Answered | FormEnd]:
    """Return a simple prompt for a single question, otherwise a form."""
    needs, tool = group.needs, group.tool
    alone = len(needs.questions) == 1 and not (needs.partial or needs.menu)
    pages = tuple(
        QuestionPrompt(
            inquiry.question,
            label=inquiry.label,
            tool=None if tool.hidden else tool.name,
            remember=alone and _rememberable(inquiry.question),
        )
        for inquiry in inquiries
    )
    if alone and not needs_form(pages[0].question):
        return pages[0]
    return FormPrompt(pages, partial=needs.partial, menu=needs.menu)
