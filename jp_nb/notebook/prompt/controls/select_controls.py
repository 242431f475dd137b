"""Controls of questions with options: radio buttons, or a list with a filter and descriptions.

*Picks* are the chosen options, as indices, and the user's own text (`Picks`).

Source: `docs/prompts.md`, `docs/guide.md`.
"""

from __future__ import annotations

from typing import Final

import ipywidgets as widgets

from jp_nb.agent.prompting.prompt_ends import EMPTY_MARK, Answered
from jp_nb.agent.prompting.prompts import QuestionPrompt
from jp_nb.notebook.prompt.answer_widgets import NO_SUCH_OPTION, Choices
from jp_nb.notebook.prompt.controls.form_control import (
    FormControl,
    FormMessage,
    NoValidAnswer,
    observe_traits,
)
from jp_nb.notebook.prompt.controls.stock_choices import StockChoices
from jp_nb.rendering.prompt_texts import prompt_text
from jp_nb.rendering.prompt_texts.question_text import spell_option_labels
from jp_nb.text import plain, spell_prose
from jp_nb.toolkit.question_types.answer_types import NONE_OF_THESE
from jp_nb.toolkit.question_types.select_answer import OTHER_LABEL, Picks, SelectAnswer

MAX_RADIO_BUTTONS: Final = 8
"""With more options, the control is a list with a filter."""

NO_OPTION = "Please choose an option first."
SEND_NONE = f"No option is selected. Press the button again to answer: {NONE_OF_THESE}."
SEND_BLANK = "Your own answer is empty. Press the button again to send it."


def make_select_control(prompt: QuestionPrompt, in_form: bool) -> FormControl:
    """Return radio buttons, or a list of options if they need more than labels."""
    kind = prompt.question.answer_type
    assert isinstance(kind, SelectAnswer)
    is_described = any(option.description for option in kind.options)
    # Several choices, the user's own text, or a recommended option.
    has_extras = kind.multi or kind.other or kind.recommended_index is not None
    is_long = len(kind.options) > MAX_RADIO_BUTTONS
    # The user cannot clear a radio button.
    can_be_cleared = in_form and not prompt.question.required

    if is_described or has_extras or is_long or can_be_cleared:
        return _make_choice_list(prompt, kind)

    return _make_radio_buttons(prompt, kind)


def _make_radio_buttons(prompt: QuestionPrompt, kind: SelectAnswer) -> FormControl:
    values = kind.values
    initial = _get_initial_picks(prompt, kind).indices
    index = initial[0] if initial else None
    listed = widgets.RadioButtons(options=spell_option_labels(kind.labels), index=index)

    def read(message: FormMessage) -> Answered | NoValidAnswer:
        index = message.get("index")
        if type(index) is int and 0 <= index < len(values):
            return Answered(values[index], "form")
        return NoValidAnswer(NO_OPTION, blank=True)

    return FormControl(listed, read=read, observe=observe_traits(listed, "index"))


def _make_choice_list(prompt: QuestionPrompt, kind: SelectAnswer) -> FormControl:
    options = []
    for label, option in zip(spell_option_labels(kind.labels), kind.options, strict=True):
        description = plain(spell_prose(option.description or "")).strip("\n")
        options.append({"label": label, "description": description})

    own_label = OTHER_LABEL if kind.other else ""
    recommended = None if kind.multi else kind.recommended_index
    listed = Choices(
        question=prompt_text.format_question(prompt),
        options=options,
        multi=kind.multi,
        other=own_label,
        recommended=recommended,
        wanted=prompt_text.describe_expected_picks(kind),
        optional=not prompt.question.required,
    )
    initial = _get_initial_picks(prompt, kind)
    listed.picks = [*initial.indices]
    listed.custom = initial.custom
    listed.draft = initial.custom or ""

    def read(message: FormMessage) -> Answered | NoValidAnswer:
        picks = _parse_picks(kind, message)
        if picks is None:
            return NoValidAnswer(NO_SUCH_OPTION)
        return _read_picks(kind, picks, confirmed=message.get("confirmed") is True)

    def in_use() -> bool:
        return listed.custom is not None and bool(listed.writing or listed.custom.strip())

    return FormControl(
        listed,
        read=read,
        in_use=in_use,
        observe=observe_traits(listed, "picks", "custom", "draft", "search"),
        make_stock_view=lambda: StockChoices(listed).widget,
    )


def _get_initial_picks(prompt: QuestionPrompt, kind: SelectAnswer) -> Picks:
    """Return the default. Without one, a single choice starts with the recommended option."""
    preset = prompt_text.get_preselected(prompt)
    picks = None if preset is None else kind.read_picks(preset)
    if picks is None and not kind.multi and kind.recommended_index is not None:
        return Picks((kind.recommended_index,))
    return picks or Picks()


def _parse_picks(kind: SelectAnswer, reported: FormMessage) -> Picks | None:
    """Return the picks that the page reports; None if the message is forged or malformed."""
    picks = reported.get("picks")
    custom = reported.get("custom")
    if not isinstance(picks, list) or not isinstance(custom, str | None):
        return None

    indices = tuple(x for x in picks if type(x) is int and 0 <= x < len(kind.options))
    if len({*indices}) < len(picks):  # an unknown option, or one twice
        return None
    has_forbidden_text = custom is not None and not kind.other
    has_too_many = len(indices) > 1 and not kind.multi
    if has_forbidden_text or has_too_many:
        return None

    if custom is not None and not kind.multi:  # the own text replaces the option
        indices = ()
    return Picks(indices, custom)


def _read_picks(kind: SelectAnswer, picks: Picks, *, confirmed: bool) -> Answered | NoValidAnswer:
    """Return the answer. An empty selection or own text needs a confirmation of the user."""
    if not kind.options and picks.custom is None:
        picks = Picks(custom="")  # the control is only a text box

    is_empty = picks == Picks()
    if is_empty and not kind.multi:
        return NoValidAnswer(NO_OPTION, blank=True)

    answer = kind.make_answer(picks)
    if kind.misfit(answer):  # the number of options is the only possible error
        return NoValidAnswer(prompt_text.describe_expected_picks(kind), blank=is_empty)

    if picks.custom is not None and not picks.custom.strip():
        if not confirmed:
            return NoValidAnswer(SEND_BLANK, blank=not picks.indices, confirmable=True)
        return Answered(answer, "form", marks=EMPTY_MARK)

    if is_empty and not confirmed:
        return NoValidAnswer(SEND_NONE, blank=True, confirmable=True)

    return Answered(answer, "form")
