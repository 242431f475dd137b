"""The open calls of a server's tools, in which the server may ask the user.

A call that waits for the user is not awaited inside `McpTool.run`. The first run starts the request
as a separate task, and waits for its result or a question. A question ends the run with
`NeedsInput`. The next run finds the open call by `ToolContext.call_key`, gives it the answers, and
waits again. So a question of a server takes the path of every other question, and no clock runs
while a form is open.

The answers complete a request that the server of 2025 sent during the call. A server of 2026 gets
them with the next request of the call.

Source: `docs/mcp.md`, Questions of servers;
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from jp_nb.mcp.exchange import CANCEL, ServerAnswer, ServerQuestion
from jp_nb.mcp.tool_calls.called_tool import CalledTool
from jp_nb.mcp.tool_calls.pending_call import PendingCall
from jp_nb.toolkit.tool_context import ToolContext


class ServerCalls:
    """The open calls of one server, each with its task, over all runs of its tool.

    The connection knows only the calls whose request is being sent (`OpenCalls`). It calls `ask`,
    as its `QuestionHandler`, with the keys of these.
    """

    def __init__(self) -> None:
        self._open: dict[str, PendingCall] = {}  # by key, the oldest first
        self._closing: set[asyncio.Task[None]] = set()  # calls that end in the background

    def find(self, key: str) -> PendingCall | None:
        """Return the open call with this key."""
        return self._open.get(key)

    def open(
        self, tool: CalledTool, arguments: Mapping[str, JsonValue], context: ToolContext
    ) -> PendingCall:
        """Send a new call."""
        call = PendingCall(tool, arguments, context)
        self._open[call.key] = call
        call.send()
        return call

    def close(self, key: str) -> None:
        """End a call, if it is open, in the background: its tool does not wait for the server."""
        call = self._open.pop(key, None)
        if call is not None:
            closing = asyncio.get_running_loop().create_task(call.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """End all calls. Call it before the connection is closed."""
        for key in list(self._open):
            self.close(key)
        if self._closing:
            await asyncio.wait(set(self._closing))

    async def ask(self, question: ServerQuestion, calls: Sequence[str]) -> ServerAnswer:
        """Ask the user a question of a server of 2025. It belongs to one of the open `calls`.

        The protocol does not say to which one. A call with prepared answers is preferred, because
        answers are prepared for the tool that asks.
        """
        possible = [self._open[key] for key in calls if key in self._open]
        if not possible:
            return CANCEL

        # The user is told which calls these are if there are several.
        titles = [call.title for call in possible] if len(possible) > 1 else []
        prepared = [call for call in possible if call.has_answers]
        receiver = (prepared or possible)[0]
        return await receiver.receive(question, titles)
