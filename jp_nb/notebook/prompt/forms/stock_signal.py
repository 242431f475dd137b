"""Widgets of a form where a page cannot load `form.js`: a note, and a signal that it is shown.

Usually `form.js` reports that a page shows the form. Without it, a *stock* widget, which is one of
ipywidgets itself, has to do so. Without a report, the kernel gives up the form and asks on stdin.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Final

import ipywidgets as widgets

from jp_nb.notebook.prompt.controls.form_widgets import make_html
from jp_nb.notebook.prompt.controls.widget_closing import close_widgets
from jp_nb.rendering.prompt_texts import form_text
from jp_nb.session.threads.cell_jobs import Timer
from jp_nb.session.threads.cell_loop import CellLoop

_DELAYS_S: Final = (0.1, 0.2, 0.4, 0.5, 0.5, 1.0, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Seconds before each attempt. A page that is slow creates the view late."""


class StockSignal:
    """A hidden widget that calls `heard` once a page shows it. Used on the cell's thread.

    Only `Play`, the control of animations, sends a message without an action of the user: while it
    is `playing`, its view in the page increases `value`, also if the view is hidden. A view starts
    only when `playing` changes. It may not exist yet when that happens, so the change is repeated.

    Attributes:
        widget: The hidden box to show within the form.
    """

    def __init__(self, loop: CellLoop, heard: Callable[[], None]) -> None:
        self._play = widgets.Play(value=0, min=0, max=1, interval=1)
        self._play.observe(lambda _: self._handle_value(), names="value")
        self.widget = widgets.Box([self._play], layout={"display": "none"})
        self._loop = loop
        self._heard = heard
        self._delays = iter(_DELAYS_S)
        self._timer: Timer | None = None
        self._wait()

    def _wait(self) -> None:
        delay = next(self._delays, None)
        if delay is not None:
            self._timer = self._loop.call_after_idle(delay, self._start_to_play)

    def _start_to_play(self) -> None:
        self._play.playing = False
        self._play.playing = True
        self._wait()

    def _handle_value(self) -> None:
        """Report the page: its view has changed `value`."""
        self.stop()
        self._heard()

    def stop(self) -> None:
        """Send nothing any more."""
        if self._timer is not None:
            self._timer.cancel()


class StockParts:
    """The widgets that a form has only while stock widgets replace its modules.

    `heard` is called once a page shows the form. `form_id` is the id of the form's widget.

    Attributes:
        widgets: The hidden signal, and the note about the missing modules.
    """

    def __init__(self, loop: CellLoop, heard: Callable[[], None], *, form_id: str) -> None:
        self._signal = StockSignal(loop, heard)
        self.widgets: list[widgets.Widget] = [
            self._signal.widget,
            make_html(_render_note(form_id), "hint"),
        ]

    def stop(self) -> None:
        """Call `heard` no more."""
        self._signal.stop()

    def close(self) -> None:
        """Close the widgets."""
        self.stop()
        for widget in self.widgets:
            close_widgets(widget)


def _render_note(form_id: str) -> str:
    """Return the note that the form has stock widgets, as HTML.

    The lab extension shows a form a second time, above the notebook, while its cell is out of view.
    It looks for an element with this class and role first. `formlabels.ts`, a part of `form.js`,
    usually sets the role.
    """
    mark = f"jp-nb-form-{form_id}"
    return f'<span class="{mark}" role="group">{escape(form_text.STOCK_WIDGETS)}</span>'
