"""Parse the answers of a page to requests about its cells (`document`, `edit`, and `ran`).

An answer is a JSON text, which may be forged. `page_document.py` sends the requests. An answer has
the id of the *operation*, the change that one call makes (`EditOperation`). The page repeats the id
of the last operation in later answers. So a kernel that was interrupted can find out if its change
was applied.

Source: `docs/cells.md`, `docs/protocol.md`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject
from jp_nb.toolkit.editing.document_cells import DocumentCell
from jp_nb.toolkit.editing.document_change import CellConflict, ChangeResult
from jp_nb.toolkit.editing.edit_schema import CELL_KINDS, CellKind

MALFORMED_DOCUMENT: Final = "the open page reported its cells in an unknown format"
OTHER_ORDER: Final = "The page applied the change, but its cells are in another order."


@dataclass(frozen=True, slots=True)
class PageState:
    """The cells of the page, and the last operation that changed them.

    `ids` has the ids of the cells that this operation has inserted, by their keys, such as `new:1`.
    """

    cells: tuple[DocumentCell, ...]
    operation: str = ""
    ids: Mapping[str, str] | None = None


def read_answer_object(text: str) -> JsonObject:
    """Parse an answer of the page, or raise `StorageError` if it is no JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise StorageError(MALFORMED_DOCUMENT) from exc
    if not isinstance(found, dict):
        raise StorageError(MALFORMED_DOCUMENT)
    return found


def read_page_state(text: str) -> PageState:
    """Parse the answer about all cells.

    Raises:
        StorageError: It has another form.
    """
    state = read_answer_object(text)
    cells = state.get("cells")
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise StorageError(MALFORMED_DOCUMENT)

    listed = tuple(_read_cell(number, cell) for number, cell in enumerate(cells, 1))
    return PageState(listed, str(state.get("operation", "")), _read_ids(state.get("ids")))


def _read_cell(number: int, cell: Any) -> DocumentCell:
    """Parse a cell. Only its id and source are required; other fields may be missing."""
    cell_id = cell.get("id")
    source = cell.get("source")
    if not isinstance(cell_id, str) or not isinstance(source, str):
        raise StorageError(MALFORMED_DOCUMENT)

    kind: CellKind = next((known for known in CELL_KINDS if known == cell.get("type")), "raw")
    tags = cell.get("tags")
    if not isinstance(tags, list):
        tags = []
    return DocumentCell(
        cell_id,
        number,
        source,
        kind,
        is_editable=cell.get("editable") is not False,
        is_deletable=cell.get("deletable") is not False,
        is_busy=cell.get("busy") is True,
        has_outputs=cell.get("outputs") is True,
        has_record=cell.get("record") is True,
        tags=tuple(str(tag) for tag in tags),
    )


def _read_ids(ids: Any) -> dict[str, str]:
    if not isinstance(ids, dict):
        return {}
    return {str(key): str(cell_id) for key, cell_id in ids.items()}


def read_change_answer(text: str, operation: str) -> ChangeResult:
    """Return the page's answer about `operation`.

    Raises:
        StorageError: It is no such answer, or the page did not apply the change.
    """
    answer = read_answer_object(text)
    if answer.get("operation") != operation:
        raise StorageError("The page answered about another change")

    match answer.get("outcome"):
        case "applied":
            return ChangeResult("applied", _read_ids(answer.get("ids")), operation=operation)
        case "different":
            ids = _read_ids(answer.get("ids"))
            return ChangeResult("unknown", ids, operation=operation, note=OTHER_ORDER)
        case "conflict":
            return ChangeResult("conflict", conflicts=tuple(_read_conflicts(answer)))
        case _:
            why = str(answer.get("why", "the page gave no reason"))
            raise StorageError(f"The page did not apply the change: {why}")


def _read_conflicts(answer: JsonObject) -> list[CellConflict]:
    """Parse the cells that differ from those that the user saw. Malformed ones are omitted."""
    reported = answer.get("conflicts")
    conflicts: list[CellConflict] = []
    if not isinstance(reported, list):
        return conflicts

    for conflict in reported:
        if isinstance(conflict, dict):
            source = conflict.get("source")
            if not isinstance(source, str):
                source = None  # the cell was deleted
            conflicts.append(
                CellConflict(
                    str(conflict.get("id", "")),
                    str(conflict.get("reason", "it has changed.")),
                    source,
                )
            )
    return conflicts
