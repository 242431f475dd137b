"""Protocols of tools and their sources, the context of a call, and errors of tools.

Source: `docs/turns.md`, `docs/guide.md`, `docs/extending.md`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Protocol, TypedDict, TypeVar

from pydantic import JsonValue

from jp_nb.config.tree.tools import Covers, RunMode, ToolConfig
from jp_nb.record.events import InquirySource
from jp_nb.record.question_log import QuestionHistory
from jp_nb.tools.notebook_access import NotebookAccess
from jp_nb.tools.outcome import Failure, Outcome
from jp_nb.values.base import DEFAULT_SIDE

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


QuestionEndKind = Literal[
    "answered", "declined", "cancelled", "timed_out", "interrupted", "unavailable"
]


NOT_IN_TIME: Final = "the user did not answer in time"
"""Why a question or a permission has no answer, for the model."""


@dataclass(frozen=True, slots=True)
class QuestionEnd:
    """End of a question that a tool asked.

    Attributes:
        end: `answered`, `declined` (left open), `cancelled`, `timed_out`, `interrupted`, or
            `unavailable` (no user was available).
        channel: Source of the answer. For the user, it is `form`, `stdin`, or `terminal`. Otherwise
            it is `configured`, `remembered`, or `model`. None for an automatic answer.
        auto: True if the answer is automatic: the recommended option or the first one.
        timed_out: True if the time limit passed.
        empty: True if the user deliberately left the text blank.
    """

    end: QuestionEndKind
    channel: str | None = None
    auto: bool = False
    timed_out: bool = False
    empty: bool = False


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
        call_id: The model's id of the call.
        answers: Answers to the tool's questions, by question id. Empty in the first run. None is
            the answer to an optional question that was left open.
        ends: The end of each of these questions, by question id. Each has `end`, such as `answered`
            or `declined`, and `channel`, the source of the answer.
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
    """Fields of a `ToolContext` that are the same for every call of a turn."""

    root: str
    conversation_id: str
    history: ReadHistory
    notebook: NotebookAccess
    image_side: int


T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Run:
    """One run of a tool; `over` once nobody waits for it any more, whatever still goes on in it."""

    is_over: bool = False


CURRENT_RUN: ContextVar[Run | None] = ContextVar("jp_nb_tool_run", default=None)
"""The run that the code belongs to, also in its threads; None outside of tools."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What is executed when a tool runs.

    Attributes:
        text: Words quoted as a shell quotes them; if a shell reads them, what it reads.
        folder: Where.
        shell: True if a shell reads it.
        first: True if it is that of the first run alone: what is known later changes it.
    """

    text: str
    folder: str
    shell: bool = False
    is_first_run: bool = False


class CallInterrupted(Exception):  # noqa: N818 - what happened, not what is wrong
    """A function on the cell's thread was cut short, by an interrupt of the kernel as a rule.

    The agent gets this in place of a `KeyboardInterrupt`, which would end its event loop. The
    original exception is the `__cause__`.
    """


class CellThread(Protocol):
    """The thread that holds the running cell: the only one for displays, stdin and `def` tools."""

    async def call(self, function: Callable[[], T]) -> T:
        """Run `function` there, one at a time, and return or raise what it does.

        Raises:
            CallInterrupted: If an interrupt, or an exception such as `SystemExit`, cut it short.
        """
        ...

    def release(self) -> None:
        """Let functions run that were held back since the cell was interrupted."""
        ...


class Tool(Protocol):
    """A tool that can be registered under a name and run."""

    @property
    def registration(self) -> Mapping[str, JsonValue]:
        """Its configuration as registered: a partial of `conversation.tools.<name>`."""
        ...

    @property
    def schema(self) -> Mapping[str, JsonValue] | None:
        """JSON schema of its arguments; None where `parameters` in the configuration has it."""
        ...

    @property
    def may_propose(self) -> bool:
        """True if a success of it may propose to change the configuration, if granted."""
        ...

    @property
    def needs_user(self) -> bool:
        """True if it is of no use where nobody can be asked: it is not offered there.

        It is all the same where an answer to some question of it is configured.
        """
        ...

    @property
    def waits_for_cell(self) -> bool:
        """True if a run is one function on the cell's thread, which may have to wait for others."""
        ...

    @property
    def covers(self) -> Covers:
        """`arguments` if the arguments are what runs: a permission then covers no others.

        The configuration of the tool goes before it.
        """
        ...

    def inquiry_source(self, name: str) -> InquirySource:
        """Return who asks when the tool registered as `name` has a question."""
        ...

    def prepare(
        self, name: str, arguments: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
    ) -> Mapping[str, JsonValue] | Failure:
        """Return `arguments` as the tool will get them, or why it cannot run with them.

        Called before anybody is asked and before anything runs. `arguments` have the types that
        `schema` declares where that could be told.
        """
        ...

    def command_line(
        self, arguments: Mapping[str, JsonValue], context: ToolContext
    ) -> CommandLine | Failure | None:
        """Return what a run with these executes; None if that is the tool's own code."""
        ...

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Run once. Cancelling it ends whatever it started.

        Raises:
            ToolError: A message for the model.
            Exception: Anything else that went wrong; its type and text go to the model.
        """
        ...


class ToolDefaults:
    """The methods of a `Tool` as most tools have them."""

    registration: Mapping[str, JsonValue] = {}
    schema: Mapping[str, JsonValue] | None = None
    may_propose = False
    needs_user = False
    waits_for_cell = False
    covers: Covers = "tool"

    def inquiry_source(self, name: str) -> InquirySource:
        """Return the tool itself."""
        return InquirySource.tool(name)

    def prepare(
        self, name: str, arguments: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
    ) -> Mapping[str, JsonValue] | Failure:
        """Return the arguments as they are: the tool looks at them when it runs."""
        return arguments

    def command_line(
        self, arguments: Mapping[str, JsonValue], context: ToolContext
    ) -> CommandLine | Failure | None:
        """Return None: what runs is its own code."""
        return None


class ArgumentFormatter(Protocol):
    """Writes the arguments of a call for the person (`style.parameters` as a command)."""

    async def format(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> str:
        """Return the text below the call's header; "" for none.

        Raises:
            ToolError: If it cannot; the tool is not run then.
        """
        ...


class ToolSource(Protocol):
    """A place that tools come from, such as the functions of the notebook, or one server.

    A source is a cheap value: nothing happens before `start`. One that compares equal to a source
    that runs under the same name is that source; one that does not takes its place.
    """

    @property
    def name(self) -> str:
        """The word that the configured `source` of its tools begins with: `python`, `mcp.books`."""
        ...

    @property
    def title(self) -> str:
        """The words by which a person knows the place: `built-in`, `MCP`."""
        ...

    @property
    def run(self) -> RunMode:
        """The way in which its tools run where nothing is configured."""
        ...

    async def start(self) -> None:
        """Get ready to list tools. Any exception counts as a failure, and is told."""
        ...

    async def list(self, wanted: Mapping[str, ToolConfig]) -> Mapping[str, Tool]:
        """Return those of the `wanted` tools that it has, by name.

        Args:
            wanted: What is configured for the tools that are from here, by name.
        """
        ...

    async def close(self) -> None:
        """Give back what `start` took, also where that failed."""
        ...

    def clashes(self, configured: Mapping[str, ToolConfig]) -> Mapping[str, str]:
        """Say for each name that another source has too which of the tools counts."""
        ...


class SourceDefaults:
    """The methods of a source with nothing to start or to close, and names of its own."""

    name: str
    run: RunMode = "ask"

    @property
    def title(self) -> str:
        """Its name."""
        return self.name

    async def start(self) -> None:
        """Do nothing: it is ready."""

    async def close(self) -> None:
        """Do nothing: there is nothing to give back."""

    def clashes(self, configured: Mapping[str, ToolConfig]) -> Mapping[str, str]:
        """Return nothing: no other source has its names."""
        return {}


MACHINERY = tuple(
    str(folder) + os.sep
    for folder in (
        Path(__file__).resolve().parent.parent,
        Path(asyncio.__file__).parent,
        Path(concurrent.futures.__file__).parent,
    )
)
"""What runs tools: frames of it say nothing about why a tool failed."""


def is_cancelled() -> bool:
    """True if the running task is being cancelled; false if what it awaits ended by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def error_summary(exc: BaseException) -> str:
    """Return type and text of `exc`, whatever its own code makes of that."""
    try:
        text = str(exc)
    except Exception:
        text = ""
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def tool_frames(exc: BaseException) -> TracebackType | None:
    """Return the traceback of `exc` from the first frame that is the tool's; None without one."""
    frame = exc.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(MACHINERY):
        frame = frame.tb_next
    return frame


def traceback_of(exc: BaseException) -> str:
    """Return the traceback of `exc` from the first frame that is the tool's."""
    return "".join(traceback.format_exception(type(exc), exc, tool_frames(exc)))
