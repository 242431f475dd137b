"""The parts of one screen of a form, which `FormScreens` makes and `Form` shows.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ipywidgets as widgets

from jp_nb.notebook.prompt.controls.form_control import FormControl
from jp_nb.notebook.prompt.forms.decision_items import DecisionItem
from jp_nb.notebook.prompt.forms.prompt_form import FormAction


@dataclass(frozen=True, slots=True, kw_only=True)
class FormScreen:
    """A screen: a page, the summary, the menu, or the question before input is discarded.

    Attributes:
        widget: The content above the buttons.
        buttons: The actions of the buttons by name, in the order of the row.
        other_actions: Actions of messages that no button sends, such as `cancel` (Esc), or
            `unchosen` (a key submitted what the user did not touch).
        primary: Name of the button that Enter presses; "" if there is none.
        controls: Model ids of the controls whose state the page sends with each click.
        answers: The control whose buttons answer at once. They are before the other buttons.
        items: The parts of a decision that the user can exclude. `answers` are about all of them.
        is_kept: True if `widget` may be shown again later. Otherwise the next screen closes it.
    """

    widget: widgets.Widget
    buttons: Mapping[str, FormAction]
    other_actions: Mapping[str, FormAction]
    primary: str = ""
    controls: Sequence[str] = ()
    answers: FormControl | None = None
    items: Sequence[DecisionItem] = ()
    is_kept: bool = True

    @property
    def css_class(self) -> str:
        """The class of the widget, by which the page finds out if it shows this screen."""
        return f"jp-nb-screen-{self.widget.model_id}"
