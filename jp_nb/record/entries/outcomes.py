"""Outcomes of questions, as the record stores them.

The record stores `outcome` (answered, cancelled, redacted) and a `reason`, which are those of JP:
another program that reads the same records. JP knows few reasons, so `metadata.end` also stores the
*end* of the question, one word for outcome and reason, such as `declined`. `outcome_words.py` has
the texts about it for user and model.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from pydantic import JsonValue

from jp_nb.record.entries.events import BY, read_recorded_by
from jp_nb.record.entries.inquiry_events import InquiryResponse

QuestionEnd = Literal[
    "answered",
    "declined",
    "cancelled",
    "timed_out",
    "interrupted",
    "unavailable",
    "denied",
    "invalid",
    "failed",
    "open",
]
AnswerMark = Literal["auto", "timed_out", "empty", "refused"]
ANSWER_MARKS: Final[tuple[AnswerMark, ...]] = get_args(AnswerMark)
REASONS: Final[Mapping[QuestionEnd, str]] = {
    "declined": "user",
    "cancelled": "user",
    "timed_out": "user",
    "interrupted": "user",
    "unavailable": "no_prompt_backend",
    "denied": "assistant_routing_denied",
    "invalid": "invalid_static_answer",
    "failed": "backend_error",
}
"""Stored reason of each end without an answer. It is `user` if the user saw the question."""
SEEN_ENDS: Final = frozenset(end for end, reason in REASONS.items() if reason == "user")
"""Ends of a question that the user saw and did not answer."""
_NOT_STORED: Final = frozenset[QuestionEnd](["denied", "invalid", "failed"])
"""Ends of questions that were not for the user. They are not stored in the metadata, which has only
ends of questions for the user: the stored reason names them."""
_BY_NAME: Final[Mapping[str, QuestionEnd]] = {
    **{reason: end for end, reason in REASONS.items() if reason != "user"},
    **{end: end for end in REASONS},
}
"""Ends by their stored names, and by reasons that belong to one end."""


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """Outcome of a question.

    Attributes:
        end: `answered`, or why there is no answer: `declined` (left open), `unavailable` (no user
            was available), `denied` (only a user may answer), `invalid` (the prepared answer does
            not fit), `failed` (no model could answer), `open` (there is no outcome yet), and so on.
            No tool receives `denied`, `invalid`, `failed`, or `open`.
        channel: Source of the outcome. For the user, it is `form`, `stdin`, or `terminal`.
            Otherwise it is `configured`, `answers` (an answers file), `remembered`, or `model`.
            None for an automatic answer, or if it is unknown.
        marks: `auto` if the user did not choose the answer, `timed_out` if it was given when the
            time limit passed, and `empty` if it is blank on purpose. A declined question is
            `refused` if the user pressed Decline, and was not only left open.
        by: Name of the user, if several users share the notebook. It is not verified.
        is_secret: True if the answer is a secret, which is not recorded.
        unexpected: Stored text that this version does not write. Without an answer, it is a reason
            that is not one of `REASONS`. With an answer, it is an end other than `answered`.
    """

    end: QuestionEnd
    channel: str | None = None
    marks: frozenset[AnswerMark] = frozenset()
    by: str | None = None
    is_secret: bool = False
    unexpected: str | None = None

    @property
    def is_answered(self) -> bool:
        """True if there is an answer."""
        return self.end == "answered"

    @property
    def was_seen(self) -> bool:
        """True if the user saw the question, and did not answer it."""
        return self.end in SEEN_ENDS

    @property
    def reason(self) -> str | None:
        """Stored reason, if there is no answer."""
        if self.is_answered:
            return None
        return self.unexpected or REASONS.get(self.end)

    @property
    def stored(self) -> Literal["answered", "redacted", "cancelled"] | None:
        """Field `outcome` in the record; None while the question is open."""
        if self.end == "open":
            return None
        if self.is_secret:
            return "redacted"
        return "answered" if self.is_answered else "cancelled"


ANSWERED: Final = QuestionOutcome("answered")
OPEN: Final = QuestionOutcome("open")


def make_inquiry_response(
    inquiry_id: str, outcome: QuestionOutcome, answer: JsonValue = None
) -> InquiryResponse:
    """Return the entry that closes an inquiry. `answer` contains no secret."""
    end = None if outcome.end in _NOT_STORED else outcome.end
    stored: dict[str, JsonValue] = {"end": end, "channel": outcome.channel, BY: outcome.by}
    metadata = {key: value for key, value in stored.items() if value is not None}
    metadata |= dict.fromkeys(sorted(outcome.marks), True)

    kind = outcome.stored
    assert kind is not None  # an open question has no response
    stored_answer = answer if kind == "answered" else None
    return InquiryResponse(
        id=inquiry_id,
        outcome=kind,
        answer=stored_answer,
        reason=outcome.reason,
        metadata=metadata,
    )


def read_question_outcome(response: InquiryResponse) -> QuestionOutcome:
    """Return the outcome that `response` stores. Unknown ends and reasons are no error."""
    stored_end = response.metadata.get("end")
    reason = response.reason
    end: QuestionEnd
    unexpected: str | None = None

    if response.outcome == "cancelled":
        # Older records have only the reason.
        end = _BY_NAME.get(str(stored_end)) or _BY_NAME.get(str(reason), "cancelled")
        if reason not in REASONS.values():
            unexpected = reason
    else:
        end = "answered"
        if isinstance(stored_end, str) and stored_end != "answered":
            unexpected = stored_end

    is_secret = response.outcome == "redacted"
    outcome = read_outcome_fields(end, response.metadata)

    return replace(outcome, is_secret=is_secret, unexpected=unexpected)


def read_outcome_fields(end: QuestionEnd, fields: Mapping[str, JsonValue]) -> QuestionOutcome:
    """Return the outcome with the channel, marks, and user in `fields`.

    `fields` is the metadata of a response, or an entry of the question log.
    """
    channel = fields.get("channel")
    if not isinstance(channel, str):
        channel = None
    return QuestionOutcome(
        end,
        channel,
        frozenset(mark for mark in ANSWER_MARKS if fields.get(mark) is True),
        read_recorded_by(fields),
    )
