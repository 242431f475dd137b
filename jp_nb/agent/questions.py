"""Routes a tool's question to whoever answers it, and writes the entries of the round trip.

Source: `docs/turns.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import get_args

from pydantic import JsonValue

from jp_nb.agent.prompts import Answered, Mark, NotAnswered
from jp_nb.agent.secret_answers import Secrets
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.config.tree.tool_config import QuestionConfig
from jp_nb.record.events import (
    CancelReason,
    InquiryAnswerType,
    InquiryQuestion,
    InquiryRequest,
    InquiryResponse,
    InquirySource,
)
from jp_nb.record.inquiry_events import marks_in
from jp_nb.tooling.context import EndOfQuestion, QuestionEnd
from jp_nb.tooling.question import Question
from jp_nb.tooling.question_kinds import Misfit

CANCELLED_BY_USER = "Tool input cancelled by user."
STOPPED_BY_USER = "The questions were cancelled by the user, who stopped the turn."
NOT_ANSWERED: Mapping[str, str] = {
    "declined": "Tool input declined by user.",
    "cancelled": CANCELLED_BY_USER,
    "timed_out": "The tool's question was not answered: nobody did so in time.",
    "interrupted": "The tool's question was not answered: an interrupt closed it.",
}
"""What the model is told of a call whose question got no answer, by how the prompt ended."""


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """An answer that the same question of the same call had before.

    Attributes:
        kind: The kind of the question.
        channel: Where it was from: a tool that runs again is told the same.
    """

    kind: str
    answer: JsonValue
    channel: str | None = None


@dataclass(slots=True)
class TurnState:
    """Answers and decisions that count for the rest of a turn, and are never stored.

    Attributes:
        answers: Remembered answers by `<tool>.<question id>`.
        permissions: Remembered permission decisions by tool, and the tool that each was about.
        attempts: How often a question of a tool call was asked, by `<call>.<question>`.
        secrets: What tools may not repeat; of the whole session.
        images: How many the turn shows, those included that somebody is still asked about.
        recorded: Answers that count before all others, by the id of the inquiry.
    """

    answers: dict[str, JsonValue] = field(default_factory=dict)
    permissions: dict[str, tuple[OfferedTool, bool]] = field(default_factory=dict)
    attempts: Counter[str] = field(default_factory=Counter)
    secrets: Secrets = field(default_factory=Secrets)
    images: int = 0
    recorded: Mapping[str, RecordedAnswer] = field(default_factory=dict)

    def permission(self, tool: OfferedTool) -> bool | None:
        """Return the remembered decision about `tool` as it is now; None if there is none."""
        about, decided = self.permissions.get(tool.name, (None, None))
        return decided if about == tool else None

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
        if found is None or found.kind != question.answer_type.type:
            return None
        return None if question.misfit(found.answer) else UseAnswer(found.answer, found.channel)

    def remember(self, tool: str, question: Question, answer: JsonValue) -> None:
        """Reuse `answer` for the rest of the turn, if `question` allows it."""
        if reusable(question):
            self.answers[f"{tool}.{question.id}"] = answer


def reusable(question: Question) -> bool:
    """Return True if answers of `question` may be remembered for the turn."""
    return question.persistence == "turn" and not question.answer_type.has_secret


# --- routing ---------------------------------------------------------------------------------


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
class Refuse:
    """Nobody may answer; the call ends with the error `text`."""

    text: str
    reason: CancelReason


@dataclass(frozen=True, slots=True)
class AskPerson:
    """A person is asked."""


@dataclass(frozen=True, slots=True)
class AskModel:
    """A model is asked."""


Route = UseAnswer | LeaveOpen | Refuse | AskPerson | AskModel


def route(
    tool: str,
    question: Question,
    config: QuestionConfig | None,
    *,
    remembered: JsonValue,
    nobody: bool,
) -> Route:
    """Return who answers `question` of `tool`, by the order of precedence in `docs/turns.md`.

    Args:
        tool: Name of the tool, for messages alone.
        question: What it asks.
        config: What the user configured for that question.
        remembered: A fitting answer of this turn, or None.
        nobody: True if nobody can be prompted.
    """
    config = config or QuestionConfig()
    if config.answer is not None:
        answer = question.answer_type.settled(config.answer)
        misfit = question.misfit(answer)
        if misfit is None:
            return UseAnswer(answer, "configured")
        why = question.answer_type.complaint(answer)
        return Refuse(_bad_static(tool, question.id, misfit, why), "invalid_static_answer")
    if remembered is not None:
        return UseAnswer(remembered, "remembered")
    if config.asks_assistant:
        if question.human_only:
            return Refuse(
                f"{tool} requires a human answer and cannot be routed to the assistant. Do not "
                "retry this tool call in this turn.",
                "assistant_routing_denied",
            )
        return AskModel()
    if not nobody:
        return AskPerson()
    if question.may_stay_open:
        automatic = question.automatic
        return LeaveOpen() if automatic is None else UseAnswer(automatic, None)
    if question.human_only:
        return Refuse(
            f"{tool} cannot run because no interactive terminal is available. Do not retry this "
            "tool call in this turn; continue without user input or explain what information is "
            "missing.",
            "no_prompt_backend",
        )
    return AskModel()


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


# --- recording -------------------------------------------------------------------------------


def inquiry_request(inquiry_id: str, source: InquirySource, question: Question) -> InquiryRequest:
    """Return the entry that opens an inquiry, as the tool declared the question."""
    return InquiryRequest(
        id=inquiry_id,
        source=source,
        question=InquiryQuestion(
            text=question.text,
            answer_type=InquiryAnswerType.model_validate(question.answer_type.recorded()),
            default=None if question.answer_type.has_secret else question.default,
            context=question.context,
            exclusive=question.exclusive,
            persistence=question.persistence,
            header=question.header,
            required=question.required,
        ),
    )


def answered(
    inquiry_id: str,
    question: Question,
    answer: JsonValue,
    channel: str | None,
    marks: Collection[Mark] = (),
) -> InquiryResponse:
    """Return the entry that closes an inquiry with an answer; a secret is redacted."""
    metadata: dict[str, JsonValue] = {"end": "answered"}
    if channel is not None:
        metadata["channel"] = channel
    metadata |= dict.fromkeys(sorted(marks), True)
    if question.answer_type.secret:
        return InquiryResponse(id=inquiry_id, outcome="redacted", metadata=metadata)
    kept = question.answer_type.kept(answer)
    return InquiryResponse(id=inquiry_id, outcome="answered", answer=kept, metadata=metadata)


def cancelled(
    inquiry_id: str, reason: CancelReason, *, end: str | None = None, channel: str | None = None
) -> InquiryResponse:
    """Return the entry that closes an inquiry without an answer."""
    metadata: dict[str, JsonValue] = {}
    if end is not None:
        metadata["end"] = end
    if channel is not None:
        metadata["channel"] = channel
    return InquiryResponse(id=inquiry_id, outcome="cancelled", reason=reason, metadata=metadata)


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
        return cancelled(inquiry_id, "user", end=end.end, channel=end.channel)
    return answered(inquiry_id, question, end.value, end.channel, end.marks)
