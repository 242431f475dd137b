"""Questions of a tool: select who answers, ask, and record the answer.

Source: `docs/turns.md`, `docs/record.md`, `docs/answers.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal, assert_never

from pydantic import JsonValue

from jp_nb.agent.call import Call, CallEnded
from jp_nb.agent.display import Notice, QuestionEnds, UserMessage, Waits
from jp_nb.agent.inquiry import InquiryError, ModelInquiry
from jp_nb.agent.prepared_answers import (
    ANSWERS,
    DeclinedByFile,
    GivenAnswer,
    InvalidAnswer,
    OpenDecision,
    PreparedDecision,
)
from jp_nb.agent.prompts import (
    Answered,
    FormEnd,
    FormPrompt,
    NotAnswered,
    Prompt,
    PromptEnd,
    QuestionPrompt,
    Unavailable,
    apply_timeout_default,
    get_outcome,
    make_prompt,
)
from jp_nb.agent.provider import Usage
from jp_nb.agent.tasks import PromptLine, raise_if_cancelled
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.agent.turn_state import BatchContext, TurnContext, is_reusable
from jp_nb.config.tree.tool_settings import QuestionConfig
from jp_nb.json_values import as_object
from jp_nb.record.events import (
    InquiryAnswerType,
    InquiryQuestion,
    InquiryRequest,
    InquiryResponse,
    InquirySource,
)
from jp_nb.record.marks import SERVER, ModelUsage, with_usage
from jp_nb.record.outcomes import (
    END_WORDS,
    AnswerMark,
    QuestionEnd,
    QuestionOutcome,
    make_response,
    read_question_outcome,
)
from jp_nb.text import MAX_LISTED_LINES, one_line
from jp_nb.toolkit.base import is_cancelled
from jp_nb.toolkit.outcome import NeedsInput
from jp_nb.toolkit.question import Question


@dataclass(frozen=True, slots=True)
class UseAnswer:
    """Use a known answer. `channel` is None for the automatic one of an optional question."""

    answer: JsonValue
    channel: str | None


@dataclass(frozen=True, slots=True)
class Refuse:
    """End the call with the error `text`. `open` is the reason if a user could have helped."""

    text: str
    end: QuestionEnd
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

    `remembered` is a valid answer from this turn, or None. Without `unavailable_reason`, a user may
    be available.
    """
    config = config or QuestionConfig()
    if config.answer is not None:
        return _configured_route(tool, question, config.answer)
    match prepared:
        case GivenAnswer(value=value):
            return UseAnswer(value, ANSWERS)
        case DeclinedByFile():
            return "decline"
        case InvalidAnswer(why=why):
            return Refuse(f"{tool}: {why}. Do not retry.", "invalid", why)
    if remembered is not None:
        return UseAnswer(remembered, "remembered")
    if config.is_answered_by_model:
        return Refuse(HUMAN_ONLY.format(tool), "denied") if question.human_only else "model"
    if unavailable_reason is None:
        return "user"
    if question.may_stay_open:
        automatic = question.automatic
        return "leave_open" if automatic is None else UseAnswer(automatic, None)
    if question.human_only:
        return Refuse(no_user_error(tool), "unavailable", unavailable_reason)
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
    what = {
        "type": "does not match the question's answer_type",
        "option": "is not one of the question's options",
        "value": f"does not fit: {question.answer_type.format_problem(answer)}",
    }[misfit]
    path = f"conversation.tools.{tool}.questions.{question.id}.answer"
    text = f"{tool}: the configured {path} value {what}. Update the configuration; do not retry."
    return Refuse(text, "invalid")


HUMAN_ONLY = (
    "{} requires a human answer and cannot be routed to the assistant. Do not retry this tool call "
    "in this turn."
)
STOPPED_BY_USER = "The user stopped the turn and cancelled the questions."


