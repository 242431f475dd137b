"""Applied edits of cells in a recorded turn: their number, and their differences as text.

The response of a call of `edit_cells` has the applied edits in its metadata, in the list `edits` of
its structured result:

    edit           number of the proposed edit in the arguments of the call, from 1
    op             `insert`, `replace`, `patch`, `delete`, or another one that changes no source
    cell           id of the cell
    source_before  the source of the cell before the edit
    edited         the new source, if the user has edited the proposal

A record may come from someone else, so each field may be missing or have another type.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from jp_nb.exact_form import escape_invisible
from jp_nb.json_values import as_object
from jp_nb.record.entries.events import Entry, ToolCallResponse
from jp_nb.rendering.markdown import make_code_block, make_details_block
from jp_nb.rendering.report import Report, indent_text, limit_text
from jp_nb.text import one_line, pluralize

MAX_SHOWN_EDITS = 50
"""Limit of edits of one call that the log shows."""


def list_applied_edits(structured: JsonValue) -> list[Mapping[str, JsonValue]]:
    """Return the applied edits in the structured result of a call."""
    edits = as_object(structured).get("edits")
    if not isinstance(edits, list):
        return []
    return [edit for edit in edits if isinstance(edit, dict)]


def count_applied_edits(entries: Sequence[Entry]) -> int:
    """Return the number of applied edits in the `entries` of a turn."""
    responses = [entry for entry in entries if isinstance(entry, ToolCallResponse)]
    results = [response.metadata.get("structured") for response in responses]
    return sum(len(list_applied_edits(result)) for result in results)


def format_applied_edits(arguments: Mapping[str, JsonValue], structured: JsonValue) -> str:
    """Return the differences of the applied edits of a call, with a line before each.

    An applied edit has the number of the proposed one in `arguments`, which has its new source. If
    the user edited the proposal, the applied edit has the source itself (`edited`).
    """
    proposed = arguments.get("edits")
    if not isinstance(proposed, list):
        proposed = []

    parts: list[str] = []
    for applied in list_applied_edits(structured)[:MAX_SHOWN_EDITS]:
        number = applied.get("edit")
        edit: Mapping[str, JsonValue] = {}
        if isinstance(number, int) and 0 < number <= len(proposed):
            edit = as_object(proposed[number - 1])

        kind = str(applied.get("op", "edit"))
        cell = one_line(escape_invisible(str(applied.get("cell", ""))), limit=64)
        parts.append(f"{number}. {one_line(kind, limit=20)} cell {cell}")
        parts += _list_difference(kind, applied, edit)
    return "\n".join(parts)


def make_edits_block(arguments: Mapping[str, JsonValue], structured: JsonValue) -> Report:
    """Return the differences of the applied edits of a call, folded in a page; empty without any.

    The text is indented, below the line of the call.
    """
    edits = limit_text(format_applied_edits(arguments, structured))
    if not edits:
        return Report("", "")

    count = len(list_applied_edits(structured))  # also of those beyond the limit
    title = f"{count} applied {pluralize('edit', count)}"
    block = make_details_block(title, make_code_block(edits, "diff"))
    return Report(markdown=block, text=indent_text(edits))


def _list_difference(
    kind: str, applied: Mapping[str, JsonValue], edit: Mapping[str, JsonValue]
) -> Iterator[str]:
    """Yield the difference of one edit: `applied` is recorded, and `edit` was proposed."""
    from jp_nb.toolkit.editing.source_diff import format_diff  # most turns edit no cells

    before = _read_text(applied, "source_before")
    is_edited = isinstance(applied.get("edited"), str)  # also "": the user removed the whole text
    after = _read_text(applied, "edited") if is_edited else _read_text(edit, "source")

    match kind:  # other kinds, such as a move, have no difference
        case "insert":
            yield format_diff("", after)
        case "replace":
            yield format_diff(before, after)
        case "patch" if is_edited:
            yield format_diff(before, after)
        case "patch":
            yield format_diff(_read_text(edit, "old"), _read_text(edit, "new"))
        case "delete":
            yield format_diff(before, "")


def _read_text(values: Mapping[str, JsonValue], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""
