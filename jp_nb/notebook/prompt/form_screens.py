"""What a form with pages shows beside its pages: the summary, and the ways out.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from html import escape

import ipywidgets as widgets

from jp_nb.agent.form_draft import FormDraft
from jp_nb.notebook.prompt.form_parts import html, isolated, text
from jp_nb.rendering import form_words
from jp_nb.rendering.form_words import SummaryLine


def summary_screen(draft: FormDraft) -> widgets.VBox:
    """Return the list of what would be sent, with a button for each question."""
    rows = (_row(number, line) for number, line in enumerate(form_words.summary(draft)))
    listed = html(f"<ol>{''.join(rows)}</ol>", "summary")
    return _screen(text(form_words.heading(draft), "question"), listed)


def _row(number: int, line: SummaryLine) -> str:
    """Return one line of the list: one widget holds them all, however many there are."""
    change = form_words.ANSWER if line.is_open else form_words.CHANGE
    buttons = [_inner_button(f"go-{number}", change, line.asked)]
    if line.empty is not None:
        buttons.append(_inner_button(f"empty-{number}", line.empty, line.asked))
    state = ' class="jp-nb-open"' if line.is_open else ""
    return (
        f"<li{state}><div><span>{number + 1}. {isolated(line.asked)}</span>"
        f"<b>{isolated(line.answer)}</b></div><div>{''.join(buttons)}</div></li>"
    )


def _inner_button(does: str, label: str, about: str) -> str:
    name = escape(f"{label}: {about}")
    return (
        f'<button type="button" class="jupyter-button jp-nb-do-{does}" aria-label="{name}">'
        f"{escape(label)}</button>"
    )


def discard_screen() -> widgets.VBox:
    """Return the question whether to throw away what was entered."""
    return _screen(text(form_words.DISCARDED, "question"))


class ReplyMenu:
    """The ways out: a box for a reply above the buttons. What is typed into it stays there."""

    def __init__(self) -> None:
        self.area = widgets.Textarea(rows=3)
        self.area.add_class("jp-nb-control")
        field = widgets.VBox([text(form_words.REPLY_LABEL, "field-name"), self.area])
        field.add_class("jp-nb-field")
        self.widget = _screen(
            text(form_words.MENU, "question"), text(form_words.MENU_HINT, "hint"), field
        )

    @property
    def text(self) -> str:
        """What is typed in it."""
        return str(self.area.value)


def _screen(*children: widgets.Widget) -> widgets.VBox:
    made = widgets.VBox(children)
    made.add_class("jp-nb-page")
    return made
