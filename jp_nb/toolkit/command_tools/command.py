"""Tools that are configured command lines, and their source.

A command receives a JSON document about its call on stdin. The words of its command line are
templates over the same document (`jp_nb/toolkit/command_tools/templates.py`):

    {"tool": {"name": "build", "arguments": {"target": "docs"}, "answers": {}, "options": {}},
     "context": {"root": "/work/notebooks", "action": "run", …}}

`command_runs.py` runs the command. It prints its result: any text, or an outcome as JSON
(`command_results.py`).

Source: `docs/turns.md`, `docs/guide.md`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.config.tree.command_settings import Command
from jp_nb.config.tree.tool_settings import RuleCoverage, ToolConfig
from jp_nb.errors import ToolError
from jp_nb.toolkit.arguments.call_arguments import fill_defaults, format_argument_problems
from jp_nb.toolkit.base import CommandLine, Tool, ToolSource
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.command_tools.command_runs import make_document, render_argv, run_command
from jp_nb.toolkit.command_tools.executed_arguments import executes_call_values
from jp_nb.toolkit.outcome import NeedsInput, Outcome, Success, ToolFailure
from jp_nb.toolkit.tool_context import ToolContext

NO_COMMAND: Final = "Command missing for local tool"

_VARIES_BY_RUN: Final = re.compile(r"\banswers\b|rejection|\b(tool|context)\b(?!\s*[.\[])")
"""Template variables that differ in later runs of a call, or objects that contain them.

A later run gets the answers to the questions of the run before, or the rejection of the
configuration change that it proposed. `{{tool.answers.size}}` and `{{tool}}` match,
`{{tool.arguments.size}}` does not.
"""


class CommandTool(Tool):
    """A configured command as a tool (`source = "local"`)."""

    may_propose = True  # a configuration change, with the keys `config` and `unset` of its outcome

    def __init__(self, name: str, config: ToolConfig) -> None:
        self.name = name
        self.command = config.command
        self.source_name = name_in_source(name, config)

    @property
    def covers(self) -> RuleCoverage:  # type: ignore[override]
        """`arguments` if an argument of the call is executed (`executes_call_values`)."""
        if self.command and executes_call_values(self.command):
            return "arguments"
        return "tool"

    def __eq__(self, other: object) -> bool:
        # A permission for the turn holds while the tool is equal to the one that the user saw.
        return isinstance(other, CommandTool) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.name, self.source_name))

    def prepare(
        self, name: str, arguments: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
    ) -> Mapping[str, JsonValue] | ToolFailure:
        """Return the arguments with defaults, or a failure if some are missing or unknown."""
        filled = fill_defaults(arguments, schema)
        problem = format_argument_problems(name, filled, schema)
        return filled if problem is None else ToolFailure(problem)

    def command_line(
        self, arguments: Mapping[str, JsonValue], context: ToolContext
    ) -> CommandLine | ToolFailure | None:
        """Return the rendered command line, or a failure if a template is invalid."""
        if self.command is None:
            return ToolFailure(NO_COMMAND)

        argv = render_argv(self.command, make_document(self.source_name, arguments, context))
        if isinstance(argv, ToolFailure):
            return argv

        text = argv[-1] if self.command.shell else shlex.join(argv)
        words = (self.command.program, *self.command.args)
        varies_by_run = any(map(_VARIES_BY_RUN.search, words))
        return CommandLine(
            text,
            folder=context.root or os.getcwd(),
            shell=self.command.shell,
            varies_by_run=varies_by_run,
        )

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Run the command and read its output. Cancellation ends its process group.

        Raises:
            ToolError: The command asked an invalid question.
        """
        if self.command is None:
            return ToolFailure(NO_COMMAND)
        document = make_document(self.source_name, arguments, context)
        return await run_command(self.command, document, f"Tool '{self.name}'", context.root)


class CommandTools(ToolSource):
    """Source of the configured commands (`source = "local"`)."""

    name = "local"

    async def list(self, wanted: Mapping[str, ToolConfig]) -> Mapping[str, Tool]:
        """Return a command for each of the wanted tools."""
        return {name: CommandTool(name, tool) for name, tool in wanted.items()}


@dataclass(frozen=True)
class CommandFormatter:
    """A command that formats the arguments of a call for the user (`style.parameters`).

    `tool` is the name of the tool in its document; None for the name in the context of the call.
    """

    command: Command
    tool: str | None = None

    async def format(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> str:
        """Return the text below the call's header; "" for none.

        Raises:
            ToolError: The command fails, or asks a question. The tool does not run then.
        """
        document = make_document(self.tool or context.name, arguments, context)
        match await run_command(self.command, document, "its command", context.root):
            case Success(content=content):
                return content.strip()
            case ToolFailure(message=message):
                raise ToolError(message)
            case NeedsInput():
                raise ToolError("it asked a question, which a formatter must not do")


def name_in_source(name: str, config: ToolConfig) -> str:
    """Return the name after the dot of the setting `source`, such as `local.build`.

    Without one, return `name`, the tool's name in the configuration.
    """
    kind, _, own_name = (config.source or "").partition(".")
    return own_name if kind == "local" and own_name else name
