"""The widgets of our own, and how the widgets of a form are closed.

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

    It sends `{"type": …, "step": …}` and with it what each control shows, because a click can
    overtake the change of the control that it submits: the state of the only control, such as
    `"index": 2`, or `"fields"` with one such object for each control.

    - `rendered`: this step of the form is visible.
    - `submit`, `next`, `go-2`, …: a button `jp-nb-do-…`, or a key that stands for it.
    - `unchosen`: a key that would have submitted what nobody chose.
    - `cancel`: Esc, unless there are `only_buttons`.
    - `writing`, with a `value`: whether the person is in a box for a text.

    It hears `{"type": "announce", …}`, which tells the person of the form if nobody sees it, and
    `{"type": "focus", "field": 0}`.

    Attributes:
        controls: Model ids of the controls that are up, in order; "" for a password field, whose
            text is in no widget's state.
        screen: Class of the widget that must be visible; "" if the form has one screen.
        step: Which step of the form is up. A click on an earlier one changes nothing.
        timed: Whether there is a deadline, which waits for who is writing.
        notify: Whether the page's title says that a prompt waits.
        only_buttons: Whether Esc sends nothing and leaves the form for the cell.
    """

    _esm = (_FILES / "form.js").read_text(encoding="utf-8")
    _css = (_FILES / "form.css").read_text(encoding="utf-8")
    controls = traitlets.List(traitlets.Unicode()).tag(sync=True)
    screen = traitlets.Unicode("").tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    timed = traitlets.Bool(False).tag(sync=True)
    notify = traitlets.Bool(True).tag(sync=True)
    only_buttons = traitlets.Bool(False).tag(sync=True)

    def announce(self, header: str | None) -> None:
        """Have the browser notify the person, if it may and nobody sees the form."""
        self.send({"type": "announce", "header": header or "", "tag": self.model_id})

    def focus(self, field: int) -> None:
        """Put the focus into a control, if it is in the form already."""
        self.send({"type": "focus", "field": field})


class SecretField(AnyWidget):
    """A password field. What is typed into it stays in the page until it is sent.

    Attributes:
        hint: What stands in it while it is empty.
    """

    _esm = (_FILES / "secret.js").read_text(encoding="utf-8")
    hint = traitlets.Unicode("").tag(sync=True)


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
