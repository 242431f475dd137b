"""Controls of a form, by type of answer.

Source: `docs/guide.md`, `docs/extending.md`, `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from importlib.resources import files
from typing import Any, Final

import ipywidgets as widgets
import traitlets
from anywidget import AnyWidget
from pydantic import JsonValue

from jp_nb.agent.prompts import EMPTY_MARK, ActionPrompt, Answered, QuestionPrompt
from jp_nb.rendering import prompt_text
from jp_nb.rendering.question_text import spell_option_labels
from jp_nb.text import plain, spell_prose
from jp_nb.toolkit.answer_types import (
    NONE_OF_THESE,
    AnswerType,
    BooleanAnswer,
    SecretAnswer,
    TextAnswer,
    UrlAnswer,
)
from jp_nb.toolkit.number_answer import IntegerAnswer, NumberAnswer
from jp_nb.toolkit.select_answer import OTHER_LABEL, Option, Picks, SelectAnswer

_FILES = files(__package__)


class Choices(AnyWidget):
    """List of options with descriptions, multiple choice, or a box for the user's own text.

    Its state is restored when the page is reloaded. The state comes from the page, so readers
    validate it against the question.

    Attributes:
        options: One `{"label": text, "description": text}` per option, shown as plain text.
        wanted: Text that says how many options to select; "" if any number is allowed.
        other: Label of the row with a box for the user's own text; "" without such a row.
        optional: Whether a single choice can be undone.
        picks: Indices of the selected options, in the order of the clicks. A single choice stays
            while the user's own text replaces it.
        custom: The user's own text; None if it is not part of the answer.
        draft: Content of the box for the user's own text.
        writing: Whether that box has the focus.
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

    @traitlets.validate("picks")
    def _validate_picks(self, proposal: Any) -> list[JsonValue]:
        # The page counts them.
        picks: list[JsonValue] = proposal["value"]
        known = {x for x in picks if type(x) is int and 0 <= x < len(self.options)}
        if len(known) < len(picks) or (len(picks) > 1 and not self.multi):
            raise traitlets.TraitError(NO_SUCH_OPTION)
        return picks


class SecretField(AnyWidget):
    """A password field. Its text stays in the page until the user sends it."""

    _esm = (_FILES / "secret.js").read_text(encoding="utf-8")
    hint = traitlets.Unicode("").tag(sync=True)


NOTHING_TYPED = "Nothing was typed."

FormMessage = Mapping[str, JsonValue]
"""The state of one control, which the page sends with a click.

It has `index`, or `value`, or both `picks` (indices, in the order of the clicks) and `custom` (a
text, or null). The state of the widget replaces missing keys. The form adds `confirmed`, which is
True if the user confirmed that the answer is empty.
"""


@dataclass(frozen=True, slots=True)
class NoValidAnswer:
    """A control without a valid answer.

    It is `blank` if it is empty, so that the question may stay open; otherwise, its content is
    invalid or incomplete. If it is `confirmable`, a read with `confirmed` gives an empty answer.
    """

    why: str
    blank: bool = False
    confirmable: bool = False


Read = Callable[[FormMessage], Answered | NoValidAnswer]
Listen = Callable[[Callable[[], None]], None]


@dataclass(frozen=True, slots=True)
class FormControl:
    """The control of one question.

    Attributes:
        widget: Widget of the answer, restored when the page is reloaded. None for buttons, and if
            the user only confirms.
        buttons: Answers of buttons that answer at once, by label. None if the user submits a value.
        separated: Labels of the buttons that a line separates from those before.
        in_use: Return True while the user writes a text, so that a deadline waits.
        observe: Register a callback for each change by the user.
    """

    widget: widgets.DOMWidget | None = None
    buttons: Mapping[str, Answered] | None = None
    separated: frozenset[str] = frozenset()
    read: Read = lambda _: NoValidAnswer(prompt_text.NO_BUTTON_CHOSEN, blank=True)
    in_use: Callable[[], bool] = lambda: False
    observe: Listen = lambda _: None

    def __post_init__(self) -> None:
        """Mark the widget for the page."""
        if self.widget is not None:
            self.widget.add_class("jp-nb-control")

    @property
    def model_id(self) -> str:
        """Id of the model whose state is the answer; "" for a secret or without a widget."""
        shown = self.widget
        return "" if shown is None or isinstance(shown, SecretField) else str(shown.model_id)

    def matches(self, reported: FormMessage) -> bool:
        """Return True if `reported`, sent with a click, has the current state of the widget."""
        named = [name for name in STATE if name in reported]
        return bool(named) and all(getattr(self.widget, x, None) == reported[x] for x in named)


STATE: Final = ("index", "value", "picks", "custom")
"""Traits of a control that hold an answer."""


def _observe_traits(widget: widgets.Widget, *names: str) -> Listen:
    return lambda call: widget.observe(lambda _: call(), names=names)


MAX_RADIO_BUTTONS: Final = 8
"""With more options, the control is a list with a filter."""

