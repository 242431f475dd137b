"""The tool of a server, and its connection, as an open call uses them.

`McpTool` (`mcp_tool.py`) and `Connection` (`connections/connection.py`) implement these protocols.

Source: `docs/mcp.md`, Questions of servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from pydantic import JsonValue

from jp_nb.mcp.exchange import InputRequired, ProgressHandler, ServerAnswer, ServerResult


class CallConnection(Protocol):
    """The part of a `Connection` that calls use.

    Attributes:
        name: The name of the server in the configuration.
    """

    name: str

    @property
    def announced_changes(self) -> bool:
        """True if the server announced other tools since they were listed."""

    async def call(
        self,
        call_id: str,
        tool: str,
        arguments: Mapping[str, JsonValue],
        *,
        answers: Mapping[str, ServerAnswer] | None = None,
        state: object = None,
        on_progress: ProgressHandler | None = None,
    ) -> ServerResult | InputRequired:
        """Call `tool`, and return its result, or the questions of the server.

        The `answers` to questions go with the next call of the same id, tool, and arguments, with
        the `state` that the server sent with the questions.

        Raises:
            ServerError: The call failed, or the server does not run.
        """

    def server_end(self) -> asyncio.Future[None]:
        """Return a future that ends with the server that runs now; it has ended if none runs."""

    def forget(self, call_id: str) -> None:
        """Forget the questions of a call that is not continued."""


class CalledTool(Protocol):
    """The part of an `McpTool` that its calls use.

    Attributes:
        connection: The connection to the server.
        server: The name of the server in the configuration.
        server_tool: The name of the tool at the server.
        output_schema: The JSON schema of structured results, if the tool has one.
        is_repeatable: True if a call may be sent again after the connection was lost.
    """

    connection: CallConnection
    server: str
    server_tool: str
    output_schema: Mapping[str, JsonValue] | None
    is_repeatable: bool
