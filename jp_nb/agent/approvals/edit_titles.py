"""Titles of proposed edits for the user: the kind of an edit, its cell, and its place.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

from jp_nb.exact_form import spell_invisible
from jp_nb.text import one_line
from jp_nb.toolkit.editing.document_cells import DocumentCell
from jp_nb.toolkit.editing.edit_plan import PlannedEdit

MAX_FIRST_LINE_CHARS = 60
_VERBS: Mapping[str, str] = {
    "insert": "Insert",
    "replace": "Replace",
    "patch": "Change",
    "delete": "Delete",
    "move": "Move",
    "run": "Run",
}


def loses_outputs(planned: PlannedEdit) -> bool:
    """Return True if the cell of an edit has outputs, which it loses with a new source."""
    is_rewrite = planned.edit.kind in ("replace", "patch") and planned.before != planned.after
    return is_rewrite and planned.cell is not None and planned.cell.has_outputs


def describe_edit(planned: PlannedEdit) -> str:
    """Return the title of an edit: its number, kind, and cell."""
    edit = planned.edit
    verb = _VERBS[edit.kind]
    runs = ", and run it" if edit.is_run and edit.kind != "run" else ""

    if edit.kind == "insert":
        place = _describe_place(planned)
        return f"Edit {edit.number}: {verb} a new {planned.cell_kind} cell {place}{runs}"

    if planned.cell is not None:
        name = describe_cell(planned.cell)
    else:
        name = _describe_new_cell(edit.cell)
    title = f"Edit {edit.number}: {verb} {name}"
    if edit.kind == "move":
        title += f", {_describe_place(planned)}"
    if edit.kind == "delete" and planned.cell is not None and planned.cell.has_outputs:
        title += ", with its outputs"
    if loses_outputs(planned):
        title += ", which loses its outputs"
    return f"{title}{runs}"


def describe_cell(cell: DocumentCell) -> str:
    """Return the number of a cell, and its first line."""
    lines = [line for line in cell.source.split("\n") if line.strip()]
    first = "(empty)"
    if lines:
        first = spell_invisible(one_line(lines[0], limit=MAX_FIRST_LINE_CHARS))
    return f"cell {cell.number} ({first})"


def _describe_place(planned: PlannedEdit) -> str:
    if planned.named_place is not None:
        return f"after {describe_cell(planned.named_place)}"

    match planned.edit.after:
        case "start":
            return "at the start"
        case "end":
            return "at the end"
        case "this":
            return "below this cell"
        case after:
            return f"after {_describe_new_cell(after)}"


def _describe_new_cell(key: str) -> str:
    """Return the words for a cell that an earlier edit inserts, such as `new:1`."""
    return f"the new cell `{spell_invisible(one_line(key, limit=64))}`"
