"""The parts of a decision that the user can exclude: a check box, and buttons beside it.

Source: `docs/prompts.md`, `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import ipywidgets as widgets

from jp_nb.agent.prompting.prompts import Action, PromptItem
from jp_nb.notebook.prompt.controls.form_control import FormMessage
from jp_nb.notebook.prompt.controls.form_widgets import make_button
from jp_nb.notebook.prompt.controls.widget_closing import close_widgets
from jp_nb.notebook.prompt.controls.widget_sharing import SharedLook


class DecisionItem:
    """The row of an item: its check box, and a button for each of its actions.

    With each click on a button of the form, a page sends the states of all check boxes, because the
    click can arrive before the update of a widget.

    Attributes:
        actions: The actions of the buttons beside the check box, such as to change this cell alone.
        row: The check box, whose label is the caption. `add_buttons` adds the buttons.
    """

    def __init__(
        self, item: PromptItem, caption: str, changed: Callable[[], None], look: SharedLook
    ) -> None:
        self.actions: tuple[Action, ...] = item.actions
        self._look = look
        self._box = widgets.Checkbox(
            value=item.is_checked,
            description=caption,
            indent=False,
            _dom_classes=("jp-nb-control",),
            **look.make_traits(widgets.Checkbox, width="auto"),
        )
        self._box.observe(lambda _: changed(), names="value")
        # The lab extension finds the row by its class, and adds a button that shows the cell.
        classes = ("jp-nb-item", f"jp-nb-item-{item.key}")
        self.row = widgets.HBox([self._box], _dom_classes=classes, **look.make_traits(widgets.HBox))

    @property
    def model_id(self) -> str:
        """Id of the model of the check box."""
        return str(self._box.model_id)

    @property
    def is_checked(self) -> bool:
        """True if the check box is checked."""
        return bool(self._box.value)

    def read_report(self, reported: FormMessage) -> bool:
        """Return True if the check box is checked by the report that a page sent with a click.

        Without a report (`{}`), such as where `form.js` does not run, the state of the widget
        counts.
        """
        value = reported.get("value")
        return value if isinstance(value, bool) else self.is_checked

    def add_buttons(self, press: Callable[[str], None], first: int) -> list[widgets.Button]:
        """Show and return a button for each action, in place of earlier buttons of the row.

        The form calls it each time that it shows the items. `press` is called with `decide-N`: N
        counts all buttons of the form that decide, so those of this item start with `first`.
        """
        names = [f"decide-{first + index}" for index in range(len(self.actions))]
        buttons = [
            make_button(action.label, partial(press, name), does=name, look=self._look)
            for action, name in zip(self.actions, names, strict=True)
        ]
        earlier_buttons = self.row.children[1:]
        self.row.children = (self._box, *buttons)
        for button in earlier_buttons:
            close_widgets(button)

        return buttons