NO_OPTION = "Please choose an option first."
NO_SUCH_OPTION = "That is not one of the options. Please choose again."
SEND_NONE = f"No option is selected. Press the button again to answer: {NONE_OF_THESE}."
SEND_BLANK = "Your own answer is empty. Press the button again to send it."


def _make_select_control(prompt: QuestionPrompt, in_form: bool) -> FormControl:
    kind = prompt.question.answer_type
    assert isinstance(kind, SelectAnswer)
    is_described = any(option.description for option in kind.options)
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
        index = message.get("index", listed.index)
        if type(index) is int and 0 <= index < len(values):
            return Answered(values[index], "form")
        return NoValidAnswer(NO_OPTION, blank=True)

    return FormControl(listed, read=read, observe=_observe_traits(listed, "index"))


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
        reported = message
        if "picks" not in message:
            reported = {"picks": listed.picks, "custom": listed.custom}
        picks = _parse_picks(kind, reported)
        if picks is None:
            return NoValidAnswer(NO_SUCH_OPTION)
        return _read_picks(kind, picks, confirmed=message.get("confirmed") is True)

    def in_use() -> bool:
        return listed.custom is not None and bool(listed.writing or listed.custom.strip())

    changes = _observe_traits(listed, "picks", "custom", "draft", "search")
    return FormControl(listed, read=read, in_use=in_use, observe=changes)


def _get_initial_picks(prompt: QuestionPrompt, kind: SelectAnswer) -> Picks:
    # Without a default, a single choice starts with the recommended option. A multiple choice
    # starts empty.
    preset = prompt_text.get_preselected(prompt)
    given = None if preset is None else kind.picks(preset)
    if given is None and not kind.multi and kind.recommended_index is not None:
        return Picks((kind.recommended_index,))
    return given or Picks()


def _parse_picks(kind: SelectAnswer, reported: FormMessage) -> Picks | None:
    picks = reported.get("picks")
    custom = reported.get("custom")
    if not isinstance(picks, list) or not isinstance(custom, str | None):
        return None

    indices = tuple(x for x in picks if type(x) is int and 0 <= x < len(kind.options))
    if len({*indices}) < len(picks):  # an unknown option, or one twice
        return None
    if (custom is not None and not kind.other) or (len(indices) > 1 and not kind.multi):
        return None

    if custom is not None and not kind.multi:
        indices = ()
    return Picks(indices, custom)


def _read_picks(kind: SelectAnswer, picks: Picks, *, confirmed: bool) -> Answered | NoValidAnswer:
    # An empty selection and an empty own text are answers only after the user confirms them.
    if not kind.options and picks.custom is None:
        picks = Picks(custom="")  # the control is only a text box

    if picks == Picks() and not kind.multi:
        return NoValidAnswer(NO_OPTION, blank=True)

    answer = kind.answer(picks)
    if kind.misfit(answer):  # the number of options is the only possible error
        return NoValidAnswer(prompt_text.describe_expected_picks(kind), blank=picks == Picks())
    if picks.custom is not None and not picks.custom.strip():
        if not confirmed:
            return NoValidAnswer(SEND_BLANK, blank=not picks.indices, confirmable=True)
        return Answered(answer, "form", marks=EMPTY_MARK)
    if picks == Picks() and not confirmed:
        return NoValidAnswer(SEND_NONE, blank=True, confirmable=True)

    return Answered(answer, "form")


SEND_EMPTY = f"{NOTHING_TYPED} Press the button again to send an empty answer."

ReadText = Callable[[str, bool], Answered | NoValidAnswer]
"""Reads a typed text. The second argument is True if the user confirmed an empty answer."""


def _make_text_control(prompt: QuestionPrompt, in_form: bool) -> FormControl:
    kind = prompt.question.answer_type
    assert isinstance(kind, TextAnswer)
    if kind.format == "date":
        return _make_date_control(prompt, kind)

    draft = prompt_text.make_editable_text(prompt)

    def read(text: str, confirmed: bool) -> Answered | NoValidAnswer:
        if kind.format is not None:
            text = text.strip()
        answer = draft.unspell_edited(text)
        if answer.strip():
            return _validate_answer(kind, answer)
        if kind.misfit(answer):
            return NoValidAnswer(NOTHING_TYPED, blank=True)
        if in_form and not confirmed:
            return NoValidAnswer(SEND_EMPTY, blank=True, confirmable=True)

        if in_form:
            return Answered(answer, "form", marks=EMPTY_MARK)
        return Answered(answer, "form")

    if (kind.format or not kind.lines) and not prompt.is_code and "\n" not in draft.shown:
        return _make_text_box_control(_make_line_box(kind, draft.shown), read)

    rows = draft.shown.count("\n") + 2
    # A taller box does not fit on the screen.
    area = widgets.Textarea(value=draft.shown, rows=min(16, rows))
    if prompt.is_code or rows > 2:  # such as arguments in JSON
        area.add_class("jp-nb-code")

    return _make_text_box_control(area, read)


