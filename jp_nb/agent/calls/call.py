"""A tool call of a response: its request, its state, and its view on the screen.

A call may run several times: after questions, after a rejected configuration change, and after the
user chose to run it again. `Call` lasts for all of that, `CallState` and `CallView` until the user
lets it run again. `CallEnded` leaves the steps of a call with another response than a result.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import JsonValue

from jp_nb.agent.approvals.call_rulings import Ruling
from jp_nb.agent.calls.image_limits import NO_IMAGES, LimitedImages
from jp_nb.agent.display import ChangeEnds
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.prompting.prompt_ends import Channel
from jp_nb.agent.turn_times import TimedSpan
from jp_nb.record.entries.events import (
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.entries.outcomes import QuestionOutcome
from jp_nb.toolkit.tool_context import DeltaRejection

if TYPE_CHECKING:  # most turns edit no cells
    from jp_nb.toolkit.editing.edit_review import EditDecision


@dataclass(slots=True)
class CallAnswers:
    """Answers to the questions of a call's tool.

    Attributes:
        values: Answers by question id.
        ends: Outcome of each question, by its id.
        reply: Message of the user to the model, in place of answers.
        automatic_counts: Number of answers without the user, by question id.
    """

    values: dict[str, JsonValue] = field(default_factory=dict)
    ends: dict[str, QuestionOutcome] = field(default_factory=dict)
    reply: str | None = None
    automatic_counts: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class CallResult:
    """Result of a call, up to its response.

    Attributes:
        structured: Data of the result, recorded only with the unedited text.
        delivered: The text for the model, before the user may edit it; None without a result.
        shown_images: Images for the model. They are omitted if the user edits the text.
        whole_chars: Length of the result before truncation, in characters.
        is_under_review: True if the user is asked about the result.
        kept: The response, if the cell's thread has already made it when the tool returned, and has
            kept it for the journal (`call_results.py`); otherwise None.
    """

    structured: JsonValue = None
    delivered: str | None = None
    shown_images: LimitedImages = NO_IMAGES
    whole_chars: int | None = None
    is_under_review: bool = False
    kept: ToolCallResponse | None = None


@dataclass(slots=True)
class CallState:
    """State of a call until its response, over all runs of its tool.

    If the user lets the call run again, it begins with a new state.

    Attributes:
        arguments: Complete arguments, perhaps edited by the user; empty before they are read.
        edited_through: The channel through which the user changed the arguments; None if unchanged.
        ruling: The permission of the call, by a rule or by `run`; None if the user decided.
        answers: The outcomes of the tool's questions so far.
        ran: True once the tool has started.
        seconds: Duration of all runs, without the time for prompts.
        was_interrupted: True if an interrupt ended the tool's function.
        edit_decision: The decision about proposed edits of cells.
        approves_plan: True if the call submitted a plan that the user approved.
        rejections: Number of proposed configuration changes that were not applied.
        rejection: The last of these rejections, for the next run of the tool.
        result: The result on its way to the response.
        response: Final: once it is set, nothing changes.
    """

    arguments: dict[str, JsonValue] = field(default_factory=dict)
    edited_through: Channel | None = None
    ruling: Ruling | None = None
    answers: CallAnswers = field(default_factory=CallAnswers)
    ran: bool = False
    seconds: float = 0.0
    was_interrupted: bool = False
    edit_decision: EditDecision | None = None
    approves_plan: bool = False
    rejections: int = 0
    rejection: DeltaRejection | None = None
    result: CallResult = field(default_factory=CallResult)
    response: ToolCallResponse | None = None


@dataclass(slots=True)
class CallView:
    """Content of a call on the screen.

    Attributes:
        is_displayed: True once the line of the call is on the screen.
        needs_redisplay: True if that line is outdated.
        formatted: Arguments as a formatter wrote them.
        texts_in_prompt: True if a prompt displays the text arguments.
        traceback: Traceback of an exception of the tool.
    """

    is_displayed: bool = False
    needs_redisplay: bool = False
    formatted: str | None = None
    texts_in_prompt: bool = False
    traceback: str | None = None


@dataclass(slots=True, eq=False)
class Call:
    """One tool call of a response, for all its runs. `tool` is None if it is not available.

    Attributes:
        request: The model's request, as the record has it.
        tool: The tool with its settings; None if it is not available.
        bad_arguments: Parse error of the model's arguments.
        event_id: Event id of the request, for the journal.
        index: Position among the calls of the batch.
        number: Position among the calls of the batch with the same id. Models repeat ids.
        may_have_run: True if the call may have run before a restart or a crash.
        edit_operation: Id of the edits of cells that the call applies.
        edits: These edits of cells, once the call is about to apply them.
        task: The task that runs the call; None if none does. A task that ignored its cancellation
            is abandoned: it may still run, and is not this one.
        exception: The last exception that the tool raised.
        config_changes: The reviewed configuration changes.
        runs: The times of all its runs.
        state: The progress of the runs of the call.
        view: The parts of the call that the screen shows.
    """

    request: ToolCallRequest
    tool: OfferedTool | None
    bad_arguments: str | None = None
    event_id: str = ""
    index: int = 0
    number: int = 1
    may_have_run: bool = False
    edit_operation: str = ""
    edits: JsonValue = None
    task: asyncio.Task[bool] | None = None
    exception: BaseException | None = None
    config_changes: list[ChangeEnds] = field(default_factory=list)
    runs: list[TimedSpan] = field(default_factory=list)
    state: CallState = field(default_factory=CallState)
    view: CallView = field(default_factory=CallView)

    @property
    def key(self) -> str:
        """Unique id in the batch."""
        return self.request.id if self.number == 1 else f"{self.request.id}#{self.number}"

    @property
    def title(self) -> str:
        """Display name of the tool."""
        return "a tool" if self.tool is not None and self.tool.hidden else self.request.name

    def is_run_by_this_task(self) -> bool:
        """Return True in the task that runs the call.

        Return False in a task that the batch has abandoned, which must not change the call.
        """
        return self.task is asyncio.current_task()

    def reset(self) -> None:
        """Reset the call for another run. `may_have_run` remembers the earlier one."""
        self.may_have_run |= self.state.ran
        self.state = CallState()
        self.view = CallView()


class CallEnded(Exception):  # noqa: N818 - mostly a decision of the user, and no error
    """A tool call ends with the response `content` instead of the result of its tool.

    Attributes:
        content: The response that the model reads.
        is_error: True if the response is an error.
        skipped: True if the user or the configuration declined the call, or its result.
        stops_turn: True if the user ended the turn with the prompt of the call.
    """

    def __init__(
        self,
        content: str,
        *,
        is_error: bool = False,
        skipped: bool = False,
        stops_turn: bool = False,
    ) -> None:
        super().__init__(content)
        self.content = content
        self.is_error = is_error
        self.skipped = skipped
        self.stops_turn = stops_turn
