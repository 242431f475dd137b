"""What a turn remembers of its questions, and the entries of a question's round trip.

Source: `docs/turns.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import get_args

from pydantic import JsonValue

from jp_nb.agent.prepared_answers import NOTHING_PREPARED, PreparedAnswers
from jp_nb.agent.prompts import Answered, Mark, NotAnswered
from jp_nb.agent.routes import UseAnswer
from jp_nb.agent.secret_answers import Secrets
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.json_values import sorted_json
from jp_nb.record.events import (
    CancelReason,
    InquiryAnswerType,
    InquiryQuestion,
    InquiryRequest,
    InquiryResponse,
    InquirySource,
)
from jp_nb.record.inquiry_events import BY, marks_in
from jp_nb.tooling.context import EndOfQuestion, QuestionEnd
from jp_nb.tooling.question import Question

CANCELLED_BY_USER = "Tool input cancelled by user."
STOPPED_BY_USER = "The user stopped the turn and cancelled the questions."
NOT_ANSWERED: Mapping[str, str] = {
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
    secrets: Secrets = field(default_factory=Secrets)
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
        if not reusable(question):
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
        if reusable(question):
            self.answers[f"{tool}.{question.id}"] = answer


def reusable(question: Question) -> bool:
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
        answer_type=InquiryAnswerType.model_validate(question.answer_type.recorded()),
        default=None if question.answer_type.has_secret else question.default,
        context=question.context,
        exclusive=question.exclusive,
        persistence=question.persistence,
        header=question.header,
        required=question.required,
    )


def answered(
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
    kept = question.answer_type.kept(answer)
    return InquiryResponse(id=inquiry_id, outcome="answered", answer=kept, metadata=metadata)


def cancelled(
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
    return frozenset(marks_in(entry.metadata))


def question_end(entry: InquiryResponse) -> QuestionEnd:
    """Return what a tool is told of the end of its question."""
    ends: tuple[EndOfQuestion, ...] = get_args(EndOfQuestion)
    known = [one for one in ends if one == entry.metadata.get("end")]
    channel = entry.metadata.get("channel")
    return QuestionEnd(
        known[0] if known else "cancelled",
        channel if isinstance(channel, str) else None,
        **dict.fromkeys(marks_of(entry), True),
    )


def closing(inquiry_id: str, question: Question, end: Answered | NotAnswered) -> InquiryResponse:
    """Return the entry for the way that a person's turn at a question ended."""
    if isinstance(end, NotAnswered):
        return cancelled(inquiry_id, "user", end=end.end, channel=end.channel, by=end.by)
    return answered(inquiry_id, question, end.value, end.channel, end.marks, end.by)