def _make_line_box(kind: AnswerType, value: str) -> widgets.Widget:
    hint = prompt_text.describe_expected(kind) if kind.misfit("any text") else ""
    return widgets.Text(value=value, placeholder=hint)


def _make_number_control(prompt: QuestionPrompt, _: bool) -> FormControl:
    kind = prompt.question.answer_type
    assert isinstance(kind, NumberAnswer)
    preset = prompt_text.get_preselected(prompt)

    def read(text: str, confirmed: bool) -> Answered | NoValidAnswer:
        if not text.strip():
            return NoValidAnswer(NOTHING_TYPED, blank=True)
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


def _make_text_box_control(box: widgets.Widget, read_text: ReadText) -> FormControl:
    initial = box.value

    def read(message: FormMessage) -> Answered | NoValidAnswer:
        value = message.get("value")
        text = value if isinstance(value, str) else box.value
        if isinstance(box, widgets.Text) and not _is_one_line(text):
            return NoValidAnswer(ONE_LINE_ONLY)
        return read_text(text, message.get("confirmed") is True)

    return FormControl(
        box,
        read=read,
        in_use=lambda: bool(box.value.strip()) and box.value != initial,
        observe=_observe_traits(box, "value"),
    )


ONE_LINE_ONLY = "Expected one line of text."
"""A page sends several lines from a box of one line only if the message is forged."""


def _is_one_line(text: str) -> bool:
    return not {"\n", "\r"} & set(text)


def _make_date_control(prompt: QuestionPrompt, kind: TextAnswer) -> FormControl:
    preset = prompt_text.get_preselected(prompt)
    initial = date.fromisoformat(preset) if isinstance(preset, str) else None
    # Browsers accept years of five digits, which `date` does not.
    picker = widgets.DatePicker(value=initial, max=date.max)

    def read(message: FormMessage) -> Answered | NoValidAnswer:
        value = message.get("value", picker.value and picker.value.isoformat())
        if value is None or value == "":
            return NoValidAnswer(NOTHING_TYPED, blank=True)
        day = value[:10] if isinstance(value, str) else value  # a page sends a time too
        return _validate_answer(kind, day)

    return FormControl(picker, read=read, observe=_observe_traits(picker, "value"))


def make_question_control(prompt: QuestionPrompt, *, in_form: bool = False) -> FormControl:
    """Return the control of a question. On a form page (`in_form`), no control answers at once."""
    return FORM_CONTROLS[type(prompt.question.answer_type)](prompt, in_form)


def make_action_buttons(prompt: ActionPrompt) -> FormControl:
    """Return a button for each action that a form offers."""
    offered = [action for action in prompt.actions if action.on_form]
    labels = spell_option_labels(tuple(action.label for action in offered))
    answers = [Answered(action.value, "form") for action in offered]
    separated = [x for x, action in zip(labels, offered, strict=True) if action.is_separated]

    return FormControl(
        buttons=dict(zip(labels, answers, strict=True)), separated=frozenset(separated)
    )


def _make_boolean_control(prompt: QuestionPrompt, in_form: bool) -> FormControl:
    if in_form:  # a button would answer before the user fills in the other fields
        options = tuple(
            Option(value=each.value, label=each.label) for each in prompt_text.CHOICES_ONCE
        )
        kind = SelectAnswer(options=options)
        question = prompt.question.model_copy(update={"answer_type": kind})
        return _make_select_control(replace(prompt, question=question), in_form)

    buttons = {}
    for choice in prompt_text.list_choices(prompt):
        mark = (
            f" ({prompt_text.SUGGESTED})"
            if choice is prompt_text.find_suggested_choice(prompt)
            else ""
        )
        buttons[choice.label + mark] = Answered(choice.value, "form", choice.remember)

    return FormControl(buttons=buttons)


def _make_secret_control(_: QuestionPrompt, __: bool) -> FormControl:
    def read(message: FormMessage) -> Answered | NoValidAnswer:
        value = message.get("value")
        if not isinstance(value, str) or not value:
            return NoValidAnswer(NOTHING_TYPED, blank=True)
        return Answered(value, "form") if _is_one_line(value) else NoValidAnswer(ONE_LINE_ONLY)

    return FormControl(SecretField(), read=read)


FORM_CONTROLS: Final[dict[type[AnswerType], Callable[[QuestionPrompt, bool], FormControl]]] = {
    BooleanAnswer: _make_boolean_control,
    SelectAnswer: _make_select_control,
    TextAnswer: _make_text_control,
    SecretAnswer: _make_secret_control,
    NumberAnswer: _make_number_control,
    IntegerAnswer: _make_number_control,
    # The link is above, in the head of the question: no key but its own opens it.
    UrlAnswer: lambda _, __: FormControl(read=lambda _: Answered(True, "form")),
}
"""Control by answer type. The second argument is True on a form page, where none answers at once.

A `form` has a page of fields instead.
"""
