"""Build the widgets of forms: texts, boxes, and buttons.

Texts from models and tools are shown as escaped text or as sanitized Markdown. A class
`jp-nb-<name>` is for `form.css`. With a `look`, a widget shares its layout and style with the other
widgets of its form (`widget_sharing.py`).

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets as widgets

from jp_nb.notebook.prompt.controls.widget_sharing import SharedLook
from jp_nb.rendering.markdown_sanitizer import sanitize_markdown


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

    With `does`, `form.js` sends a message of `FormBridge` (`form_bridge.py`) with this name for a
    click, in place of the button's own message. Then `press` is called only where `form.js` does
    not run.
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