def inquiry_request(
    inquiry_id: str, source: InquirySource, question: Question, *, server: str = ""
) -> InquiryRequest:
    """Return the entry that opens an inquiry, with the `server` that asks, if there is one."""
    metadata: dict[str, JsonValue] = {SERVER: server} if server else {}
    recorded = recorded_question(question)
    return InquiryRequest(id=inquiry_id, source=source, question=recorded, metadata=metadata)


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


NOT_AS_RECORDED: Final = 'The recorded answer to "{}" is not used, because the question changed: {}'


def list_changes(before: InquiryQuestion, now: InquiryQuestion) -> list[str]:
    """Return the parts of a question that changed, in words."""
    parts = {"its text": "text", "its description": "context", "its default": "default"}
    changed = [words for words, x in parts.items() if getattr(before, x) != getattr(now, x)]
    if before.answer_type != now.answer_type:
        fields = [_list_fields(each.answer_type) for each in (before, now)]
        names = [x for x in {**fields[0], **fields[1]} if fields[0].get(x) != fields[1].get(x)]
        changed += [f"the field `{one_line(name, limit=80)}`" for name in names]
        changed += [] if names else ["its kind of answer"]
    if not changed and before != now:
        changed.append("its settings")
    return changed


def _list_fields(kind: InquiryAnswerType) -> dict[str, JsonValue]:
    fields = kind.to_raw().get("fields")
    objects = [as_object(each) for each in fields] if isinstance(fields, list) else []
    return {str(each.get("id")): each for each in objects}


def closing_entry(
    inquiry_id: str, question: Question, outcome: QuestionOutcome, answer: JsonValue = None
) -> InquiryResponse:
    """Return the entry that closes the inquiry of `question`, without secrets."""
    if not outcome.is_answered:
        return make_response(inquiry_id, outcome)
    kind = question.answer_type
    return make_response(inquiry_id, replace(outcome, is_secret=kind.secret), kind.redacted(answer))


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
SERVER_ASKS: Final = "{} asks"
"""Header of questions of a server."""
ASSISTANT = "Assistant"
"""Header of questions that the model asks through a tool."""
OPTIONAL_WITHOUT_USER = "the question is optional, and no user was available"
NO_INQUIRY_BACKEND = "No model is available to answer the question"
NO_TOKENS_LEFT = "The turn has reached its token limit"
NO_USAGE = ModelUsage("")


@dataclass(slots=True, eq=False)
class _InquiryGroup:
    """Questions of one run of a tool. `label` is the default header; None: the tool."""

    call: Call
    tool: OfferedTool
    needs: NeedsInput
    batch: BatchContext
    label: str | None
    inquiries: list[_OpenInquiry] = field(default_factory=list)

    @property
    def open(self) -> list[_OpenInquiry]:
        return [inquiry for inquiry in self.inquiries if inquiry.outcome is None]


@dataclass(slots=True, eq=False)
class _OpenInquiry:
    """One question from its request to its response in the record.

    `outcome` is None while it is open. `is_recorded` is True for an answer of the first run of a
    turn that runs again.
    """

    id: str
    group: _InquiryGroup
    question: Question
    answer: JsonValue = None
    outcome: QuestionOutcome | None = None
    usage: ModelUsage = NO_USAGE
    is_recorded: bool = False

    @property
    def label(self) -> str | None:
        config = self.group.tool.questions.get(self.question.id)
        return (config.prompt_label if config else None) or self.group.label


