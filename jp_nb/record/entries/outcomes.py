"""Outcomes of questions: as the record stores them, and in words.

The record stores `outcome` (answered, cancelled, redacted) and a `reason`. The *end* of a question
is one word for both, such as `declined`, and `END_WORDS` has its texts for user and model.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, get_args

from pydantic import JsonValue

from jp_nb.exact_form import format_user_name
from jp_nb.record.entries.events import BY, InquiryResponse, read_recorded_by

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
"""Stored reason of each end without an answer."""
SEEN_ENDS: Final = frozenset(end for end, reason in REASONS.items() if reason == "user")
"""Ends of a question that the user saw and did not answer."""
_NOT_STORED: Final = frozenset[QuestionEnd](["denied", "invalid", "failed"])
"""Ends that only the reason stores."""
_BY_NAME: Final[Mapping[str, QuestionEnd]] = {
    **{reason: end for end, reason in REASONS.items() if reason != "user"},
    **{end: end for end in REASONS},
}
"""Ends by their names, and by reasons that belong to one end."""


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """Outcome of a question.

    Attributes:
        end: `answered`, or why there is no answer: `declined` (left open), `unavailable` (no user
            was available), `denied` (only a user may answer), `invalid` (the prepared answer does
            not fit), `failed` (no model could answer), `open` (there is no outcome yet), and so on.
            No tool receives one of the last four.
        channel: Source of the outcome. For the user, it is `form`, `stdin`, or `terminal`.
            Otherwise it is `configured`, `answers` (an answers file), `remembered`, or `model`.
            None for an automatic answer, or if it is unknown.
        marks: `auto` if the user did not choose the answer, `timed_out` if it was given when the
            time limit passed, and `empty` if it is blank on purpose. A declined question is
            `refused` if the user pressed Decline, and was not only left open.
        by: Name of the user, if several users share the notebook. It is not verified.
        is_secret: True if the answer is a secret, which is not recorded.
        unexpected: Stored reason that is not one of `REASONS`, or another stored end of an
            answered question.
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
    """Return the outcome that `response` stores. Any record can be read."""
    stored = response.metadata.get("end")
    reason = response.reason

    end: QuestionEnd = "answered"
    unexpected = stored if isinstance(stored, str) and stored != "answered" else None

    if response.outcome == "cancelled":
        end = _BY_NAME.get(str(stored)) or _BY_NAME.get(str(reason), "cancelled")
        unexpected = None if reason in REASONS.values() else reason

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


NOT_IN_TIME: Final = "the user did not answer in time"


class EndWords(NamedTuple):
    """Words for an end without an answer.

    Attributes:
        user: For the user.
        status: For the model, in the result of `ask`.
        cause: For the model, in the result of `ask`, as the reason of the status.
        response: For the model, in the response to a call that ends without the answer.
    """

    user: str
    status: str = "cancelled"
    cause: str = "the user did not answer it"
    response: str = "Tool input cancelled by user."


END_WORDS: Final[Mapping[QuestionEnd, EndWords]] = {
    "declined": EndWords(
        "not answered",
        "not answered",
        "the user left it open on purpose",
        "Tool input declined by user.",
    ),
    "cancelled": EndWords("cancelled"),
    "timed_out": EndWords(
        "timed out", "timed out", NOT_IN_TIME, "The tool's question was not answered in time."
    ),
    "interrupted": EndWords(
        "interrupted",
        "not answered",
        "an interrupt closed the form",
        "The tool's question was not answered: an interrupt closed it.",
    ),
    "unavailable": EndWords("no user was available", "not answered", "no user was available"),
    "denied": EndWords("only a user may answer"),
    "invalid": EndWords("the prepared answer does not fit"),
    "failed": EndWords("no model could answer"),
    "open": EndWords("open"),
}
REFUSED: Final = "declined"
"""The end of a question that is `refused`, for the user."""


def end_in_words(end: QuestionEnd, marks: Collection[AnswerMark]) -> str:
    """Return an end without an answer, for the user."""
    return REFUSED if "refused" in marks else END_WORDS[end].user


class ChannelWords(NamedTuple):
    """Words for the source of an answer.

    Attributes:
        origin: For the user, after the answer; "" if the user just gave it.
        source: For the model, before the answer in the result of `ask`; None for no words.
        person: For both, in the history of questions.
    """

    origin: str = ""
    source: str | None = None
    person: str = "the user"


CHANNEL_WORDS: Final[Mapping[str, ChannelWords]] = {
    "form": ChannelWords(),
    "stdin": ChannelWords(),
    "terminal": ChannelWords(),
    "remembered": ChannelWords(
        "remembered", "answered by the user earlier in this turn", "the user (remembered)"
    ),
    "recorded": ChannelWords("recorded", person="recorded"),
    "configured": ChannelWords(
        "configured", "configured by the user in advance", "the configuration"
    ),
    "answers": ChannelWords(
        "answers file", "answered by the user in advance", "the user, in an answers file"
    ),
    "model": ChannelWords("model", "answered by another model, not by the user", "a model"),
}


def describe_source(outcome: QuestionOutcome) -> str:
    """Return who answered, for the history of questions; "" if that is unknown."""
    if "auto" in outcome.marks:
        reason = " (timed out)" if "timed_out" in outcome.marks else ""
        return f"an automatic choice{reason}"

    channel = outcome.channel or ""
    words = CHANNEL_WORDS.get(channel)
    source = channel if words is None else words.person
    return source if outcome.by is None else f"{source} ({format_user_name(outcome.by)})"
