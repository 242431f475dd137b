"""Open and close the inquiries of a batch: in the record, in the state of the call, and on screen.

An *inquiry* is a question of a tool with its outcome. The record has an entry for its request and
one for its response. `jp_nb/agent/call_steps/questions.py` decides who answers.

Source: `docs/turns.md`, `docs/record.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import JsonValue

from jp_nb.agent.calls.call import Call, CallEnded
from jp_nb.agent.display import QuestionEnds
from jp_nb.agent.inquiries.question_entries import make_closing_entry, make_inquiry_request
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.turn_state import BatchContext, TurnContext
from jp_nb.record.entries.outcomes import (
    AnswerMark,
    QuestionEnd,
    QuestionOutcome,
    read_question_outcome,
)
from jp_nb.record.entries.token_usage import ModelUsage, with_usage
from jp_nb.toolkit.outcome import NeedsInput
from jp_nb.toolkit.question import Question

MAX_AUTOMATIC_ANSWERS = 20
"""Maximum number of automatic answers to one question of a call, which ends then."""
IGNORES_ANSWERS_TEXT = (
    "{} asked the question '{}' {} times and got an outcome each time, but it does "
    "not use the outcome. Do not retry this tool call in this turn."
)
NO_USAGE = ModelUsage("")


@dataclass(slots=True, eq=False)
class InquiryGroup:
    """Questions of one run of a tool.

    Attributes:
        call: The call whose tool asks.
        tool: The tool that asks.
        needs: The outcome of the run, with the questions and their form.
        batch: The context of the batch, such as the model that may answer.
        label: The header of a question that has no other; None: the name of the tool.
        inquiries: The questions in order, opened by `OpenInquiries.open`.
    """

    call: Call
    tool: OfferedTool
    needs: NeedsInput
    batch: BatchContext
    label: str | None
    inquiries: list[OpenInquiry] = field(default_factory=list)

    @property
    def open_inquiries(self) -> list[OpenInquiry]:
        """The questions without an outcome."""
        return [inquiry for inquiry in self.inquiries if inquiry.outcome is None]


@dataclass(slots=True, eq=False)
class OpenInquiry:
    """One question from its request to its response in the record.

    Attributes:
        id: The id `<call>.<question>.<attempt>`.
        group: The questions of the same run.
        question: The question as the tool asks it.
        answer: The answer, once there is one.
        outcome: None while the question is open.
        usage: The tokens of a model that was asked.
        is_recorded: True for an answer that was recorded before the turn was interrupted.
    """

    id: str
    group: InquiryGroup
    question: Question
    answer: JsonValue = None
    outcome: QuestionOutcome | None = None
    usage: ModelUsage = NO_USAGE
    is_recorded: bool = False

    @property
    def label(self) -> str | None:
        """The configured header of the question, or that of its group."""
        config = self.group.tool.questions.get(self.question.id)
        if config is None:
            return self.group.label
        return config.prompt_label or self.group.label


class OpenInquiries:
    """The inquiries of a batch that have no outcome yet."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._open: dict[str, OpenInquiry] = {}  # by the id of the inquiry

    def open(self, group: InquiryGroup, question: Question) -> None:
        """Record that the tool of `group` asks `question`."""
        call = group.call
        executor = group.tool.executor
        inquiry_id = self._turn.make_inquiry_id(call.request.id, question.id)
        source = executor.inquiry_source(group.tool.name)
        entry = make_inquiry_request(inquiry_id, source, question, server=executor.server)
        self._turn.record.add_inquiry_entry(entry)

        inquiry = OpenInquiry(inquiry_id, group, question)
        group.inquiries.append(inquiry)
        self._open[inquiry_id] = inquiry

    def close(
        self, inquiry: OpenInquiry, outcome: QuestionOutcome, answer: JsonValue = None
    ) -> None:
        """Record and show the `outcome` of `inquiry`, with the `answer` if there is one."""
        self._open.pop(inquiry.id, None)
        entry = make_closing_entry(inquiry.id, inquiry.question, outcome, answer)
        self._turn.record.add_inquiry_entry(with_usage(entry, inquiry.usage))
        inquiry.outcome = read_question_outcome(entry)  # as the record has it: a secret is marked

        if outcome.is_answered:
            inquiry.answer = answer
            # From now on, an answer that is a secret is hidden.
            self._turn.secrets.add_answer(inquiry.question, answer)

        # The user sees that the answer is an earlier one. The record has its first source.
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

    def drop(self, end: Literal["cancelled", "interrupted"], call: Call | None = None) -> None:
        """Close all open questions, or those of `call`, because the calls were canceled."""
        for inquiry in list(self._open.values()):
            if call in (None, inquiry.group.call):
                self.close(inquiry, QuestionOutcome(end))

    def end_call(
        self, group: InquiryGroup, text: str, end: QuestionEnd, *, skipped: bool = False
    ) -> CallEnded:
        """Close the open questions, and return the end of the call; no error if `skipped`."""
        for inquiry in group.open_inquiries:
            self.close(inquiry, QuestionOutcome(end))
        return CallEnded(text, is_error=not skipped, skipped=skipped)

    def use_answer(self, inquiry: OpenInquiry, answer: JsonValue, channel: str | None) -> None:
        """Use an answer that the user did not give in a prompt.

        `channel` is its source, such as `model`; None for the automatic answer of an optional
        question.
        """
        marks: frozenset[AnswerMark] = frozenset()
        if channel is None:
            marks = frozenset({"auto"})
        self.close(inquiry, QuestionOutcome("answered", channel, marks), answer)
        self.count_automatic_answer(inquiry)

    def count_automatic_answer(self, inquiry: OpenInquiry) -> None:
        """Count an answer without the user. End a call that ignores such answers.

        A tool that asks the same question in each run would run without end.
        """
        group = inquiry.group
        question_id = inquiry.question.id
        counts = group.call.state.answers.automatic_counts
        counts[question_id] += 1

        if counts[question_id] >= MAX_AUTOMATIC_ANSWERS:
            text = IGNORES_ANSWERS_TEXT.format(group.tool.name, question_id, MAX_AUTOMATIC_ANSWERS)
            raise self.end_call(group, text, "failed")
