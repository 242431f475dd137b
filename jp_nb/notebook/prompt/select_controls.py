"""The controls of a question with options.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from typing import Final

import ipywidgets as widgets

from jp_nb.agent.prompts import EMPTY_MARK, Answered, QuestionPrompt
from jp_nb.notebook.prompt.choices import Choices
from jp_nb.notebook.prompt.form_control import (
    FormControl,
    Message,
    Unread,
    changes,
)
from jp_nb.rendering import wording
from jp_nb.safe_text import plain, spell_prose
from jp_nb.tooling.select_kind import NONE_OF_THESE, OTHER, Picks, SelectAnswer

RADIO_BUTTONS: Final = 8
"""Up to so many options are all in view; beyond, a list that folds or is filtered holds them."""

NO_OPTION = "Please choose an option first."
NO_SUCH_OPTION = "That is not one of the options. Please choose again."
SEND_NONE = f"No option is selected. Press the button again to answer: {NONE_OF_THESE}."
SEND_BLANK = "Your own answer is empty. Press the button again to send it."


def select_control(prompt: QuestionPrompt) -> FormControl:
    """Return the control of a question that stands alone."""
    kind = _select_kind(prompt)
    return _choices(prompt, kind) if _has_more(kind) else _plain_select(prompt, kind)


def select_field(prompt: QuestionPrompt) -> FormControl:
    """Return what a question that stands alone has; for many options a list with a filter.

    A choice that may be left open can be taken back, as no radio button can.
    """
    kind = _select_kind(prompt)
    is_list = len(kind.options) > RADIO_BUTTONS or not prompt.question.required
    return _choices(prompt, kind) if is_list or _has_more(kind) else _plain_select(prompt, kind)


def _select_kind(prompt: QuestionPrompt) -> SelectAnswer:
    kind = prompt.question.answer_type
    assert isinstance(kind, SelectAnswer)
    return kind


def _has_more(kind: SelectAnswer) -> bool:
    """Return True if the options are more than labels of which one is chosen."""
    described = any(option.description for option in kind.options)
    return kind.multi or kind.other or described or kind.recommended_index is not None


def _plain_select(prompt: QuestionPrompt, kind: SelectAnswer) -> FormControl:
    values = kind.values
    shown = widgets.RadioButtons if len(values) <= RADIO_BUTTONS else widgets.Dropdown
    at_first = _picked_at_first(prompt, kind).indices
    listed = shown(
        options=wording.option_labels(kind.labels),
        index=at_first[0] if at_first else None,
    )

    def read(message: Message) -> Answered | Unread:
        index = message.get("index", listed.index)
        in_range = type(index) is int and 0 <= index < len(values)
        return Answered(values[index], "form") if in_range else Unread(NO_OPTION, blank=True)

    return FormControl(listed, read=read, observe=changes(listed, "index"))


def _choices(prompt: QuestionPrompt, kind: SelectAnswer) -> FormControl:
    listed = Choices(
        question=wording.question(prompt),
        options=[
            {
                "label": label,
                "description": plain(spell_prose(option.description or "")).strip("\n"),
            }
            for label, option in zip(wording.option_labels(kind.labels), kind.options, strict=True)
        ],
        multi=kind.multi,
        other=OTHER if kind.other else "",
        recommended=None if kind.multi else kind.recommended_index,
        wanted=wording.picks_wanted(kind),
        optional=not prompt.question.required,
    )
    at_first = _picked_at_first(prompt, kind)
    listed.picks, listed.custom = [*at_first.indices], at_first.custom
    listed.draft = at_first.custom or ""

    def read(message: Message) -> Answered | Unread:
        told = message if "picks" in message else {"picks": listed.picks, "custom": listed.custom}
        picks = _picks(kind, told)
        if picks is None:
            return Unread(NO_SUCH_OPTION)
        return _chosen(kind, picks, confirmed=message.get("confirmed") is True)

    return FormControl(
        listed,
        read=read,
        in_use=lambda: bool(
            listed.custom is not None and (listed.writing or listed.custom.strip())
        ),
        observe=changes(listed, "picks", "custom", "draft", "search"),
    )


def _picked_at_first(prompt: QuestionPrompt, kind: SelectAnswer) -> Picks:
    """Return the default, else the recommended option; of several, none is ticked for anybody."""
    preset = wording.preselected(prompt)
    given = None if preset is None else kind.picks(preset)
    if given is None and not kind.multi and kind.recommended_index is not None:
        return Picks((kind.recommended_index,))
    return given or Picks()


def _picks(kind: SelectAnswer, told: Message) -> Picks | None:
    """Return what the page says is picked; None if it cannot be."""
    picks, custom = told.get("picks"), told.get("custom")
    if not isinstance(picks, list) or not isinstance(custom, str | None):
        return None
    indices = tuple(x for x in picks if type(x) is int and 0 <= x < len(kind.options))
    if len(indices) < len(picks) or len({*indices}) < len(indices):
        return None
    if (custom is not None and not kind.other) or (len(indices) > 1 and not kind.multi):
        return None
    return Picks(indices if kind.multi or custom is None else (), custom)


def _chosen(kind: SelectAnswer, picks: Picks, *, confirmed: bool) -> Answered | Unread:
    """Return the answer that `picks` are; nothing, and an empty own text, are to be confirmed."""
    if not kind.options and picks.custom is None:
        picks = Picks(custom="")  # its box is all there is
    if picks == Picks() and not kind.multi:
        return Unread(NO_OPTION, blank=True)
    answer = kind.answer(picks)
    if kind.misfit(answer):  # only how many may be wrong
        return Unread(wording.picks_wanted(kind), blank=picks == Picks())
    if picks.custom is not None and not picks.custom.strip():
        if not confirmed:
            return Unread(SEND_BLANK, blank=not picks.indices, confirmable=True)
        return Answered(answer, "form", marks=EMPTY_MARK)
    if picks == Picks() and not confirmed:
        return Unread(SEND_NONE, blank=True, confirmable=True)
    return Answered(answer, "form")
