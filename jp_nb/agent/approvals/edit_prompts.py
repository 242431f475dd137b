"""The prompt of the review of proposed edits: their differences, and the choices about them.

Two plans are used side by side: `review.plan` has all edits that can be applied, and `plan` those
of them that the user has chosen so far, with the sources that the user has changed. A plan drops
edits that need one which is not chosen (`plan.dropped`). `review.edits` also has the edits that
cannot be applied, because of a conflict. If no program can change the notebook,
`review.document.can_change` is False: then the user only gets the sources of new cells.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from jp_nb.agent.approvals.edit_titles import describe_edit, loses_outputs
from jp_nb.agent.prompting.prompts import Action, ActionPrompt, PromptCell, PromptDetail, PromptItem
from jp_nb.text import pluralize
from jp_nb.toolkit.editing.confusing_characters import describe_hidden_characters
from jp_nb.toolkit.editing.edit_plan import EditPlan, PlannedEdit
from jp_nb.toolkit.editing.edit_review import EditReview
from jp_nb.toolkit.editing.edit_schema import CellKind
from jp_nb.toolkit.editing.source_diff import SourceDiff

WHY_CAPTION = "The model's reason"
ATTENTION_CAPTION = "Read these lines carefully"
USER_WHY_CAPTION = "What is proposed"
WARNING_CAPTION = "Origin"
CONFLICTS_CAPTION = "Changed since the model read them"
USER_CONFLICTS_CAPTION = "Cannot be applied"
LEFT_OUT_CAPTION = "Not applied"
UNDO_CAPTION = "Outputs"
UNDO_NOTE = (
    "A code cell with a new source loses its outputs. Undo brings back the source, not the outputs."
)
EDIT_ACTION = "edit:"
"""Start of the value of the button that edits the source of one edit."""
LANGUAGES: Mapping[CellKind, str] = {"code": "python", "markdown": "markdown"}
"""Language of the source of a cell, by its type."""


def make_review_prompt(review: EditReview, plan: EditPlan) -> ActionPrompt:
    """Return the prompt with the differences of the edits in `plan`, and the choices about them."""
    count = len(plan.edits)
    edits = f"{count} {pluralize('edit', count)}"
    text = f"Apply {edits} to this notebook?"
    if review.conflicts and review.proposer == "user":
        text = "Some edits cannot be applied. Nothing was applied yet."
    elif review.conflicts:
        text = "Cells have changed since the model read them. Nothing was applied yet."
    elif not review.document.can_change:
        text = f"The model proposes {count} new {pluralize('cell', count)}. Show the source?"

    return ActionPrompt(
        text=text,
        actions=tuple(_list_actions(review, plan)),
        exhibits=tuple(_list_details(review, plan)),
        only_buttons=True,
        origin="built-in",
        cells=tuple(_list_cells(plan)),
    )


def _list_cells(plan: EditPlan) -> Iterator[PromptCell]:
    """Yield the present cell of each edit. The page marks it as the one that the edit is about.

    An inserted cell is not there yet, so the present cell above it is marked. If that is an
    inserted cell too, the place is the one that was found for that cell.
    """
    places: dict[str, str] = {}  # the present cell above an inserted cell, by the key of the latter
    for planned in plan.edits:
        edit = planned.edit
        label = f"edit {edit.number}"
        if edit.kind == "insert":
            present_cell = places.get(planned.place, planned.place)
            places[edit.target] = present_cell
            yield PromptCell(present_cell, label, is_place=True, item=str(edit.number))
        elif planned.cell is not None:
            yield PromptCell(planned.cell.cell_id, label, item=str(edit.number))


def _list_actions(review: EditReview, plan: EditPlan) -> Iterator[Action]:
    """Yield the buttons of a review.

    A model that proposes edits can get a message about a conflict or a reason. A command of the
    user cannot.
    """
    count = len(plan.edits)
    can_change = review.document.can_change

    # Also if no edit is chosen: in a form, the user can check one again. The form then calls
    # `format_label` with the new number.
    if count or review.plan.edits:
        format_label = partial(_format_apply_label, review)
        yield Action("y", format_label(count), "apply", format_label=format_label)
        if can_change and any(planned.edit.is_run for planned in plan.edits):
            format_label = partial(_format_apply_label, review, and_run=True)
            yield Action("R", format_label(count), "apply_run", format_label=format_label)

    is_from_model = review.proposer == "model"
    can_tell = bool(review.conflicts) and is_from_model
    if can_tell:
        yield Action("t", "Tell the model", "tell", is_separated=True)
    yield Action("n", "Reject", "reject", is_separated=not can_tell)
    if is_from_model:
        yield Action("N", "Reject all edits of this turn", "reject_turn")
    yield Action("p", "Print the differences", "print", on_form=False)  # by the dialogue on stdin
    if is_from_model:
        yield Action("r", "Reject and say why …", "reason", is_separated=True)
    if len(review.edits) > 1:
        yield Action("c", "Choose edits …", "choose", on_form=False)
    if any(can_edit(planned) for planned in plan.edits):
        yield Action("e", "Edit a source …", "edit", on_form=False)


def _format_apply_label(review: EditReview, count: int, *, and_run: bool = False) -> str:
    """Return the label of the button that applies `count` edits, and perhaps runs their cells."""
    label = f"Apply {count} {pluralize('edit', count)}"
    if review.conflicts:
        label = f"Apply the other {count}"
    elif not review.document.can_change:
        label = "Show the source"
    return f"{label} and run" if and_run else label


def can_edit(planned: PlannedEdit) -> bool:
    """Return True if the user can change the source of this edit."""
    return planned.edit.kind in ("insert", "replace", "patch")


def _list_details(review: EditReview, plan: EditPlan) -> Iterator[PromptDetail]:
    """Yield the parts of a review: notes first, then each edit, then the edits that are dropped."""
    is_from_model = review.proposer == "model"
    if review.warning:
        yield PromptDetail(WARNING_CAPTION, review.warning, size_text="")
    why_caption = WHY_CAPTION if is_from_model else USER_WHY_CAPTION
    yield PromptDetail(why_caption, review.why, size_text="")

    conflicts = [f"Edit {number}: {reason}" for number, reason in sorted(review.conflicts.items())]
    if conflicts:
        caption = CONFLICTS_CAPTION if is_from_model else USER_CONFLICTS_CAPTION
        yield PromptDetail(caption, "\n".join(conflicts), size_text="")
        yield from _list_conflict_details(review)

    warnings = list(_list_warnings(plan))
    if warnings:
        yield PromptDetail(ATTENTION_CAPTION, "\n".join(warnings), size_text="")
    if any(loses_outputs(planned) for planned in plan.edits):
        yield PromptDetail(UNDO_CAPTION, UNDO_NOTE)

    chosen = frozenset(planned.edit.number for planned in plan.edits)
    for planned in list_shown_edits(review, plan):
        yield _make_edit_detail(planned, is_chosen=planned.edit.number in chosen)

    dropped = [f"Edit {number}: {reason}" for number, reason in sorted(plan.dropped.items())]
    if dropped:
        yield PromptDetail(LEFT_OUT_CAPTION, "\n".join(dropped), size_text="")


def _make_edit_detail(planned: PlannedEdit, *, is_chosen: bool) -> PromptDetail:
    """Return one edit with its check box, and a button to change its source."""
    title = describe_edit(planned)
    detail = PromptDetail(title, _get_unchanged_content(planned))
    if planned.changes_source:
        detail = _make_diff(title, planned.before, planned.after, planned.cell_kind)

    number = planned.edit.number
    actions: tuple[Action, ...] = ()
    if can_edit(planned) and is_chosen:
        actions = (Action("", f"Change source of edit {number} …", f"{EDIT_ACTION}{number}"),)
    return replace(detail, item=PromptItem(str(number), is_chosen, actions))


def list_shown_edits(review: EditReview, plan: EditPlan) -> list[PlannedEdit]:
    """Return the edits of `plan`, and those that the user did not choose, by number."""
    chosen = {planned.edit.number: planned for planned in plan.edits}
    left_out = [planned for planned in review.plan.edits if planned.edit.number not in chosen]
    return sorted([*plan.edits, *left_out], key=lambda planned: planned.edit.number)


def _make_diff(caption: str, before: str, after: str, kind: CellKind = "code") -> PromptDetail:
    """Return the difference of two sources of a cell of this kind."""
    diff = SourceDiff(before, after)
    return PromptDetail(
        caption, diff.format(), LANGUAGES.get(kind), size_text=diff.describe_size(), diff=diff
    )


def _list_conflict_details(review: EditReview) -> Iterator[PromptDetail]:
    """Yield the present and the proposed source of each edit with a conflict."""
    for edit in review.edits:
        if edit.number not in review.conflicts:
            continue
        cell = review.document.find(edit.cell)
        if cell is not None:
            yield PromptDetail(f"Edit {edit.number}: the present source", cell.source)
        if edit.kind == "replace":
            yield PromptDetail(f"Edit {edit.number}: the proposed source", edit.source)
        elif edit.kind == "patch":
            yield _make_diff(f"Edit {edit.number}: the proposed patch", edit.old, edit.new)


def _list_warnings(plan: EditPlan) -> Iterator[str]:
    """Yield a warning for each character that could mislead a reader of the new sources."""
    for planned in plan.edits:
        for warning in describe_hidden_characters(planned.before, planned.after):
            yield f"Edit {planned.edit.number}: {warning}"


def _get_unchanged_content(planned: PlannedEdit) -> str:
    """Return the content to show for an edit that changes no source.

    For a cell that is run, or that gets the source it already has, it is this source.
    """
    if planned.edit.kind == "move":
        return "The cell keeps its source, outputs, and metadata."
    return planned.before
