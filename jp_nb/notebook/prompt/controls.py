"""The controls of a form: one entry in `FORM_CONTROLS` for each kind of question.

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
    SecretAnswer,
    TextAnswer,
)
from jp_nb.tooling.select_kind import SelectAnswer

RADIO_BUTTONS = 8
"""Up to so many options are all in view; beyond, a drop-down list holds them."""

MAX_ROWS = 16
"""Of the box for a text."""

Message = Mapping[str, JsonValue]
"""A message of the page: with `index` or `value`, as the control showed it there."""


def _nothing(_: Message) -> None:
    """Read nothing: a prompt with buttons alone has nothing to submit."""


@dataclass(frozen=True, slots=True)
class FormControl:
    """The part of a form that one prompt is answered with.

    Attributes:
        widget: Holds the answer; None if buttons or the password field do.
        buttons: Those that decide at once, by label. None: what was entered is submitted.
        secret: Whether the page shows a password field.
        read: Returns the answer that the page submits; None if there is none yet.
        missing: What is said then.
    """

    widget: widgets.Widget | None = None
    buttons: Mapping[str, Answered] | None = None
    secret: bool = False
    read: Callable[[Message], Answered | None] = _nothing
    missing: str = wording.NOTHING_CHOSEN


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


def _select(prompt: QuestionPrompt) -> FormControl:
    kind = prompt.question.answer_type
    assert isinstance(kind, SelectAnswer)
    options, preset = kind.values, wording.preselected(prompt)
    shown = widgets.RadioButtons if len(options) <= RADIO_BUTTONS else widgets.Dropdown
    listed = shown(
        options=wording.option_labels(kind.labels),
        index=None if preset is None else options.index(preset),
    )

    def read(message: Message) -> Answered | None:
        index = _index(message, listed, len(options))
        return None if index is None else Answered(options[index], "form")

    return FormControl(listed, read=read, missing="Please choose an option first.")


def _index(message: Message, widget: widgets.Widget, count: int) -> int | None:
    """Return which option is chosen: as the page says, else as the widget was last told."""
    index = message.get("index", widget.index)
    in_range = isinstance(index, int) and not isinstance(index, bool) and 0 <= index < count
    return index if in_range else None


def _textarea(prompt: QuestionPrompt) -> FormControl:
    draft = wording.draft(prompt)
    rows = draft.shown.count("\n") + 2
    area = widgets.Textarea(value=draft.shown, rows=min(MAX_ROWS, rows))
    if rows > 2:  # such as arguments in JSON
        area.add_class("jp-nb-code")

    def read(message: Message) -> Answered:
        value = message.get("value")
        return Answered(draft.meant(value if isinstance(value, str) else area.value), "form")

    return FormControl(area, read=read)


def _secret(_: QuestionPrompt) -> FormControl:
    def read(message: Message) -> Answered | None:
        value = message.get("value")
        return Answered(value, "form") if isinstance(value, str) and value else None

    return FormControl(secret=True, read=read, missing="Nothing was typed.")


FORM_CONTROLS: Final[dict[type[AnswerType], Callable[[QuestionPrompt], FormControl]]] = {
    BooleanAnswer: _boolean,
    SelectAnswer: _select,
    TextAnswer: _textarea,
    SecretAnswer: _secret,
}
"""Makes the control of each kind of question."""
