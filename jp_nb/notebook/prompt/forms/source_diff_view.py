"""Show the difference of two sources in a form: highlighted code, with changed words marked.

The kernel renders it, so it looks the same in each front end that shows widgets.

Source: `docs/cells.md`, `docs/decisions.md` (D309).
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import ipywidgets as widgets

from jp_nb.notebook.prompt.controls.form_messages import guard_widgets
from jp_nb.notebook.prompt.controls.form_widgets import (
    close_widgets,
    make_box,
    make_button,
    make_html,
    make_text,
)
from jp_nb.notebook.prompt.forms.diff_rendering import (
    DiffRenderer,
)
from jp_nb.text import pluralize
from jp_nb.toolkit.editing.source_diff import SourceDiff

MAX_OPEN_DIFF_LINES: Final = 400
"""Lines of all differences together that are open when a form appears."""


class SourceDiffView:
    """A difference in a form, which is rendered when it is opened, part by part.

    Attributes:
        widgets: The caption, the difference, and the buttons.
    """

    def __init__(self, caption: str, diff: SourceDiff, language: str | None) -> None:
        self._caption = caption
        self._renderer = DiffRenderer(diff, language)
        self._index = 0
        self._text_box = make_box("diff-box")
        self._buttons = widgets.HBox()
        self._buttons.add_class("jp-nb-pager")
        self.widgets = (make_text(caption, "caption"), self._text_box, self._buttons)
        self.collapse()

    def expand(self) -> None:
        """Show the difference."""
        self._turn(0)

    def collapse(self) -> None:
        """Hide the difference, with a button that opens it."""
        count = len(self._renderer.lines)
        label = f"Show the difference ({count:,} {pluralize('line', count)})"
        self._show((), [make_button(label, self.expand)])

    def _turn(self, step: int) -> None:
        parts = self._renderer.parts
        self._index = (self._index + step) % len(parts)
        part = parts[self._index]
        rows = "".join(self._renderer.render(part))
        name = escape(self._caption, quote=True)
        # Arrow keys scroll an element that has the focus.
        shown = make_html(
            f'<div class="jp-nb-lines" tabindex="0" role="group" aria-label="{name}">{rows}</div>',
            "diff",
        )

        count = len(self._renderer.lines)
        buttons: list[widgets.Widget] = []
        if len(parts) > 1:
            place = (
                f"Part {self._index + 1} of {len(parts)}: lines {part.start + 1:,} to "
                f"{part.stop:,} of {count:,} of the difference"
            )
            buttons.append(make_button("Previous part", lambda: self._turn(-1)))
            buttons.append(make_button("Next part", lambda: self._turn(1)))
            buttons.append(make_text(place, "part"))
        if count > MAX_OPEN_DIFF_LINES:
            buttons.append(make_button("Hide the difference", self.collapse))
        self._show((shown,), buttons)

    def _show(self, shown: Sequence[widgets.Widget], buttons: Sequence[widgets.Widget]) -> None:
        previous = [*self._text_box.children, *self._buttons.children]
        self._text_box.children = tuple(shown)
        self._buttons.children = tuple(buttons)
        guard_widgets(self._text_box)
        guard_widgets(self._buttons)

        for widget in previous:
            close_widgets(widget)
