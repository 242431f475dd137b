"""Entries of the record for a question and its outcome, without secrets.

A question of an earlier run is compared with the present one, before its recorded answer is used.

Source: `docs/record.md`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from jp_nb.json_values import as_object
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
from jp_nb.text import one_line
from jp_nb.toolkit.question import Question

# The notice about an answer that was recorded before an interruption, for a question that is now
# another one.
NOT_AS_RECORDED_NOTICE: Final = (
    'The recorded answer to "{}" is not used, because the question changed: {}'
)


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


def list_question_changes(before: InquiryQuestion, now: InquiryQuestion) -> list[str]:
    """Return the parts of a question that changed, in words."""
    changed: list[str] = []
    if before.text != now.text:
        changed.append("its text")
    if before.context != now.context:
        changed.append("its description")
    if before.default != now.default:
        changed.append("its default")

    if before.answer_type != now.answer_type:
        old = _get_fields_by_id(before.answer_type)
        new = _get_fields_by_id(now.answer_type)
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        changed += [f"the field `{one_line(name, limit=80)}`" for name in names]
        if not names:
            changed.append("its kind of answer")

    if not changed and before != now:
        changed.append("its settings")
    return changed


def _get_fields_by_id(kind: InquiryAnswerType) -> dict[str, JsonValue]:
    """Return the fields of a form, by id; none for another type of answer."""
    fields = kind.to_raw().get("fields")
    if not isinstance(fields, list):
        return {}
    objects = [as_object(field) for field in fields]
    return {str(field.get("id")): field for field in objects}


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
