"""Controls of questions with options: radio buttons, or a list with a filter and descriptions.

*Picks* are the chosen options, as indices, and the user's own text (`Picks`).

Source: `docs/prompts.md`, `docs/guide.md`.
"""

from __future__ import annotations

from typing import Final

import ipywidgets as widgets

from jp_nb.agent.prompting.prompt_ends import EMPTY_MARK, Answered
from jp_nb.agent.prompting.prompts import QuestionPrompt
from jp_nb.exact_form import spell_prose
from jp_nb.notebook.prompt.answer_widgets import NO_SUCH_OPTION, Choices
from jp_nb.notebook.prompt.controls.form_control import (
    FormControl,
    FormMessage,
    NoValidAnswer,
    observe_traits,
)
from jp_nb.notebook.prompt.controls.stock_choices import StockChoices
from jp_nb.rendering.prompt_texts import prompt_text
from jp_nb.rendering.prompt_texts.option_labels import spell_option_labels
from jp_nb.text import plain
from jp_nb.toolkit.question_types.answer_types import NONE_OF_THESE
from jp_nb.toolkit.question_types.select_answer import OTHER_LABEL, Picks, SelectAnswer

MAX_RADIO_BUTTONS: Final = 8
"""With more options, the control is a list with a filter."""

NO_OPTION = "Please choose an option first."
SEND_NONE = f"No option is selected. Press the button again to answer: {NONE_OF_THESE}."
SEND_BLANK = "Your own answer is empty. Press the button again to send it."


def make_select_control(prompt: QuestionPrompt, in_form: bool) -> FormControl:
    """Return radio buttons, or a list of options if they need more than labels."""
    answer_type = prompt.question.answer_type
    assert isinstance(answer_type, SelectAnswer)
    is_described = any(option.description for option in answer_type.options)
    is_recommended = answer_type.recommended_index is not None
    is_long = len(answer_type.options) > MAX_RADIO_BUTTONS
    takes_more_than_one_option = answer_type.multi or answer_type.other
    can_be_cleared = in_form and not prompt.question.required  # radio buttons cannot be cleared

    needs_more_than_labels = is_described or is_recommended or is_long
    if needs_more_than_labels or takes_more_than_one_option or can_be_cleared:
        return _make_choice_list(prompt, answer_type)

    return _make_radio_buttons(prompt, answer_type)


def _make_radio_buttons(prompt: QuestionPrompt, answer_type: SelectAnswer) -> FormControl:
    values = answer_type.values
    initial = _get_initial_picks(prompt, answer_type).indices
    index = initial[0] if initial else None
    listed = widgets.RadioButtons(options=spell_option_labels(answer_type.labels), index=index)

    def read(message: FormMessage) -> Answered | NoValidAnswer:
        index = message.get("index")
        if type(index) is int and 0 <= index < len(values):
            return Answered(values[index], "form")
        return NoValidAnswer(NO_OPTION, may_stay_open=True)

    return FormControl(listed, read=read, observe=observe_traits(listed, "index"))


def _make_choice_list(prompt: QuestionPrompt, answer_type: SelectAnswer) -> FormControl:
    """Return the list `Choices`, whose state is the picks and the own text."""
    options = []
    for label, option in zip(
        spell_option_labels(answer_type.labels), answer_type.options, strict=True
    ):
        description = plain(spell_prose(option.description or "")).strip("\n")
        options.append({"label": label, "description": description})

    own_label = OTHER_LABEL if answer_type.other else ""
    recommended = None if answer_type.multi else answer_type.recommended_index
    listed = Choices(
        question=prompt_text.format_question(prompt),
        options=options,
        multi=answer_type.multi,
        other=own_label,
        recommended=recommended,
        wanted=prompt_text.describe_expected_picks(answer_type),
        optional=not prompt.question.required,
    )
    initial = _get_initial_picks(prompt, answer_type)
    listed.picks = [*initial.indices]
    listed.custom = initial.custom
    listed.draft = initial.custom or ""  # content of the text box, also while it is not chosen

    def read(message: FormMessage) -> Answered | NoValidAnswer:
        picks = _parse_picks(answer_type, message)
        if picks is None:
            return NoValidAnswer(NO_SUCH_OPTION)
        return _make_answer(answer_type, picks, confirmed=message.get("confirmed") is True)

    # The own text is chosen, and the user writes it now, or has begun to.
    def in_use() -> bool:
        return listed.custom is not None and bool(listed.writing or listed.custom.strip())

    return FormControl(
        listed,
        read=read,
        in_use=in_use,
        observe=observe_traits(listed, "picks", "custom", "draft", "search"),
        make_stock_view=lambda: StockChoices(listed).widget,
    )


def _get_initial_picks(prompt: QuestionPrompt, answer_type: SelectAnswer) -> Picks:
    """Return the default. Without one, a single choice starts with the recommended option."""
    preset = prompt_text.get_preselected(prompt)
    picks = None if preset is None else answer_type.read_picks(preset)
    if picks is None and not answer_type.multi and answer_type.recommended_index is not None:
        return Picks((answer_type.recommended_index,))
    return picks or Picks()


def _parse_picks(answer_type: SelectAnswer, reported: FormMessage) -> Picks | None:
    """Return the picks that the page reports; None if the message is forged or malformed."""
    picks = reported.get("picks")
    custom = reported.get("custom")
    if not isinstance(picks, list) or not isinstance(custom, str | None):
        return None

    count = len(answer_type.options)
    indices = tuple(pick for pick in picks if type(pick) is int and 0 <= pick < count)
    if len({*indices}) < len(picks):  # an unknown option, or one twice
        return None
    has_forbidden_text = custom is not None and not answer_type.other
    has_too_many = len(indices) > 1 and not answer_type.multi
    if has_forbidden_text or has_too_many:
        return None

    if custom is not None and not answer_type.multi:  # the own text replaces the option
        indices = ()
    return Picks(indices, custom)


def _make_answer(
    answer_type: SelectAnswer, picks: Picks, *, confirmed: bool
) -> Answered | NoValidAnswer:
    """Return the answer, or the reason why there is none.

    An empty single choice is no answer. An empty multiple choice, and an empty own text, are
    answers that the user has to confirm.
    """
    if not answer_type.options and picks.custom is None:
        picks = Picks(custom="")  # the control is only a text box

    is_empty = picks == Picks()
    if is_empty and not answer_type.multi:
        return NoValidAnswer(NO_OPTION, may_stay_open=True)

    answer = answer_type.make_answer(picks)
    if answer_type.misfit(answer):  # the number of options is the only possible error
        return NoValidAnswer(
            prompt_text.describe_expected_picks(answer_type), may_stay_open=is_empty
        )

    has_blank_text = picks.custom is not None and not picks.custom.strip()
    if has_blank_text:
        if not confirmed:
            is_nothing_chosen = not picks.indices
            return NoValidAnswer(SEND_BLANK, may_stay_open=is_nothing_chosen, confirmable=True)
        return Answered(answer, "form", marks=EMPTY_MARK)  # the record says: empty on purpose

    if is_empty and not confirmed:
        return NoValidAnswer(SEND_NONE, may_stay_open=True, confirmable=True)

    return Answered(answer, "form")
