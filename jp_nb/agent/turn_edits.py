"""Compare the edited cells of a shared notebook once more at the end of a turn.

Several users may edit a *shared* notebook at the same time, with real-time collaboration. An edit
of another user can reach the page after the edits of the model were applied. The user gets a
notice, and the model a note. The model reads the note with the next request of the conversation.

Source: `docs/cells.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from jp_nb.agent.display import Notice
from jp_nb.agent.turn_state import TurnContext
from jp_nb.errors import ToolError
from jp_nb.exact_form import format_user_name
from jp_nb.record.entries.events import ToolCallRequest, ToolCallResponse
from jp_nb.record.reading.marks import make_note_to_model
from jp_nb.record.reading.turn_reader import EDIT_CELLS_NAME
from jp_nb.text import one_line

if TYPE_CHECKING:  # most turns edit no cells
    from jp_nb.toolkit.editing.document_cells import DocumentCells
    from jp_nb.toolkit.editing.later_changes import LaterChange

COMPARISON_TIMEOUT_S: Final = 3.0
"""Time that the end of a turn waits for the cells of the page."""
CHANGED_NOTICE: Final = "⚠ No longer as the edits of this turn left it: {}. {} changed it. Check it"
CHANGED_MESSAGE: Final = (
    "Note of the program, not of the user: after the edits of this turn were applied, {} changed "
    "cells of the shared notebook. {} Read these cells again before you rely on them."
)
NOT_COMPARED_NOTICE: Final = (
    "⚠ It is unknown whether other users have changed the edited cells since: the page did not "
    "tell its cells"
)
MAX_NAMED_CELLS: Final = 10


async def compare_edited_cells(turn: TurnContext) -> None:
    """Tell the user and the model which edited cells have changed since, in a shared notebook."""
    notebook = turn.shared.get("notebook")
    results = _list_edit_results(turn)
    if notebook is None or not results or not notebook.is_shared:
        return

    from jp_nb.toolkit.editing.later_changes import find_later_changes

    try:
        async with asyncio.timeout(COMPARISON_TIMEOUT_S):
            document = await notebook.document()
    except (TimeoutError, ToolError):
        turn.display(Notice(NOT_COMPARED_NOTICE))
        return

    changes = find_later_changes(results, document)
    if not changes:
        return

    who = _name_others(document)
    _tell_user(turn, changes, who)
    _tell_model(turn, changes, who)


def _tell_user(turn: TurnContext, changes: Sequence[LaterChange], who: str) -> None:
    cells = ", ".join(_name_cell(change) for change in changes[:MAX_NAMED_CELLS])
    more = len(changes) - MAX_NAMED_CELLS
    if more > 0:
        cells += f", and {more} more"
    turn.display(Notice(CHANGED_NOTICE.format(cells, f"You or {who}")))


def _tell_model(turn: TurnContext, changes: Sequence[LaterChange], who: str) -> None:
    states = " ".join(_describe_change(change) for change in changes[:MAX_NAMED_CELLS])
    more = len(changes) - MAX_NAMED_CELLS
    if more > 0:
        states += f" {more} more cells have changed."
    message = CHANGED_MESSAGE.format(f"the user or {who}", states)
    turn.record.add(make_note_to_model(turn.secrets.hide(message)))


def _list_edit_results(turn: TurnContext) -> Sequence[JsonValue]:
    """Return the structured results of the calls in the turn that edited cells."""
    entries = turn.record.stream.current_turn()
    calls = {
        entry.id
        for entry in entries
        if isinstance(entry, ToolCallRequest) and entry.name == EDIT_CELLS_NAME
    }
    return [
        entry.metadata["structured"]
        for entry in entries
        if isinstance(entry, ToolCallResponse)
        and entry.id in calls
        and "structured" in entry.metadata
    ]


def _name_others(document: DocumentCells) -> str:
    if len(document.other_users) == 1:
        return format_user_name(document.other_users[0])
    return "another user"


def _name_cell(change: LaterChange) -> str:
    if change.number is None:
        return f"`{one_line(change.cell_id, limit=64)}`, which is gone"
    return f"cell {change.number}"


def _describe_change(change: LaterChange) -> str:
    name = f"Cell `{one_line(change.cell_id, limit=64)}`"
    if change.version is None:
        return f"{name} is gone."
    if change.was_deleted:
        return f"{name}, which was deleted, is there again, with version {change.version}."
    return f"{name} now has version {change.version}."
