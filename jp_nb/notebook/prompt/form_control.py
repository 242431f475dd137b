"""The part of a form that one question is answered with, whatever its kind.

Source: `docs/prompts.md`, `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import ipywidgets as widgets
from pydantic import JsonValue

from jp_nb.agent.prompts import Answered
from jp_nb.rendering import wording

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


def changes(widget: widgets.Widget, *names: str) -> Listen:
    """Return what calls back when the person changes one of these traits of `widget`."""
    return lambda call: widget.observe(lambda _: call(), names=names)
