"""The cells of a document that may be edited, and the version of a cell.

Source: `docs/cells.md`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from jp_nb.text import one_line
from jp_nb.toolkit.editing.edit_schema import CellKind

VERSION_CHARS: Final = 12
MAX_NEAREST_CELLS: Final = 3
_NUMBER_DIGITS: Final = 6  # more than a number of a cell has
_ID_CHARS: Final = 64  # of the longest id of a cell in the notebook format


def cell_version(source: str) -> str:
    """Return the version of a cell with this source: 12 hex digits of its SHA-256 in UTF-8.

    Example:
        >>> cell_version("1 + 1")
        'a1dbdc20acc0'
    """
    # Half a surrogate pair is possible in a notebook, but not in UTF-8.
    data = source.encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:VERSION_CHARS]


@dataclass(frozen=True, slots=True)
class DocumentCell:
    """One cell of the document, with its whole source.

    Attributes:
        cell_id: The id in the notebook, by which edits name the cell.
        number: The position in the notebook, from 1, as JupyterLab counts in its status bar.
        source: The whole source.
        kind: The type of the cell.
        is_editable: False if the metadata of the cell forbids a new source.
        is_deletable: False if the metadata of the cell forbids its deletion.
        is_busy: True if the cell runs or waits to run.
        has_outputs: True if the cell shows outputs, which a new source removes.
        has_record: True if the metadata of the cell has data of jp_nb, such as the record.
        tags: The tags in the metadata of the cell.
    """

    cell_id: str
    number: int
    source: str
    kind: CellKind = "code"
    is_editable: bool = True
    is_deletable: bool = True
    is_busy: bool = False
    has_outputs: bool = False
    has_record: bool = False
    tags: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The version of its source."""
        return cell_version(self.source)


@dataclass(frozen=True, slots=True)
class DocumentCells:
    """All cells of the document.

    Attributes:
        cells: The cells, from top to bottom.
        this: The id of the running cell.
        can_change: False if no program can change the document. Then only insertions are accepted,
            and the user gets their sources.
        may_run: False if cells may run only with the consent of a user.
        why: The reason why no program can change the document; "" if one can.
        operation: The id of the last change that a program made; "" if there was none.
        new_ids: The ids of the cells that this change inserted, by their keys in the proposal.
        other_users: The names of users that share the document.
    """

    cells: tuple[DocumentCell, ...]
    this: str
    can_change: bool = True
    may_run: bool = False
    why: str = ""
    operation: str = ""
    new_ids: Mapping[str, str] = field(default_factory=dict)
    other_users: tuple[str, ...] = ()

    def find(self, cell_id: str) -> DocumentCell | None:
        """Return the cell with this id."""
        return next((cell for cell in self.cells if cell.cell_id == cell_id), None)

    def list_nearest(self, wanted: str) -> list[str]:
        """Return descriptions of the cells that a model may mean by the unknown id `wanted`.

        It may be the source or the number of a cell. Otherwise, return cells with similar ids.
        """
        same_source = [cell for cell in self.cells if wanted.strip() and cell.source == wanted]
        if same_source:
            return [_describe(cell) for cell in same_source[:MAX_NEAREST_CELLS]]

        is_number = wanted.isdecimal() and len(wanted) <= _NUMBER_DIGITS
        if is_number and 1 <= int(wanted) <= len(self.cells):
            return [_describe(self.cells[int(wanted) - 1])]

        cells = {cell.cell_id: cell for cell in self.cells}
        near = get_close_matches(wanted[:_ID_CHARS], cells, n=MAX_NEAREST_CELLS, cutoff=0.4)
        return [_describe(cells[cell_id]) for cell_id in near]


def _describe(cell: DocumentCell) -> str:
    return f"{one_line(cell.cell_id, limit=_ID_CHARS)} (cell {cell.number})"