class ToolQuestions:
    """Gets the questions of a turn's calls answered."""

    def __init__(self, turn: TurnContext, line: PromptLine) -> None:
        self._turn = turn
        self._line = line
        self._activity = line.activity
        self._open: dict[str, _OpenInquiry] = {}
        self._noted_changes = set[str]()

    async def ask(
        self, call: Call, tool: OfferedTool, needs: NeedsInput, batch: BatchContext
    ) -> None:
        """Record the questions of `tool`, and wait for their outcomes, which `call` gets.

        Models answer before the user is asked, because a model that fails ends the call.

        Raises:
            CallEnded: A required question has no answer, or the user stopped the turn.
        """
        source = tool.executor.inquiry_source(tool.name)
        label = ASSISTANT if source.source == "assistant" else None
        if tool.executor.server:
            label = SERVER_ASKS.format(tool.executor.server)
        group = _InquiryGroup(call, tool, needs, batch, label)
        for question in map(partial(_with_route, tool), needs.questions):
            inquiry_id = self._turn.inquiry_id(call.request.id, question.id)
            entry = inquiry_request(inquiry_id, source, question, server=tool.executor.server)
            self._turn.record.add_question(entry)
            group.inquiries.append(_OpenInquiry(inquiry_id, group, question))
            self._open[inquiry_id] = group.inquiries[-1]
        unavailable = self._turn.prompter.unavailable()
        while group.open:
            for_models, for_user = self._route_all(group, unavailable)
            await self._ask_models(for_models, unavailable)
            if for_user:
                unavailable = await self._ask_user(group, for_user)
        self._give_outcomes(group)

    def drop(self, end: Literal["cancelled", "interrupted"], call: Call | None = None) -> None:
        """Close all open questions, or those of `call`, because the calls were canceled."""
        for inquiry in list(self._open.values()):
            if call in (None, inquiry.group.call):
                self._close(inquiry, QuestionOutcome(end))

    def _route_all(
        self, group: _InquiryGroup, unavailable: Unavailable | None
    ) -> tuple[list[_OpenInquiry], list[_OpenInquiry]]:
        """Use the known outcomes of open questions; return those for models, and for the user."""
        routes = [(inquiry, self._select_route(inquiry, unavailable)) for inquiry in group.open]
        refused = [(inquiry, chosen) for inquiry, chosen in routes if isinstance(chosen, Refuse)]
        for inquiry, refusal in refused:
            if refusal.open is not None:
                self._turn.unavailable_reason = refusal.open
                self._note_open(inquiry, refusal.open)
        if refused:  # before any answer is used
            raise self._end_call(group, refused[0][1].text, refused[0][1].end)
        for inquiry, chosen in routes:
            self._apply_route(inquiry, chosen)
        return (
            [inquiry for inquiry, chosen in routes if chosen == "model"],
            [inquiry for inquiry, chosen in routes if chosen == "user"],
        )

    def _apply_route(self, inquiry: _OpenInquiry, chosen: Route) -> None:
        group = inquiry.group
        match chosen:
            case UseAnswer(answer=answer, channel=channel):
                if channel is None:
                    self._note_open(inquiry, OPTIONAL_WITHOUT_USER)
                self._use_answer(inquiry, answer, channel)
            case "leave_open":
                self._note_open(inquiry, OPTIONAL_WITHOUT_USER)
                self._close(inquiry, QuestionOutcome("unavailable"))
                self._count_automatic_answer(inquiry)
            case "decline":
                self._close(inquiry, QuestionOutcome("declined", ANSWERS))
                self._count_automatic_answer(inquiry)
                if inquiry.question.required and not group.needs.partial:
                    text = END_WORDS["declined"].response
                    raise self._end_call(group, text, "declined", skipped=True)

    def _select_route(self, inquiry: _OpenInquiry, unavailable: Unavailable | None) -> Route:
        tool = inquiry.group.tool
        recorded = self._turn.recorded.get(inquiry.id)
        if recorded is not None:
            changes = list_changes(recorded.question, recorded_question(inquiry.question))
            if not changes and inquiry.question.misfit(recorded.answer) is None:
                inquiry.is_recorded = True
                return UseAnswer(recorded.answer, recorded.channel)
            self._note_changes(inquiry, changes)
        return route(
            tool.name,
            inquiry.question,
            tool.questions.get(inquiry.question.id),
            remembered=self._turn.remembered(tool.name, inquiry.question),
            unavailable_reason=None if unavailable is None else unavailable.reason,
            prepared=self._turn.prepared.answer(tool.name, inquiry.question),
        )

    def _note_changes(self, inquiry: _OpenInquiry, changes: Sequence[str]) -> None:
        if inquiry.id in self._noted_changes:  # a question may be routed several times
            return
        self._noted_changes.add(inquiry.id)
        shown = ", ".join(changes[:MAX_LISTED_LINES]) or "the answer does not fit"
        text = one_line(inquiry.question.text, limit=120)
        self._turn.display(Notice(NOT_AS_RECORDED.format(text, shown)))

    def _note_open(self, inquiry: _OpenInquiry, why: str) -> None:
        decision = OpenDecision("question", inquiry.group.tool.name, why, inquiry.question)
        self._turn.prepared.note_open(decision)

    def _end_call(
        self, group: _InquiryGroup, text: str, end: QuestionEnd, *, skipped: bool = False
    ) -> CallEnded:
        """Close the open questions, and return the end of the call; no error if `skipped`."""
        for inquiry in group.open:
            self._close(inquiry, QuestionOutcome(end))
        return CallEnded(text, is_error=not skipped, skipped=skipped)

    def _use_answer(self, inquiry: _OpenInquiry, answer: JsonValue, channel: str | None) -> None:
        """Use an answer that did not come from the user."""
        marks: frozenset[AnswerMark] = frozenset({"auto"} if channel is None else ())
        self._close(inquiry, QuestionOutcome("answered", channel, marks), answer)
        self._count_automatic_answer(inquiry)

    def _count_automatic_answer(self, inquiry: _OpenInquiry) -> None:
        """Count an answer without the user. End a call that ignores such answers."""
        group = inquiry.group
        question_id = inquiry.question.id
        counts = group.call.state.answers.automatic_counts
        counts[question_id] += 1
        if counts[question_id] >= MAX_AUTOMATIC_ANSWERS:
            text = IGNORES_ANSWERS.format(group.tool.name, question_id, MAX_AUTOMATIC_ANSWERS)
            raise self._end_call(group, text, "failed")

    def _give_outcomes(self, group: _InquiryGroup) -> None:
        """Give the outcomes of all questions to the call, for the next run of its tool."""
        ended = [(inquiry, inquiry.outcome) for inquiry in group.inquiries if inquiry.outcome]
        for inquiry, outcome in ended:
            if "timed_out" in (outcome.end, *outcome.marks):
                self._count_automatic_answer(inquiry)
        accepts_partial = group.needs.partial
        call = group.call
        for inquiry, outcome in ended:
            question = inquiry.question
            if question.required and not outcome.is_answered and not accepts_partial:
                raise CallEnded(END_WORDS[outcome.end].response, skipped=True)
            if outcome.is_answered or not accepts_partial:
                call.state.answers.values[question.id] = inquiry.answer
            call.state.answers.ends[question.id] = outcome

    async def _ask_models(
        self, inquiries: list[_OpenInquiry], unavailable: Unavailable | None
    ) -> None:
        """Ask models concurrently. The first failure ends the call, and the other requests."""
        if not inquiries:
            return
        raise_if_cancelled()
        if len(inquiries) == 1:
            await self._ask_model(inquiries[0], unavailable)
            return
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._ask_model(each, unavailable)) for each in inquiries]
        running = len(tasks)
        # They count in place of the call, until the last of them ends.
        self._activity.begin(running - 1)

        def on_end(_: object) -> None:
            nonlocal running
            running -= 1
            if running:
                self._activity.end()

        for task in tasks:
            task.add_done_callback(on_end)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for failure in ended:
            if isinstance(failure, Exception):
                raise failure

    async def _ask_model(self, inquiry: _OpenInquiry, unavailable: Unavailable | None) -> None:
        """Get the answer of a model, and use it. Without a valid one, the call ends."""
        batch = inquiry.group.batch
        call = inquiry.group.call
        problem = NO_INQUIRY_BACKEND
        if self._turn.tokens.is_over:
            problem = NO_TOKENS_LEFT
        elif batch.inquiry is not None:
            request = ModelInquiry(
                inquiry.id,
                call.request.id,
                inquiry.group.tool.name,
                inquiry.question,
                call.number,
                waits=partial(self._wait_for_model, call),
                spent=partial(self._count_usage, inquiry),
                when_idle=self._activity.when_idle,
            )
            try:
                answer = await batch.inquiry.inquire(self._turn.record.thread, request)
                raise_if_cancelled()
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
                if inquiry.outcome is None:  # else another question has just ended the call
                    self._use_answer(inquiry, answer, "model")
                return
        if unavailable is not None:
            self._turn.unavailable_reason = unavailable.reason
        text = INQUIRY_FAILED.format(
            tool=inquiry.group.tool.name, text=inquiry.question.text, error=problem
        )
        raise self._end_call(inquiry.group, text, "failed")

    def _count_usage(self, inquiry: _OpenInquiry, model: str, usage: Usage) -> None:
        tokens = inquiry.usage.tokens + self._turn.tokens.count(usage)
        inquiry.usage = ModelUsage(model, tokens)

    def _wait_for_model(
        self, call: Call, model: str, *, again: str = "", until: float | None = None
    ) -> None:
        text = f"{model}, which is answering a question of {call.title}"
        self._turn.display(Waits(call.key, f"{text}: {again}" if again else text, until))

    async def _ask_user(
        self, group: _InquiryGroup, inquiries: list[_OpenInquiry]
    ) -> Unavailable | None:
        """Ask the user, unless answers that are remembered meanwhile settle all `inquiries`.

        Return the reason if no user was available after all: the questions stay open.
        """
        questions = "a question" if len(inquiries) == 1 else f"{len(inquiries)} questions"
        who = "the assistant" if group.label == ASSISTANT else group.call.title
        text = f"your answer to {questions} from {who}"
        self._turn.display(Waits(group.call.key, text, person=True))
        async with self._line.turn(after_run=True) as ask:
            for inquiry in inquiries:  # another call may have asked the same question meanwhile
                answer = self._turn.remembered(group.tool.name, inquiry.question)
                if answer is not None:
                    self._use_answer(inquiry, answer, "remembered")
            shown = [inquiry for inquiry in inquiries if inquiry.outcome is None]
            if not shown:
                return None
            end = await _ask_until(ask(_make_prompt(group, shown)), group.needs.withdrawn)
            raise_if_cancelled()
            if isinstance(end, Unavailable):
                return end
            self._record_prompt_end(group, shown, end)
            return None

    def _record_prompt_end(
        self,
        group: _InquiryGroup,
        inquiries: list[_OpenInquiry],
        end: Answered | NotAnswered | FormEnd,
    ) -> None:
        match end:
            case FormEnd(then="stop", ends=ends):
                raise self._stop_turn(group, ends[0])
            case FormEnd(ends=ends):
                for inquiry, one in zip(inquiries, ends, strict=True):
                    self._record_outcome(inquiry, one)
                group.call.state.answers.reply = end.text if end.then == "reply" else None
                if group.call.state.answers.reply is not None:
                    self._turn.display(UserMessage(group.call.state.answers.reply))
            case NotAnswered():
                self._record_missing_answers(group, inquiries, end)
            case Answered(value=value, remember=remember):
                [inquiry] = inquiries
                if remember and _rememberable(inquiry.question):
                    self._turn.remember(group.tool.name, inquiry.question, value)
                self._record_outcome(inquiry, end)
            case _:
                assert_never(end)

    def _record_missing_answers(
        self, group: _InquiryGroup, inquiries: list[_OpenInquiry], end: NotAnswered
    ) -> None:
        """Record a prompt that ended as a whole. Most calls end with it."""
        if end.end == "cancelled" and group.needs.menu:
            raise self._stop_turn(group, end)
        for inquiry in inquiries:
            self._record_outcome(inquiry, apply_timeout_default(inquiry.question, end))
        accepts_it = group.needs.partial and end.end != "interrupted"
        if not accepts_it and end.end != "timed_out":
            raise CallEnded(END_WORDS[end.end].response, skipped=True)

    def _record_outcome(self, inquiry: _OpenInquiry, end: Answered | NotAnswered) -> None:
        self._close(inquiry, get_outcome(end), end.value if isinstance(end, Answered) else None)

    def _stop_turn(self, group: _InquiryGroup, end: Answered | NotAnswered) -> CallEnded:
        """Close the questions, and return the end of the call. Unsent input is discarded."""
        self._line.hold()  # no other prompt appears before the turn ends
        for inquiry in group.open:
            self._close(inquiry, QuestionOutcome("cancelled", end.channel, by=end.by))
        return CallEnded(STOPPED_BY_USER, is_error=True, skipped=True, stops_turn=True)

    def _close(
        self, inquiry: _OpenInquiry, outcome: QuestionOutcome, answer: JsonValue = None
    ) -> None:
        self._open.pop(inquiry.id, None)
        entry = closing_entry(inquiry.id, inquiry.question, outcome, answer)
        self._turn.record.add_question(with_usage(entry, inquiry.usage))
        inquiry.outcome = read_question_outcome(entry)
        if outcome.is_answered:
            inquiry.answer = answer
            self._turn.secrets.add_answer(inquiry.question, answer)
        channel = "recorded" if inquiry.is_recorded else outcome.channel
        self._turn.display(
            QuestionEnds(
                call_id=inquiry.group.call.key,
                tool=inquiry.group.call.request.name,
                question=inquiry.question,
                outcome=replace(inquiry.outcome, channel=channel),
                answer=entry.answer,
                label=inquiry.label,
            )
        )


