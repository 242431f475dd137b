"""Compare a recorded question with the question that its tool asks now.

After an interruption, a tool runs again. The recorded answer to its question is used only if the
question is the same.

Source: `docs/turns.md`, `docs/record.md`.
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from jp_nb.json_values import as_object
from jp_nb.record.entries.inquiry_events import InquiryAnswerType, InquiryQuestion
from jp_nb.text import one_line

NOT_AS_RECORDED_NOTICE: Final = (
    'The recorded answer to "{}" is not used, because the question changed: {}'
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
