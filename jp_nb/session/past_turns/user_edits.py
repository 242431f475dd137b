"""Edits of cells that a command of the user proposes, in the review of proposals of a model.

`%jp code` and `%jp revert` propose such edits. They run on the tool bench (`bench.py`), so nothing
is recorded, and no request is sent.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pydantic import JsonValue

from jp_nb.agent.call_steps.call_outcome import CallOutcome
from jp_nb.agent.calls.call import Call
from jp_nb.errors import ToolError
from jp_nb.record.entries.events import ToolCallRequest
from jp_nb.record.reading.turn_reader import EDIT_CELLS_NAME
from jp_nb.session.past_turns.bench import ToolBench, raise_for_end
from jp_nb.toolkit.builtin.cell_proposals import run_proposal
from jp_nb.toolkit.builtin.cells import EditCells
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.editing.document_cells import DocumentCells
from jp_nb.toolkit.editing.edit_review import EditReview
from jp_nb.toolkit.notebook_access import NotebookAccess
from jp_nb.toolkit.outcome import NeedsReview, Outcome, Success, ToolFailure
from jp_nb.toolkit.tool_context import ToolContext

MakeReview = Callable[[DocumentCells], EditReview]


class UserEdits(EditCells):
    """Edits that a command of the user proposes, as a tool that models cannot call.

    `make_review` gets the cells of the notebook, and returns the review of the edits. It raises
    `ToolError` if there is nothing to propose.

    As `EditCells` (`toolkit/builtin/cells.py`), it returns a review, and runs again with the user's
    decision. But the review is not made from arguments of a model.
    """

    registration: Mapping[str, JsonValue] = {}  # it is no tool of the configuration

    def __init__(self, make_review: MakeReview) -> None:
        self._make_review = make_review

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome | NeedsReview:
        """Return the review, or apply the user's decision about it.

        Raises:
            ToolError: There is nothing to propose, or nothing can be edited here.
        """
        return await run_proposal(arguments, context, cell, self._propose)

    async def _propose(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, notebook: NotebookAccess
    ) -> EditReview | Success | ToolFailure:
        """Return the review of the edits; `run_proposal` calls it with the user's notebook."""
        document = await notebook.document()
        if not document.can_change:
            raise ToolError(f"Cells cannot be edited here: {document.why}.")
        return self._make_review(document)


def review_user_edits(bench: ToolBench, name: str, make_review: MakeReview) -> CallOutcome:
    """Let the user review edits in the running cell, apply the chosen ones, and return the outcome.

    `name` is the command that proposes them, for the display.

    Raises:
        UsageError: A turn runs.
        KeyboardInterrupt: The user stopped it.
        PromptUnavailable: No user is available in a strict run.
    """
    tools = bench.find_tools()
    editor = tools.find(EDIT_CELLS_NAME)

    # The tool of models with another executor. The user always reviews the edits (`ask`), whatever
    # the settings and rules of the tool say, and the display shows the whole result.
    tool = replace(
        editor,
        name=name,
        executor=UserEdits(make_review),
        definition=replace(editor.definition, name=name, parameters={"type": "object"}),
        run="ask",
        result="unattended",
        rules=(),
        formatter=None,
        inline_results="full",
        inline_errors="full",
    )
    request = ToolCallRequest(id="bench", name=name, arguments={})
    run = bench.run_batches(tools, [[Call(request, tool)]], {})
    raise_for_end(run)
    [(_, outcome)] = run.iter_outcomes()
    return outcome
