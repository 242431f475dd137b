"""The MCP server of `jp-nb mcp`: it lists the served tools, and answers the calls of clients.

Definitions have the schemas and descriptions that models get. Calls and questions of a client are
not in any record. A `ToolServer` answers the requests of clients, and a `ToolRunner`, the *host* of
the tools, runs the tools.

A tool that asks questions runs again with the answers, until it asks no more. `QuestionState` has
the answers so far (`client_questions.py`). The client asks its user the questions that one run
asked (`question_exchange.py`).

`serve_command.py` runs the server, over stdin and stdout or over HTTP.

Source: `docs/mcp.md` (our tools for others), `docs/decisions.md` D231, D232.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic import JsonValue

import jp_nb
from jp_nb.agent.calls.call import CallEnded
from jp_nb.errors import ToolError
from jp_nb.headless.tool_server.client_questions import QuestionState
from jp_nb.headless.tool_server.question_exchange import (
    Client,
    read_asked_questions,
    read_call_state,
    require_input,
    take_responses,
)
from jp_nb.headless.tool_server.served_results import make_call_result, make_text_result
from jp_nb.headless.tool_server.tool_host import ServedTool
from jp_nb.json_values import JsonObject
from jp_nb.record.entries.outcomes import QuestionEnd
from jp_nb.text import one_line, plain

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.lowlevel.server import Server

MAX_QUESTION_ROUNDS: Final = 50
"""Maximum number of rounds of questions of one call. Beyond, the tool ignores the answers."""
STATE_S: Final = 3600.0
"""Time, in seconds, that a user has to answer the questions of one round."""
TOO_MANY_ROUNDS: Final = (
    "{} asked questions {} times and does not use the answers. Do not retry this tool call."
)


class ToolRunner(Protocol):
    """The host of the served tools: `ToolHost` in this process, or `KernelTools` for a kernel.

    Attributes:
        refused: The reasons why tools are not offered, by their names. `load` sets it.
    """

    refused: dict[str, str]

    async def load(self) -> list[ServedTool]:
        """Return the tools that are offered."""

    def get_configured_answers(self, name: str) -> JsonObject:
        """Return the configured answers to questions of a tool, by question id."""

    async def run(
        self,
        name: str,
        arguments: Mapping[str, JsonValue],
        *,
        answers: Mapping[str, JsonValue],
        ends: Mapping[str, QuestionEnd],
    ) -> JsonObject:
        """Run a tool once, and return its outcome as JSON.

        `answers` and `ends` are those of the questions of its earlier runs, by question id. The
        shapes, in which `partial` is that of `NeedsInput`:

            {"type": "success", "content": "…", "images": [[MEDIA_TYPE, BASE64]]}
            {"type": "error", "message": "…"}
            {"type": "needs_input", "questions": […], "partial": false}
        """


def print_notice(text: str) -> None:
    """Print a line about the server to stderr: stdout has the messages of the protocol."""
    print(f"jp-nb mcp: {plain(text)}", file=sys.stderr, flush=True)


def make_server(source: str, tools: ToolServer) -> Server[Any]:
    """Return the MCP server of `tools`, named for `source`, the path of the module or notebook.

    The library seals the state of a call before a client gets it, and checks the seal when it comes
    back: a client cannot change it.
    """
    from mcp.server.lowlevel.server import Server
    from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

    name = Path(source).stem
    server: Server[Any] = Server(
        name,
        version=jp_nb.__version__,
        on_list_tools=tools.list_tools,
        on_call_tool=tools.call_tool,
    )
    server.middleware.append(tools.restore_schemas)
    security = RequestStateSecurity.ephemeral(ttl=STATE_S)
    server.middleware.append(RequestStateBoundary(security, default_audience=name))
    return server


class ToolServer:
    """Answers the requests of clients. They wait until `set_host` offers the tools.

    A client may send requests as soon as the server runs, but the tools are only known when the
    module is imported, or the kernel has started.
    """

    def __init__(self) -> None:
        self._host: asyncio.Future[ToolRunner] = asyncio.get_running_loop().create_future()
        self._tools: dict[str, ServedTool] = {}

    def set_host(self, host: ToolRunner, tools: Sequence[ServedTool]) -> None:
        """Offer the `tools` of `host`."""
        self._tools = {tool.name: tool for tool in tools}
        self._host.set_result(host)

    async def _wait_for_host(self) -> ToolRunner:
        return await asyncio.shield(self._host)  # a client may cancel its request

    async def list_tools(
        self, _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Return the definitions, as models get them."""
        import mcp_types as types

        await self._wait_for_host()
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=dict(tool.schema),
                )
                for tool in self._tools.values()
            ]
        )

    async def restore_schemas(
        self, ctx: ServerRequestContext[Any], call_next: CallNext
    ) -> HandlerResult:
        """Put the schemas into a list as they are: the library orders the keys of their roots."""
        result = await call_next(ctx)
        if ctx.method != "tools/list" or not isinstance(result, dict):
            return result
        tools = [
            {**tool, "inputSchema": dict(self._tools[tool["name"]].schema)}
            for tool in result["tools"]
        ]
        return {**result, "tools": tools}

    async def call_tool(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Run a tool, and ask the client the questions of the tool."""
        import mcp_types as types
        from mcp.shared.exceptions import MCPError

        await self._wait_for_host()  # before, no tool is known
        if params.name not in self._tools:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        try:
            return await self._call(Client(context), params)
        except CallEnded as end:  # the user declined a question
            return make_text_result(end.content, is_error=end.is_error)
        except ToolError as exc:
            print_notice(f"a call of {params.name} ended: {one_line(str(exc), limit=300)}")
            return make_text_result(str(exc), is_error=True)

    async def _call(
        self, client: Client, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Run a tool until it asks nothing more.

        A client of the protocol 2026-07-28 (`is_modern`) gets the questions as the result, and
        calls again with the answers. Others are asked while the call waits.
        """
        host = await self._wait_for_host()
        state = QuestionState()
        if params.request_state is not None:
            state, asked = read_call_state(params)
            missing = take_responses(asked, state, params.input_responses or {})
            if missing:
                return require_input(asked, missing, state)

        name = params.name
        while True:
            outcome = await host.run(
                name, params.arguments or {}, answers=state.answers, ends=state.ends
            )
            if outcome["type"] != "needs_input":
                return make_call_result(outcome)

            state.rounds += 1
            if state.rounds > MAX_QUESTION_ROUNDS:
                raise ToolError(TOO_MANY_ROUNDS.format(name, MAX_QUESTION_ROUNDS))

            # `select_open` puts configured answers into `state`, and leaves those of the user.
            asked = read_asked_questions(name, outcome, host.get_configured_answers(name))
            shown = asked.select_open(state, can_ask=client.can_ask)
            if shown and client.is_modern:
                return require_input(asked, shown, state)

            for question in shown:
                action, content = await client.ask(asked.tool, question)
                asked.settle_response(state, question, action, content)
