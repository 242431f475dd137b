"""Build and close the widgets of forms.

Texts from models and tools are shown as escaped text or as sanitized Markdown.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from html import escape
from typing import Any
from weakref import WeakSet

import ipywidgets as widgets

from jp_nb.notebook.prompt.controls.form_messages import walk_widgets
from jp_nb.notebook.prompt.running_cell.pump import FORM_COMMS
from jp_nb.rendering.markdown_sanitizer import sanitize_markdown


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
        """Return the layout of this width, and the style if there are any, for a new `kind`."""
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
    for widget in [*walk_widgets(root)]:
        if widget in _SHARED_PARTS:
            continue
        if widget.comm is not None:
            FORM_COMMS.discard(widget.comm.comm_id)
            _LATE_MESSAGES.add(widget.comm.comm_id)
        widget.close()


class _LateMessages(logging.Filter):
    """Drops log messages about the comms of closed forms.

    Otherwise, each late message of a page writes `No such comm: …` to the cell.
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


def make_text(words: str, name: str) -> widgets.HTML:
    """Return a widget `jp-nb-<name>` that shows `words` as plain text."""
    # HTML with escaped text, because Label and HTMLMath render mathematics.
    return make_html(isolate_direction(words), name)


def isolate_direction(words: str) -> str:
    """Return `words` as HTML, isolated from the direction of the surrounding text."""
    return f'<bdi dir="auto">{escape(words)}</bdi>' if words else ""


def make_html(code: str, name: str, look: SharedLook | None = None) -> widgets.HTML:
    """Return a widget `jp-nb-<name>` with trusted HTML."""
    traits = {} if look is None else look.make_traits(widgets.HTML)
    return widgets.HTML(code, _dom_classes=(f"jp-nb-{name}",), **traits)


def make_markdown(source: str, name: str) -> widgets.Output:
    """Return a widget `jp-nb-<name>` that shows `source` as sanitized Markdown."""
    outputs = make_outputs({"text/markdown": sanitize_markdown(source)})
    return widgets.Output(outputs=outputs, _dom_classes=(f"jp-nb-{name}",))


def make_outputs(bundle: dict[str, str]) -> tuple[dict[str, Any], ...]:
    """Return a value for `widgets.Output.outputs` that displays the MIME bundle `bundle`."""
    if not any(bundle.values()):
        return ()
    return ({"output_type": "display_data", "data": bundle, "metadata": {}},)


def make_box(name: str, *children: widgets.Widget, look: SharedLook | None = None) -> widgets.VBox:
    """Return a box `jp-nb-<name>` with `children`, one below the other."""
    traits = {} if look is None else look.make_traits(widgets.VBox)
    return widgets.VBox(children, _dom_classes=(f"jp-nb-{name}",), **traits)


def make_button(
    label: str,
    press: Callable[[], None],
    *,
    does: str | None = None,
    primary: bool = False,
    look: SharedLook | None = None,
) -> widgets.Button:
    """Return a button.

    With `does`, `form.js` sends a message of `FormBridge` with this name for a click, in place of
    the button's own message. Then `press` is called only where `form.js` does not run.
    """
    traits: dict[str, Any] = {"layout": {"width": "auto"}}
    if look is not None:
        traits = look.make_traits(widgets.Button, width="auto")
    classes: list[str] = []
    if does is not None:
        classes.append(f"jp-nb-do-{does}")
    if primary:
        classes.append("jp-nb-primary")
        traits["button_style"] = "primary"

    # With all traits at once, the page gets one message.
    made = widgets.Button(description=label, _dom_classes=classes, **traits)
    made.on_click(lambda _: press())
    return made
