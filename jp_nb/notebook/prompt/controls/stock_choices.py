"""A list of options from stock ipywidgets, for pages that cannot load the module of `Choices`.

Both show the state of one `Choices` object, so that each of them can replace the other: `picks` are
the selected options, `draft` is the content of the box for the user's own text, and `custom` is
that text if it is a part of the answer. `search` is the content of the filter.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import ipywidgets as widgets

from jp_nb.notebook.prompt.answer_widgets import Choices
from jp_nb.notebook.prompt.controls.form_messages import guard_widgets
from jp_nb.notebook.prompt.controls.form_widgets import make_box, make_text
from jp_nb.notebook.prompt.controls.widget_closing import close_widgets
from jp_nb.text import one_line

MAX_SHOWN_OPTIONS: Final = 50
"""Limit of options that are shown at once. A filter finds the others."""

MAX_STOCK_RADIO_BUTTONS: Final = 8
"""With more options, a single choice is a drop-down list with a filter."""

NO_CHOICE: Final = "(nothing selected)"
FILTER_LABEL: Final = "Filter the options"
OWN_TEXT_LABEL: Final = "Your own answer"
RECOMMENDED_LABEL: Final = "(recommended)"
_DESCRIPTION_LIMIT: Final = 200
"""Limit of characters of an option's description."""


class StockChoices:
    """Stock widgets that show and change the state of `listed`, on the cell's thread.

    With several choices, each option has a check box. A single choice has radio buttons, or a
    drop-down list if there are many options.

    Attributes:
        widget: The box with all widgets of the list.
    """

    def __init__(self, listed: Choices) -> None:
        self._listed = listed
        self._labels = [_format_option(listed, index) for index in range(len(listed.options))]
        self._option_box = make_box("stock-options")
        self._filter = _make_filter(listed.search)
        self._count = make_text("", "hint")
        self._own_text = _make_own_text_box(listed)
        children: list[widgets.Widget] = []

        if len(self._labels) > MAX_STOCK_RADIO_BUTTONS:
            children.append(self._filter)
            self._filter.observe(self._apply_filter, names="value")

        children += [self._option_box, self._count]
        if listed.wanted:
            children.append(make_text(listed.wanted, "hint"))

        if listed.other:
            children.append(make_text(listed.other, "hint"))
            children.append(self._own_text)
            self._own_text.observe(self._set_own_text, names="value")

        self.widget = make_box("control", *children)
        self.widget.add_class("jp-nb-stock")
        self._draw()

    def _draw(self) -> None:
        """Show the options that fit the filter."""
        previous = self._option_box.children
        shown = self._list_shown()
        if self._labels:
            self._option_box.children = self._make_option_widgets(shown)

        guard_widgets(self.widget)
        for widget in previous:
            close_widgets(widget)

        total = len(self._labels)
        words = "" if len(shown) == total else f"{len(shown)} of {total} shown. Use the filter."
        self._count.value = words

    def _list_shown(self) -> list[int]:
        """Return the indices of the options to show: selected ones, and those that fit the filter.

        The latter are limited to `MAX_SHOWN_OPTIONS`.
        """
        words = self._listed.search.casefold().split()
        picks = set(self._listed.picks)
        shown: list[int] = []
        found_count = 0

        for index, label in enumerate(self._labels):
            if index in picks:
                shown.append(index)
                continue

            fits = all(word in label.casefold() for word in words)
            if fits and found_count < MAX_SHOWN_OPTIONS:
                shown.append(index)
                found_count += 1

        return shown

    def _make_option_widgets(self, shown: Sequence[int]) -> list[widgets.Widget]:
        """Return check boxes, or one widget for a single choice among the `shown` options."""
        if self._listed.multi:
            return [self._make_checkbox(index) for index in shown]

        options: list[tuple[str, int | None]] = [(self._labels[index], index) for index in shown]
        is_own_text = self._listed.custom is not None
        current = None if is_own_text else self._get_pick()
        made: widgets.Widget
        if len(self._labels) > MAX_STOCK_RADIO_BUTTONS:
            made = widgets.Dropdown(options=[(NO_CHOICE, None), *options], value=current)
        else:
            if self._listed.optional:
                options.append((NO_CHOICE, None))
            made = widgets.RadioButtons(options=options, value=current)

        made.layout.width = "100%"
        made.observe(self._set_only_pick, names="value")
        return [made]

    def _get_pick(self) -> int | None:
        """Return the index of the selected option of a single choice, if there is one."""
        picks = self._listed.picks
        return picks[0] if picks and type(picks[0]) is int else None

    def _make_checkbox(self, index: int) -> widgets.Checkbox:
        box = widgets.Checkbox(
            value=index in self._listed.picks, description=self._labels[index], indent=False
        )
        box.layout.width = "100%"
        box.observe(lambda change: self._set_pick(index, checked=change["new"]), names="value")
        return box

    def _set_pick(self, index: int, *, checked: bool) -> None:
        others = [pick for pick in self._listed.picks if pick != index]
        self._listed.picks = [*others, index] if checked else others

    def _set_only_pick(self, change: dict[str, Any]) -> None:
        chosen = change["new"]
        self._listed.picks = [] if chosen is None else [chosen]
        if chosen is not None and self._listed.custom is not None:
            self._own_text.value = ""  # in a single choice, an option replaces the own text

    def _set_own_text(self, change: dict[str, Any]) -> None:
        text = change["new"]
        self._listed.draft = text
        self._listed.custom = text or None

    def _apply_filter(self, change: dict[str, Any]) -> None:
        self._listed.search = change["new"]
        self._draw()


def _format_option(listed: Choices, index: int) -> str:
    option = listed.options[index]
    label = option["label"]
    if index == listed.recommended and not label.lower().endswith(RECOMMENDED_LABEL):
        label = f"{label} {RECOMMENDED_LABEL}"

    description = one_line(option["description"], limit=_DESCRIPTION_LIMIT)
    return f"{label}: {description}" if description else label


def _make_filter(search: str) -> widgets.Text:
    made = widgets.Text(value=search, placeholder=FILTER_LABEL)
    made.layout.width = "100%"
    return made


def _make_own_text_box(listed: Choices) -> widgets.Textarea:
    made = widgets.Textarea(value=listed.draft, placeholder=OWN_TEXT_LABEL, rows=2)
    made.layout.width = "100%"
    return made
