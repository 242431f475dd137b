"""Base classes of tools and of their sources.

A tool is registered under a name and runs calls. A source, such as the functions of the notebook or
an MCP server, finds and lists tools. To add a kind of tool, write a subclass of both.

Source: `docs/turns.md`, `docs/extending.md` (a source of tools).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.config.tree.tool_settings import RuleCoverage, RunMode, ToolConfig
from jp_nb.record.entries.inquiry_events import InquirySource
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.outcome import NeedsReview, Outcome, ToolFailure
from jp_nb.toolkit.tool_context import ToolContext

MAX_PLAN_CHARS: Final = 20_000
"""Maximum length of the plan of a turn (`Tool.plan_argument`), also after the user edited it."""
SOURCE_TIMEOUT_S: Final = 30.0
"""Maximum time for a source to start and to list its tools, and to close."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Command line of a tool.

    Attributes:
        text: The script for the shell, or the quoted words if no shell runs.
        folder: The working directory.
        shell: True if a shell runs the text.
        varies_by_run: True if later runs of the call may have another text, because a template
            uses their answers.
    """

    text: str
    folder: str
    shell: bool = False
    varies_by_run: bool = False


class Tool(ABC):
    """A tool that can be registered under a name and run.

    Attributes:
        registration: The registered configuration: a partial of `conversation.tools.<name>`, a
            nested dictionary with some of its settings.
        schema: JSON schema of the arguments; None if the setting `parameters` describes them.
        may_propose: True if a successful run may propose a configuration change.
        needs_user: True if the tool is not offered when no user is available. It is offered
            nevertheless if the answer to one of its questions is configured.
        asks_as_assistant: True if the source of its questions is the assistant, not the tool.
        server: Name of the server that runs the tool and asks its questions; "" without one. It is
            recorded with each question and each call, and titles the form.
        server_tool: The server's own name of the tool; "" without a server, or if it is unknown.
        description: Description for the model if the configuration has none.
        routes_exclusive_questions: True if the configuration of a question may let a model answer,
            although the question is exclusive otherwise. A server cannot know its users.
        proposes_edits: True if the tool proposes edits of cells. The user reviews them in place of
            a permission for the call.
        needs_exact_text: True if half a surrogate pair in an argument is an error for the model.
        waits_for_cell: True if a run is one function in the cell's thread. It may wait for other
            tools before it starts.
        covers: `arguments` if the arguments are executed: a permission then covers only these. The
            configuration of the tool overrides it.
        folder: Folder in which the tool runs, if it is neither the root of the workspace nor that
            of the kernel. A relative path is relative to the root.
        hints: Claims of a server about its tool, such as `read_only`. Rules may have them as
            conditions.
        read_only: True if a run certainly changes nothing. The configuration of the tool overrides
            it. Only such tools run before the user has approved the plan of a turn.
        plan_argument: Name of the argument with a plan, which the turn asks the user to approve
            instead of running the tool; "" if the tool submits no plan.
        server_entry: Digest of the configuration of the tool's server, and of all that the server
            says about the tool; "" without a server. Rules that the user kept end when it changes.
    """

    registration: Mapping[str, JsonValue] = {}
    schema: Mapping[str, JsonValue] | None = None
    may_propose = False
    needs_user = False
    asks_as_assistant = False
    server = ""
    server_tool = ""
    description = ""
    routes_exclusive_questions = False
    proposes_edits = False
    needs_exact_text = False
    waits_for_cell = False
    covers: RuleCoverage = "tool"
    folder: str | None = None
    hints: Mapping[str, bool] = {}
    read_only = False
    plan_argument = ""
    server_entry: str = ""

    @property
    def is_outdated(self) -> bool:
        """True if its server has announced that its tools changed, and they are not listed again.

        Permissions that the user gave before do not count then.
        """
        return False

    def inquiry_source(self, name: str) -> InquirySource:
        """Return the recorded source of the questions of the tool registered as `name`."""
        if self.asks_as_assistant:
            return InquirySource(source="assistant")
        return InquirySource.tool(name)

    def prepare(
        self, name: str, arguments: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
    ) -> Mapping[str, JsonValue] | ToolFailure:
        """Return the complete arguments for the tool, or a failure if they are invalid.

        Called before the user is asked and before the tool runs. Texts were already converted to
        the types in `schema` where possible (`arguments/argument_repairs.py`).
        """
        return arguments

    def command_line(
        self, arguments: Mapping[str, JsonValue], context: ToolContext
    ) -> CommandLine | ToolFailure | None:
        """Return the command line of a run; None if the tool is not a command."""
        return None

    @abstractmethod
    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome | NeedsReview:
        """Run the tool once. Cancellation ends everything that it started.

        A call has several runs if an outcome asks the user: after `NeedsInput` the tool runs again
        with the answers in `context`, and after `NeedsReview` with the decision. The method runs on
        the agent's event loop. `cell` calls a function in the thread of the user's code.

        Raises:
            ToolError: The message is for the model.
            Exception: Any other error. The model reads its type and text.
        """

    def ended(self, call_key: str) -> None:
        """Release what the runs of a call have kept: the call ended, and does not run again.

        `call_key` is `ToolContext.call_key` of these runs. The method is called once after each
        call, on the event loop, whatever ended the call: its result, an error, a refusal of the
        user, an interrupt, or the end of the kernel. A call that starts again has ended before. The
        method must not block.
        """
        return


ToolRegistrations = Mapping[str, Mapping[str, JsonValue]]
"""Partials of `conversation.tools`, by the name of the tool."""


class ToolSource(ABC):
    """A source of tools, such as the functions of the notebook, or a server.

    Creating a source costs nothing, and `start` does the work. A running source is kept if the new
    source of the same name is equal to it. Otherwise the new source replaces it.

    `agent/offered_tools/tool_sources.py` calls the methods on the agent's event loop, before the
    requests of a turn: `start` once, or `renew` if the source runs, then `discover` and `list`.

    Attributes:
        name: The prefix of the setting `source` of its tools, such as `python` or `mcp.books`.
        run: Default of the setting `run` of its tools.
        discovers: True if `discover` finds tools that are not configured. They are the toolset with
            the name of the source, which is off unless a setting turns it on.
        start_timeout_s: Maximum time to start and to list the tools; 0 for no limit.
        is_required: True if the turn ends when the source fails. Otherwise it runs without it.
    """

    name: str
    run: RunMode = "ask"
    discovers = False
    start_timeout_s = SOURCE_TIMEOUT_S
    is_required = False

    @property
    def title(self) -> str:
        """The displayed name, such as `built-in` or `MCP`."""
        return self.name

    async def start(self) -> None:
        """Prepare to list tools. Any exception is reported as a failure of the source.

        The words of a `ToolSourceError` are reported as they are.
        """
        return

    async def renew(self) -> None:
        """Update tools that may be outdated. Called at most once for each request to a model."""
        return

    async def discover(self) -> ToolRegistrations:
        """Return the registrations of all tools that the source has now, in a stable order."""
        return {}

    @property
    def owner(self) -> str:
        """The server that has the tools, for prompts; "" if the tools run here."""
        return ""

    @property
    def instructions(self) -> str:
        """Text for the model about the use of the tools, a section of the system prompt; or ""."""
        return ""

    def take_notices(self) -> Sequence[str]:
        """Return what the user should know about the source, since the last call."""
        return ()

    def may_have(self, name: str) -> bool:
        """Return True if `name` is one that `discover` gives to tools of this source."""
        return False

    @abstractmethod
    async def list(self, wanted: Mapping[str, ToolConfig]) -> Mapping[str, Tool]:
        """Return the existing tools among those configured for this source, by name."""

    async def close(self) -> None:
        """Release the resources of `start`, even if it failed."""
        return

    def clashes(self, configured: Mapping[str, ToolConfig]) -> Mapping[str, str]:
        """Return a notice for each tool of this source whose name is that of another source's tool.

        The notice says which of the two the model gets. `configured` has the settings of all tools.
        """
        return {}
