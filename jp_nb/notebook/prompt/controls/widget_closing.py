"""Close the widgets of a form, except layouts and styles that other widgets still have.

A page may still send a message to a closed widget: this must print nothing.

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

SHARED_PARTS: WeakSet[widgets.Widget] = WeakSet()
"""Layouts and styles that other widgets may still have when one of their widgets is closed.

`SharedLook` (`widget_sharing.py`) adds them, and closes them last.
"""


def close_widgets(root: widgets.Widget) -> None:
    """Close `root` and all widgets in it, without a layout or style that others share."""
    for widget in [*walk_widgets(root)]:  # all are found before the first is closed
        if widget in SHARED_PARTS:
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
