"""The controls of a question for a text, a number or a date.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Final

import ipywidgets as widgets
from pydantic import JsonValue

from jp_nb.agent.prompts import EMPTY_MARK, Answered, QuestionPrompt
from jp_nb.notebook.prompt.form_control import (
    NOTHING_TYPED,
    FormControl,
    Message,
    Unread,
    changes,
)
from jp_nb.rendering import wording
from jp_nb.tooling.question_kinds import AnswerType, IntegerAnswer, NumberAnswer, TextAnswer

MAX_ROWS: Final = 16
"""Of the box for a text."""
SEND_EMPTY = f"{NOTHING_TYPED} Press the button again to send an empty answer."

Confirmed = bool
"""True if the user confirmed that the answer is empty."""
ReadText = Callable[[str, Confirmed], Answered | Unread]


def text_control(prompt: QuestionPrompt) -> FormControl:
    """Return the control of a question that stands alone: an empty text is an answer, too."""
    return _text(prompt, lambda text, _: Answered(text, "form"))


def text_field(prompt: QuestionPrompt) -> FormControl:
    """Return the control of a field: an empty text is sent once it is confirmed."""

    def read_empty(text: str, confirmed: Confirmed) -> Answered | Unread:
        if not confirmed:
            return Unread(SEND_EMPTY, blank=True, confirmable=True)
        return Answered(text, "form", marks=EMPTY_MARK)

    return _text(prompt, read_empty)


def _text(prompt: QuestionPrompt, read_empty: ReadText) -> FormControl:
    kind = prompt.question.answer_type
    assert isinstance(kind, TextAnswer)
    if kind.format == "date":
        return _date(prompt, kind)
    draft = wording.draft(prompt)

    def read(text: str, confirmed: Confirmed) -> Answered | Unread:
        answer = draft.meant(text if kind.format is None else text.strip())
        if answer.strip():
            return _fitting(kind, answer)
        if kind.misfit(answer):
            return Unread(NOTHING_TYPED, blank=True)
        return read_empty(answer, confirmed)

    one_line = kind.format is not None or not kind.lines
    one_line = one_line and not prompt.is_code and "\n" not in draft.shown
    box = _line(kind, draft.shown) if one_line else _area(draft.shown, is_code=prompt.is_code)
    return _box_control(box, read)


def _line(kind: AnswerType, value: str) -> widgets.Widget:
    hint = wording.wanted(kind) if kind.misfit("any text") else ""
    return widgets.Text(value=value, placeholder=hint)


def _area(value: str, *, is_code: bool) -> widgets.Widget:
    rows = value.count("\n") + 2
    area = widgets.Textarea(value=value, rows=min(MAX_ROWS, rows))
    if is_code or rows > 2:  # such as arguments in JSON
        area.add_class("jp-nb-code")
    return area


def number_control(prompt: QuestionPrompt) -> FormControl:
    """Return a box for a number."""
    kind = prompt.question.answer_type
    assert isinstance(kind, NumberAnswer)
    preset = wording.preselected(prompt)

    def read(text: str, _: Confirmed) -> Answered | Unread:
        if not text.strip():
            return Unread(NOTHING_TYPED, blank=True)
        try:
            return _fitting(kind, kind.from_text(text))
        except ValueError:
            return Unread(f"expected {wording.wanted(kind)}")

    box = _line(kind, "" if preset is None else str(preset))
    box.add_class("jp-nb-integer" if isinstance(kind, IntegerAnswer) else "jp-nb-number")
    return _box_control(box, read)


def _fitting(kind: AnswerType, answer: JsonValue) -> Answered | Unread:
    if kind.misfit(answer):
        return Unread(f"expected {wording.wanted(kind)}")
    return Answered(answer, "form")


def _box_control(box: widgets.Widget, read_text: ReadText) -> FormControl:
    """Return the control that is a box for a text; one that does not fit stays in it."""
    at_first = box.value

    def read(message: Message) -> Answered | Unread:
        value = message.get("value")
        text = value if isinstance(value, str) else box.value
        return read_text(text, message.get("confirmed") is True)

    return FormControl(
        box,
        read=read,
        in_use=lambda: bool(box.value.strip()) and box.value != at_first,
        observe=changes(box, "value"),
    )


def _date(prompt: QuestionPrompt, kind: TextAnswer) -> FormControl:
    preset = wording.preselected(prompt)
    picker = widgets.DatePicker(
        value=date.fromisoformat(preset) if isinstance(preset, str) else None,
        max=date.max,  # a page would take years of five digits
    )

    def read(message: Message) -> Answered | Unread:
        value = message.get("value", picker.value and picker.value.isoformat())
        if value is None or value == "":
            return Unread(NOTHING_TYPED, blank=True)
        return _fitting(kind, value[:10] if isinstance(value, str) else value)

    return FormControl(picker, read=read, observe=changes(picker, "value"))
