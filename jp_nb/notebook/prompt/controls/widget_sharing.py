"""Share layouts and styles between the widgets of a form, and close widgets without them.

A shared layout or style stays open when one of its widgets is closed. A page may still send a
message to a closed widget: this must print nothing.

`FORM_COMMS` (`pump.py`) has the ids of the comms of open forms, which a page may not close.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import logging
from collections import deque
from weakref import WeakSet

import ipywidgets as widgets

from jp_nb.notebook.prompt.controls.form_messages import walk_widgets
from jp_nb.notebook.prompt.running_cell.pump import FORM_COMMS


class SharedLook:
    """Layouts and styles that the widgets of a form share.

    By default, ipywidgets gives each widget its own layout and style. A form with many widgets
    would then have three times as many models, and the page would draw it later.
    """

    def __init__(self) -> None:
        self._parts: dict[tuple[type[widgets.Widget], str | None], widgets.Widget] = {}

    def make_traits(
        self, kind: type[widgets.DOMWidget], *, width: str | None = None
    ) -> dict[str, widgets.Widget]:
        """Return the shared traits for a new widget of `kind`: `layout`, and `style` if it has one.

        The layout has this `width`; by default, that of the page.
        """
        traits = {"layout": self._find_part(widgets.Layout, width)}
        style = kind.class_traits().get("style")
        if style is not None:
            traits["style"] = self._find_part(style.klass, None)
        return traits

    def _find_part(self, kind: type[widgets.Widget], width: str | None) -> widgets.Widget:
        """Return the layout or style of this kind, made on first use."""
        key = (kind, width)
        if key not in self._parts:
            part = kind() if width is None else kind(width=width)
            _SHARED_PARTS.add(part)
            self._parts[key] = part
        return self._parts[key]

    def close(self) -> None:
        """Close the layouts and styles. Their widgets are closed before."""
        for part in self._parts.values():
            _SHARED_PARTS.discard(part)
            close_widgets(part)
        self._parts = {}


_SHARED_PARTS: WeakSet[widgets.Widget] = WeakSet()
"""Layouts and styles that other widgets may still have when one of their widgets is closed."""


def close_widgets(root: widgets.Widget) -> None:
    """Close `root` and all widgets in it, without a layout or style that others share."""
    for widget in [*walk_widgets(root)]:  # all are found before the first is closed
        if widget in _SHARED_PARTS:
            continue
        if widget.comm is not None:
            FORM_COMMS.discard(widget.comm.comm_id)
            _LATE_MESSAGES.add(widget.comm.comm_id)
        widget.close()


class _LateMessages(logging.Filter):
    """Drops log messages about the comms of closed forms.

    Otherwise, the package `comm` warns of each late message, in the output of the cell: `No such
    comm: …`. The id of the comm is an argument of that log message.
    """

    def __init__(self) -> None:
        super().__init__()
        self._ids: deque[str] = deque(maxlen=1000)
        logging.getLogger("Comm").addFilter(self)

    def add(self, comm_id: str) -> None:
        self._ids.append(comm_id)

    def filter(self, record: logging.LogRecord) -> bool:
        args = record.args if isinstance(record.args, tuple) else ()
        return not any(isinstance(arg, str) and arg in self._ids for arg in args)


_LATE_MESSAGES = _LateMessages()
