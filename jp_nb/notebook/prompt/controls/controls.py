"""Select the control of a form for a question or a decision: the table of controls by answer type.

Source: `docs/guide.md`, `docs/extending.md`, `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.agent.prompting.prompts import ActionPrompt, QuestionPrompt
from jp_nb.notebook.prompt.controls.form_control import FormControl
from jp_nb.notebook.prompt.controls.select_controls import make_select_control
from jp_nb.notebook.prompt.controls.text_controls import (
    make_number_control,
    make_secret_control,
    make_text_control,
)
from jp_nb.rendering.prompt_texts import prompt_text
from jp_nb.rendering.prompt_texts.boolean_choices import (
    CHOICES_ONCE,
    find_suggested_choice,
    list_choices,
)
from jp_nb.rendering.prompt_texts.option_labels import spell_option_labels
from jp_nb.toolkit.question_types.answer_types import (
    AnswerType,
    BooleanAnswer,
    SecretAnswer,
    UrlAnswer,
)
from jp_nb.toolkit.question_types.number_answer import IntegerAnswer, NumberAnswer
from jp_nb.toolkit.question_types.select_answer import SelectAnswer
from jp_nb.toolkit.question_types.select_options import Option
from jp_nb.toolkit.question_types.text_answer import TextAnswer


def make_question_control(prompt: QuestionPrompt, *, in_form: bool = False) -> FormControl:
    """Return the control of a question. On a form page (`in_form`), no control answers at once."""
    return FORM_CONTROLS[type(prompt.question.answer_type)](prompt, in_form)


def make_action_buttons(prompt: ActionPrompt) -> FormControl:
    """Return a button for each action that a form offers."""
    offered = [action for action in prompt.actions if action.on_form]
    labels = spell_option_labels(tuple(action.label for action in offered))
    buttons: dict[str, Answered] = {}
    separated = set[str]()

    for label, action in zip(labels, offered, strict=True):
        buttons[label] = Answered(action.value, "form")
        if action.is_separated:
            separated.add(label)

    return FormControl(buttons=buttons, separated=frozenset(separated))


def _make_boolean_control(prompt: QuestionPrompt, in_form: bool) -> FormControl:
    """Return a button for each choice; on a form page, options in their place."""
    if in_form:  # a button would answer before the user fills in the other fields
        return _make_boolean_options(prompt)

    suggested = find_suggested_choice(prompt)
    buttons = {}
    for choice in list_choices(prompt):
        label = choice.label
        if choice is suggested:
            label = f"{label} ({prompt_text.SUGGESTED})"

        buttons[label] = Answered(choice.value, "form", choice.remember)

    return FormControl(buttons=buttons)


def _make_boolean_options(prompt: QuestionPrompt) -> FormControl:
    options = [Option(value=choice.value, label=choice.label) for choice in CHOICES_ONCE]
    kind = SelectAnswer(options=tuple(options))
    question = prompt.question.model_copy(update={"answer_type": kind})

    return make_select_control(replace(prompt, question=question), True)


FORM_CONTROLS: Final[dict[type[AnswerType], Callable[[QuestionPrompt, bool], FormControl]]] = {
    BooleanAnswer: _make_boolean_control,
    SelectAnswer: make_select_control,
    TextAnswer: make_text_control,
    SecretAnswer: make_secret_control,
    NumberAnswer: make_number_control,
    IntegerAnswer: make_number_control,
    # No widget: the user only confirms. The link is above, in the head of the question.
    UrlAnswer: lambda _, __: FormControl(read=lambda _: Answered(True, "form")),
}
"""Control by answer type. The second argument is True on a form page, where none answers at once.

`FormAnswer` is not here: its fields are a page of their own.
"""
