"""Texts of models, tools, and files, as the user reads them."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

from jp_nb import exact_form, json_writing, object_text, storable_json, text
from jp_nb.config.tree import system_texts
from jp_nb.headless import cell_printing, terminal_text
from jp_nb.rendering import markdown, markdown_sanitizer
from jp_nb.toolkit.command_tools import templates
from jp_nb.toolkit.question_types import web_address


def _print_notebook(notebook: Any) -> str:
    out = io.StringIO()
    cell_printing.print_transcript(notebook, out)
    return out.getvalue()


TEXT_FORMS: Mapping[str, Callable[..., str]] = {
    "plain": text.plain,
    "one_line": text.one_line,
    "exact": exact_form.escape_invisible,
    "spelled": exact_form.spell_invisible,
    "prose": exact_form.spell_prose,
    "object": lambda value: "\n".join(object_text.format_object(value)),
    "edit_box": exact_form.spell_editable,
    "edited": exact_form.unspell,
    "template": lambda value, **variables: templates.render(value, variables),
    "recorded_url": web_address.remove_details,
    "system_prompt": lambda assistant: "\n\n".join(system_texts.list_system_texts(assistant)),
    "user_name": exact_form.format_user_name,
    "in_markdown": text.escape_markdown,
    "markdown": markdown_sanitizer.sanitize_markdown,
    "code_block": markdown.make_code_block,
    "code_span": markdown.make_code_span,
    "terminal": terminal_text.format_text,
    "terminal_output": terminal_text.format_terminal_text,
    "notebook": _print_notebook,
    "canonical_json": json_writing.canonical_json,
    "sorted_json": json_writing.sorted_json,
    "indented_json": json_writing.indented_json,
    "storable": storable_json.replace_surrogates,
}


def write_text(form: str, value: Any, **options: Any) -> str:
    """Return `value` in this form: `write_text("plain", text, limit=10)`.

    The forms are `plain`, `one_line`, and `exact`; `spelled` and `prose`, with invisible characters
    as code points; `object`, for the lines of a JSON object; `edit_box`, and `edited` for what the
    user leaves there; `template`, with its variables; `recorded_url`; `system_prompt`, for the
    settings of an assistant; `in_markdown`, `code_span`, and `code_block` for a text within
    Markdown; `markdown` for Markdown from a model; `terminal`; `canonical_json`, `sorted_json`, and
    `indented_json` for a JSON value; `storable` for a text that UTF-8 can encode.
    """
    return TEXT_FORMS[form](value, **options)
