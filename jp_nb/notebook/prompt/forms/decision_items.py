"""The parts of a decision that the user can leave out: a check box, and buttons beside it.

Source: `docs/prompts.md`, `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import ipywidgets as widgets

from jp_nb.agent.prompting.prompts import Action, PromptItem
from jp_nb.notebook.prompt.controls.form_control import FormControl, FormMessage
from jp_nb.notebook.prompt.controls.form_widgets import close_widgets, make_button


class DecisionItem:
    """The row of an item. A page sends the state of its check box with each click.

    Attributes:
        actions: The actions of the buttons beside the check box.
        row: The check box. `add_buttons` adds the buttons.
    """

    def __init__(self, item: PromptItem, changed: Callable[[], None]) -> None:
        self.actions: tuple[Action, ...] = item.actions
        self._box = widgets.Checkbox(
            value=item.is_checked, description=item.label, indent=False, layout={"width": "auto"}
        )
        self._box.observe(lambda _: changed(), names="value")
        self._control = FormControl(widget=self._box)
        self.row = widgets.HBox([self._box])
        self.row.add_class("jp-nb-item")
        # The lab extension adds a button that shows the cell.
        self.row.add_class(f"jp-nb-item-{item.key}")

    @property
    def model_id(self) -> str:
        """Id of the model of the check box."""
        return self._control.model_id

    @property
    def is_checked(self) -> bool:
        """True if the check box is checked."""
        return bool(self._box.value)

    def read_report(self, reported: FormMessage) -> bool:
        """Return True if the check box is checked in `reported`, or in the widget without it."""
        value = reported.get("value")
        return value if isinstance(value, bool) else self.is_checked

    def add_buttons(self, press: Callable[[str], None], first: int) -> None:
        """Add a button for each action: `press` is called with `decide-N`, counted from `first`."""
        names = [f"decide-{first + index}" for index in range(len(self.actions))]
        buttons = [
            make_button(action.label, partial(press, name), does=name)
            for action, name in zip(self.actions, names, strict=True)
        ]
        earlier_buttons = self.row.children[1:]
        self.row.children = (self._box, *buttons)
        for button in earlier_buttons:
            close_widgets(button)
