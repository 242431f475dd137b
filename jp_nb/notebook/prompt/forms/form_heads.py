"""The *head* of a question or of a field: the widgets above its control.

These are its context, its text, the address that the user should open, and a hint.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Iterator

import ipywidgets as widgets

from jp_nb.agent.prompting.prompts import (
    ActionPrompt,
    QuestionPrompt,
    SimplePrompt,
)
from jp_nb.notebook.prompt.controls.form_widgets import (
    isolate_direction,
    make_html,
    make_markdown,
    make_text,
)
from jp_nb.rendering.prompt_texts import address_text, prompt_text
from jp_nb.rendering.prompt_texts.editable_text import make_editable_text


def make_question_head(prompt: SimplePrompt) -> Iterator[widgets.Widget]:
    """Yield the widgets of the context, of the question, and of the hint."""
    if context := prompt_text.format_context(prompt):
        yield _make_context(prompt, context, "context")

    yield make_text(prompt_text.format_question(prompt), "question")
    if (address := address_text.find_address(prompt)) is not None:
        yield make_html(address_text.render_address(address), "address")

    # The hint says what the user can type. A decision has only buttons.
    if not isinstance(prompt, ActionPrompt) and (hint := make_editable_text(prompt).hint):
        yield make_text(hint, "hint")


def _make_context(prompt: SimplePrompt, context: str, name: str) -> widgets.Widget:
    """Return the widget `jp-nb-<name>` of a context, which is Markdown or plain text."""
    if isinstance(prompt, QuestionPrompt) and prompt.question.context_is_text:
        return make_text(context, name)

    shown = make_markdown(context, name)
    if isinstance(prompt, ActionPrompt):
        shown.add_class("jp-nb-document")  # the text that the decision is about: it may be long
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

    if hint := make_editable_text(prompt).hint:
        yield make_text(hint, "hint")
