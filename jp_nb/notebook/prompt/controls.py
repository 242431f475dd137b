"""The controls of a form: one entry in `FORM_CONTROLS` for each kind of question but `form`.

Source: `docs/guide.md`, `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import ipywidgets as widgets
from pydantic import JsonValue

from jp_nb.agent.prompts import ActionPrompt, Answered, QuestionPrompt
from jp_nb.rendering import wording
from jp_nb.tooling.question_kinds import (
    AnswerType,
    BooleanAnswer,
    IntegerAnswer,
    NumberAnswer,
    SecretAnswer,
    TextAnswer,
)
from jp_nb.tooling.select_kind import SelectAnswer

RADIO_BUTTONS = 8
"""Up to so many options are all in view; beyond, a drop-down list holds them."""

MAX_ROWS = 16
"""Of the box for a text."""

NOTHING_TYPED = "Nothing was typed."
NO_OPTION = "Please choose an option first."
SEND_EMPTY = "Nothing was typed. To send an empty answer, send it once more."

Message = Mapping[str, JsonValue]
"""What the page sends of one control together with a click, as the control showed it there.

`index`, `value`, or `picks` (indices, in the order of the clicks) and `custom` (a text, or null);
`confirmed` is true once the person was told that the answer is empty, and sends it all the same.
Without them the state of the widget counts.
"""


@dataclass(frozen=True, slots=True)
class Unread:
    """A control holds no answer.

    Attributes:
        why: What the person is told.
        blank: True if nothing was entered: such a question may be left open. A control that can
            give an empty answer gives it when it is read again with `confirmed`. False if what was
            entered does not fit; it stays where it is.
    """

    why: str
    blank: bool = False


Read = Callable[[Message], Answered | Unread]
Listen = Callable[[Callable[[], None]], None]


def _nothing(_: Message) -> Unread:
    """Read nothing: a prompt with buttons alone has nothing to submit."""
    return Unread(wording.NOTHING_CHOSEN, blank=True)


def _no_text() -> bool:
    return False


def _unheard(_: Callable[[], None]) -> None:
    """Call nothing back: what has no widget never changes here."""


@dataclass(frozen=True, slots=True)
class FormControl:
    """The part of a form that one question is answered with.

    Attributes:
        widget: Holds the answer, also for a page that is loaded again; None if buttons or the
            password field do.
        buttons: Those that decide at once, by label. None: what was entered is submitted.
        secret: Whether the page shows a password field.
        read: Returns the answer that the page submits, or why there is none.
        in_use: Whether a text is being written in it, so that a deadline waits.
        observe: Calls back upon every change that the person makes.
    """

    widget: widgets.Widget | None = None
    buttons: Mapping[str, Answered] | None = None
    secret: bool = False
    read: Read = _nothing
    in_use: Callable[[], bool] = _no_text
    observe: Listen = _unheard


def question_controls(prompt: QuestionPrompt) -> FormControl:
    """Return the control of a question that stands alone."""
    return FORM_CONTROLS[type(prompt.question.answer_type)](prompt)


def field_control(prompt: QuestionPrompt) -> FormControl:
    """Return the control of a question beside others, or with Next: nothing in it acts at once."""
    kind = type(prompt.question.answer_type)
    return FIELD_CONTROLS.get(kind, FORM_CONTROLS[kind])(prompt)


def action_buttons(prompt: ActionPrompt) -> FormControl:
    """Return a button for each action that a form has."""
    offered = [action for action in prompt.actions if action.on_form]
    labels = wording.option_labels(tuple(action.label for action in offered))
    answers = [Answered(action.value, "form") for action in offered]
    return FormControl(buttons=dict(zip(labels, answers, strict=True)))


def _boolean(prompt: QuestionPrompt) -> FormControl:
    suggested = wording.suggested(prompt)
    return FormControl(
        buttons={
            f"{choice.label} ({wording.SUGGESTED})" if choice is suggested else choice.label: (
                Answered(choice.value, "form", remember=choice.remember)
            )
            for choice in wording.choices(prompt)
        }
    )


def _yes_or_no(prompt: QuestionPrompt) -> FormControl:
    offered, preset = wording.choices(prompt), wording.suggested(prompt)
    listed = widgets.RadioButtons(
        options=[choice.label for choice in offered],
        index=None if preset is None else offered.index(preset),
    )
    answers = [Answered(choice.value, "form", remember=choice.remember) for choice in offered]
    return _one_of(listed, answers)


def _select(prompt: QuestionPrompt) -> FormControl:
    kind = prompt.question.answer_type
    assert isinstance(kind, SelectAnswer)
    options, preset = kind.values, wording.preselected(prompt)
    shown = widgets.RadioButtons if len(options) <= RADIO_BUTTONS else widgets.Dropdown
    listed = shown(
        options=wording.option_labels(kind.labels),
        index=None if preset is None else options.index(preset),
    )
    return _one_of(listed, [Answered(value, "form") for value in options])


def _one_of(listed: widgets.Widget, answers: list[Answered]) -> FormControl:
    """Return the control that is a list of these answers."""

    def read(message: Message) -> Answered | Unread:
        index = message.get("index", listed.index)
        in_range = type(index) is int and 0 <= index < len(answers)
        return answers[index] if in_range else Unread(NO_OPTION, blank=True)

    return FormControl(listed, read=read, observe=_changes(listed, "index"))


def _changes(widget: widgets.Widget, *names: str) -> Listen:
    return lambda call: widget.observe(lambda _: call(), names=names)


def _textarea(prompt: QuestionPrompt) -> FormControl:
    area, meant = _area(prompt)
    return _text_control(prompt, area, lambda text, _: Answered(meant(text), "form"))


def _text_field(prompt: QuestionPrompt) -> FormControl:
    """Return a box for a text that is sent empty only on purpose."""
    area, meant = _area(prompt)

    def read(text: str, message: Message) -> Answered | Unread:
        if text.strip():
            return Answered(meant(text), "form")
        if message.get("confirmed") is not True:
            return Unread(SEND_EMPTY, blank=True)
        return Answered(text, "form", marks=frozenset({"empty"}))

    return _text_control(prompt, area, read)


def _area(prompt: QuestionPrompt) -> tuple[widgets.Widget, Callable[[str], str]]:
    draft = wording.draft(prompt)
    rows = draft.shown.count("\n") + 2
    area = widgets.Textarea(value=draft.shown, rows=min(MAX_ROWS, rows))
    if rows > 2:  # such as arguments in JSON
        area.add_class("jp-nb-code")
    return area, draft.meant


def _number(prompt: QuestionPrompt) -> FormControl:
    kind = prompt.question.answer_type
    assert isinstance(kind, NumberAnswer)
    preset = wording.preselected(prompt)
    box = widgets.Text(value="" if preset is None else str(preset))

    def read(text: str, _: Message) -> Answered | Unread:
        if not text.strip():
            return Unread(NOTHING_TYPED, blank=True)
        try:
            number = kind.from_text(text)
        except ValueError:
            return Unread(f"expected {kind.expects}")
        return Answered(number, "form")

    return _text_control(prompt, box, read)


def _text_control(
    prompt: QuestionPrompt,
    box: widgets.Widget,
    read_text: Callable[[str, Message], Answered | Unread],
) -> FormControl:
    """Return the control that is a box for a text; an answer that does not fit stays in it."""
    kind, untouched = prompt.question.answer_type, box.value

    def read(message: Message) -> Answered | Unread:
        value = message.get("value")
        found = read_text(value if isinstance(value, str) else box.value, message)
        if isinstance(found, Answered) and kind.misfit(found.value):
            return Unread(f"expected {kind.expects}")
        return found

    return FormControl(
        box,
        read=read,
        in_use=lambda: bool(box.value.strip()) and box.value != untouched,
        observe=_changes(box, "value"),
    )


def _secret(_: QuestionPrompt) -> FormControl:
    def read(message: Message) -> Answered | Unread:
        value = message.get("value")
        typed = isinstance(value, str) and value
        return Answered(value, "form") if typed else Unread(NOTHING_TYPED, blank=True)

    return FormControl(secret=True, read=read)


FORM_CONTROLS: Final[dict[type[AnswerType], Callable[[QuestionPrompt], FormControl]]] = {
    BooleanAnswer: _boolean,
    SelectAnswer: _select,
    TextAnswer: _textarea,
    SecretAnswer: _secret,
    NumberAnswer: _number,
    IntegerAnswer: _number,
}
"""Makes the control of each kind of question; one of kind `form` is a page of fields."""

FIELD_CONTROLS: Final[dict[type[AnswerType], Callable[[QuestionPrompt], FormControl]]] = {
    BooleanAnswer: _yes_or_no,
    TextAnswer: _text_field,
}
"""Makes the control of a field where it differs from that of a question that stands alone."""
