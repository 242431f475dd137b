"""The control of one question in a form: its widget, and the function that reads the answer.

The page sends the state of a control with each click (`FormMessage`), because the click can arrive
before the update of the widget. The answer is in this message alone, except for stock buttons,
which send no state: the traits of the widget are a draft, which reloaded and other pages show.
`FormControl.read` makes an answer of the message, or says why it is none.

Source: `docs/prompts.md`, `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

import ipywidgets as widgets
from pydantic import JsonValue

from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.notebook.prompt.answer_widgets import SecretField
from jp_nb.rendering.prompt_texts import prompt_text

FormMessage = Mapping[str, JsonValue]
"""The state of one control, which the page sends with a click.

It has `index`, or `value`, or both `picks` (indices, in the order of the clicks) and `custom` (a
text, or null). The form adds `confirmed`, which is True if the user confirmed that the answer is
empty. A click of a stock button has no state: then it is read from the widget.
"""


@dataclass(frozen=True, slots=True)
class NoValidAnswer:
    """A control without a valid answer.

    Attributes:
        why: The reason, in words for the user.
        may_stay_open: True if the control is empty, so that an optional question may stay open.
            Otherwise its content is invalid or incomplete.
        confirmable: True if a second press of the button sends an empty answer: a read with
            `confirmed` returns it.
    """

    why: str
    may_stay_open: bool = False
    confirmable: bool = False


Read = Callable[[FormMessage], Answered | NoValidAnswer]
"""Reads the answer in a message."""
Listen = Callable[[Callable[[], None]], None]
"""Registers a callback."""


@dataclass(frozen=True, slots=True)
class FormControl:
    """The control of one question.

    Attributes:
        widget: Widget of the answer, restored when the page is reloaded. None for buttons, and if
            the user only confirms.
        buttons: Answers of buttons that answer at once, by label. None if the user submits a value.
        separated: Labels of the buttons that a line separates from those before.
        make_stock_view: Make stock widgets with the same state, for pages that cannot load the
            module of `widget`. None if `widget` is a stock widget, or if there are none.
        read: Return the answer in a message, or the reason why it has none.
        in_use: Return True while the user writes a text, so that a deadline waits.
        observe: Register a callback for each change by the user.
    """

    widget: widgets.DOMWidget | None = None
    buttons: Mapping[str, Answered] | None = None
    separated: frozenset[str] = frozenset()
    read: Read = lambda _: NoValidAnswer(prompt_text.NO_BUTTON_CHOSEN, may_stay_open=True)
    in_use: Callable[[], bool] = lambda: False
    observe: Listen = lambda _: None
    make_stock_view: Callable[[], widgets.DOMWidget] | None = None

    def __post_init__(self) -> None:
        """Mark the widget for the page."""
        if self.widget is not None:
            self.widget.add_class("jp-nb-control")

    def get_state(self) -> FormMessage:
        """Return the state of the widget, in the form in which a page sends it."""
        state: dict[str, JsonValue] = {}
        for name in ANSWER_TRAITS:
            if self.widget is not None and self.widget.has_trait(name):
                value = getattr(self.widget, name)
                state[name] = value.isoformat() if isinstance(value, date) else value

        return state

    def read_report(self, reported: FormMessage, *, confirmed: bool) -> Answered | NoValidAnswer:
        """Return the answer in `reported`, or in the widget if the page reported no state."""
        state = reported
        if not any(name in reported for name in ANSWER_TRAITS):
            state = self.get_state()

        return self.read({**state, "confirmed": confirmed})

    @property
    def model_id(self) -> str:
        """Id of the model whose state is the answer; "" for a secret or without a widget."""
        if self.widget is None or isinstance(self.widget, SecretField):
            return ""

        return str(self.widget.model_id)

    def matches(self, reported: FormMessage) -> bool:
        """Return True if `reported`, sent with a click, has the current state of the widget.

        A change of the widget that matches the last click is its late update. Another one is a new
        entry of the user, after which an error of that click is no longer shown.
        """
        names = [name for name in ANSWER_TRAITS if name in reported]
        if not names:
            return False

        return all(getattr(self.widget, name, None) == reported[name] for name in names)


ANSWER_TRAITS: Final = ("index", "value", "picks", "custom")
"""Traits of a control that hold an answer."""


def observe_traits(widget: widgets.Widget, *names: str) -> Listen:
    """Return the `observe` of a control whose answer is in the traits `names` of `widget`."""
    return lambda call: widget.observe(lambda _: call(), names=names)
