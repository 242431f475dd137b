"""Share layouts and styles between the widgets of a form.

A shared layout or style stays open when one of its widgets is closed (`widget_closing.py`).

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import ipywidgets as widgets

from jp_nb.notebook.prompt.controls.widget_closing import SHARED_PARTS, close_widgets


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
            SHARED_PARTS.add(part)
            self._parts[key] = part
        return self._parts[key]

    def close(self) -> None:
        """Close the layouts and styles. Their widgets are closed before."""
        for part in self._parts.values():
            SHARED_PARTS.discard(part)
            close_widgets(part)
        self._parts = {}
