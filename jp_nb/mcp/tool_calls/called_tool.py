"""The tool of a server, and its connection, as an open call uses them.

`McpTool` and `Connection` implement these protocols.

Source: `docs/mcp.md`, Questions of servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from pydantic import JsonValue

from jp_nb.mcp.exchange import InputRequired, ProgressHandler, ServerAnswer, ServerResult


class CallConnection(Protocol):
    """The part of a `Connection` that calls use."""

    name: str

    @property
    def announced_changes(self) -> bool:
        """Implement `Connection.announced_changes`."""

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
        """Implement `Connection.call`."""

    def server_end(self) -> asyncio.Future[None]:
        """Implement `Connection.server_end`."""

    def forget(self, call_id: str) -> None:
        """Implement `Connection.forget`."""


class CalledTool(Protocol):
    """The part of an `McpTool` that its calls use."""

    connection: CallConnection
    server: str
    server_tool: str
    output_schema: Mapping[str, JsonValue] | None
    is_repeatable: bool
