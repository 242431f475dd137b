"""A document in memory whose cells a tool edits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from jp_nb.toolkit.editing.conflicts import find_conflicts
from jp_nb.toolkit.editing.document_cells import DocumentCell, DocumentCells, cell_version
from jp_nb.toolkit.editing.document_change import ChangeResult
from jp_nb.toolkit.editing.edit_steps import apply_steps


class EditedCells:
    """Cells with the ids `a`, `b`, … and these sources. The last one runs, and is `this`.

    Attributes:
        answer: The next answer to a change, in place of applying it; None: apply it.
        changes: Number of changes that were applied.
        on_change: Called before and after a change, with `consented` and `applied`.
        operation: Id of the last change, as the page keeps it, and `new_ids` of its new cells.
        other_users: Names of the users that share the document; None: it is not shared.
    """

    def __init__(self, *sources: str, can_change: bool = True) -> None:
        self.answer: Any = None
        self.on_change: Callable[[str], None] = lambda step: None
        self.changes = 0
        self.operation = ""
        self.new_ids: dict[str, str] = {}
        self.other_users: tuple[str, ...] | None = None
        self._can_change = can_change
        self._cells: tuple[DocumentCell, ...] = tuple(
            DocumentCell(chr(ord("a") + index), index + 1, source)
            for index, source in enumerate(sources)
        )
        self._this = self._cells[-1].cell_id

    @property
    def is_shared(self) -> bool:
        """True if other users may edit the document."""
        return self.other_users is not None

    @property
    def sources(self) -> list[str]:
        """The sources of all cells, in order."""
        return [cell.source for cell in self._cells]

    @property
    def ids(self) -> list[str]:
        """The ids of all cells, in order."""
        return [cell.cell_id for cell in self._cells]

    def version(self, cell_id: str) -> str:
        """Return the present version of a cell."""
        return cell_version(self.sources[self.ids.index(cell_id)])

    def set(self, cell_id: str, **facts: Any) -> None:
        """Change facts of a cell, as the user does: its `source`, `kind`, `is_editable`, …"""
        cells = list(self._cells)
        index = self.ids.index(cell_id)
        kept = {name: getattr(cells[index], name) for name in DocumentCell.__slots__}
        cells[index] = DocumentCell(**{**kept, **facts})
        self._cells = tuple(cells)

    def drop(self, cell_id: str) -> None:
        """Delete a cell, as the user does."""
        self._cells = tuple(cell for cell in self._cells if cell.cell_id != cell_id)

    def to_json(self) -> dict[str, Any]:
        """Return the cells and the mark of the last change, as a page saves them."""
        cells = [asdict(cell) for cell in self._cells]
        return {
            "cells": cells,
            "this": self._this,
            "operation": self.operation,
            "ids": self.new_ids,
        }

    @classmethod
    def from_json(cls, saved: Any) -> EditedCells:
        """Return the cells that were saved."""
        cells = cls(*[cell["source"] for cell in saved["cells"]])
        cells._cells = tuple(DocumentCell(**cell) for cell in saved["cells"])
        cells._this = saved["this"]
        cells.operation = saved["operation"]
        cells.new_ids = saved["ids"]
        return cells

    def document(self) -> DocumentCells:
        """Return the cells that may be edited."""
        return DocumentCells(
            self._cells,
            self._this,
            can_change=self._can_change,
            why="there is no page",
            operation=self.operation,
            new_ids=self.new_ids,
            other_users=self.other_users or (),
        )

    def change(self, change: Any) -> ChangeResult:
        """Apply a change, or give the prepared answer."""
        if self.answer is not None:
            return ChangeResult(self.answer)

        self.on_change("consented")
        conflicts = find_conflicts(change.expected, self.document())
        if conflicts:
            return ChangeResult("conflict", conflicts=conflicts)

        new = [step.cell for step in change.steps if step.kind == "insert"]
        ids = {key: f"made-{self.changes}-{key[4:]}" for key in new}
        self._cells = apply_steps(self._cells, change.steps, ids)
        self.changes += 1
        self.operation = change.operation
        self.new_ids = ids
        self.on_change("applied")
        return ChangeResult("applied", ids)
