"""The result of a proposal for the model, and its data for the record.

The model reads for each edit whether it was applied. The record also has the source before each
applied edit.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from pydantic import JsonValue

from jp_nb.images import Image
from jp_nb.text import pluralize
from jp_nb.toolkit.builtin.run_python import make_run_outcome
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.data_sections import DataSection, frame_sections
from jp_nb.toolkit.editing.cell_edits import CellEdit
from jp_nb.toolkit.editing.document_cells import cell_version
from jp_nb.toolkit.editing.edit_plan import PlannedEdit
from jp_nb.toolkit.editing.edit_review import ChangeResult, EditDecision
from jp_nb.toolkit.editing.source_diff import format_diff
from jp_nb.toolkit.notebook_access import NotebookAccess
from jp_nb.toolkit.outcome import Success, ToolFailure
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets

MAX_KEPT_SOURCE_CHARS: Final = 20_000
"""Limit for the source of a cell in the result, and for the one before an edit in the record."""

OFFERED_NOTE: Final = (
    "No edit was applied: this front end cannot change the notebook. The user received the "
    "source of the new cells as text."
)
UNKNOWN_NOTE: Final = (
    "It is unknown whether the edits were applied: the page did not answer. Read the cells with "
    "notebook_cells before you propose anything else."
)


class EditResults:
    """Describes the outcome of each edit of a `decision`."""

    def __init__(self, decision: EditDecision, hide: NotebookSecrets) -> None:
        self._decision = decision
        self._hide = hide
        self._plan = decision.plan
        self._final = {each.edit.target: each.after for each in self._plan.edits}
        self._sections: list[DataSection] = []
        self._images: list[Image] = []
        self._ran: dict[int, str] = {}

    async def run_cells(
        self, notebook: NotebookAccess, cell: CellThread, changed: ChangeResult
    ) -> None:
        """Run the cells that the model wants to run, in order, up to the first error."""
        ids = changed.ids
        merged = changed.merged
        failed = False
        done = set[str]()

        for each in self._plan.edits:
            target = each.edit.target
            if not each.edit.is_run or target in done or each.edit.kind == "delete":
                continue
            if ids.get(target, target) in merged:
                self._ran[each.edit.number] = "not run, because another user edited it"
                continue
            if failed:
                self._ran[each.edit.number] = "not run, because a cell before failed"
                continue

            done.add(target)
            source = self._final[target]
            cell_id = ids.get(target, target)
            run = await cell.call(partial(notebook.run_cell, cell_id, source))
            outcome = make_run_outcome(run)
            failed = isinstance(outcome, ToolFailure)
            self._ran[each.edit.number] = "its run failed" if failed else "it ran"
            text = outcome.message if isinstance(outcome, ToolFailure) else outcome.content
            self._add_section(f"output of the cell of edit {each.edit.number}", text)
            if isinstance(outcome, Success):
                self._images += outcome.images

    def make_outcome(self, changed: ChangeResult | None) -> Success | ToolFailure:
        """Return the result for the model. It is a failure if nothing was applied."""
        applied = changed is not None and changed.outcome == "applied"
        lines = [
            self._describe_planned(each, changed)
            for each in self._plan.edits
            if changed is not None
        ]
        lines += [self._describe_other(edit) for edit in self._list_others()]
        lines.sort(key=lambda line: line[0])

        text = "\n".join(f"{number}. {line}" for number, line in lines)
        about = f"{self._summarize(changed)}\n{text}"
        if self._sections:
            about = frame_sections(about, self._sections)

        if applied and self._plan.edits and changed is not None:
            record = self.make_record(changed.ids, changed.operation)
            return Success(about, structured=record, images=tuple(self._images))
        return ToolFailure(about)

    def _summarize(self, changed: ChangeResult | None) -> str:
        total = len(self._decision.review.edits)
        if changed is None:
            return "No edit was applied."
        match changed.outcome:
            case "applied":
                count = len(self._plan.edits)
                summary = f"Applied {count} of {total} {pluralize('edit', total)}."
            case "offered":
                summary = OFFERED_NOTE
            case "unknown":
                summary = UNKNOWN_NOTE
            case "conflict":
                summary = "No edit was applied: cells have changed since you read them."
        return f"{summary} {changed.note}".strip()

    def _list_others(self) -> list[CellEdit]:
        planned = {each.edit.number for each in self._plan.edits}
        return [each for each in self._decision.review.edits if each.number not in planned]

    def _describe_other(self, edit: CellEdit) -> tuple[int, str]:
        number = edit.number
        review = self._decision.review
        if number in review.conflicts:
            self._add_present_source(edit)
            return number, f"conflict, not applied: {review.conflicts[number]}"
        if number in self._plan.dropped:
            return number, f"not applied: {self._plan.dropped[number]}"

        if number in self._decision.open:
            return number, f"not applied: {self._decision.undecided}"

        who = "the user" if self._decision.decider == "user" else "the user's answers file"
        reason = f": {self._decision.reason}" if self._decision.reason else "."
        return number, f"rejected by {who}{reason}"

    def _describe_planned(self, each: PlannedEdit, changed: ChangeResult) -> tuple[int, str]:
        number = each.edit.number
        match changed.outcome:
            case "offered":
                return number, "not applied."
            case "unknown":
                return number, "unknown."
            case "conflict":
                reasons = {one.cell_id: one for one in changed.conflicts}
                conflict = reasons.get(each.edit.cell)
                if conflict is None:
                    return number, "not applied, because of the conflict."
                if conflict.source is not None:
                    self._add_section(f"present source of `{conflict.cell_id}`", conflict.source)
                return number, f"conflict: {conflict.reason}"
            case "applied":
                return number, self._describe_applied(each, changed)

    def _describe_applied(self, each: PlannedEdit, changed: ChangeResult) -> str:
        edit = each.edit
        cell_id = changed.ids.get(edit.target, edit.target)
        if cell_id in changed.merged:
            return self._describe_merged(cell_id, each, changed)
        if edit.kind == "delete":
            return f"applied: cell `{cell_id}` is deleted."

        version = cell_version(self._final[edit.target])
        text = f"applied: cell `{cell_id}`, version {version}."
        if edit.kind == "run":
            text = f"cell `{cell_id}`, version {version}."
        if edit.number in self._decision.sources:
            text = f"applied after the user edited it: cell `{cell_id}`, version {version}."
            proposed = self._get_proposed(edit, each)
            self._add_section(
                f"difference of the user to edit {edit.number}",
                format_diff(proposed, self._decision.sources[edit.number]),
            )

        if edit.is_run:
            default = "The user did not run it"
            if edit.target in [one.edit.target for one in self._plan.edits if one is not each]:
                default = "it runs once, after its last edit" if self._ran else default
            ran = self._ran.get(edit.number, default)
            text += f" {ran[0].upper()}{ran[1:]}."
        return text

    def _describe_merged(self, cell_id: str, each: PlannedEdit, changed: ChangeResult) -> str:
        present = changed.merged[cell_id]
        if present is None:
            return f"applied, and then merged with an edit of {changed.merged_by}: it is gone."

        title = f"present source of `{cell_id}`"
        if not any(section.title == title for section in self._sections):
            self._add_section(title, present)
        text = f"cell `{cell_id}` now has version {cell_version(present)}."
        ran = self._ran.get(each.edit.number, "")
        if ran:
            text += f" {ran[0].upper()}{ran[1:]}."
        return f"applied, and then merged with an edit of {changed.merged_by}: {text}"

    def _get_proposed(self, edit: CellEdit, each: PlannedEdit) -> str:
        if edit.kind != "patch":
            return edit.source
        return each.before.replace(edit.old, edit.new, 1)

    def _add_present_source(self, edit: CellEdit) -> None:
        cell = self._decision.review.document.find(edit.cell)
        if cell is not None:
            self._add_section(f"present source of `{cell.cell_id}`", cell.source)

    def _add_section(self, title: str, text: str) -> None:
        shown = self._hide.text(text)
        if len(shown) > MAX_KEPT_SOURCE_CHARS:
            cut = len(shown) - MAX_KEPT_SOURCE_CHARS
            shown = f"{shown[:MAX_KEPT_SOURCE_CHARS]}\n… {cut:,} characters omitted"
        self._sections.append(DataSection(title, shown))

    def make_record(self, ids: Mapping[str, str], operation: str) -> JsonValue:
        """Return the edits for the record, with the `ids` of new cells by key."""
        edits: list[JsonValue] = []

        for each in self._plan.edits:
            edit = each.edit
            entry: dict[str, JsonValue] = {
                "edit": edit.number,
                "op": edit.kind,
                "cell": ids.get(edit.target, edit.target),
                "type": each.cell_kind,
            }
            if edit.kind != "insert":
                entry["version_before"] = cell_version(each.before)
            if edit.kind != "delete":
                entry["version"] = cell_version(each.after)
            if edit.kind in ("replace", "patch", "delete") and self._may_keep(each.before):
                entry["source_before"] = each.before
            if each.place:
                entry["after"] = ids.get(each.place, each.place)
            if each.place_before:
                entry["place_before"] = ids.get(each.place_before, each.place_before)
            if edit.number in self._decision.sources and self._may_keep(each.after):
                entry["edited"] = each.after
            edits.append(entry)

        record: dict[str, JsonValue] = {"edits": edits, "decided_by": self._decision.decider}
        if operation:
            record["operation"] = operation
        if self._decision.may_run and any(each.edit.is_run for each in self._plan.edits):
            record["runs"] = True
        return record

    def _may_keep(self, source: str) -> bool:
        # A key that the user removes from a cell must not stay in the record.
        return len(source) <= MAX_KEPT_SOURCE_CHARS and self._hide.text(source) == source
