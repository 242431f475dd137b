"""Get the questions of a tool answered, and record the answers.

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
    ANSWERS_CHANNEL,
    OpenDecision,
)
from jp_nb.agent.prompt_line import PromptLine
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
from jp_nb.agent.question_entries import (
    NOT_AS_RECORDED_NOTICE,
    list_question_changes,
    make_closing_entry,
    make_inquiry_request,
    make_recorded_question,
)
from jp_nb.agent.question_route import Refuse, Route, UseAnswer, select_route
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.agent.turn_state import BatchContext, TurnContext, is_reusable
from jp_nb.record.outcomes import (
    END_WORDS,
    AnswerMark,
    QuestionEnd,
    QuestionOutcome,
    read_question_outcome,
)
from jp_nb.record.token_usage import ModelUsage, with_usage
from jp_nb.text import MAX_LISTED_LINES, one_line
from jp_nb.toolkit.cancellation import is_cancelled, raise_if_cancelled
from jp_nb.toolkit.outcome import NeedsInput
from jp_nb.toolkit.question import Question

log = logging.getLogger(__name__)

STOPPED_BY_USER_TEXT = "The user stopped the turn and cancelled the questions."
INQUIRY_FAILED_TEXT = (
    "The tool '{tool}' asked a follow-up question (\"{text}\") that was routed to a secondary "
    "assistant for resolution, but the secondary assistant failed to provide a valid answer. "
    "Error: {error}. You may retry the tool call or end the turn."
)
MAX_AUTOMATIC_ANSWERS = 20
"""Maximum number of automatic answers to one question of a call. Beyond, the tool ignores them."""
IGNORES_ANSWERS_TEXT = (
    "{} asked the question '{}' {} times and got an outcome each time, but it does "
    "not use the outcome. Do not retry this tool call in this turn."
)
SERVER_HEADER: Final = "{} asks"
"""Header of questions of a server."""
ASSISTANT_HEADER = "Assistant"
"""Header of questions that the model asks through a tool."""
OPTIONAL_WITHOUT_USER_REASON = "the question is optional, and no user was available"
NO_INQUIRY_BACKEND_REASON = "No model is available to answer the question"
NO_TOKENS_LEFT_REASON = "The turn has reached its token limit"
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
        if config is None:
            return self.group.label
        return config.prompt_label or self.group.label


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
        label = ASSISTANT_HEADER if source.source == "assistant" else None
        if tool.executor.server:
            label = SERVER_HEADER.format(tool.executor.server)

        group = _InquiryGroup(call, tool, needs, batch, label)
        for asked in needs.questions:
            question = _with_route(tool, asked)
            inquiry_id = self._turn.inquiry_id(call.request.id, question.id)
            entry = make_inquiry_request(inquiry_id, source, question, server=tool.executor.server)
            self._turn.record.add_question(entry)
            inquiry = _OpenInquiry(inquiry_id, group, question)
            group.inquiries.append(inquiry)
            self._open[inquiry_id] = inquiry

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
            _, first = refused[0]
            raise self._end_call(group, first.text, first.end)

        for inquiry, chosen in routes:
            self._apply_route(inquiry, chosen)
        for_models = [inquiry for inquiry, chosen in routes if chosen == "model"]
        for_user = [inquiry for inquiry, chosen in routes if chosen == "user"]
        return for_models, for_user

    def _apply_route(self, inquiry: _OpenInquiry, chosen: Route) -> None:
        group = inquiry.group

        match chosen:
            case UseAnswer(answer=answer, channel=channel):
                if channel is None:
                    self._note_open(inquiry, OPTIONAL_WITHOUT_USER_REASON)
                self._use_answer(inquiry, answer, channel)
            case "leave_open":
                self._note_open(inquiry, OPTIONAL_WITHOUT_USER_REASON)
                self._close(inquiry, QuestionOutcome("unavailable"))
                self._count_automatic_answer(inquiry)
            case "decline":
                self._close(inquiry, QuestionOutcome("declined", ANSWERS_CHANNEL))
                self._count_automatic_answer(inquiry)
                if inquiry.question.required and not group.needs.partial:
                    text = END_WORDS["declined"].response
                    raise self._end_call(group, text, "declined", skipped=True)

    def _select_route(self, inquiry: _OpenInquiry, unavailable: Unavailable | None) -> Route:
        tool = inquiry.group.tool

        recorded = self._turn.recorded.get(inquiry.id)
        if recorded is not None:
            changes = list_question_changes(
                recorded.question, make_recorded_question(inquiry.question)
            )
            if not changes and inquiry.question.misfit(recorded.answer) is None:
                inquiry.is_recorded = True
                return UseAnswer(recorded.answer, recorded.channel)
            self._note_changes(inquiry, changes)

        unavailable_reason = None if unavailable is None else unavailable.reason
        return select_route(
            tool.name,
            inquiry.question,
            tool.questions.get(inquiry.question.id),
            remembered=self._turn.remembered(tool.name, inquiry.question),
            unavailable_reason=unavailable_reason,
            prepared=self._turn.prepared.answer(tool.name, inquiry.question),
        )

    def _note_changes(self, inquiry: _OpenInquiry, changes: Sequence[str]) -> None:
        if inquiry.id in self._noted_changes:  # a question may be routed several times
            return

        self._noted_changes.add(inquiry.id)
        shown = ", ".join(changes[:MAX_LISTED_LINES]) or "the answer does not fit"
        text = one_line(inquiry.question.text, limit=120)
        self._turn.display(Notice(NOT_AS_RECORDED_NOTICE.format(text, shown)))

    def _note_open(self, inquiry: _OpenInquiry, why: str) -> None:
        arguments = inquiry.group.call.state.arguments
        tool = inquiry.group.tool.name
        decision = OpenDecision("question", tool, why, inquiry.question, arguments=arguments)
        self._turn.note_open(decision)

    def _end_call(
        self, group: _InquiryGroup, text: str, end: QuestionEnd, *, skipped: bool = False
    ) -> CallEnded:
        """Close the open questions, and return the end of the call; no error if `skipped`."""
        for inquiry in group.open:
            self._close(inquiry, QuestionOutcome(end))
        return CallEnded(text, is_error=not skipped, skipped=skipped)

    def _use_answer(self, inquiry: _OpenInquiry, answer: JsonValue, channel: str | None) -> None:
        """Use an answer that did not come from the user."""
        marks: frozenset[AnswerMark] = frozenset()
        if channel is None:
            marks = frozenset({"auto"})
        self._close(inquiry, QuestionOutcome("answered", channel, marks), answer)
        self._count_automatic_answer(inquiry)

    def _count_automatic_answer(self, inquiry: _OpenInquiry) -> None:
        """Count an answer without the user. End a call that ignores such answers."""
        group = inquiry.group
        question_id = inquiry.question.id
        counts = group.call.state.answers.automatic_counts
        counts[question_id] += 1

        if counts[question_id] >= MAX_AUTOMATIC_ANSWERS:
            text = IGNORES_ANSWERS_TEXT.format(group.tool.name, question_id, MAX_AUTOMATIC_ANSWERS)
            raise self._end_call(group, text, "failed")

    def _give_outcomes(self, group: _InquiryGroup) -> None:
        """Give the outcomes of all questions to the call, for the next run of its tool."""
        ended = [(inquiry, inquiry.outcome) for inquiry in group.inquiries if inquiry.outcome]
        for inquiry, outcome in ended:
            if "timed_out" in (outcome.end, *outcome.marks):
                self._count_automatic_answer(inquiry)

        accepts_partial = group.needs.partial
        answers = group.call.state.answers
        for inquiry, outcome in ended:
            question = inquiry.question
            if question.required and not outcome.is_answered and not accepts_partial:
                raise CallEnded(END_WORDS[outcome.end].response, skipped=True)

            if outcome.is_answered or not accepts_partial:
                answers.values[question.id] = inquiry.answer
            answers.ends[question.id] = outcome

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
        problem = NO_INQUIRY_BACKEND_REASON

        if self._turn.tokens.is_over:
            problem = NO_TOKENS_LEFT_REASON
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
                answer = await batch.inquiry.inquire(self._turn.record.context, request)
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
        text = INQUIRY_FAILED_TEXT.format(
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
        if again:
            text += f": {again}"
        self._turn.display(Waits(call.key, text, until))

    async def _ask_user(
        self, group: _InquiryGroup, inquiries: list[_OpenInquiry]
    ) -> Unavailable | None:
        """Ask the user, unless answers that are remembered meanwhile settle all `inquiries`.

        Return the reason if no user was available after all: the questions stay open.
        """
        questions = "a question" if len(inquiries) == 1 else f"{len(inquiries)} questions"
        who = "the assistant" if group.label == ASSISTANT_HEADER else group.call.title
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
                reply = end.text if end.then == "reply" else None
                group.call.state.answers.reply = reply
                if reply is not None:
                    self._turn.display(UserMessage(reply))
            case NotAnswered():
                self._record_missing_answers(group, inquiries, end)
            case Answered(value=value, remember=remember):
                [inquiry] = inquiries
                if remember and _is_rememberable(inquiry.question):
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
        answer = end.value if isinstance(end, Answered) else None
        self._close(inquiry, get_outcome(end), answer)

    def _stop_turn(self, group: _InquiryGroup, end: Answered | NotAnswered) -> CallEnded:
        """Close the questions, and return the end of the call. Unsent input is discarded."""
        self._line.hold()  # no other prompt appears before the turn ends
        for inquiry in group.open:
            self._close(inquiry, QuestionOutcome("cancelled", end.channel, by=end.by))
        return CallEnded(STOPPED_BY_USER_TEXT, is_error=True, skipped=True, stops_turn=True)

    def _close(
        self, inquiry: _OpenInquiry, outcome: QuestionOutcome, answer: JsonValue = None
    ) -> None:
        self._open.pop(inquiry.id, None)
        entry = make_closing_entry(inquiry.id, inquiry.question, outcome, answer)
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


def _is_rememberable(question: Question) -> bool:
    return question.answer_type.rememberable and is_reusable(question)


def _make_prompt(group: _InquiryGroup, inquiries: list[_OpenInquiry]) -> Prompt[Answered | FormEnd]:
    needs = group.needs
    tool = group.tool
    may_stay_open = needs.partial and not needs.decline
    alone = len(needs.questions) == 1 and not (needs.partial or needs.menu or needs.decline)
    tool_name = None if tool.hidden else tool.name

    pages = tuple(
        QuestionPrompt(
            inquiry.question,
            label=inquiry.label,
            tool=tool_name,
            remember=alone and _is_rememberable(inquiry.question),
        )
        for inquiry in inquiries
    )

    if len(needs.questions) > 1:  # also if the others have their answers
        return FormPrompt(pages, may_stay_open, needs.menu, needs.decline)
    return make_prompt(pages, partial=may_stay_open, menu=needs.menu, declines=needs.decline)
