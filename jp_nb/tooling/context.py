"""What a tool is told besides its arguments.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypedDict

from pydantic import JsonValue

from jp_nb.record.question_history import QuestionHistory
from jp_nb.tooling.notebook_access import NotebookAccess
from jp_nb.values.description import DEFAULT_SIDE

ReadHistory = Callable[[], Awaitable[QuestionHistory]]


@dataclass(frozen=True, slots=True)
class DeltaRejection:
    """The reason for which the configuration change of the previous run was not applied.

    Attributes:
        reason: `invalid_config`, `unauthorized_paths`, `user_rejected` or
            `confirmation_unavailable`.
        fields: The paths to blame; of a decision, all that were proposed.
        detail: What is wrong, and what would be right, in words.
    """

    reason: str
    fields: tuple[str, ...] = ()
    detail: str = ""


EndOfQuestion = Literal[
    "answered", "declined", "cancelled", "timed_out", "interrupted", "unavailable"
]


NOT_IN_TIME: Final = "the user did not answer in time"
"""Why a question or a permission has no answer, for the model."""


@dataclass(frozen=True, slots=True)
class QuestionEnd:
    """The end of a question that a tool asked.

    Attributes:
        end: `declined` if it was left open on purpose.
        auto: Nobody chose the answer: the recommended option was taken, or the first.
        timed_out: The time to answer was over.
        empty: The text is blank, on purpose.
        channel: Where an answer is from: a person, through `form`, `stdin` or `terminal`; else
            `configured`, `remembered`, or a `model`. None for one that nobody chose.
    """

    end: EndOfQuestion
    channel: str | None = None
    auto: bool = False
    timed_out: bool = False
    empty: bool = False


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool is told besides its arguments: a parameter of this type is filled in.

    >>> def rename(title: str, ctx: ToolContext) -> str:
    ...     return f"{title}, asked by {ctx.name}"
    >>> rename("Delft", ToolContext("rename"))
    'Delft, asked by rename'

    Attributes:
        name: The tool's name.
        answers: Answers so far, by question id; empty on the first run. None is the answer of an
            optional question that was left open.
        ends: How these questions ended, by question id.
        reply: What the person said to the model in place of answers; None if they did not.
        options: `conversation.tools.<name>.options`.
        access: The rules it was granted, as they are configured; None without any.
        config: What it may read of the configuration, as a partial; None if nothing.
        delta_rejection: Why its last proposal was not applied, on the run that follows; else None.
        root: The workspace's folder.
        action: `run`; `format_arguments` where a program writes the arguments of a call for the
            person.
        conversation_id: Such as `jp-c17738399468`.
        catalog: Documentation, in Markdown, of every tool on offer, by name.
        call_id: The model's id of this call.
        history: Reads the questions that were answered so far; None if nobody keeps them. To be
            awaited.
        notebook: The notebook around the turn; None where there is none.
        image_side: Pixels of the longest side of an image that is made of what it returns.
    """

    name: str
    call_id: str = ""
    answers: Mapping[str, JsonValue] = field(default_factory=dict)
    ends: Mapping[str, QuestionEnd] = field(default_factory=dict)
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


class SharedContext(TypedDict, total=False):
    """The fields of a `ToolContext` that are the same for every call of a turn."""

    root: str
    conversation_id: str
    history: ReadHistory
    notebook: NotebookAccess
    image_side: int
