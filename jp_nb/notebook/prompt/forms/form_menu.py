"""The menu of a form, which Cancel shows while a turn runs: reply to the model, or stop the turn.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets as widgets

from jp_nb.notebook.prompt.controls.form_control import FormMessage
from jp_nb.notebook.prompt.controls.form_widgets import make_box, make_text
from jp_nb.notebook.prompt.controls.widget_closing import close_widgets
from jp_nb.rendering.prompt_texts import form_text


class FormMenu:
    """The question of the menu, and a text box for the reply. The form has the buttons.

    `changed` is called after each change of the reply.

    Attributes:
        widget: The box with all widgets of the menu.
        reply_box: The text box for the reply.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self.reply_box = widgets.Textarea(rows=3)
        self.reply_box.add_class("jp-nb-control")
        self.reply_box.observe(lambda _: changed(), names="value")
        label = make_text(form_text.REPLY_LABEL, "field-name")
        self.widget = make_box(
            "page",
            make_text(form_text.MENU_QUESTION, "question"),
            make_text(form_text.MENU_HINT, "hint"),
            make_box("field", label, self.reply_box),
        )

    @property
    def has_reply(self) -> bool:
        """True if the user has written a reply. Then no deadline closes the form."""
        return bool(self.reply_box.value.strip())

    def read_reply(self, message: FormMessage) -> str:
        """Return the reply in a click's `message`, or in the text box if the message has none."""
        value = message.get("value")
        return value if isinstance(value, str) else str(self.reply_box.value)

    def close(self) -> None:
        """Close all widgets."""
        close_widgets(self.widget)
