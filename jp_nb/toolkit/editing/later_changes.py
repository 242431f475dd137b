"""Find the cells that changed after the edits of a turn were applied.

In a shared document, another user may edit a cell at the same time. The pages then *merge* both
edits, so the cell has another version than the edit gave it. A *version* is a hash of the source
(`document_cells.py`).

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pydantic import JsonValue

from jp_nb.json_values import as_object
from jp_nb.toolkit.editing.document_cells import DocumentCells

MERGED_VERSION_KEY = "version_merged"
"""Key of an applied edit in the record: the version that the model was told of a merged cell.

It is None if the cell was gone.
"""


class LaterChange(NamedTuple):
    """A cell that is not as the model knows it.

    Attributes:
        cell_id: Its id.
        number: Its present position; None if it is gone.
        version: Its present version; None if it is gone.
        was_deleted: True if the model knows it as deleted, so that it was restored since.
    """

    cell_id: str
    number: int | None
    version: str | None
    was_deleted: bool


def find_later_changes(results: Iterable[JsonValue], document: DocumentCells) -> list[LaterChange]:
    """Return the cells that are not as the last of the `results` told the model.

    `results` are the structured results of the calls of a turn, in order.
    """
    present = {cell.cell_id: cell for cell in document.cells}
    changes: list[LaterChange] = []

    for cell_id, version in _read_versions(results).items():
        cell = present.get(cell_id)
        present_version = None if cell is None else cell.version
        if present_version != version:
            number = None if cell is None else cell.number
            was_deleted = version is None
            changes.append(LaterChange(cell_id, number, present_version, was_deleted))
    return changes


def _read_versions(results: Iterable[JsonValue]) -> Mapping[str, str | None]:
    """Return the last version of each edited cell, by its id; None if the cell is gone."""
    versions: dict[str, str | None] = {}
    for result in results:
        edits = as_object(result).get("edits")
        if not isinstance(edits, list):
            continue

        for item in edits:
            edit = as_object(item)
            cell_id = edit.get("cell")
            version = edit.get(MERGED_VERSION_KEY, edit.get("version"))
            if isinstance(cell_id, str):
                versions[cell_id] = version if isinstance(version, str) else None
    return versions
