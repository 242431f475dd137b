"""The applied edits of a proposal, as the record has them.

The record has the source before each edit, so that a command can take the edits of a turn back
(`edit_inverse.py`), and the version after it, by which later changes are found
(`later_changes.py`). The fields of the record:

    edits                        the edits, in order
    decided_by                   the decider, such as `user` or `answers`
    operation                    id of the change in the document, if it has one
    runs                         true if cells run after the edits

The fields of an edit:

    edit, op, cell, type         number, kind of edit, id of the cell, kind of cell
    version_before, version      the versions before and after it
    version_merged               the version after a merge with an edit of another user
    source_before                the source before a `replace`, `patch`, or `delete`
    edited                       the source that the user wrote in place of the model's
    after, place_before          id of the cell above, after and before the edit

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.json_values import JsonObject
from jp_nb.toolkit.editing.document_cells import cell_version
from jp_nb.toolkit.editing.edit_plan import PlannedEdit
from jp_nb.toolkit.editing.edit_review import EditDecision
from jp_nb.toolkit.editing.later_changes import MERGED_VERSION_KEY
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets

MAX_KEPT_SOURCE_CHARS: Final = 20_000
"""Limit for the source of a cell in the result, and for the one before an edit in the record."""
NOTHING_MERGED: Final[Mapping[str, str | None]] = {}


class EditRecord:
    """The record of the edits that a `decision` applies. `hide` knows the user's secrets."""

    def __init__(self, decision: EditDecision, hide: NotebookSecrets) -> None:
        self._decision = decision
        self._hide = hide
        self._plan = decision.plan

    def to_json(
        self,
        *,
        ids: Mapping[str, str],
        operation: str,
        merged: Mapping[str, str | None] = NOTHING_MERGED,
    ) -> JsonValue:
        """Return the edits as JSON.

        Args:
            ids: The ids of new cells by key. A cell without an id keeps its key.
            operation: The id of the change in the document; "" without one.
            merged: The present sources of cells that another user edited, by id; None for a cell
                that is gone.
        """
        edits: list[JsonValue] = [
            self._make_entry(planned, ids, merged) for planned in self._plan.edits
        ]
        record: dict[str, JsonValue] = {"edits": edits, "decided_by": self._decision.decider}
        if operation:
            record["operation"] = operation

        has_runs = any(planned.edit.is_run for planned in self._plan.edits)
        if self._decision.may_run and has_runs:
            record["runs"] = True
        return record

    def _make_entry(
        self, planned: PlannedEdit, ids: Mapping[str, str], merged: Mapping[str, str | None]
    ) -> JsonObject:
        """Return one edit as JSON."""
        edit = planned.edit
        cell_id = ids.get(edit.target, edit.target)
        entry: JsonObject = {
            "edit": edit.number,
            "op": edit.kind,
            "cell": cell_id,
            "type": planned.cell_kind,
        }

        if edit.kind != "insert":
            entry["version_before"] = cell_version(planned.before)
        if edit.kind != "delete":
            entry["version"] = cell_version(planned.after)
        if cell_id in merged:
            present = merged[cell_id]
            entry[MERGED_VERSION_KEY] = None if present is None else cell_version(present)

        if edit.kind in ("replace", "patch", "delete") and self._may_keep(planned.before):
            entry["source_before"] = planned.before
        # `sources` are those that the user wrote in the review, by the number of the edit.
        if edit.number in self._decision.sources and self._may_keep(planned.after):
            entry["edited"] = planned.after

        if planned.place:
            entry["after"] = ids.get(planned.place, planned.place)
        if planned.place_before:
            entry["place_before"] = ids.get(planned.place_before, planned.place_before)
        return entry

    def _may_keep(self, source: str) -> bool:
        """Return True if the record may have `source`: it is not too long, and has no secret."""
        # A key that the user removes from a cell must not stay in the record.
        return len(source) <= MAX_KEPT_SOURCE_CHARS and self._hide.text(source) == source
