"""Get the questions of a tool answered, by a model, the user, or an answer that is known.

Each question has a *route* (`question_route.py`). First known answers are used, such as
those of the configuration. Then models answer, because a model that fails ends the call. The user
is asked last, with one form for all remaining questions of the call.

The tool asks with a `NeedsInput` (`jp_nb/toolkit/outcome.py`), which has the questions, and:

- `partial`: the tool runs again even without an answer to a required question.
- `menu`: Cancel opens a menu, in which the user can send the model a message, or stop the turn.
- `decline`: the form has a button Decline, which is an answer to the tool.
- `withdrawn`: a future that is done when the tool does not need the answers any more.

Source: `docs/turns.md`, `docs/record.md`, `docs/answers.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final, assert_never

from jp_nb.agent.call_steps.model_questions import ModelQuestions
from jp_nb.agent.call_steps.open_inquiries import InquiryGroup, OpenInquiries, OpenInquiry
from jp_nb.agent.calls.call import Call, CallEnded
from jp_nb.agent.calls.screen_queue import ScreenQueue
from jp_nb.agent.display import Notice, UserMessage, Waits
from jp_nb.agent.inquiries.question_entries import (
    NOT_AS_RECORDED_NOTICE,
    list_question_changes,
    make_recorded_question,
)
from jp_nb.agent.inquiries.question_route import Refuse, Route, UseAnswer, select_route
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.prepared_answers import (
    ANSWERS_CHANNEL,
    OpenDecision,
)
from jp_nb.agent.prompting.prompt_ends import (
    Answered,
    FormEnd,
    NotAnswered,
    PromptEnd,
    Unavailable,
    apply_timeout_default,
    get_outcome,
)
from jp_nb.agent.prompting.prompts import FormPrompt, Prompt, QuestionPrompt, make_prompt
from jp_nb.agent.turn_memory import is_reusable
from jp_nb.agent.turn_state import BatchContext, TurnContext
from jp_nb.record.entries.outcomes import QuestionOutcome
from jp_nb.record.reading.outcome_words import END_WORDS
from jp_nb.text import MAX_LISTED_LINES, one_line
from jp_nb.toolkit.cancellation import raise_if_cancelled
from jp_nb.toolkit.outcome import NeedsInput
from jp_nb.toolkit.question import Question

STOPPED_BY_USER_TEXT = "The user stopped the turn and cancelled the questions."
SERVER_HEADER: Final = "{} asks"
"""Header of questions of a server."""
ASSISTANT_HEADER = "Assistant"
"""Header of questions that the model asks through a tool."""
OPTIONAL_WITHOUT_USER_REASON = "the question is optional, and no user was available"


class ToolQuestions:
    """Gets the questions of a batch's calls answered.

    Attributes:
        inquiries: The questions that have no outcome yet, each with its call.
    """

    def __init__(self, turn: TurnContext, screen: ScreenQueue) -> None:
        self._turn = turn
        self._screen = screen
        self.inquiries = OpenInquiries(turn)
        self._models = ModelQuestions(turn, screen.activity, self.inquiries)
        self._noted_changes = set[str]()  # ids of inquiries with a notice about a changed question

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

        group = InquiryGroup(call=call, tool=tool, needs=needs, batch=batch, label=label)
        for question in needs.questions:
            self.inquiries.open(group, _open_to_model(tool, question))

        # A prompt may find out that no user is available after all. Then the questions that are
        # still open are routed again.
        unavailable = self._turn.prompter.unavailable()
        while group.open_inquiries:
            for_models, for_user = self._route_all(group, unavailable)
            await self._models.ask(for_models, unavailable)
            if for_user:
                unavailable = await self._ask_user(group, for_user)

        self._give_outcomes(group)

    def _route_all(
        self, group: InquiryGroup, unavailable: Unavailable | None
    ) -> tuple[list[OpenInquiry], list[OpenInquiry]]:
        """Use the known outcomes of open questions; return those for models, and for the user.

        Raises:
            CallEnded: A question is refused, such as one that only an absent user may answer.
        """
        routes = [
            (inquiry, self._select_route(inquiry, unavailable)) for inquiry in group.open_inquiries
        ]
        refused = [(inquiry, route) for inquiry, route in routes if isinstance(route, Refuse)]
        for inquiry, refusal in refused:
            if refusal.open_reason is not None:
                self._turn.unavailable_reason = refusal.open_reason
                self._note_open(inquiry, refusal.open_reason)
        if refused:  # before any answer is used
            _, first = refused[0]
            raise self.inquiries.end_call(group, first.text, first.end)

        for inquiry, route in routes:
            self._apply_route(inquiry, route)
        for_models = [inquiry for inquiry, route in routes if route == "model"]
        for_user = [inquiry for inquiry, route in routes if route == "user"]
        return for_models, for_user

    def _apply_route(self, inquiry: OpenInquiry, route: Route) -> None:
        """Use the outcome of `route`, unless a model or the user is asked."""
        group = inquiry.group

        match route:
            case UseAnswer(answer=answer, channel=channel):
                if channel is None:
                    self._note_open(inquiry, OPTIONAL_WITHOUT_USER_REASON)
                self.inquiries.use_answer(inquiry, answer, channel)
            case "leave_open":
                self._note_open(inquiry, OPTIONAL_WITHOUT_USER_REASON)
                self.inquiries.close(inquiry, QuestionOutcome("unavailable"))
                self.inquiries.count_automatic_answer(inquiry)
            case "decline":
                self.inquiries.close(inquiry, QuestionOutcome("declined", ANSWERS_CHANNEL))
                self.inquiries.count_automatic_answer(inquiry)
                if inquiry.question.required and not group.needs.partial:
                    text = END_WORDS["declined"].response
                    raise self.inquiries.end_call(group, text, "declined", skipped=True)

    def _select_route(self, inquiry: OpenInquiry, unavailable: Unavailable | None) -> Route:
        """Select who answers. An answer that was recorded before an interruption goes first."""
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
            remembered=self._turn.memory.find_answer(tool.name, inquiry.question),
            unavailable_reason=unavailable_reason,
            prepared=self._turn.prepared.find_answer(tool.name, inquiry.question),
        )

    def _note_changes(self, inquiry: OpenInquiry, changes: Sequence[str]) -> None:
        """Tell the user why a recorded answer is not used."""
        if inquiry.id in self._noted_changes:  # a question may be routed several times
            return

        self._noted_changes.add(inquiry.id)
        shown = ", ".join(changes[:MAX_LISTED_LINES]) or "the answer does not fit"
        text = one_line(inquiry.question.text, limit=120)
        self._turn.display(Notice(NOT_AS_RECORDED_NOTICE.format(text, shown)))

    def _note_open(self, inquiry: OpenInquiry, why: str) -> None:
        """Note a question without an answer of the user, so that a file can have one next time."""
        arguments = inquiry.group.call.state.arguments
        tool = inquiry.group.tool.name
        decision = OpenDecision("question", tool, why, inquiry.question, arguments=arguments)
        self._turn.note_open(decision)

    def _give_outcomes(self, group: InquiryGroup) -> None:
        """Give the outcomes of all questions to the call, for the next run of its tool.

        A tool that does not accept missing answers (`partial`) is not run without a required one.
        """
        # By now, each of them has an outcome.
        ended = [(inquiry, inquiry.outcome) for inquiry in group.inquiries if inquiry.outcome]

        # A question that always times out must not be asked without end. This is first, because it
        # may end the call, which then gets no answer.
        for inquiry, outcome in ended:
            if "timed_out" in (outcome.end, *outcome.marks):
                self.inquiries.count_automatic_answer(inquiry)

        accepts_partial = group.needs.partial
        answers = group.call.state.answers
        for inquiry, outcome in ended:
            question = inquiry.question
            if question.required and not outcome.is_answered and not accepts_partial:
                raise CallEnded(END_WORDS[outcome.end].response, skipped=True)

            if outcome.is_answered or not accepts_partial:
                answers.values[question.id] = inquiry.answer
            answers.ends[question.id] = outcome

    async def _ask_user(
        self, group: InquiryGroup, inquiries: list[OpenInquiry]
    ) -> Unavailable | None:
        """Ask the user, unless answers that are remembered meanwhile settle all `inquiries`.

        Return the reason if no user was available after all: the questions stay open.
        """
        questions = "a question" if len(inquiries) == 1 else f"{len(inquiries)} questions"
        who = "the assistant" if group.label == ASSISTANT_HEADER else group.call.title
        text = f"your answer to {questions} from {who}"
        self._turn.display(Waits(group.call.key, text, person=True))

        async with self._screen.take_screen(after_run=True) as ask:
            for inquiry in inquiries:  # another call may have asked the same question meanwhile
                answer = self._turn.memory.find_answer(group.tool.name, inquiry.question)
                if answer is not None:
                    self.inquiries.use_answer(inquiry, answer, "remembered")
            shown = [inquiry for inquiry in inquiries if inquiry.outcome is None]
            if not shown:
                return None

            end = await _ask_until_withdrawn(ask(_make_prompt(group, shown)), group.needs.withdrawn)
            raise_if_cancelled()  # the call was canceled just as the prompt ended
            if isinstance(end, Unavailable):
                return end
            self._record_prompt_end(group, shown, end)
            return None

    def _record_prompt_end(
        self,
        group: InquiryGroup,
        inquiries: list[OpenInquiry],
        end: Answered | NotAnswered | FormEnd,
    ) -> None:
        """Record the outcomes of `inquiries`, whose prompt had this `end`.

        Raises:
            CallEnded: The user stopped the turn, or closed a prompt that the tool needs.
        """
        match end:
            case FormEnd(then="stop", ends=ends):
                raise self._stop_turn(group, ends[0])
            case FormEnd(ends=ends):
                for inquiry, page_end in zip(inquiries, ends, strict=True):
                    self._record_outcome(inquiry, page_end)
                reply = end.text if end.then == "reply" else None
                group.call.state.answers.reply = reply
                if reply is not None:
                    self._turn.display(UserMessage(reply))
            case NotAnswered():
                self._record_missing_answers(group, inquiries, end)
            case Answered(value=value, remember=remember):
                [inquiry] = inquiries  # the answer is that of a single question
                if remember and _is_rememberable(inquiry.question):
                    self._turn.memory.remember_answer(group.tool.name, inquiry.question, value)
                self._record_outcome(inquiry, end)
            case _:
                assert_never(end)

    def _record_missing_answers(
        self, group: InquiryGroup, inquiries: list[OpenInquiry], end: NotAnswered
    ) -> None:
        """Record a prompt that ended as a whole, without any answer.

        The call ends with it, except for a tool that accepts missing answers. After a timeout, an
        optional question has its default, so the answers are looked at first (`_give_outcomes`).
        """
        if end.end == "cancelled" and group.needs.menu:  # with a menu, Cancel stops the turn
            raise self._stop_turn(group, end)

        for inquiry in inquiries:
            self._record_outcome(inquiry, apply_timeout_default(inquiry.question, end))
        accepts_it = group.needs.partial and end.end != "interrupted"
        if not accepts_it and end.end != "timed_out":
            raise CallEnded(END_WORDS[end.end].response, skipped=True)

    def _record_outcome(self, inquiry: OpenInquiry, end: Answered | NotAnswered) -> None:
        answer = end.value if isinstance(end, Answered) else None
        self.inquiries.close(inquiry, get_outcome(end), answer)

    def _stop_turn(self, group: InquiryGroup, end: Answered | NotAnswered) -> CallEnded:
        """Close the questions, and return the end of the call. Unsent input is discarded."""
        self._screen.hold()  # no other prompt appears before the turn ends
        for inquiry in group.open_inquiries:
            self.inquiries.close(inquiry, QuestionOutcome("cancelled", end.channel, by=end.by))
        return CallEnded(STOPPED_BY_USER_TEXT, is_error=True, skipped=True, stops_turn=True)


async def _ask_until_withdrawn(
    asking: Coroutine[Any, Any, PromptEnd[Answered | FormEnd]],
    withdrawn: asyncio.Future[None] | None,
) -> PromptEnd[Answered | FormEnd]:
    """Return the end of a prompt, which is closed if the tool withdraws its question before.

    A server may do so: `withdrawn` is then done.
    """
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


def _open_to_model(tool: OfferedTool, question: Question) -> Question:
    """Return `question`, open to a model's answer if the user's configuration routes it to one."""
    config = tool.questions.get(question.id)
    is_routed = config is not None and config.is_answered_by_model
    if question.exclusive and is_routed and tool.executor.routes_exclusive_questions:
        return question.with_exclusive(False)
    return question


def _is_rememberable(question: Question) -> bool:
    """Return True if a prompt may offer to remember the answer to `question` for the turn."""
    return question.answer_type.rememberable and is_reusable(question)


def _make_prompt(group: InquiryGroup, inquiries: list[OpenInquiry]) -> Prompt[Answered | FormEnd]:
    """Return the prompt for `inquiries` of `group`: a single question, or a form with pages.

    A tool with several questions gets a form, even if only one of them has no answer yet.
    """
    needs = group.needs
    tool = group.tool
    may_stay_open = needs.partial and not needs.decline  # else each page can be declined
    has_form_options = needs.partial or needs.menu or needs.decline
    is_alone = len(needs.questions) == 1 and not has_form_options
    tool_name = None if tool.hidden else tool.name

    pages = tuple(
        QuestionPrompt(
            inquiry.question,
            label=inquiry.label,
            tool=tool_name,
            remember=is_alone and _is_rememberable(inquiry.question),
        )
        for inquiry in inquiries
    )

    if len(needs.questions) > 1:
        return FormPrompt(pages, partial=may_stay_open, menu=needs.menu, declines=needs.decline)
    return make_prompt(pages, partial=may_stay_open, menu=needs.menu, declines=needs.decline)
