"""The result of a proposal of edits, which tells the model the outcome of each edit.

The *plan* of a decision has the edits that the user chose. A chosen edit that cannot be applied is
*dropped* from the plan, for example because it relies on a rejected edit. The front end applies all
edits of the plan, or none: a *conflict* means that a cell has changed since the model read it.

A cell is *merged* if another user edited it at the same time: its source is then not that of the
plan (`ChangeResult.merged`).

`edit_record.py` makes the data about the applied edits for the record, and `edit_runs.py` runs the
cells.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from typing import Final

from jp_nb.text import pluralize
from jp_nb.toolkit.builtin.edit_record import MAX_KEPT_SOURCE_CHARS, EditRecord
from jp_nb.toolkit.builtin.edit_runs import EditRuns
from jp_nb.toolkit.data_sections import DataSection, frame_sections
from jp_nb.toolkit.editing.cell_edits import CellEdit
from jp_nb.toolkit.editing.document_cells import cell_version
from jp_nb.toolkit.editing.document_change import ChangeResult
from jp_nb.toolkit.editing.edit_plan import PlannedEdit
from jp_nb.toolkit.editing.edit_review import EditDecision
from jp_nb.toolkit.editing.source_diff import format_diff
from jp_nb.toolkit.outcome import Success, ToolFailure
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets

OFFERED_NOTE: Final = (
    "No edit was applied: this front end cannot change the notebook. The user received the "
    "source of the new cells as text."
)
UNKNOWN_NOTE: Final = (
    "It is unknown whether the edits were applied: the page did not answer. Read the cells with "
    "notebook_cells before you propose anything else."
)


class EditResults:
    """Describes the outcome of each edit of a `decision`.

    The result has a line for each edit. Sources and outputs are sections of data below the lines.
    The methods that make a line also add its sections to `_sections`, so they are called once, in
    the order of the edits. `hide` removes the user's secrets from the sections.
    """

    def __init__(self, decision: EditDecision, hide: NotebookSecrets) -> None:
        self._decision = decision
        self._hide = hide
        self._plan = decision.plan
        self._final_sources = {planned.edit.target: planned.after for planned in self._plan.edits}
        self._sections: list[DataSection] = []
        self._runs = EditRuns()

    def make_outcome(
        self, changed: ChangeResult | None, runs: EditRuns | None = None
    ) -> Success | ToolFailure:
        """Return the result for the model. It is a failure if nothing was applied.

        `changed` is the answer of the front end; None if there was nothing to apply. `runs` are
        the runs of cells after that; None if no cell was to run.
        """
        if runs is not None:
            self._runs = runs
        for title, output in self._runs.outputs:
            self._add_section(title, output)

        lines: dict[int, str] = {}  # by the number of the edit
        if changed is not None:
            for planned in self._plan.edits:
                lines[planned.edit.number] = self._describe_planned(planned, changed)
        for edit in self._list_unplanned():
            lines[edit.number] = self._describe_unplanned(edit)

        text = "\n".join(f"{number}. {lines[number]}" for number in sorted(lines))
        about = f"{self._summarize(changed)}\n{text}"
        if self._sections:
            about = frame_sections(about, self._sections)

        if changed is not None and changed.outcome == "applied" and self._plan.edits:
            record = EditRecord(self._decision, self._hide).to_json(
                ids=changed.ids, operation=changed.operation, merged=changed.merged
            )
            return Success(about, structured=record, images=tuple(self._runs.images))
        return ToolFailure(about)

    def _summarize(self, changed: ChangeResult | None) -> str:
        """Return the first line of the result: how many edits were applied, or why none was."""
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

    def _list_unplanned(self) -> list[CellEdit]:
        """Return the edits that the plan does not have.

        The user rejected them or left them open, or they were dropped.
        """
        planned_numbers = {planned.edit.number for planned in self._plan.edits}
        edits = self._decision.review.edits
        return [edit for edit in edits if edit.number not in planned_numbers]

    def _describe_unplanned(self, edit: CellEdit) -> str:
        """Return the line about an edit that the plan does not have, with the reason."""
        number = edit.number
        review = self._decision.review
        if number in review.conflicts:
            self._add_present_source(edit)
            return f"conflict, not applied: {review.conflicts[number]}"
        if number in self._plan.dropped:
            return f"not applied: {self._plan.dropped[number]}"
        if number in self._decision.open:
            return f"not applied: {self._decision.undecided}"

        who = "the user" if self._decision.decider == "user" else "the user's answers file"
        reason = f": {self._decision.reason}" if self._decision.reason else "."
        return f"rejected by {who}{reason}"

    def _describe_planned(self, planned: PlannedEdit, changed: ChangeResult) -> str:
        """Return the line about an edit of the plan, by the answer of the front end."""
        match changed.outcome:
            case "offered":
                return "not applied."
            case "unknown":
                return "unknown."
            case "conflict":
                return self._describe_conflict(planned.edit, changed)
            case "applied":
                return self._describe_applied(planned, changed)

    def _describe_conflict(self, edit: CellEdit, changed: ChangeResult) -> str:
        """Return the line about an edit after a conflict, which prevented all edits."""
        for conflict in changed.conflicts:
            if conflict.cell_id == edit.cell:
                if conflict.source is not None:
                    self._add_section(f"present source of `{conflict.cell_id}`", conflict.source)
                return f"conflict: {conflict.reason}"
        return "not applied, because of the conflict."  # of another edit

    def _describe_applied(self, planned: PlannedEdit, changed: ChangeResult) -> str:
        """Return the line about an edit that the front end applied, and about its run."""
        edit = planned.edit
        cell_id = changed.get_cell_id(edit)
        if cell_id in changed.merged:
            return self._describe_merged(cell_id, edit, changed)
        if edit.kind == "delete":
            return f"applied: cell `{cell_id}` is deleted."

        version = cell_version(self._final_sources[edit.target])
        cell_text = f"cell `{cell_id}`, version {version}."
        if edit.number in self._decision.sources:
            self._add_user_difference(planned)
            text = f"applied after the user edited it: {cell_text}"
        elif edit.kind == "run":
            text = cell_text
        else:
            text = f"applied: {cell_text}"

        if edit.is_run:
            text += f" {_make_sentence(self._runs.describe(edit))}"
        return text

    def _describe_merged(self, cell_id: str, edit: CellEdit, changed: ChangeResult) -> str:
        """Return the line about an edit of a cell that another user edited at the same time."""
        present_source = changed.merged[cell_id]
        if present_source is None:
            return f"applied, and then merged with an edit of {changed.merged_by}: it is gone."

        title = f"present source of `{cell_id}`"
        if not any(section.title == title for section in self._sections):
            self._add_section(title, present_source)
        text = f"cell `{cell_id}` now has version {cell_version(present_source)}."
        if edit.number in self._runs.ends:
            text += f" {_make_sentence(self._runs.ends[edit.number])}"
        return f"applied, and then merged with an edit of {changed.merged_by}: {text}"

    def _add_user_difference(self, planned: PlannedEdit) -> None:
        """Add the difference between the model's proposal and the user's source."""
        edit = planned.edit
        proposed = edit.source
        if edit.kind == "patch":
            proposed = planned.before.replace(edit.old, edit.new, 1)

        difference = format_diff(proposed, self._decision.sources[edit.number])
        self._add_section(f"difference of the user to edit {edit.number}", difference)

    def _add_present_source(self, edit: CellEdit) -> None:
        cell = self._decision.review.document.find(edit.cell)
        if cell is not None:
            self._add_section(f"present source of `{cell.cell_id}`", cell.source)

    def _add_section(self, title: str, text: str) -> None:
        """Add a text below the result, without secrets and cut to the limit."""
        shown = self._hide.text(text)
        omitted_count = len(shown) - MAX_KEPT_SOURCE_CHARS
        if omitted_count > 0:
            shown = f"{shown[:MAX_KEPT_SOURCE_CHARS]}\n… {omitted_count:,} characters omitted"
        self._sections.append(DataSection(title, shown))


def _make_sentence(text: str) -> str:
    """Return `text` with a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}."
