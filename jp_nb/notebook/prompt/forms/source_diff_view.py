"""Show the difference of two sources in a form: highlighted code, with changed words marked.

The kernel renders it, so it looks the same in each front end that shows widgets.

Source: `docs/cells.md`, `docs/decisions.md` (D309).
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Final

import ipywidgets as widgets

from jp_nb.notebook.prompt.controls.form_messages import guard_widgets
from jp_nb.notebook.prompt.controls.form_widgets import (
    isolate_direction,
    make_box,
    make_button,
    make_html,
    make_text,
)
from jp_nb.notebook.prompt.controls.widget_closing import close_widgets
from jp_nb.notebook.prompt.controls.widget_sharing import SharedLook
from jp_nb.notebook.prompt.forms.diff_rendering import DiffRenderer
from jp_nb.text import pluralize
from jp_nb.toolkit.editing.source_diff import SourceDiff

MAX_OPEN_DIFF_LINES: Final = 400
"""Lines of all differences together that are open when a form appears."""


class SourceDiffView:
    """A difference in a form that a button opens and closes. It is rendered part by part.

    The button keeps the focus, because it stays the first widget: a page draws all widgets after a
    change of the children again.

    Attributes:
        widget: The box with the button, and with the difference while it is open.
    """

    def __init__(
        self, caption: str, diff: SourceDiff, language: str | None, look: SharedLook
    ) -> None:
        self._caption = caption
        self._look = look
        self._renderer = DiffRenderer(diff, language)
        self._part_index = 0
        self._part_widget: widgets.HTML | None = None  # of the current part, while it is open
        self._pager: _PartButtons | None = None  # while a difference in parts is open
        self._toggle = make_button(self._format_label(), self._switch, look=look)
        self._toggle.tooltip = caption
        self._toggle.add_class("jp-nb-toggle")
        self.widget = make_box("diff-box", self._toggle, look=look)

    def _format_label(self) -> str:
        if self._part_widget is not None:
            return "Hide the difference"
        count = len(self._renderer.lines)
        return f"Show the difference ({count:,} {pluralize('line', count)})"

    def _switch(self) -> None:
        """Open or close the difference; a click on the button."""
        if self._part_widget is None:
            self._part_index = 0
            self._draw()
            self._toggle.add_class("jp-nb-expanded")
        else:
            self._hide()
            self._toggle.remove_class("jp-nb-expanded")
        self._toggle.description = self._format_label()

    def _change_part(self, step: int) -> None:
        self._part_index = (self._part_index + step) % len(self._renderer.parts)
        self._draw()

    def _draw(self) -> None:
        """Show the current part. A new widget resets the scroll position."""
        previous = self._part_widget
        parts = self._renderer.parts
        part = parts[self._part_index]
        self._part_widget = _make_part_widget(self._renderer, part, self._caption, self._look)

        if len(parts) == 1:
            self.widget.children = (self._toggle, self._part_widget)
        else:
            if self._pager is None:
                self._pager = _PartButtons(self._change_part)
            count = len(self._renderer.lines)
            self._pager.show_place(
                f"Part {self._part_index + 1} of {len(parts)}: lines {part.start + 1:,} to "
                f"{part.stop:,} of {count:,} of the difference"
            )
            self.widget.children = (self._toggle, self._pager.row, self._part_widget)

        guard_widgets(self.widget)
        if previous is not None:
            close_widgets(previous)

    def _hide(self) -> None:
        _, *shown = self.widget.children
        self.widget.children = (self._toggle,)
        self._part_widget = None
        self._pager = None
        for widget in shown:
            close_widgets(widget)


def make_open_diff(
    caption: str, diff: SourceDiff, language: str | None, look: SharedLook
) -> widgets.HTML:
    """Return a widget with a whole difference, without a button."""
    renderer = DiffRenderer(diff, language)
    return _make_part_widget(renderer, range(len(renderer.lines)), caption, look)


def _make_part_widget(
    renderer: DiffRenderer, part: range, caption: str, look: SharedLook
) -> widgets.HTML:
    """Return a widget with these lines of a difference."""
    rows = "".join(renderer.render(part))
    name = escape(caption, quote=True)
    # Arrow keys scroll an element that has the focus.
    return make_html(
        f'<div class="jp-nb-lines" tabindex="0" role="group" aria-label="{name}">{rows}</div>',
        "diff",
        look,
    )


class _PartButtons:
    """The buttons that turn to another part, and the place of the current one."""

    def __init__(self, turn: Callable[[int], None]) -> None:
        self._place = make_text("", "part")
        back = make_button("Previous part", lambda: turn(-1))
        self.row = widgets.HBox([back, make_button("Next part", lambda: turn(1)), self._place])
        self.row.add_class("jp-nb-pager")

    def show_place(self, words: str) -> None:
        self._place.value = isolate_direction(words)
