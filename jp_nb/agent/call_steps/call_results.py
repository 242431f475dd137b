"""Results of tool calls on their way to the model: limited in size, and kept for the journal.

A result is in the journal before the next function of a tool starts in the cell's thread: that
function may end the process. A run is *settled* when its result is kept for the journal, or when
its function has returned an awaitable.

Source: `docs/turns.md`, `docs/record.md` (the journal).
"""

from __future__ import annotations

import logging
from typing import Final

from jp_nb.agent.call_steps.approved_changes import ApprovedChanges
from jp_nb.agent.call_steps.result_delivery import Delivery
from jp_nb.agent.calls.call import Call
from jp_nb.agent.calls.call_progress import ProgressWriter
from jp_nb.agent.calls.call_response import make_call_response, truncate_result
from jp_nb.agent.calls.image_limits import NO_IMAGES, limit_images
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.turn_state import BatchContext, TurnContext
from jp_nb.record.entries.events import ToolCallResponse
from jp_nb.toolkit.cell_thread import PendingResult
from jp_nb.toolkit.current_run import ToolRun
from jp_nb.toolkit.outcome import STRUCTURED_OMITTED, NeedsInput, Success, ToolFailure
from jp_nb.toolkit.truncation import join_lines

log = logging.getLogger(__name__)

MAX_TRACE_CHARS: Final = 1_000_000
"""Characters of the lines of a trace that are joined."""
CHANGE_LOST_TEXT = (
    "The configuration change that this call proposed was not applied. The kernel "
    "stopped before the change was saved."
)
"""Last words of a journaled result. The model gets them only if the kernel stops too early."""


class CallResults:
    """Limits the results of a batch's calls, and keeps them for the journal.

    The agent's thread uses it, and the cell's thread for results of functions
    (`settle_function_result`). Of each call, only one of them does at a time.
    """

    def __init__(
        self,
        turn: TurnContext,
        batch: BatchContext,
        approved: ApprovedChanges,
        progress: ProgressWriter,
    ) -> None:
        self._turn = turn
        self._batch = batch
        self._approved = approved
        self._progress = progress

    def limit(self, call: Call, tool: OfferedTool, outcome: Success | ToolFailure) -> Delivery:
        """Return the result for the model, within the limits of texts and images.

        The parts of the limited result are noted in the state of the call, and its images count for
        the turn.
        """
        result = _make_whole_result(tool, outcome)
        limits = self._batch.basis.config.record
        shown = limit_images(result.images, limits, earlier_count=self._turn.image_count)

        # The text is cut first, so that the notes below it are never cut.
        short = truncate_result(result.content, tool)
        whole_chars = None if short == result.content else len(result.content)
        if outcome.omits_structured:
            short = f"{short}\n\n{STRUCTURED_OMITTED}".lstrip()
        delivered = shown.add_omissions_to(short)

        state = call.state.result
        state.structured = outcome.structured
        state.shown_images = shown
        state.whole_chars = whole_chars
        state.delivered = delivered
        if shown.images:  # only the agent's thread limits results with images
            self._turn.image_count += len(shown.images)
        return Delivery(delivered, result.is_error, shown.images)

    def drop_images(self, call: Call) -> None:
        """Omit the images of the result: the model gets another text, or none."""
        self._turn.image_count -= len(call.state.result.shown_images.images)
        call.state.result.shown_images = NO_IMAGES

    def keep(self, call: Call, response: ToolCallResponse) -> None:
        """Keep the `response` to `call` for the next write to the journal."""
        if self._approved.has_change_of(call):  # it is saved when the batch ends
            content = f"{response.content}\n\n{CHANGE_LOST_TEXT}"
            response = response.model_copy(update={"content": content})
        self._progress.keep_result(call, response)

    def settle_function_result(
        self, call: Call, tool: OfferedTool, run: ToolRun, outcome: object
    ) -> bool:
        """Keep a result that needs no decision. Called on the cell's thread.

        Return True if the next function may start: the result is kept, so that the next function
        writes it to the journal first, or the agent's loop awaits it. Return False for a result
        that needs a decision, or the agent's thread, which counts the images of the turn.
        """
        if isinstance(outcome, PendingResult):  # the agent's loop awaits it
            return True
        if not isinstance(outcome, Success | ToolFailure):  # it asks something
            return False
        if tool.result != "unattended":  # the user reviews it
            return False
        if run.is_over:  # the call was canceled, and has or gets another response
            return False
        if isinstance(outcome, Success) and (outcome.proposes or outcome.images):
            return False

        hidden = self._turn.secrets.hide_in_outcome(outcome)
        assert not isinstance(hidden, NeedsInput)  # hiding keeps the type
        result = self.limit(call, tool, hidden)
        response = make_call_response(call, result.content, is_error=result.is_error)
        self.keep(call, response)
        call.state.result.kept = response  # `call_runner.py` takes it, and makes no other
        return True


def _make_whole_result(tool: OfferedTool, outcome: Success | ToolFailure) -> Delivery:
    """Return the result without limits. A failure has the trace of the tool, if there is one."""
    if isinstance(outcome, ToolFailure):
        content = outcome.message
        if outcome.trace:
            content += f"\n\nTrace:\n{join_lines(outcome.trace, MAX_TRACE_CHARS)}"
        return Delivery(content, is_error=True)

    # `call_runner.py` reviews the changes of tools that may propose some, and ignores others.
    if outcome.proposes and not tool.executor.may_propose:
        log.warning("%s may not propose configuration changes: ignored", tool.name)
    return Delivery(outcome.content, images=outcome.images)
