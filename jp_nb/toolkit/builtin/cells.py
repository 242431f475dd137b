"""Built-in tool that proposes edits of the notebook's cells. The user reviews and applies them.

Its parts are loaded with the first call: most turns have none.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.toolkit.base import Tool
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.editing.edit_schema import EDITS_SCHEMA
from jp_nb.toolkit.outcome import NeedsReview, Outcome
from jp_nb.toolkit.tool_context import ToolContext

CELLS_TOOLSET: Final = "cells"
EDIT_CELLS: Final = "edit_cells"
EDIT_CELLS_DESCRIPTION: Final = """\
Propose edits of cells of the notebook. The user reviews each edit, may change or reject it, and \
applies the others. The result says exactly what was applied. Read ids and versions with \
notebook_cells or notebook_cell first. Prefer small edits (patch), and put all edits of one \
purpose into one call."""
EDIT_CELLS_STOPPED: Final = (
    "The user stopped this call. Edits may have been applied before, and remain. Read the cells "
    "with notebook_cells before you propose other edits."
)


class EditCells(Tool):
    """Tool that proposes edits of cells, and applies those that the user chooses."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        "toolset": CELLS_TOOLSET,
        "run": "ask",
        "covers": "arguments",  # a permission covers only a call with the same arguments
        "description": EDIT_CELLS_DESCRIPTION,
        "cancellation_response": EDIT_CELLS_STOPPED,
    }
    schema = EDITS_SCHEMA
    proposes_edits = True
    needs_exact_text = True  # half a surrogate pair in a source is an error

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome | NeedsReview:
        """Return the proposal for the review, or apply the user's decision about it.

        Raises:
            ToolError: The edits are wrong, or nothing can be edited here.
        """
        from jp_nb.toolkit.builtin.cell_proposals import propose_edits, run_proposal

        return await run_proposal(arguments, context, cell, propose_edits)
