"""What every tool can do, wherever it comes from.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pydantic import JsonValue

from jp_nb.config.tree.tool_config import Covers
from jp_nb.record.events import InquirySource
from jp_nb.tooling.context import ToolContext
from jp_nb.tooling.outcome import Failure, Outcome

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Run:
    """One run of a tool; `over` once nobody waits for it any more, whatever still goes on in it."""

    over: bool = False


RUN: ContextVar[Run | None] = ContextVar("jp_nb_tool_run", default=None)
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
    first: bool = False


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
    def needs_person(self) -> bool:
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
    needs_person = False
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
