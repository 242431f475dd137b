"""The part of a form that runs in the page, and its messages to the kernel.

Its source is `js/src/widgets/form.ts`, which is built into `modules/form.js`.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from importlib.resources import files

import traitlets
from anywidget import AnyWidget

_FILES = files(__package__)


class FormBridge(AnyWidget):
    """The part of a form that runs in the page.

    It sends `{"type": …, "step": …}` together with the state of each control, because a click can
    arrive before the update of the control that it submits. The state of a single control is in the
    message itself, such as `"index": 2`. The states of several controls are in a list, `"fields"`.

    - `rendered`: a page shows this step of the form.
    - `submit`, `next`, `go-2`, …: a button `jp-nb-do-…`, or its key, was pressed.
    - `unchosen`: a key tried to submit a value that the user did not touch.
    - `cancel`: Esc, unless `only_buttons` is set.
    - `writing`: the user entered (`"value": true`) or left a text box.

    The kernel answers each click with `heard`, because a refusal may change nothing in the form.

    Attributes:
        controls: Model ids of the current controls, in order; "" for a password field, whose text
            is not in the state of a widget.
        screen: Class of the widget that must be visible; "" if the form has one screen.
        step: Number of the current step. Clicks on an earlier step are ignored.
        timed: True if there is a deadline, which waits while the user writes.
        notify: True if the page's title and notifications announce the form.
        only_buttons: True if Esc only moves the focus to the cell.
        cells: The cells that the form is about: `cell` (an id), `label`, `place`. The lab extension
            outlines and shows them.
    """

    _esm = (_FILES / "modules" / "form.js").read_text(encoding="utf-8")
    _css = (_FILES / "form.css").read_text(encoding="utf-8")
    controls = traitlets.List(traitlets.Unicode()).tag(sync=True)
    screen = traitlets.Unicode("").tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    timed = traitlets.Bool(False).tag(sync=True)
    notify = traitlets.Bool(True).tag(sync=True)
    only_buttons = traitlets.Bool(False).tag(sync=True)
    cells = traitlets.List(traitlets.Dict()).tag(sync=True)

    def announce(self, header: str | None) -> None:
        """Show a browser notification if the user does not see the form."""
        self.send({"type": "announce", "header": header or "", "tag": self.model_id})

    def confirm(self) -> None:
        """Tell the page that a click was handled."""
        self.send({"type": "heard"})

    def focus(self, field: int) -> None:
        """Move the focus to the control with index `field`, if the focus is already in the form."""
        self.send({"type": "focus", "field": field})
