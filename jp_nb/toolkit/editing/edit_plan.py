"""Plan the edits of a proposal on the cells of the document, and what changes in it.

A plan is pure: it computes the source of each cell before and after each edit, and the steps that
a front end takes. The user may choose some of the edits, and change their sources. The plan is then
made again, without the edits that rely on a rejected one.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from jp_nb.errors import ToolError
from jp_nb.text import one_line
from jp_nb.toolkit.editing.cell_edits import END, SAME, START, THIS, CellEdit, refuse
from jp_nb.toolkit.editing.document_cells import DocumentCell, DocumentCells
from jp_nb.toolkit.editing.edit_schema import CellKind

NOTHING_CHANGES: Final = "nothing would change."
MAX_NAMED_LINES: Final = 10


@dataclass(frozen=True, slots=True)
class PlannedEdit:
    """One edit on the document.

    Attributes:
        cell: The cell of the document; None if an earlier edit inserts it.
        before: Its source before this edit; "" for a new cell.
        after: Its source after this edit; "" if it is deleted.
        place: The key of the cell before the new or moved cell, or `start`.
        place_before: The same before the edit, of a deleted or moved cell.
    """

    edit: CellEdit
    cell: DocumentCell | None
    cell_kind: CellKind
    before: str
    after: str
    place: str = ""
    place_before: str = ""

    @property
    def changes_source(self) -> bool:
        """True if the cell is new, deleted, or has another source afterwards."""
        return self.edit.kind in ("insert", "delete") or self.before != self.after


@dataclass(frozen=True, slots=True)
class EditStep:
    """One change of the document. `cell` is an id, or the key of a new cell.

    `after` is the id or key of the cell that precedes it afterwards, or `start`.
    """

    kind: Literal["insert", "set", "move", "delete"]
    cell: str
    after: str = ""
    cell_kind: CellKind = "code"
    source: str = ""


@dataclass(frozen=True, slots=True)
class EditPlan:
    """The edits that are applied together, and those that cannot be, with the reasons by number.

    `order` has the ids and keys of all cells afterwards, and `sources` those that changed.
    """

    edits: tuple[PlannedEdit, ...]
    order: tuple[str, ...]
    dropped: Mapping[int, str] = field(default_factory=dict)

    @property
    def steps(self) -> list[EditStep]:
        """The changes of the document, in order. A cell gets its final source at once."""
        final = {each.edit.target: each.after for each in self.edits}
        written: set[str] = set()
        steps: list[EditStep] = []

        for each in self.edits:
            target = each.edit.target
            match each.edit.kind:
                case "insert":
                    written.add(target)
                    steps.append(
                        EditStep("insert", target, each.place, each.cell_kind, final[target])
                    )
                case "move":
                    steps.append(EditStep("move", target, each.place))
                case "delete":
                    steps.append(EditStep("delete", target))
                case "replace" | "patch" if target not in written and target in final:
                    written.add(target)
                    if not self._is_deleted(target):
                        steps.append(EditStep("set", target, source=final[target]))
        return steps

    def _is_deleted(self, target: str) -> bool:
        return any(each.edit.kind == "delete" and each.edit.cell == target for each in self.edits)

    @property
    def named_cells(self) -> list[DocumentCell]:
        """The cells of the document that the edits name, each once."""
        cells = {each.cell.cell_id: each.cell for each in self.edits if each.cell is not None}
        return list(cells.values())


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
            planner.dropped[edit.number] = f"it relies on edit {blocker}, which was rejected."
            planner.reject(edit)
            continue

        try:
            planner.add(edit, sources.get(edit.number))
        except ToolError as exc:
            planner.dropped[edit.number] = f"it does not fit after your decisions: {exc}"
            planner.reject(edit)
    return planner.finish()


@dataclass(slots=True)
class _Draft:
    """A cell while the plan is made. `edited_by` are the numbers of the edits so far."""

    key: str
    kind: CellKind
    source: str
    cell: DocumentCell | None
    edited_by: list[int] = field(default_factory=list)
    deleted_by: int = 0


class _Planner:
    def __init__(self, document: DocumentCells) -> None:
        self._document = document
        self._drafts = {
            cell.cell_id: _Draft(cell.cell_id, cell.kind, cell.source, cell)
            for cell in document.cells
        }
        self._order = [cell.cell_id for cell in document.cells]
        self._anchors: dict[str, str] = {}  # of cells that were placed, by key
        self._rejected: dict[str, int] = {}  # number of the edit, by cell
        self._planned: list[PlannedEdit] = []
        self.dropped: dict[int, str] = {}

    def reject(self, edit: CellEdit) -> None:
        self._rejected.setdefault(edit.target, edit.number)

    def find_rejected(self, edit: CellEdit) -> int | None:
        """Return the number of a rejected edit that `edit` relies on."""
        if edit.cell in self._rejected:
            return self._rejected[edit.cell]
        if edit.after.startswith("new:"):
            return self._rejected.get(edit.after)
        return None

    def finish(self) -> EditPlan:
        return EditPlan(tuple(self._planned), tuple(self._order), self.dropped)

    def add(self, edit: CellEdit, source: str | None = None) -> None:
        """Plan `edit`, with the `source` of the user in place of the model's."""
        if not self._document.can_change and edit.kind != "insert":
            raise refuse(
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
        draft.edited_by.append(edit.number)
        planned = PlannedEdit(edit, draft.cell, draft.kind, before, after, place, place_before)
        self._planned.append(planned)

    def _insert(self, edit: CellEdit, source: str) -> None:
        place = self._place(edit, edit.key)
        draft = _Draft(edit.key, edit.cell_kind, source, None)
        self._drafts[edit.key] = draft
        self._plan(edit, draft, before="", after=source, place=place)

    def _rewrite(self, edit: CellEdit, source: str | None) -> None:
        draft = self._find(edit)
        cell = draft.cell
        if cell is not None and not cell.is_editable:
            raise refuse(edit.number, f"the metadata of {_name(cell)} has `editable: false`.")
        self._refuse_busy(edit, draft)

        if source is not None:
            changed = source
        elif edit.kind == "replace":
            changed = edit.source
        else:
            changed = _patch(edit, draft.source)
        if source is None and changed == draft.source:
            raise refuse(edit.number, NOTHING_CHANGES)
        if edit.is_run:
            self._check_runs(edit, draft)

        before = draft.source
        draft.source = changed
        self._plan(edit, draft, before=before, after=changed)

    def _delete(self, edit: CellEdit) -> None:
        draft = self._find(edit)
        cell = draft.cell
        if cell is None:
            raise refuse(edit.number, f"`{edit.cell}` is a new cell: do not insert it instead.")
        if not cell.is_deletable:
            raise refuse(edit.number, f"the metadata of {_name(cell)} has `deletable: false`.")
        self._refuse_busy(edit, draft)

        place_before = self._get_place(edit.cell)
        self._order.remove(edit.cell)
        self._plan(edit, draft, before=draft.source, after="", place_before=place_before)
        draft.deleted_by = edit.number

    def _move(self, edit: CellEdit) -> None:
        draft = self._find(edit)
        self._refuse_busy(edit, draft)
        if edit.after == edit.cell:
            raise refuse(edit.number, "a cell cannot be moved after itself.")

        previous = list(self._order)
        place_before = self._get_place(edit.cell)
        self._check_place(edit)
        self._order.remove(edit.cell)
        place = self._place(edit, edit.cell)
        if self._order == previous:
            raise refuse(edit.number, NOTHING_CHANGES)
        self._plan(
            edit,
            draft,
            before=draft.source,
            after=draft.source,
            place=place,
            place_before=place_before,
        )

    def _get_place(self, key: str) -> str:
        """Return the key of the cell before `key`, or `start`."""
        index = self._order.index(key)
        return self._order[index - 1] if index else START

    def _find(self, edit: CellEdit) -> _Draft:
        """Return the cell of `edit`, and check its version."""
        draft = self._find_cell(edit, edit.cell)
        if edit.cell == self._document.this:
            raise refuse(edit.number, "the running cell cannot be changed. Insert cells after it.")
        if draft.cell is not None and draft.cell.has_record:
            raise refuse(edit.number, f"{_name(draft.cell)} has data of jp in its metadata.")

        if draft.edited_by or draft.cell is None:
            if edit.version != SAME:
                number = draft.edited_by[-1]
                raise refuse(
                    edit.number,
                    f"edit {number} changes `{edit.cell}` before. "
                    'Use "same" as the `version` of later edits.',
                )
            return draft

        if edit.version != draft.cell.version:
            known = "is not the version of an edit before" if edit.version == SAME else "is old"
            raise refuse(
                edit.number,
                f"`version` {one_line(edit.version, limit=40)} {known}: {_name(draft.cell)} has "
                f"version {draft.cell.version}. Read it again with "
                f'notebook_cell(cell="{draft.cell.cell_id}").',
            )
        return draft

    def _find_cell(self, edit: CellEdit, wanted: str) -> _Draft:
        draft = self._drafts.get(wanted)
        if draft is None:
            shown = one_line(wanted, limit=80)
            near = self._document.list_nearest(wanted)
            hint = f" The nearest ids are {', '.join(near)}." if near else ""
            if wanted.startswith("new:"):
                hint = " It must be inserted by an earlier edit of the same call."
            raise refuse(
                edit.number,
                f"there is no cell with the id `{shown}`.{hint} List the cells with "
                "notebook_cells().",
            )
        if draft.deleted_by:
            raise refuse(edit.number, f"edit {draft.deleted_by} deletes the cell `{wanted}`.")
        return draft

    def _check_runs(self, edit: CellEdit, draft: _Draft) -> None:
        if draft.kind != "code":
            raise refuse(edit.number, "only code cells can run.")
        self._refuse_busy(edit, draft)

    def _refuse_busy(self, edit: CellEdit, draft: _Draft) -> None:
        if draft.cell is not None and draft.cell.is_busy:
            raise refuse(
                edit.number, f"{_name(draft.cell)} is running or waits to run. Try again later."
            )

    def _check_place(self, edit: CellEdit) -> str:
        anchor = edit.after
        if anchor == THIS:
            anchor = self._document.this
        if anchor not in (START, END) and (anchor or self._document.can_change):
            self._find_cell(edit, anchor)
        return anchor

    def _place(self, edit: CellEdit, key: str) -> str:
        """Put `key` into the order, and return the key of the cell before it, or `start`."""
        anchor = self._check_place(edit)

        if anchor == END or not anchor:
            position = len(self._order)
        else:
            position = 0 if anchor == START else self._order.index(anchor) + 1
            # Cells after the same one are in the order of the edits.
            while position < len(self._order) and self._is_placed_at(self._order[position], anchor):
                position += 1

        self._anchors[key] = anchor
        self._order.insert(position, key)
        return self._get_place(key)

    def _is_placed_at(self, key: str, anchor: str) -> bool:
        seen: set[str] = set()
        while key in self._anchors and key not in seen:
            seen.add(key)
            key = self._anchors[key]
            if key == anchor:
                return True
        return False


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
        start = source.find(edit.old, start + 1)

    if len(starts) == 1:
        return source[: starts[0]] + edit.new + source[starts[0] + len(edit.old) :]
    if not starts:
        raise refuse(
            edit.number,
            f"`old` does not occur in `{edit.cell}`. Copy it exactly from notebook_cell(), "
            "with its blanks.",
        )

    named = [str(source.count("\n", 0, each) + 1) for each in starts[:MAX_NAMED_LINES]]
    more = "" if len(starts) <= MAX_NAMED_LINES else ", …"
    raise refuse(
        edit.number,
        f"`old` occurs {len(starts)} times in `{edit.cell}`, in lines {', '.join(named)}{more}. "
        "Give more of the text around it.",
    )


def apply_steps(
    cells: Sequence[DocumentCell], steps: Sequence[EditStep], ids: Mapping[str, str]
) -> tuple[DocumentCell, ...]:
    """Return the `cells` of a document after `steps`. `ids` has the ids of new cells by key."""
    known = {cell.cell_id: cell for cell in cells}
    order = [cell.cell_id for cell in cells]

    for step in steps:
        cell_id = ids.get(step.cell, step.cell)
        after = ids.get(step.after, step.after)
        match step.kind:
            case "insert":
                known[cell_id] = DocumentCell(cell_id, 0, step.source, step.cell_kind)
                order.insert(find_position(order, after), cell_id)
            case "move":
                order.remove(cell_id)
                order.insert(find_position(order, after), cell_id)
            case "set":
                known[cell_id] = replace(known[cell_id], source=step.source, has_outputs=False)
            case "delete":
                order.remove(cell_id)

    return tuple(replace(known[each], number=number) for number, each in enumerate(order))


def find_position(order: Sequence[str], after: str) -> int:
    """Return the index in `order` behind the cell `after`, which may be `start`."""
    return 0 if after == START else order.index(after) + 1
