"""Controls of questions whose answer is typed: texts, numbers, dates, and secrets.

`controls.py` has a function for each answer type, all with the same parameters. Some do not need
them. A *misfit* is the reason why a value is no answer of the type; None if it is one.

Source: `docs/prompts.md`, `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import ipywidgets as widgets
from pydantic import JsonValue

from jp_nb.agent.prompting.prompt_ends import EMPTY_MARK, Answered
from jp_nb.agent.prompting.prompts import QuestionPrompt
from jp_nb.notebook.prompt.answer_widgets import SecretField
from jp_nb.notebook.prompt.controls.form_control import (
    FormControl,
    FormMessage,
    NoValidAnswer,
    observe_traits,
)
from jp_nb.rendering.prompt_texts import prompt_text
from jp_nb.rendering.prompt_texts.editable_text import make_editable_text
from jp_nb.toolkit.question_types.answer_types import AnswerType
from jp_nb.toolkit.question_types.number_answer import IntegerAnswer, NumberAnswer
from jp_nb.toolkit.question_types.text_answer import TextAnswer

NOTHING_TYPED = "Nothing was typed."

SEND_EMPTY = f"{NOTHING_TYPED} Press the button again to send an empty answer."

ONE_LINE_ONLY = "Expected one line of text."
"""A page sends several lines from a box of one line only if the message is forged."""

ReadText = Callable[[str, bool], Answered | NoValidAnswer]
"""Reads a typed text. The second argument is True if the user confirmed an empty answer."""


def make_text_control(prompt: QuestionPrompt, in_form: bool) -> FormControl:
    """Return a box of one or several lines, or a date picker.

    A blank text is an answer only if its type allows that. In a form, the user has to confirm it,
    because a field is also left empty by mistake.
    """
    kind = prompt.question.answer_type
    assert isinstance(kind, TextAnswer)
    if kind.format == "date":
        return _make_date_control(prompt, kind)

    # The text with invisible characters spelled out, as the user sees and edits it.
    draft = make_editable_text(prompt)

    def read(text: str, confirmed: bool) -> Answered | NoValidAnswer:
        if kind.format is not None:
            text = text.strip()
        answer = draft.unspell_edited(text)
        if answer.strip():
            return _validate_answer(kind, answer)

        # The text is blank.
        if kind.misfit(answer):
            return NoValidAnswer(NOTHING_TYPED, may_stay_open=True)
        if in_form and not confirmed:
            return NoValidAnswer(SEND_EMPTY, may_stay_open=True, confirmable=True)

        if in_form:
            return Answered(answer, "form", marks=EMPTY_MARK)  # the record says: empty on purpose
        return Answered(answer, "form")

    takes_one_line = bool(kind.format) or not kind.lines
    if takes_one_line and not prompt.is_code and "\n" not in draft.shown:
        return _make_text_box_control(_make_line_box(kind, draft.shown), read)

    rows = draft.shown.count("\n") + 2
    # A taller box does not fit on the screen.
    area = widgets.Textarea(value=draft.shown, rows=min(16, rows))
    if prompt.is_code or rows > 2:  # such as arguments in JSON
        area.add_class("jp-nb-code")

    return _make_text_box_control(area, read)


def _make_line_box(kind: AnswerType, value: str) -> widgets.Widget:
    """Return a box of one line, with a hint unless the type accepts any text."""
    hint = prompt_text.describe_expected(kind) if kind.misfit("any text") else ""
    return widgets.Text(value=value, placeholder=hint)


def make_number_control(prompt: QuestionPrompt, _: bool) -> FormControl:
    """Return a box for a number."""
    kind = prompt.question.answer_type
    assert isinstance(kind, NumberAnswer)
    preset = prompt_text.get_preselected(prompt)

    def read(text: str, confirmed: bool) -> Answered | NoValidAnswer:
        if not text.strip():
            return NoValidAnswer(NOTHING_TYPED, may_stay_open=True)
        try:
            return _validate_answer(kind, kind.from_text(text))
        except ValueError:
            return NoValidAnswer(f"expected {prompt_text.describe_expected(kind)}")

    value = "" if preset is None else str(preset)
    box = _make_line_box(kind, value)
    if isinstance(kind, IntegerAnswer):
        box.add_class("jp-nb-integer")
    else:
        box.add_class("jp-nb-number")
    return _make_text_box_control(box, read)


def _validate_answer(kind: AnswerType, answer: JsonValue) -> Answered | NoValidAnswer:
    if kind.misfit(answer):
        return NoValidAnswer(f"expected {prompt_text.describe_expected(kind)}")
    return Answered(answer, "form")


def _make_text_box_control(box: widgets.Widget, read_typed: ReadText) -> FormControl:
    """Return the control of a text box, whose text `read_typed` reads."""
    initial = box.value

    def read(message: FormMessage) -> Answered | NoValidAnswer:
        text = message.get("value")
        if not isinstance(text, str):
            return NoValidAnswer(NOTHING_TYPED, may_stay_open=True)
        if isinstance(box, widgets.Text) and not _is_one_line(text):
            return NoValidAnswer(ONE_LINE_ONLY)
        return read_typed(text, message.get("confirmed") is True)

    return FormControl(
        box,
        read=read,
        in_use=lambda: bool(box.value.strip()) and box.value != initial,
        observe=observe_traits(box, "value"),
    )


def _is_one_line(text: str) -> bool:
    return not {"\n", "\r"} & set(text)


def _make_date_control(prompt: QuestionPrompt, kind: TextAnswer) -> FormControl:
    """Return a date picker, whose state is a date, or a text with a date and a time."""
    preset = prompt_text.get_preselected(prompt)
    initial = date.fromisoformat(preset) if isinstance(preset, str) else None
    # Browsers accept years of five digits, which `date` does not.
    picker = widgets.DatePicker(value=initial, max=date.max)

    def read(message: FormMessage) -> Answered | NoValidAnswer:
        value = message.get("value")
        if value is None or value == "":
            return NoValidAnswer(NOTHING_TYPED, may_stay_open=True)
        day = value[:10] if isinstance(value, str) else value  # a page sends a time too
        return _validate_answer(kind, day)

    return FormControl(picker, read=read, observe=observe_traits(picker, "value"))


def make_secret_control(_: QuestionPrompt, __: bool) -> FormControl:
    """Return a password field."""

    def read(message: FormMessage) -> Answered | NoValidAnswer:
        value = message.get("value")
        if not isinstance(value, str) or not value:
            return NoValidAnswer(NOTHING_TYPED, may_stay_open=True)
        return Answered(value, "form") if _is_one_line(value) else NoValidAnswer(ONE_LINE_ONLY)

    return FormControl(SecretField(), read=read)
