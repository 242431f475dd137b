"""Edits of a call that was interrupted: find out from the notebook whether they were applied.

The *operation* is the change of the notebook that one call makes (`EditOperation`). The page writes
its id into the notebook in the same step as the edits: if the notebook has the id, the edits were
applied. The journal has had them since the user's consent, in the form of `edit_record.py`, which
lists the fields of an edit. So nothing is applied twice.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.errors import ToolError
from jp_nb.json_values import JsonObject, as_object
from jp_nb.text import one_line, pluralize
from jp_nb.toolkit.editing.cell_edits import read_edits
from jp_nb.toolkit.editing.document_cells import DocumentCells
from jp_nb.toolkit.editing.document_change import EditOperation
from jp_nb.toolkit.notebook_access import NotebookAccess
from jp_nb.toolkit.outcome import Success, ToolFailure

FOUND_TEXT: Final = (
    "This call was interrupted after the page had applied its edits. They were not applied again."
)
CELLS_NOW_TEXT: Final = "The cells as they are now:"
RUN_UNKNOWN_TEXT: Final = "It is unknown whether its cells ran. They were not run again."
NO_DETAILS_TEXT: Final = (
    "It is not known which edits the user chose. Read the cells with notebook_cells."
)
UNKNOWN_TEXT: Final = (
    "This call was interrupted, and it is unknown whether its edits were applied: {} Do not "
    "propose them again before you have read the cells."
)
NO_PAGE_TEXT: Final = "no page shows this notebook."
APPLIED_NOTICE: Final = (
    "▸ The page had applied {} of this call before it was interrupted. Nothing is applied again"
)
NOT_APPLIED_NOTICE: Final = (
    "▸ The page had not applied the edits of this call before it was interrupted. You decide again"
)
TWIN_NOTICE: Final = (
    "⚠ The notebook already has a cell with the source of edit {}: `{}`. Apply it only if you want "
    "it twice"
)


async def find_earlier_edits(
    operation: EditOperation, arguments: Mapping[str, JsonValue], notebook: NotebookAccess
) -> Success | ToolFailure | None:
    """Return the result of a call whose earlier run was interrupted; None if it applied nothing.

    A notice tells the user if the edits were applied.
    """
    try:
        document = await notebook.document()
    except ToolError as exc:
        return ToolFailure(UNKNOWN_TEXT.format(exc))
    if not document.can_change:  # no page is open
        return ToolFailure(UNKNOWN_TEXT.format(NO_PAGE_TEXT))

    tell = operation.tell or _ignore
    was_applied = document.operation == operation.operation_id  # the last change by a program
    if was_applied:
        edits = list_earlier_edits(operation.change, document.new_ids)
        count = len(edits)
        applied = f"{count} {pluralize('edit', count)}" if edits else "edits"
        tell(APPLIED_NOTICE.format(applied))
        return _describe_applied_edits(operation, edits, document)

    tell(NOT_APPLIED_NOTICE)
    # The user may have copied a proposed cell into the notebook meanwhile.
    for number, cell_id in _list_twins(arguments, document):
        tell(TWIN_NOTICE.format(number, cell_id))
    return None


def _ignore(text: str) -> None:
    """Show nothing: no user reads the text."""


def list_earlier_edits(change: JsonValue, new_ids: Mapping[str, str]) -> list[JsonObject]:
    """Return the edits in `change`, from the journal, with the ids of inserted cells.

    The journal was written before the page gave new cells their ids, so it has keys such as
    `new:1`. `new_ids` are the ids by key.
    """
    recorded = as_object(change).get("edits")
    if not isinstance(recorded, list):
        return []

    edits: list[JsonObject] = []
    for item in recorded:
        edit = dict(as_object(item))
        for name in ("cell", "after", "place_before"):
            cell_id = edit.get(name)
            if isinstance(cell_id, str):
                edit[name] = new_ids.get(cell_id, cell_id)
        edits.append(edit)
    return edits


def _describe_applied_edits(
    operation: EditOperation, edits: list[JsonObject], document: DocumentCells
) -> Success:
    """Return the result of a call whose edits the page had applied."""
    if not edits:  # the journal does not have them
        ids = ", ".join(f"`{one_line(new_id, limit=64)}`" for new_id in document.new_ids.values())
        inserted = f" New cells: {ids}." if ids else ""
        return Success(f"{FOUND_TEXT}{inserted} {NO_DETAILS_TEXT}")

    lines = [f"{FOUND_TEXT} {CELLS_NOW_TEXT}"]
    for edit in edits:
        lines.append(f"{edit.get('edit')}. {_describe_edit(edit, edits, document)}")
    if as_object(operation.change).get("runs") is True:
        lines.append(RUN_UNKNOWN_TEXT)

    record: JsonObject = {**as_object(operation.change), "edits": [*edits]}
    return Success("\n".join(lines), structured=record)


def _describe_edit(edit: JsonObject, edits: list[JsonObject], document: DocumentCells) -> str:
    """Return the line about an applied edit, by the present state of its cell.

    The version of the cell tells if it is as the last of its `edits` left it, as it was before the
    first of them, or changed since.
    """
    cell_id = str(edit.get("cell", ""))
    cell = document.find(cell_id)
    edits_of_cell = [other for other in edits if other.get("cell") == cell_id]
    was_deleted = any(other.get("op") == "delete" for other in edits_of_cell)

    if cell is None:
        if was_deleted:
            return f"applied: cell `{cell_id}` is deleted."
        return f"applied, but cell `{cell_id}` is gone now."
    if was_deleted:
        return f"applied, and taken back since: cell `{cell_id}`, version {cell.version}, is there."

    if cell.version == edits_of_cell[-1].get("version"):
        return f"applied: cell `{cell_id}`, version {cell.version}."
    if cell.version == edits_of_cell[0].get("version_before"):
        return f"applied, and taken back since: cell `{cell_id}` has version {cell.version} again."
    return f"applied, but cell `{cell_id}` has changed since: its version is {cell.version}."


def _list_twins(
    arguments: Mapping[str, JsonValue], document: DocumentCells
) -> Iterator[tuple[int, str]]:
    """Yield the number of each insertion whose source a cell has already, with its id."""
    ids = {cell.source: cell.cell_id for cell in document.cells}
    for edit in read_edits(arguments):
        is_insertion = bool(edit.key)  # the key stands for the id that the new cell will get
        if is_insertion and edit.source in ids:
            yield edit.number, one_line(ids[edit.source], limit=64)
