"""The row of buttons below a form: for the current step, and for answers that are sent at once.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

import ipywidgets as widgets
from pydantic import JsonValue

from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.agent.prompting.prompts import ActionPrompt, SimplePrompt
from jp_nb.notebook.prompt.controls.form_control import FormControl
from jp_nb.notebook.prompt.controls.form_widgets import make_button, make_text
from jp_nb.notebook.prompt.controls.widget_closing import close_widgets
from jp_nb.notebook.prompt.forms.decision_items import DecisionItem
from jp_nb.rendering.prompt_texts import prompt_text


class FormButtons:
    """The buttons of a form, in the `row` below it.

    - A *step button* has a name, such as `submit`, and is used again in later steps.
    - An *answer button* answers at once.
    - A *decision* is an answer button of a form with items, of which the user may choose some. Its
      click must also send their check boxes, so it has a name: `decide-` with its number.

    Args:
        first: The prompt, or the first page of a form.
        press: Called with the name of a step button or decision that was clicked.
        answer_at_once: Called with the answer of another answer button.
    """

    def __init__(
        self,
        first: SimplePrompt,
        press: Callable[[str], None],
        answer_at_once: Callable[[Answered], None],
    ) -> None:
        self.row = widgets.HBox()
        self.row.add_class("jp-nb-actions")
        self._first = first
        self._press = press
        self._answer_at_once = answer_at_once
        self._origin: tuple[widgets.Widget, ...] = ()  # the name of the asking tool, if one asks
        if origin := prompt_text.format_origin(first):
            self._origin = (make_text(origin, "by"),)
        self._step_buttons: dict[str, widgets.Button] = {}  # by name, created on first use
        self._answer_buttons: tuple[widgets.Widget, ...] = ()
        self._decisions: list[tuple[JsonValue, widgets.Button]] = []  # values, by number

    def show(
        self,
        labels: Mapping[str, str],
        *,
        primary: str,
        disabled: Collection[str],
        answers: FormControl | None,
        items: Sequence[DecisionItem],
    ) -> list[widgets.Widget]:
        """Show the answer buttons, then a step button for each name and label in `labels`.

        `answers.buttons` has the answer of each answer button, by its label. Return the earlier
        answer buttons, which the caller closes after the change.
        """
        previous = [*self._answer_buttons]
        self._decisions = []
        self._answer_buttons = ()
        if answers is not None:
            self._answer_buttons = tuple(self._make_answer_buttons(answers, has_items=bool(items)))

        step_buttons = []
        for name, label in labels.items():
            button = self._get_step_button(name, label, is_primary=name == primary)
            button.disabled = name in disabled
            step_buttons.append(button)

        self.row.children = (*self._answer_buttons, *step_buttons, *self._origin)
        return previous

    def renew_step_buttons(self) -> list[widgets.Widget]:
        """Let `show` make new step buttons. Return the earlier ones, which the caller closes."""
        previous: list[widgets.Widget] = list(self._step_buttons.values())
        self._step_buttons = {}
        return previous

    def close(self) -> None:
        """Close all step buttons, also hidden ones."""
        for button in self._step_buttons.values():
            close_widgets(button)

    def add_item_buttons(self, items: Iterable[DecisionItem]) -> None:
        """Add the decisions beside each item to those of the row, with the next numbers."""
        for item in items:
            buttons = item.add_buttons(self._press, first=len(self._decisions))
            for action, button in zip(item.actions, buttons, strict=True):
                self._decisions.append((action.value, button))

    def show_checked_count(self, count: int) -> None:
        """Show the number of checked items on the buttons whose label has it.

        An action with `format_label` is about the checked items. Without any, it is disabled.
        """
        if not isinstance(self._first, ActionPrompt):
            return

        # The value of an action is a text, such as `run`.
        formats = {action.value: action.format_label for action in self._first.actions}
        for value, button in self._decisions:
            format_label = formats.get(str(value))
            if format_label is not None:
                button.description = format_label(count)
                button.disabled = count == 0

    @property
    def has_decisions(self) -> bool:
        """True if the current step has decisions."""
        return bool(self._decisions)

    def has_decision(self, number: int) -> bool:
        """Return True if there is a decision with this number."""
        return 0 <= number < len(self._decisions)

    def get_decision(self, number: int) -> JsonValue:
        """Return the value of the decision with this number."""
        value, _ = self._decisions[number]
        return value

    def _make_answer_buttons(
        self, answers: FormControl, *, has_items: bool
    ) -> Iterator[widgets.Widget]:
        """Yield the answer buttons, in groups if a line separates some of them from others."""
        groups: list[list[widgets.Button]] = [[]]
        for label, answer in (answers.buttons or {}).items():
            if label in answers.separated:
                groups.append([])
            groups[-1].append(self._make_answer_button(label, answer, has_items=has_items))

        if len(groups) == 1:
            yield from groups[0]
        else:
            yield from map(_make_button_group, groups)

    def _make_answer_button(
        self, label: str, answer: Answered, *, has_items: bool
    ) -> widgets.Button:
        """Return an answer button; with items, it is a decision."""
        if not has_items:
            return make_button(label, partial(self._answer_at_once, answer))

        name = f"decide-{len(self._decisions)}"
        button = make_button(label, partial(self._press, name), does=name)
        self._decisions.append((answer.value, button))
        return button

    def _get_step_button(self, name: str, label: str, *, is_primary: bool) -> widgets.Button:
        """Return the step button `name`, made on first use, with its label in this step."""
        if name not in self._step_buttons:
            self._step_buttons[name] = make_button(label, partial(self._press, name), does=name)

        button = self._step_buttons[name]
        button.description = label
        button.button_style = "primary" if is_primary else ""
        if is_primary:
            button.add_class("jp-nb-primary")
        else:
            button.remove_class("jp-nb-primary")
        return button


def _make_button_group(buttons: Sequence[widgets.Button]) -> widgets.HBox:
    group = widgets.HBox([*buttons])
    group.add_class("jp-nb-group")
    return group
