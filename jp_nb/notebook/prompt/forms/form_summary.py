"""The summary of a form before it is sent: a row for each page, with buttons to change its answer.

A `SummaryLine` has the texts of a row: the question that is `asked`, and the `answer`, or a note if
the question `is_open`. If an empty answer is valid, `empty` is the label of the button for it.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from html import escape

import ipywidgets as widgets

from jp_nb.notebook.prompt.controls.form_widgets import (
    isolate_direction,
    make_box,
    make_button,
    make_html,
    make_text,
)
from jp_nb.rendering.prompt_texts import form_text
from jp_nb.rendering.prompt_texts.form_text import SummaryLine


def make_summary(lines: Sequence[SummaryLine]) -> widgets.Widget:
    """Return the rows as the HTML of one widget, because many widgets are slow.

    `form.js` sends the clicks of their buttons.
    """
    rows = [_render_row(number, line) for number, line in enumerate(lines)]
    return make_html(f"<ol>{''.join(rows)}</ol>", "summary")


def make_stock_summary(
    lines: Sequence[SummaryLine], press: Callable[[str], None]
) -> widgets.Widget:
    """Return the rows as widgets of ipywidgets alone, for a page that cannot load `form.js`.

    `press` is called with the name of a button that was clicked.
    """
    return make_box("summary", *_make_stock_rows(lines, press))


def _make_stock_rows(
    lines: Sequence[SummaryLine], press: Callable[[str], None]
) -> Iterator[widgets.Widget]:
    for number, line in enumerate(lines):
        yield make_text(f"{number + 1}. {line.asked} → {line.answer}", "summary-line")
        actions = _list_actions(number, line)
        yield widgets.HBox([make_button(label, partial(press, name)) for name, label in actions])


def _render_row(number: int, line: SummaryLine) -> str:
    actions = _list_actions(number, line)
    buttons = [_render_button(name, label, line.asked) for name, label in actions]
    state = ' class="jp-nb-open"' if line.is_open else ""
    return (
        f"<li{state}><div><span>{number + 1}. {isolate_direction(line.asked)}</span>"
        f"<b>{isolate_direction(line.answer)}</b></div><div>{''.join(buttons)}</div></li>"
    )


def _list_actions(number: int, line: SummaryLine) -> list[tuple[str, str]]:
    """Return the name and the label of each button in a row, such as `go-2` and "Change"."""
    change = form_text.ANSWER_LABEL if line.is_open else form_text.CHANGE_LABEL
    actions = [(f"go-{number}", change)]
    if line.empty is not None:
        actions.append((f"empty-{number}", line.empty))
    return actions


def _render_button(name: str, label: str, asked: str) -> str:
    description = escape(f"{label}: {asked}")
    return (
        f'<button type="button" class="jupyter-button jp-nb-do-{name}" aria-label="{description}">'
        f"{escape(label)}</button>"
    )
