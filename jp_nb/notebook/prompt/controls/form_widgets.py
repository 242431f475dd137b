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

import ipywidgets as widgets

from jp_nb.notebook.prompt.controls.form_messages import walk_widgets
from jp_nb.notebook.prompt.running_cell.pump import FORM_COMMS
from jp_nb.rendering.markdown_sanitizer import sanitize_markdown


def close_widgets(root: widgets.Widget) -> None:
    """Close `root` and all widgets in it."""
    for widget in [*walk_widgets(root)]:
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


def make_html(code: str, name: str) -> widgets.HTML:
    """Return a widget `jp-nb-<name>` with trusted HTML."""
    shown = widgets.HTML(code)
    shown.add_class(f"jp-nb-{name}")
    return shown


def make_markdown(source: str, name: str) -> widgets.Output:
    """Return a widget `jp-nb-<name>` that shows `source` as sanitized Markdown."""
    shown = widgets.Output(outputs=make_outputs({"text/markdown": sanitize_markdown(source)}))
    shown.add_class(f"jp-nb-{name}")
    return shown


def make_outputs(bundle: dict[str, str]) -> tuple[dict[str, Any], ...]:
    """Return a value for `widgets.Output.outputs` that displays the MIME bundle `bundle`."""
    if not any(bundle.values()):
        return ()
    return ({"output_type": "display_data", "data": bundle, "metadata": {}},)


def make_box(name: str, *children: widgets.Widget) -> widgets.VBox:
    """Return a box `jp-nb-<name>` with `children`, one below the other."""
    made = widgets.VBox(children)
    made.add_class(f"jp-nb-{name}")
    return made


def make_button(
    label: str, press: Callable[[], None], *, does: str | None = None, primary: bool = False
) -> widgets.Button:
    """Return a button. With `does`, the page sends this message of `FormBridge` for a click.

    It replaces the message of the button, so `press` is called only where `form.js` does not run.
    """
    made = widgets.Button(description=label, layout={"width": "auto"})
    made.on_click(lambda _: press())
    if does is not None:
        made.add_class(f"jp-nb-do-{does}")

    if primary:
        made.button_style = "primary"
        made.add_class("jp-nb-primary")

    return made
