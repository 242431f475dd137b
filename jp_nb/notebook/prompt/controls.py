"""Controls of a form, by type of answer.

Source: `docs/guide.md`, `docs/extending.md`, `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from importlib.resources import files
from typing import Final

import ipywidgets as widgets
import traitlets
from anywidget import AnyWidget
from pydantic import JsonValue

from jp_nb.agent.prompts import EMPTY_MARK, ActionPrompt, Answered, QuestionPrompt
from jp_nb.rendering import prompts as prompt_text
from jp_nb.text import plain, spell_prose
from jp_nb.tools.answer_types import (
    NONE_OF_THESE,
    OTHER,
    AnswerType,
    BooleanAnswer,
    IntegerAnswer,
    NumberAnswer,
    Option,
    Picks,
    SecretAnswer,
    SelectAnswer,
    TextAnswer,
)

_FILES = files(__package__)


class Choices(AnyWidget):
    """The list that a question with more than bare options is answered with.

    Its state is what the person did, so that a page that is loaded again shows it again. Nothing in
    it is trusted: whoever reads it holds it against the question.

    Attributes:
        question: What the list is called for those who do not see it.
        options: `{"label": text, "description": text}` each, in order; shown as text alone.
        multi: Whether several may be ticked.
        wanted: Says how many are to be picked; "": any number may be.
        recommended: Index of the option that is marked; None: none is.
        other: What the row with a box for an own text is called; "": there is none.
        optional: Whether a choice of one can be taken back.
        picks: Indices of what is picked, in the order of the clicks. Where only one may be picked
            it stays while an own text stands in its place.
        custom: The own text; None while it is no part of the answer.
        draft: The own text as it stands in the box.
        search: What the list is filtered by; changes nothing that is picked.
        writing: Whether the box for an own text has the focus.
    """

    _esm = (_FILES / "choices.js").read_text(encoding="utf-8")
    _css = (_FILES / "choices.css").read_text(encoding="utf-8")
    question = traitlets.Unicode("").tag(sync=True)
    options: traitlets.List[dict[str, str]] = traitlets.List().tag(sync=True)
    multi = traitlets.Bool(False).tag(sync=True)
    wanted = traitlets.Unicode("").tag(sync=True)
    recommended = traitlets.Int(None, allow_none=True).tag(sync=True)
    other = traitlets.Unicode("").tag(sync=True)
    optional = traitlets.Bool(False).tag(sync=True)
    picks: traitlets.List[JsonValue] = traitlets.List().tag(sync=True)
    custom = traitlets.Unicode(None, allow_none=True).tag(sync=True)
    draft = traitlets.Unicode("").tag(sync=True)
    search = traitlets.Unicode("").tag(sync=True)
    writing = traitlets.Bool(False).tag(sync=True)


NOTHING_TYPED = "Nothing was typed."

Message = Mapping[str, JsonValue]
"""The state of one control on the page, which the page sends with a click.

`index`, `value`, or `picks` (indices, in the order of the clicks) and `custom` (a text, or null);
`confirmed` is true if the user confirmed that the answer is empty. The state of the widget is used
for missing keys.
"""


@dataclass(frozen=True, slots=True)
class Unread:
    """A control holds no answer.

    Attributes:
        why: What the person is told.
        blank: True if nothing was entered: such a question may be left open. False if what was
            entered does not fit, or is not complete; it stays where it is.
        confirmable: True if the control, read again with `confirmed`, gives an empty answer.
    """

    why: str
    blank: bool = False
    confirmable: bool = False


Read = Callable[[Message], Answered | Unread]
Listen = Callable[[Callable[[], None]], None]


def _nothing(_: Message) -> Unread:
    """Read nothing: a prompt with buttons alone has nothing to submit."""
    return Unread(prompt_text.NOTHING_CHOSEN, blank=True)


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


def changes(widget: widgets.Widget, *names: str) -> Listen:
    """Return what calls back when the person changes one of these traits of `widget`."""
    return lambda call: widget.observe(lambda _: call(), names=names)


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
        options=prompt_text.option_labels(kind.labels),
        index=at_first[0] if at_first else None,
    )

    def read(message: Message) -> Answered | Unread:
        index = message.get("index", listed.index)
        in_range = type(index) is int and 0 <= index < len(values)
        return Answered(values[index], "form") if in_range else Unread(NO_OPTION, blank=True)

    return FormControl(listed, read=read, observe=changes(listed, "index"))


def _choices(prompt: QuestionPrompt, kind: SelectAnswer) -> FormControl:
    listed = Choices(
        question=prompt_text.question(prompt),
        options=[
            {
                "label": label,
                "description": plain(spell_prose(option.description or "")).strip("\n"),
            }
            for label, option in zip(
                prompt_text.option_labels(kind.labels), kind.options, strict=True
            )
        ],
        multi=kind.multi,
        other=OTHER if kind.other else "",
        recommended=None if kind.multi else kind.recommended_index,
        wanted=prompt_text.picks_wanted(kind),
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
    preset = prompt_text.preselected(prompt)
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
        return Unread(prompt_text.picks_wanted(kind), blank=picks == Picks())
    if picks.custom is not None and not picks.custom.strip():
        if not confirmed:
            return Unread(SEND_BLANK, blank=not picks.indices, confirmable=True)
        return Answered(answer, "form", marks=EMPTY_MARK)
    if picks == Picks() and not confirmed:
        return Unread(SEND_NONE, blank=True, confirmable=True)
    return Answered(answer, "form")


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
    draft = prompt_text.draft(prompt)

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
    hint = prompt_text.wanted(kind) if kind.misfit("any text") else ""
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
    preset = prompt_text.preselected(prompt)

    def read(text: str, _: Confirmed) -> Answered | Unread:
        if not text.strip():
            return Unread(NOTHING_TYPED, blank=True)
        try:
            return _fitting(kind, kind.from_text(text))
        except ValueError:
            return Unread(f"expected {prompt_text.wanted(kind)}")

    box = _line(kind, "" if preset is None else str(preset))
    box.add_class("jp-nb-integer" if isinstance(kind, IntegerAnswer) else "jp-nb-number")
    return _box_control(box, read)


def _fitting(kind: AnswerType, answer: JsonValue) -> Answered | Unread:
    if kind.misfit(answer):
        return Unread(f"expected {prompt_text.wanted(kind)}")
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
    preset = prompt_text.preselected(prompt)
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
    labels = prompt_text.option_labels(tuple(action.label for action in offered))
    answers = [Answered(action.value, "form") for action in offered]
    return FormControl(buttons=dict(zip(labels, answers, strict=True)))


def _boolean(prompt: QuestionPrompt) -> FormControl:
    suggested = prompt_text.suggested(prompt)
    return FormControl(
        buttons={
            f"{choice.label} ({prompt_text.SUGGESTED})" if choice is suggested else choice.label: (
                Answered(choice.value, "form", remember=choice.remember)
            )
            for choice in prompt_text.choices(prompt)
        }
    )


def _yes_or_no(prompt: QuestionPrompt) -> FormControl:
    """Return both answers as options: a button would answer before the rest is."""
    options = tuple(Option(value=each.value, label=each.label) for each in prompt_text.ONCE)
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
