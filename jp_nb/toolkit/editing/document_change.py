"""The change of a document by the front end: the request, its id after a crash, and the answer.

Source: `docs/cells.md`.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.toolkit.editing.cell_edits import CellEdit
from jp_nb.toolkit.editing.document_cells import DocumentCell
from jp_nb.toolkit.editing.edit_steps import EditStep

OPERATION_CHARS: Final = 32


@dataclass(frozen=True, slots=True)
class CellChange:
    """A change of the document, applied as a whole or not at all.

    Attributes:
        steps: The changes of single cells, in order.
        expected: The cells that the steps name, as the user saw them. If one has changed since,
            nothing is applied.
        operation: The id that the front end writes into the document with the change; "" if the
            front end has to make one. It is the `EditOperation.operation_id` of the call.
    """

    steps: tuple[EditStep, ...]
    expected: tuple[DocumentCell, ...]
    operation: str = ""


@dataclass(frozen=True, slots=True)
class EditOperation:
    """The change of the document that one call makes, also after a restart of the kernel.

    Attributes:
        operation_id: Its id, which the front end writes into the document with the edits.
        may_be_applied: True if an earlier run of the call was interrupted, and may have applied it.
        change: The edits of that run, as `edit_record.py` writes them; None if it did not get that
            far, or its journal is lost.
        note: Writes the edits to the journal before they are applied.
        tell: Shows a text to the user.
    """

    operation_id: str
    may_be_applied: bool = False
    change: JsonValue = None
    note: Callable[[JsonValue], None] | None = field(default=None, repr=False)
    tell: Callable[[str], None] | None = field(default=None, repr=False)


def make_operation_id(conversation_id: str, event_id: str) -> str:
    """Return the id of the edits that a call applies, equal after a restart of the kernel.

    `event_id` is the id of the call's request in the record; "" if no record has it. The id is then
    random.
    """
    if not event_id:
        return uuid.uuid4().hex
    return hashlib.sha256(f"{conversation_id}:{event_id}".encode()).hexdigest()[:OPERATION_CHARS]


@dataclass(frozen=True, slots=True)
class CellConflict:
    """A cell that is not as the user saw it.

    Attributes:
        cell_id: The id of the cell.
        reason: How it differs, a sentence for the model and the user.
        source: Its present source; None if it is gone.
    """

    cell_id: str
    reason: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The answer of the front end to a change.

    Attributes:
        outcome: `offered` means that the user got the sources and nothing was applied. `unknown`
            means that the front end did not answer.
        ids: Ids of new cells, by the key that the edits use for them.
        conflicts: The reasons why nothing was applied.
        operation: Id of the change in the document; "" without one.
        note: One sentence for the model.
        merged: The present sources of cells that differ from the plan right after the change,
            because another user edited them; None if the cell is gone.
        merged_by: The name of that user, or words for it.
    """

    outcome: Literal["applied", "conflict", "offered", "unknown"]
    ids: Mapping[str, str] = field(default_factory=dict)
    conflicts: tuple[CellConflict, ...] = ()
    operation: str = ""
    note: str = ""
    merged: Mapping[str, str | None] = field(default_factory=dict)
    merged_by: str = ""

    def get_cell_id(self, edit: CellEdit) -> str:
        """Return the id of the cell that `edit` is about, also if the change made it."""
        return self.ids.get(edit.target, edit.target)
