"""Make the entries of the record for a question and its outcome, without secrets.

Source: `docs/record.md`.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import JsonValue

from jp_nb.record.entries.inquiry_events import (
    InquiryAnswerType,
    InquiryQuestion,
    InquiryRequest,
    InquiryResponse,
    InquirySource,
)
from jp_nb.record.entries.outcomes import (
    QuestionOutcome,
    make_inquiry_response,
)
from jp_nb.record.reading.call_marks import SERVER
from jp_nb.toolkit.question import Question


def make_inquiry_request(
    inquiry_id: str, source: InquirySource, question: Question, *, server: str = ""
) -> InquiryRequest:
    """Return the entry that opens an inquiry, with the `server` that asks, if there is one."""
    metadata: dict[str, JsonValue] = {SERVER: server} if server else {}
    recorded = make_recorded_question(question)
    return InquiryRequest(id=inquiry_id, source=source, question=recorded, metadata=metadata)


def make_recorded_question(question: Question) -> InquiryQuestion:
    """Return the form of `question` for the record, without secrets."""
    default = None if question.answer_type.has_secret else question.default
    return InquiryQuestion(
        text=question.text,
        answer_type=InquiryAnswerType.model_validate(question.answer_type.to_record()),
        default=default,
        context=question.context,
        exclusive=question.exclusive,
        persistence=question.persistence,
        header=question.header,
        required=question.required,
    )


def make_closing_entry(
    inquiry_id: str, question: Question, outcome: QuestionOutcome, answer: JsonValue = None
) -> InquiryResponse:
    """Return the entry that closes the inquiry of `question`, without secrets."""
    if not outcome.is_answered:
        return make_inquiry_response(inquiry_id, outcome)

    kind = question.answer_type
    # `secret`: the whole answer is. A form with a secret field (`has_secret`) is recorded, and only
    # that field is redacted.
    marked = replace(outcome, is_secret=kind.is_secret)
    return make_inquiry_response(inquiry_id, marked, kind.redacted(answer))
