"""The one widget of our own, and how the widgets of a form are closed.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import logging
from collections import deque
from importlib.resources import files

import ipywidgets as widgets
import traitlets
from anywidget import AnyWidget

_FILES = files(__package__)


class Beacon(AnyWidget):
    """The part of a form that runs in the page.

    It sends `{"type": "rendered"}`, `{"type": "cancel"}` and `{"type": "submit"}`; the last with
    `index` or `value`, because a click can overtake the change of the control that it submits.
    `{"type": "unchosen"}`, with the same, is a key that would have submitted what nobody chose.

    Attributes:
        control: Model id of the control whose state is the answer; "" if there is none.
        secret: Whether it shows a password field itself, whose text is in no widget's state.
        notify: Whether the page's title says that a prompt waits.
    """

    _esm = (_FILES / "form.js").read_text(encoding="utf-8")
    _css = (_FILES / "form.css").read_text(encoding="utf-8")
    control = traitlets.Unicode("").tag(sync=True)
    secret = traitlets.Bool(False).tag(sync=True)
    notify = traitlets.Bool(True).tag(sync=True)


def close_widgets(root: widgets.Widget) -> None:
    """Close `root` and all widgets in it."""
    pending = [root]
    while pending:
        widget = pending.pop()
        if widget.comm is not None:
            _LATE.add(widget.comm.comm_id)
        pending += getattr(widget, "children", ())
        # Each has its own layout and style, which nothing else would close.
        pending += [
            own
            for name in ("layout", "style")
            if isinstance(own := getattr(widget, name, None), widgets.Widget)
        ]
        widget.close()


class _LateMessages(logging.Filter):
    """Keeps quiet about messages that were on their way to a form when it was closed.

    Otherwise each of them leaves `No such comm: …` in the cell.
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


_LATE = _LateMessages()
