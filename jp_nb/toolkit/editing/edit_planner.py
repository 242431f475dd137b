"""Plan the edits of a proposal on the cells of the document.

Planning is pure: it computes the source of each cell before and after each edit, and the order of
the cells (`cell_order.py`). The user may choose some of the edits, and change their sources. The
plan is then made again, without the edits that rely on a rejected one.

A cell has a *key*: its id in the document, or a name such as `new:1` for a new cell. These fields
of an edit (`CellEdit`) are keys: `cell` is the cell that it changes, `key` the one that it inserts,
and `target` is either. `after` names the *anchor*: the cell after which a cell is inserted or
moved. The *place* of a cell is the key of the cell before it, or `start`.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from jp_nb.errors import ToolError
from jp_nb.text import one_line
from jp_nb.toolkit.editing.cell_edits import (
    END,
    NEW_CELL_PREFIX,
    SAME,
    START,
    THIS,
    CellEdit,
    make_edit_error,
)
from jp_nb.toolkit.editing.cell_order import CellOrder
from jp_nb.toolkit.editing.document_cells import DocumentCell, DocumentCells
from jp_nb.toolkit.editing.edit_plan import EditPlan, PlannedEdit
from jp_nb.toolkit.editing.edit_schema import CellKind

NOTHING_CHANGES: Final = "nothing would change."
MAX_NAMED_LINES: Final = 10


def plan_edits(
    edits: Sequence[CellEdit],
    document: DocumentCells,
) -> EditPlan:
    """Return the plan of all `edits`.

    Raises:
        ToolError: One of them is wrong. The message is for the model.
    """
    planner = _Planner(document)
    for edit in edits:
        planner.add(edit)
    return planner.finish()


def plan_chosen(
    edits: Sequence[CellEdit],
    document: DocumentCells,
    *,
    chosen: Collection[int],
    sources: Mapping[int, str],
) -> EditPlan:
    """Return the plan of the edits with the numbers `chosen`, with `sources` that the user wrote.

    An edit of a cell whose earlier edit was rejected is dropped, with the reason.
    """
    planner = _Planner(document)

    for edit in edits:
        if edit.number not in chosen:
            planner.reject(edit)
            continue

        blocker = planner.find_rejected(edit)
        if blocker is not None:
            planner.drop(edit, f"it relies on edit {blocker}, which was rejected.")
            continue

        try:
            planner.add(edit, sources.get(edit.number))
        except ToolError as exc:
            planner.drop(edit, f"it does not fit after your decisions: {exc}")

    return planner.finish()


@dataclass(slots=True)
class _Draft:
    """A cell while the plan is made.

    Attributes:
        key: The key of the cell.
        kind: The type of the cell.
        source: The source after the edits so far.
        cell: The cell of the document; None for a new cell.
        edited_by: The numbers of the edits so far.
        deleted_by: The number of the edit that deletes the cell; 0 without one.
    """

    key: str
    kind: CellKind
    source: str
    cell: DocumentCell | None
    edited_by: list[int] = field(default_factory=list)
    deleted_by: int = 0


class _Planner:
    """Makes a plan edit by edit. The drafts are the cells after the edits that were added.

    A deleted cell keeps its draft, so that a later edit of it gets an error that says so.
    """

    def __init__(self, document: DocumentCells) -> None:
        self._document = document
        self._drafts = {
            cell.cell_id: _Draft(cell.cell_id, cell.kind, cell.source, cell)
            for cell in document.cells
        }
        self._order = CellOrder(cell.cell_id for cell in document.cells)
        # The number of the first rejected or dropped edit, by the target of the edit.
        self._rejected: dict[str, int] = {}
        self._planned: list[PlannedEdit] = []
        self._dropped: dict[int, str] = {}  # reasons, by the number of the edit

    def reject(self, edit: CellEdit) -> None:
        """Omit an edit that the user rejected. Later edits of its cell rely on it."""
        self._rejected.setdefault(edit.target, edit.number)

    def drop(self, edit: CellEdit, reason: str) -> None:
        """Omit an edit that the user chose, but that cannot be applied."""
        self._dropped[edit.number] = reason
        self.reject(edit)

    def find_rejected(self, edit: CellEdit) -> int | None:
        """Return the number of a rejected or dropped edit that `edit` relies on; None without one.

        It is an earlier edit of the same cell, or the insertion of the cell that `edit` names as
        its anchor.
        """
        if edit.cell in self._rejected:
            return self._rejected[edit.cell]
        if edit.after.startswith(NEW_CELL_PREFIX) and edit.after not in self._drafts:
            return self._rejected.get(edit.after)
        return None

    def finish(self) -> EditPlan:
        """Return the plan of the edits that were added."""
        return EditPlan(tuple(self._planned), tuple(self._order.list_keys()), self._dropped)

    def add(self, edit: CellEdit, source: str | None = None) -> None:
        """Plan `edit`, with the `source` of the user in place of the model's; None keeps it.

        Raises:
            ToolError: The edit does not fit the cells. Nothing was added.
        """
        if not self._document.can_change and edit.kind != "insert":
            raise make_edit_error(
                edit.number,
                f"`{edit.kind}` is not possible here: {self._document.why}. "
                "Only `insert` is: the user gets the source to copy.",
            )

        match edit.kind:
            case "insert":
                self._insert(edit, edit.source if source is None else source)
            case "replace" | "patch":
                self._rewrite(edit, source)
            case "delete":
                self._delete(edit)
            case "move":
                self._move(edit)
            case "run":
                draft = self._find(edit)
                self._check_runs(edit, draft)
                self._plan(edit, draft, before=draft.source, after=draft.source)

    def _plan(
        self,
        edit: CellEdit,
        draft: _Draft,
        *,
        before: str,
        after: str,
        place: str = "",
        place_before: str = "",
    ) -> None:
        """Add an edit that was checked to the plan."""
        draft.edited_by.append(edit.number)
        planned = PlannedEdit(
            edit,
            draft.cell,
            draft.kind,
            before=before,
            after=after,
            place=place,
            place_before=place_before,
            # For the title of the edit. None for `start`, `end`, `this`, or a new cell.
            named_place=self._document.find(edit.after),
        )
        self._planned.append(planned)

    def _insert(self, edit: CellEdit, source: str) -> None:
        """Plan a new cell. An unknown anchor, "", puts it at the end.

        `read_edits` has checked that it is a code cell if it is to run.
        """
        place = self._order.put(edit.key, self._find_anchor(edit))
        draft = _Draft(edit.key, edit.cell_kind, source, None)
        self._drafts[edit.key] = draft
        self._plan(edit, draft, before="", after=source, place=place)

    def _rewrite(self, edit: CellEdit, source: str | None) -> None:
        """Plan a new source of a cell: that of the user, or that of a `replace` or `patch`."""
        draft = self._find(edit)
        cell = draft.cell
        if cell is not None and not cell.is_editable:
            raise make_edit_error(
                edit.number, f"the metadata of {_name(cell)} has `editable: false`."
            )
        self._refuse_busy(edit, draft)

        # Only the model has to change something: the user may write the old source again.
        new_source = source
        if new_source is None:
            new_source = edit.source
            if edit.kind == "patch":
                new_source = _patch(edit, draft.source)
            if new_source == draft.source:
                raise make_edit_error(edit.number, NOTHING_CHANGES)

        if edit.is_run:
            self._check_runs(edit, draft)

        old_source = draft.source
        draft.source = new_source
        self._plan(edit, draft, before=old_source, after=new_source)

    def _delete(self, edit: CellEdit) -> None:
        """Plan the deletion of a cell of the document."""
        draft = self._find(edit)
        cell = draft.cell
        if cell is None:
            raise make_edit_error(
                edit.number, f"`{edit.cell}` is a new cell: do not insert it instead."
            )
        if not cell.is_deletable:
            raise make_edit_error(
                edit.number, f"the metadata of {_name(cell)} has `deletable: false`."
            )
        self._refuse_busy(edit, draft)

        place_before = self._order.get_place(edit.cell)
        self._order.remove(edit.cell)
        self._plan(edit, draft, before=draft.source, after="", place_before=place_before)
        draft.deleted_by = edit.number

    def _move(self, edit: CellEdit) -> None:
        """Plan another place of a cell."""
        draft = self._find(edit)
        self._refuse_busy(edit, draft)
        if edit.after == edit.cell:
            raise make_edit_error(edit.number, "a cell cannot be moved after itself.")
        anchor = self._find_anchor(edit)

        old_keys = self._order.list_keys()
        place_before = self._order.get_place(edit.cell)
        self._order.remove(edit.cell)  # before `put`: the cell does not count for its new place
        place = self._order.put(edit.cell, anchor)
        if self._order.list_keys() == old_keys:
            raise make_edit_error(edit.number, NOTHING_CHANGES)
        self._plan(
            edit,
            draft,
            before=draft.source,
            after=draft.source,
            place=place,
            place_before=place_before,
        )

    def _find(self, edit: CellEdit) -> _Draft:
        """Return the cell of `edit`, and check that it may be changed, and its version."""
        draft = self._find_cell(edit, edit.cell)
        if edit.cell == self._document.this:
            raise make_edit_error(
                edit.number, "the running cell cannot be changed. Insert cells after it."
            )
        if draft.cell is not None and draft.cell.has_record:
            raise make_edit_error(
                edit.number, f"{_name(draft.cell)} has data of jp in its metadata."
            )

        self._check_version(edit, draft)
        return draft

    def _check_version(self, edit: CellEdit, draft: _Draft) -> None:
        """Check that the edit is for the present source of its cell.

        The first edit of a cell names the version in the document. A later one, and an edit of a
        new cell, says `same`: it follows the edit before.
        """
        cell = draft.cell
        if draft.edited_by or cell is None:
            if edit.version != SAME:
                number = draft.edited_by[-1]
                raise make_edit_error(
                    edit.number,
                    f"edit {number} changes `{edit.cell}` before. "
                    'Use "same" as the `version` of later edits.',
                )
            return

        if edit.version != cell.version:
            known = "is not the version of an edit before" if edit.version == SAME else "is old"
            raise make_edit_error(
                edit.number,
                f"`version` {one_line(edit.version, limit=40)} {known}: {_name(cell)} has "
                f"version {cell.version}. Read it again with "
                f'notebook_cell(cell="{cell.cell_id}").',
            )

    def _find_cell(self, edit: CellEdit, wanted: str) -> _Draft:
        """Return the cell with the key `wanted`, which `edit` names.

        Raises:
            ToolError: There is no such cell, or an earlier edit deletes it.
        """
        draft = self._drafts.get(wanted)
        if draft is None:
            shown = one_line(wanted, limit=80)
            near = self._document.list_nearest(wanted)
            hint = f" The nearest ids are {', '.join(near)}." if near else ""
            if wanted.startswith(NEW_CELL_PREFIX):
                hint = " It must be inserted by an earlier edit of the same call."
            raise make_edit_error(
                edit.number,
                f"there is no cell with the id `{shown}`.{hint} List the cells with "
                "notebook_cells().",
            )
        if draft.deleted_by:
            raise make_edit_error(
                edit.number, f"edit {draft.deleted_by} deletes the cell `{wanted}`."
            )
        return draft

    def _check_runs(self, edit: CellEdit, draft: _Draft) -> None:
        if draft.kind != "code":
            raise make_edit_error(edit.number, "only code cells can run.")
        self._refuse_busy(edit, draft)

    def _refuse_busy(self, edit: CellEdit, draft: _Draft) -> None:
        """Raise a `ToolError` if the cell runs or waits to run."""
        if draft.cell is not None and draft.cell.is_busy:
            raise make_edit_error(
                edit.number, f"{_name(draft.cell)} is running or waits to run. Try again later."
            )

    def _find_anchor(self, edit: CellEdit) -> str:
        """Return the anchor of the cell that `edit` inserts or moves: a key, `start`, or `end`.

        The model may write `this` for the running cell. The result is "" if that cell is not known.
        That is an error, unless the document cannot be changed: then the user only gets the sources
        of new cells, without a place.
        """
        anchor = edit.after
        if anchor == THIS:
            anchor = self._document.this

        is_unknown_here = not anchor and not self._document.can_change
        if anchor not in (START, END) and not is_unknown_here:
            self._find_cell(edit, anchor)
        return anchor


def _name(cell: DocumentCell) -> str:
    return f"cell {cell.number} (`{one_line(cell.cell_id, limit=64)}`)"


def _patch(edit: CellEdit, source: str) -> str:
    """Return `source` with the replacement of `edit`.

    Raises:
        ToolError: Its text does not occur exactly once.
    """
    starts: list[int] = []
    start = source.find(edit.old)
    while start >= 0:
        starts.append(start)
        start = source.find(edit.old, start + 1)  # occurrences may overlap

    if len(starts) == 1:
        end = starts[0] + len(edit.old)
        return source[: starts[0]] + edit.new + source[end:]
    if not starts:
        raise make_edit_error(
            edit.number,
            f"`old` does not occur in `{edit.cell}`. Copy it exactly from notebook_cell(), "
            "with its blanks.",
        )

    numbers = [str(source.count("\n", 0, start) + 1) for start in starts[:MAX_NAMED_LINES]]
    if len(starts) > MAX_NAMED_LINES:
        numbers.append("…")
    raise make_edit_error(
        edit.number,
        f"`old` occurs {len(starts)} times in `{edit.cell}`, in lines {', '.join(numbers)}. "
        "Give more of the text around it.",
    )