async def _ask_until(
    asking: Coroutine[Any, Any, PromptEnd[Answered | FormEnd]],
    withdrawn: asyncio.Future[None] | None,
) -> PromptEnd[Answered | FormEnd]:
    """Return the end of a prompt. It is removed if it is `withdrawn` before."""
    if withdrawn is None:
        return await asking
    prompt = asyncio.ensure_future(asking)
    ends: list[asyncio.Future[Any]] = [prompt, withdrawn]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not prompt.done():
            prompt.cancel()
            await asyncio.wait([prompt])
    return NotAnswered("cancelled") if prompt.cancelled() else prompt.result()


def _with_route(tool: OfferedTool, question: Question) -> Question:
    """Return `question`, which a model may answer if the configuration of the user says so."""
    config = tool.questions.get(question.id)
    is_routed = config is not None and config.is_answered_by_model
    if question.exclusive and is_routed and tool.executor.routes_exclusive_questions:
        return question.with_exclusive(False)
    return question


def _rememberable(question: Question) -> bool:
    return question.answer_type.rememberable and is_reusable(question)


def _make_prompt(group: _InquiryGroup, inquiries: list[_OpenInquiry]) -> Prompt[Answered | FormEnd]:
    needs = group.needs
    tool = group.tool
    may_stay_open = needs.partial and not needs.decline
    alone = len(needs.questions) == 1 and not (needs.partial or needs.menu or needs.decline)
    pages = tuple(
        QuestionPrompt(
            inquiry.question,
            label=inquiry.label,
            tool=None if tool.hidden else tool.name,
            remember=alone and _rememberable(inquiry.question),
        )
        for inquiry in inquiries
    )
    if len(needs.questions) > 1:  # also if the others have their answers
        return FormPrompt(pages, may_stay_open, needs.menu, needs.decline)
    return make_prompt(pages, partial=may_stay_open, menu=needs.menu, declines=needs.decline)
