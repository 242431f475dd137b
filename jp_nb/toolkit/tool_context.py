"""The context of a tool call: information for the tool besides the model's arguments.

Source: `docs/tools.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypedDict

from pydantic import JsonValue

from jp_nb.record.entries.outcomes import QuestionOutcome
from jp_nb.record.reading.question_history import QuestionHistory
from jp_nb.toolkit.notebook_access import NotebookAccess
from jp_nb.values.base import DEFAULT_SIDE

if TYPE_CHECKING:  # most turns edit no cells
    from jp_nb.toolkit.editing.document_change import EditOperation
    from jp_nb.toolkit.editing.edit_review import EditDecision

ReadSkill = Callable[[str], str]
"""Returns the text of the skill of this name, or raises `ToolError`."""
ReadHistory = Callable[[], Awaitable[QuestionHistory]]


@dataclass(frozen=True, slots=True)
class DeltaRejection:
    """Rejection of the configuration change that the previous run of a tool proposed.

    Attributes:
        reason: `invalid_config`, `unauthorized_paths`, `user_rejected`, or
            `confirmation_unavailable`.
        fields: The rejected paths. If the user decided, these are all proposed paths.
        detail: A description of the problem and of valid values.
    """

    reason: str
    fields: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Context of a tool call. A tool receives it in a parameter with this type.

    The model does not see the parameter.

    Example:
        >>> def rename(title: str, ctx: ToolContext) -> str:
        ...     return f"{title}, asked by {ctx.name}"
        >>> rename("Delft", ToolContext("rename"))
        'Delft, asked by rename'

    Attributes:
        name: Name of the tool.
        call_id: The model's id of the call. Models repeat ids.
        call_key: Id of the call that no other open call has.
        answers: Answers to the tool's questions, by question id. Empty in the first run. None is
            the answer to an optional question that was left open.
        ends: The outcome of each of these questions, by question id. Each has `end`, such as
            `answered` or `declined`, and `channel`, the source of the answer.
        reply: A message from the user to the model, sent instead of answers; None if there is none.
        options: The setting `conversation.tools.<name>.options`.
        access: The tool's access rules, as they are configured; None if there are none.
        config: The settings that the tool may read, as a nested dictionary; None if it may read
            none.
        delta_rejection: The reason why the proposal of the previous run was rejected, with the
            attributes `reason`, `fields`, and `detail`; None otherwise.
        root: Path of the workspace folder.
        action: `run`. It is `format_arguments` if a program formats the arguments for the user.
        conversation_id: Id of the conversation, such as `jp-c17738399468`.
        catalog: Documentation of all available tools in Markdown, by tool name.
        history: Asynchronous function that returns the history of answered questions; None if there
            is no history.
        notebook: Access to the cells and variables of the notebook; None outside of a notebook.
        image_side: Limit for images that are made from the tool's result: pixels of the longest
            side.
        has_answers: True if answers to questions of the tool are configured or prepared.
        edit_decision: The user's decision about the edits of cells that the tool proposed.
        edit_operation: The change of the notebook that the call makes; None if it makes none.
        needs_review: True if the user has to review edits of cells before they are applied.
        read_skill: Function that returns the text of a skill of the workspace; None if there are no
            skills.
        show_progress: Shows a text in the status line of the cell, in place of the earlier one. It
            is not recorded. None outside of a turn.
    """

    name: str
    call_id: str = ""
    answers: Mapping[str, JsonValue] = field(default_factory=dict)
    ends: Mapping[str, QuestionOutcome] = field(default_factory=dict)
    reply: str | None = None
    options: Mapping[str, JsonValue] = field(default_factory=dict)
    access: JsonValue = None
    config: JsonValue = None
    delta_rejection: DeltaRejection | None = None
    root: str = ""
    action: Literal["run", "format_arguments"] = "run"
    conversation_id: str = ""
    catalog: Mapping[str, str] = field(default_factory=dict)
    history: ReadHistory | None = field(default=None, repr=False)
    notebook: NotebookAccess | None = field(default=None, repr=False)
    image_side: int = field(default=DEFAULT_SIDE, repr=False)
    call_key: str = field(default="", repr=False)
    has_answers: bool = field(default=False, repr=False)
    edit_decision: EditDecision | None = field(default=None, repr=False)
    edit_operation: EditOperation | None = field(default=None, repr=False)
    needs_review: bool = field(default=True, repr=False)
    read_skill: ReadSkill | None = field(default=None, repr=False)
    show_progress: Callable[[str], None] | None = field(default=None, repr=False)


class SharedContext(TypedDict, total=False):
    """Fields of a `ToolContext` that are the same for every call of a turn."""

    root: str
    conversation_id: str
    history: ReadHistory
    notebook: NotebookAccess
    needs_review: bool
    image_side: int
    read_skill: ReadSkill
