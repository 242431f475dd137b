"""Accept only the messages that the page of a form sends to its widgets.

Any code in a page, and any front end of the kernel, can send messages to a widget. ipywidgets sets
each trait that they name, tells all pages, and shows a traceback in the cell for a value that does
not fit. For the widgets of a form, a message that `form.js` and the controls do not send has no
effect: it changes no text of the form, and removes no part of it.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import ipywidgets as widgets
from anywidget import AnyWidget

from jp_nb.json_limits import MAX_STORED_LEVELS, is_deeper
from jp_nb.notebook.prompt.answer_widgets import Choices
from jp_nb.notebook.prompt.running_cell.pump import FORM_COMMS
from jp_nb.storable_json import make_storable

log = logging.getLogger(__name__)

PAGE_TRAITS: Final[tuple[tuple[type[widgets.Widget], tuple[str, ...]], ...]] = (
    (Choices, ("picks", "custom", "draft", "search", "writing")),
    (widgets.RadioButtons, ("index",)),
    (widgets.Dropdown, ("index",)),
    (widgets.Checkbox, ("value",)),
    (widgets.Play, ("value", "playing")),
    (widgets.Text, ("value",)),
    (widgets.Textarea, ("value",)),
    (widgets.DatePicker, ("value",)),
)
"""Traits that a page changes, by the class of the widget. It changes no other trait of a form."""


def walk_widgets(root: widgets.Widget) -> Iterator[widgets.Widget]:
    """Yield `root` and all widgets in it, with their layouts and styles."""
    pending = [root]
    while pending:
        widget = pending.pop()
        yield widget
        pending += getattr(widget, "children", ())
        # Each widget has its own layout and style, which nothing else contains.
        parts = (getattr(widget, name, None) for name in ("layout", "style"))
        pending += [part for part in parts if isinstance(part, widgets.Widget)]


def guard_widgets(root: widgets.Widget) -> None:
    """Ignore all messages to `root`, and to all widgets in it, that a form's page does not send.

    `FORM_COMMS` has the ids of all guarded comms. A page cannot close these (`pump.py`).
    """
    for widget in walk_widgets(root):
        comm = widget.comm
        if comm is not None and comm.comm_id not in FORM_COMMS:
            comm.on_msg(partial(_receive, widget))
            FORM_COMMS.add(comm.comm_id)


def _receive(widget: widgets.Widget, message: Mapping[str, Any]) -> None:
    """Handle a message of a page to a widget, which may be forged."""
    data = message["content"].get("data")
    is_closed = widget.comm is None
    if is_closed or is_deeper(data, MAX_STORED_LEVELS):
        return

    match make_storable(data):
        case {"method": "update", "state": dict() as state}:
            _update(widget, state)
        case {"method": "request_state"}:
            widget.send_state()
        case {"method": "custom", "content": {"event": "click"}} if isinstance(
            widget, widgets.Button
        ):
            widget.click()
        case {"method": "custom", "content": dict() as content} if isinstance(widget, AnyWidget):
            widget._handle_custom_msg(content, [])
        case _:
            log.debug("A message to a widget of a form was ignored")


def _update(widget: widgets.Widget, state: Mapping[str, Any]) -> None:
    """Set the traits that a page may change, if all their values fit."""
    names = next((names for kind, names in PAGE_TRAITS if isinstance(widget, kind)), ())
    accepted = {name: state[name] for name in names if name in state}
    if not accepted:
        return

    try:
        _check_values(widget, accepted)
    except Exception:  # whatever a validator or a deserializer of ipywidgets raises
        log.debug("A page sent a value that does not fit", exc_info=True)
        return

    widget.set_state(accepted)


def _check_values(widget: widgets.Widget, state: Mapping[str, Any]) -> None:
    """Raise an exception if a value does not fit.

    `set_state` sends a value to all pages before it refuses it. They would show the value, or, once
    they got the present state again, lose the choice that their user has just made.
    """
    for name, value in state.items():
        trait = widget.traits()[name]
        deserialize = trait.metadata.get("from_json", widget._trait_from_json)
        trait._validate(widget, deserialize(value, widget))
