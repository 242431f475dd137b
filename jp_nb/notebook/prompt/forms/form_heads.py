"""The widgets above a control, and the details of a decision.

The *head* of a question or of a field has its context, text, address, and a hint. The details of a
decision are its *exhibits*: parts that are shown exactly, such as the new source of a cell.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import ipywidgets as widgets

from jp_nb.agent.prompting.prompts import (
    ActionPrompt,
    QuestionPrompt,
    SimplePrompt,
)
from jp_nb.notebook.prompt.controls.form_widgets import (
    SharedLook,
    isolate_direction,
    make_html,
    make_markdown,
    make_text,
)
from jp_nb.notebook.prompt.forms.decision_items import DecisionItem
from jp_nb.notebook.prompt.forms.diff_rendering import MAX_DIFF_PART_CHARS
from jp_nb.notebook.prompt.forms.exact_text import show_exact_lines
from jp_nb.notebook.prompt.forms.source_diff_view import (
    MAX_OPEN_DIFF_LINES,
    SourceDiffView,
    make_open_diff,
)
from jp_nb.rendering.prompt_texts import address_text, prompt_text
from jp_nb.rendering.prompt_texts.change_text import render_change_table


def make_question_head(prompt: SimplePrompt) -> Iterator[widgets.Widget]:
    """Yield the widgets of the context, of the question, and of the hint."""
    if context := prompt_text.format_context(prompt):
        yield _make_context(prompt, context, "context")

    yield make_text(prompt_text.format_question(prompt), "question")
    if (address := address_text.find_address(prompt)) is not None:
        yield make_html(address_text.render_address(address), "address")

    if not isinstance(prompt, ActionPrompt) and (
        hint := prompt_text.make_editable_text(prompt).hint
    ):
        yield make_text(hint, "hint")


def make_items(
    prompt: ActionPrompt, changed: Callable[[], None], look: SharedLook
) -> dict[str, DecisionItem]:
    """Return the parts of the decision that the user can leave out, by key.

    `changed` is called when the user checks or unchecks one.
    """
    exhibits = zip(prompt.exhibits, prompt_text.list_exhibits(prompt), strict=True)
    return {
        detail.item.key: DecisionItem(detail.item, caption, changed, look)
        for detail, (caption, _) in exhibits
        if detail.item is not None
    }


def make_decision_details(
    prompt: ActionPrompt, items: Mapping[str, DecisionItem], look: SharedLook
) -> Iterator[widgets.Widget]:
    """Yield the widgets of the exact content that the user decides about.

    The row of each of the `items`, by key, is above its content, in place of a caption.
    """
    exhibits = zip(prompt.exhibits, prompt_text.list_exhibits(prompt), strict=True)
    room_lines = MAX_OPEN_DIFF_LINES  # for further open differences
    for detail, (caption, lines) in exhibits:
        if detail.item is not None:
            yield items[detail.item.key].row
        else:
            yield make_text(caption, "caption")

        if detail.diff is None:
            yield from show_exact_lines(lines, detail.language, look)
            continue

        # A short difference is open. A long one leaves room for the short ones after it.
        is_long = sum(map(len, lines)) > MAX_DIFF_PART_CHARS
        if len(lines) <= room_lines and not is_long:
            room_lines -= len(lines)
            yield make_open_diff(caption, detail.diff, detail.language, look)
        else:
            yield SourceDiffView(caption, detail.diff, detail.language, look).widget

    if prompt.changes:
        yield make_html(render_change_table(prompt.changes), "table")


def _make_context(prompt: SimplePrompt, context: str, name: str) -> widgets.Widget:
    """Return the widget `jp-nb-<name>` of a context, which is Markdown or plain text."""
    if isinstance(prompt, QuestionPrompt) and prompt.question.context_is_text:
        return make_text(context, name)

    shown = make_markdown(context, name)
    if isinstance(prompt, ActionPrompt):
        shown.add_class("jp-nb-document")
    return shown


def make_field_head(prompt: QuestionPrompt) -> Iterator[widgets.Widget]:
    """Yield the widgets of the name of a field, of its description, and of its hint."""
    name = isolate_direction(prompt_text.format_question(prompt))
    if prompt.question.required:
        name += ' <span class="jp-nb-mark" aria-hidden="true">*</span>'

    yield make_html(name, "field-name")
    if (address := address_text.find_address(prompt)) is not None:
        yield make_html(address_text.render_address(address), "address")

    if context := prompt_text.format_context(prompt):
        yield _make_context(prompt, context, "about")

    if hint := prompt_text.make_editable_text(prompt).hint:
        yield make_text(hint, "hint")
