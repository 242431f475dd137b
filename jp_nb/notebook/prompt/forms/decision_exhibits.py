"""The exact content that a decision is about, above its buttons.

An *exhibit* is a part that is shown exactly, such as the new source of a cell. If the user can
leave it out, it has an *item*: a row with a check box (`decision_items.py`). `list_exhibits` gives
each exhibit a caption and the lines of its text. An exhibit with a `diff` is a change of a source:
its lines are those of the difference.

Source: `docs/prompts.md`, `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import ipywidgets as widgets

from jp_nb.agent.prompting.prompts import ActionPrompt
from jp_nb.notebook.prompt.controls.form_widgets import make_html, make_text
from jp_nb.notebook.prompt.controls.widget_sharing import SharedLook
from jp_nb.notebook.prompt.forms.decision_items import DecisionItem
from jp_nb.notebook.prompt.forms.diff_rendering import MAX_DIFF_PART_CHARS
from jp_nb.notebook.prompt.forms.exact_text import show_exact_lines
from jp_nb.notebook.prompt.forms.source_diff_view import (
    MAX_OPEN_DIFF_LINES,
    SourceDiffView,
    make_open_diff,
)
from jp_nb.rendering.prompt_texts import prompt_text
from jp_nb.rendering.prompt_texts.change_table import render_change_table


def make_items(
    prompt: ActionPrompt, changed: Callable[[], None], look: SharedLook
) -> dict[str, DecisionItem]:
    """Return the parts of the decision that the user can exclude, by key.

    `changed` is called when the user checks or unchecks one.
    """
    exhibits = zip(prompt.exhibits, prompt_text.list_exhibits(prompt), strict=True)
    return {
        exhibit.item.key: DecisionItem(exhibit.item, caption, changed, look)
        for exhibit, (caption, _) in exhibits
        if exhibit.item is not None
    }


def make_decision_details(
    prompt: ActionPrompt, items: Mapping[str, DecisionItem], look: SharedLook
) -> Iterator[widgets.Widget]:
    """Yield the widgets of the exact content that the user decides about.

    The row of each of the `items`, by key, is above its content, in place of a caption.
    """
    exhibits = zip(prompt.exhibits, prompt_text.list_exhibits(prompt), strict=True)
    room_lines = MAX_OPEN_DIFF_LINES  # of all open differences together, less those so far
    for exhibit, (caption, lines) in exhibits:
        if exhibit.item is not None:
            yield items[exhibit.item.key].row
        else:
            yield make_text(caption, "caption")

        if exhibit.diff is None:
            yield from show_exact_lines(lines, exhibit.language, look)
            continue

        # A short difference is open. A long one, or one for which no room is left, gets a button
        # that opens it (`SourceDiffView`). So a long one leaves room for the short ones after it.
        is_long = sum(map(len, lines)) > MAX_DIFF_PART_CHARS
        if len(lines) <= room_lines and not is_long:
            room_lines -= len(lines)
            yield make_open_diff(caption, exhibit.diff, exhibit.language, look)
        else:
            yield SourceDiffView(caption, exhibit.diff, exhibit.language, look).widget

    if prompt.changes:  # the decision is about changes of the configuration
        yield make_html(render_change_table(prompt.changes), "table")
