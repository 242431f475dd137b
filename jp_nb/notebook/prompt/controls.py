"""The controls of a form: one entry in `FORM_CONTROLS` for each kind of question but `form`.

Source: `docs/guide.md`, `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from jp_nb.agent.prompts import ActionPrompt, Answered, QuestionPrompt
from jp_nb.notebook.prompt.form_control import (
    NOTHING_TYPED,
    FormControl,
    Message,
    Unread,
)
from jp_nb.notebook.prompt.select_controls import select_control, select_field
from jp_nb.notebook.prompt.text_controls import number_control, text_control, text_field
from jp_nb.rendering import wording
from jp_nb.tooling.question_kinds import (
    AnswerType,
    BooleanAnswer,
    IntegerAnswer,
    NumberAnswer,
    SecretAnswer,
    TextAnswer,
)
from jp_nb.tooling.select_kind import Option, SelectAnswer


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
    """Return both answers as options: a button would answer before the rest is."""
    options = tuple(Option(value=each.value, label=each.label) for each in wording.ONCE)
    kind = SelectAnswer(options=options)
    question = prompt.question.model_copy(update={"answer_type": kind})
    return select_field(replace(prompt, question=question))


def _secret(_: QuestionPrompt) -> FormControl:
    def read(message: Message) -> Answered | Unread:
        value = message.get("value")
        typed = isinstance(value, str) and value
        return Answered(value, "form") if typed else Unread(NOTHING_TYPED, blank=True)

    return FormControl(secret=True, read=read)


FORM_CONTROLS: Final[dict[type[AnswerType], Callable[[QuestionPrompt], FormControl]]] = {
    BooleanAnswer: _boolean,
    SelectAnswer: select_control,
    TextAnswer: text_control,
    SecretAnswer: _secret,
    NumberAnswer: number_control,
    IntegerAnswer: number_control,
}
"""Makes the control of each kind of question; one of kind `form` is a page of fields."""

FIELD_CONTROLS: Final[dict[type[AnswerType], Callable[[QuestionPrompt], FormControl]]] = {
    BooleanAnswer: _yes_or_no,
    SelectAnswer: select_field,
    TextAnswer: text_field,
}
"""Makes the control of a field where it differs from that of a question that stands alone."""
