"""A tool of an MCP server as a tool of the model.

Its runs share one open call (`calls.py`): a run sends the call, or the answers to the questions
that ended the run before.

Source: `docs/mcp.md`, Tools.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from pydantic import JsonValue

from jp_nb.mcp.tool_calls.called_tool import CallConnection
from jp_nb.mcp.tool_calls.calls import ServerCalls
from jp_nb.toolkit.base import Tool
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.outcome import Outcome, ToolFailure
from jp_nb.toolkit.tool_context import ToolContext


class McpTool(Tool):
    """A tool of a server. It implements `Tool` of `jp_nb/toolkit/base.py`.

    Args:
        connection: Connection to its server.
        tool: Name of the tool at the server.
        description: Description for the model.
        calls: The open calls of the server.
        schema: JSON schema of the arguments.
        output_schema: JSON schema of the structured content; None without one.
        check: Returns the problems of arguments in words, or None.

    Attributes:
        is_repeatable: True if a call is sent again, once, after its answer was lost. The code that
            lists the tools of the server sets it.
    """

    # A question of a server is exclusive, so only a user may answer it. But a server cannot know
    # its users: the configuration of the question may let a model answer it all the same.
    routes_exclusive_questions = True

    def __init__(
        self,
        connection: CallConnection,
        tool: str,
        calls: ServerCalls,
        *,
        description: str = "",
        schema: Mapping[str, JsonValue] | None = None,
        output_schema: Mapping[str, JsonValue] | None = None,
        check: Callable[[Mapping[str, JsonValue]], str | None] = lambda _: None,
    ) -> None:
        self.connection = connection
        self.server_tool = tool
        self.server = connection.name
        self.description = description
        self.schema = schema
        self.output_schema = output_schema
        self.is_repeatable = False
        self._calls = calls
        self._check = check

    @property
    def is_outdated(self) -> bool:
        """True if the server has announced other tools since they were listed."""
        return self.connection.announced_changes

    def prepare(
        self, name: str, arguments: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
    ) -> Mapping[str, JsonValue] | ToolFailure:
        """Return `arguments`, or a failure if the server's schema does not accept them."""
        problem = self._check(arguments)
        return arguments if problem is None else ToolFailure(problem)

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Send the call, or the answers to its last questions, and wait for what follows."""
        call = self._calls.find(context.call_key)
        if call is None:
            call = self._calls.open(self, arguments, context)
        else:
            call.give_answers(context)
        try:
            return await call.wait()
        except asyncio.CancelledError:
            call.cancel()
            raise

    def ended(self, call_key: str) -> None:
        """End the request of a call that does not run again, and its open questions."""
        self._calls.close(call_key)
