"""Get the questions of a tool answered: by an answer that is known, a model, or the user.

Each question has a *route* (`question_route.py`). First known answers are used, such as
those of the configuration. Then models answer (`model_questions.py`), because a model that fails
ends the call. The user is asked last (`user_questions.py`), with one form for all remaining
questions of the call.

An *inquiry* is one question of a run of a tool, from its request to its outcome in the record
(`open_inquiries.py`). An outcome may be an answer, or the reason why there is none. A tool that
sets `NeedsInput.partial` runs again with either; others need an answer to each required question.

Source: `docs/turns.md`, `docs/record.md`, `docs/answers.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jp_nb.agent.call_steps.model_questions import ModelQuestions
from jp_nb.agent.call_steps.open_inquiries import InquiryGroup, OpenInquiries, OpenInquiry
from jp_nb.agent.call_steps.user_questions import ASSISTANT_HEADER, UserQuestions
from jp_nb.agent.calls.call import Call, CallEnded
from jp_nb.agent.calls.screen_queue import ScreenQueue
from jp_nb.agent.display import Notice
from jp_nb.agent.inquiries.question_changes import NOT_AS_RECORDED_NOTICE, list_question_changes
from jp_nb.agent.inquiries.question_entries import make_recorded_question
from jp_nb.agent.inquiries.question_route import Refuse, Route, UseAnswer, select_route
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.prepared_answers import ANSWERS_CHANNEL, OpenDecision
from jp_nb.agent.prompting.prompt_ends import Unavailable
from jp_nb.agent.turn_state import BatchContext, TurnContext
from jp_nb.record.entries.outcomes import QuestionOutcome
from jp_nb.record.reading.outcome_words import END_WORDS
from jp_nb.text import MAX_LISTED_LINES, one_line
from jp_nb.toolkit.outcome import NeedsInput
from jp_nb.toolkit.question import Question

SERVER_HEADER: Final = "{} asks"
"""Header of questions of a server."""
OPTIONAL_WITHOUT_USER_REASON = "the question is optional, and no user was available"


class ToolQuestions:
    """Gets the questions of a batch's calls answered.

    Attributes:
        inquiries: The questions that have no outcome yet, each with its call.
    """

    def __init__(self, turn: TurnContext, screen: ScreenQueue) -> None:
        self._turn = turn
        self.inquiries = OpenInquiries(turn)
        self._models = ModelQuestions(turn, screen.activity, self.inquiries)
        self._user = UserQuestions(turn, screen, self.inquiries)
        self._noted_changes = set[str]()  # ids of inquiries with a notice about a changed question

    async def ask(
        self, call: Call, tool: OfferedTool, needs: NeedsInput, batch: BatchContext
    ) -> None:
        """Record the questions of `tool`, and wait for their outcomes, which `call` gets.

        Raises:
            CallEnded: A required question has no answer, or the user stopped the turn.
        """
        # Header of the questions; without one, the user sees the name of the tool.
        label: str | None = None
        if tool.executor.server:
            label = SERVER_HEADER.format(tool.executor.server)
        elif tool.executor.inquiry_source(tool.name).source == "assistant":
            label = ASSISTANT_HEADER

        group = InquiryGroup(call=call, tool=tool, needs=needs, batch=batch, label=label)
        for question in needs.questions:  # `open` adds each to the group, and to the record
            self.inquiries.open(group, _open_to_model(tool, question))

        # A prompt may find out that no user is available after all. Then the questions that are
        # still open are routed again.
        unavailable = self._turn.prompter.unavailable()
        while group.open_inquiries:
            for_models, for_user = self._route_all(group, unavailable)
            await self._models.ask(for_models, unavailable)
            if for_user:
                unavailable = await self._user.ask(group, for_user)

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
            if refusal.open_reason is not None:  # a user could have answered
                self._turn.unavailable_reason = refusal.open_reason
                self._note_open(inquiry, refusal.open_reason)
        # The call ends before any answer is used: its tool would not get the answers.
        if refused:
            _, first = refused[0]
            raise self.inquiries.end_call(group, first.text, first.end)

        for inquiry, route in routes:
            self._apply_route(inquiry, route)

        for_models = [inquiry for inquiry, route in routes if route == "model"]
        for_user = [inquiry for inquiry, route in routes if route == "user"]
        return for_models, for_user

    def _apply_route(self, inquiry: OpenInquiry, route: Route) -> None:
        """Use the outcome of `route`, unless a model or the user is asked.

        Outcomes without the user are counted: a tool that ignores them would ask without end.
        """
        group = inquiry.group

        match route:
            case UseAnswer(answer=answer, channel=channel):
                if channel is None:  # the default of an optional question, not a user's answer
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
        """Select who answers.

        If the turn continues one that was interrupted, the record may have the answer already. It
        is used if the tool asks the same question again, and if it still fits.
        """
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

        # A tool may ask a question that times out in each of its runs. The count ends the call
        # after some of them. This is first, so that such a call gets no answer.
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


def _open_to_model(tool: OfferedTool, question: Question) -> Question:
    """Return `question`, open to a model's answer if the user's configuration routes it to one.

    Only the user may answer an *exclusive* question. A server marks all of its questions so, and
    its executor allows the configuration to open them.
    """
    config = tool.questions.get(question.id)
    is_routed = config is not None and config.is_answered_by_model
    if question.exclusive and is_routed and tool.executor.routes_exclusive_questions:
        return question.with_exclusive(False)
    return question
