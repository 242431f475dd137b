"""The library `mcp`, as a connection uses it. Importing this module takes about a second.

Other modules know only the values of `exchange.py`, which are converted here from and to the types
of the library. `server_session.py` calls the functions, and handles the errors whose codes are
here.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, cast

import mcp_types as types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from pydantic import JsonValue, TypeAdapter

from jp_nb.mcp.exchange import (
    CallRequest,
    InputRequired,
    Progress,
    ServerAnswer,
    ServerQuestion,
    ServerResult,
    ServerTool,
)
from jp_nb.mcp.transports.http_client import ServerHttpClient
from jp_nb.mcp.transports.http_refusals import LOST_ANSWER, LOST_SESSION
from jp_nb.mcp.transports.limits import MAX_LIST_PAGES, MAX_TOOLS
from jp_nb.mcp.transports.message_repair import RAW_RESULT
from jp_nb.mcp.transports.repaired_transport import RepairedTransport
from jp_nb.storable_json import replace_surrogates

HEADER_MISMATCH: Final = types.HEADER_MISMATCH
CONNECTION_CLOSED: Final = types.CONNECTION_CLOSED
_STREAM_ENDED: Final = "SSE stream ended"
"""Beginning of the library's message about a stream of events that ended without the answer."""
_CALL_RESULT: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)

Elicit = Callable[[types.ElicitRequestParams], Awaitable[ServerAnswer]]


def connect_http(url: str, client: ServerHttpClient, max_message_bytes: int) -> Any:
    """Return the transport for a server over HTTP, whose requests `client` sends."""
    return streamable_http_client(url, http_client=client, max_sse_event_size=max_message_bytes)


def make_client(
    transport: RepairedTransport,
    *,
    mode: str,
    version: str,
    elicit: Elicit,
    on_tools_changed: Callable[[], None],
) -> Client:
    """Return the client of the library for `transport`.

    Args:
        transport: The connection to the server.
        mode: `auto`, or `legacy` for a server of 2025, which need not be probed.
        version: Version of the program.
        elicit: Returns the user's answer to a question of a server of 2025.
        on_tools_changed: Called when the server announces other tools.
    """

    async def answer(context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        return _convert_answer(await elicit(params))

    async def handle(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            on_tools_changed()

    return Client(
        cast("Any", transport),
        mode=mode,
        client_info=types.Implementation(name="jp_nb", version=version),
        elicitation_callback=cast("Any", answer),
        message_handler=cast("Any", handle),
        cache=None,  # a connection keeps the list of tools itself
    )


async def list_tools(client: Client) -> tuple[list[ServerTool], float | None]:
    """Return all tools of the server, and the seconds for which the list is valid.

    Raises:
        MCPError: The server sent an error.
        ValueError: The list is too long, or unreadable.
    """
    if client.server_capabilities.tools is None:
        return [], None

    tools: list[ServerTool] = []
    cursor: str | None = None
    valid_ms: float | None = None

    for _ in range(MAX_LIST_PAGES):
        page = await client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        tools += map(_convert_tool, page.tools)
        if len(tools) > MAX_TOOLS:
            raise ValueError(f"it lists more than {MAX_TOOLS:,} tools")

        if page.ttl_ms is not None:  # the shortest time of all pages counts
            valid_ms = page.ttl_ms if valid_ms is None else min(valid_ms, page.ttl_ms)

        cursor = page.next_cursor
        if cursor is None:  # the last page
            valid_s = None if valid_ms is None else valid_ms / 1000
            return tools, valid_s

    raise ValueError(f"its list of tools has more than {MAX_LIST_PAGES} pages")


async def call_tool(client: Client, request: CallRequest) -> ServerResult | InputRequired:
    """Send one request of a call, and return its result.

    Raises:
        MCPError: The server sent an error, or the connection ended.
        ValueError: The result is unreadable, or asks for something that users cannot answer.
    """
    answers = request.answers or {}
    responses = {key: _convert_answer(answer) for key, answer in answers.items()}
    parameters = types.CallToolRequestParams(
        name=request.tool,
        arguments=_replace_surrogates(dict(request.arguments)),
        input_responses=cast("Any", responses or None),
        request_state=cast("str | None", request.state),
    )

    async def report(progress: float, total: float | None, message: str | None) -> None:
        request.report(Progress(message, progress, total))

    result = await client.session.send_request(
        types.CallToolRequest(params=parameters), _CALL_RESULT, progress_callback=report
    )

    if isinstance(result, types.InputRequiredResult):
        return InputRequired(dict(_convert_questions(result)), result.request_state)

    # `repair_result` has moved the result there, so that the library does not refuse parts of it.
    raw: Any = (result.meta or {})[RAW_RESULT]
    return ServerResult(tuple(raw["content"]), raw["structuredContent"], raw["isError"])


async def read_resource(client: Client, uri: str) -> list[dict[str, JsonValue]]:
    """Return the contents of the resource at `uri`."""
    result = await client.session.read_resource(uri)
    return [
        content.model_dump(by_alias=True, mode="json", exclude_none=True)
        for content in result.contents
    ]


def is_lost_answer(exc: Exception) -> bool:
    """Return True if a request was sent, and the connection ended before its answer."""
    if not isinstance(exc, MCPError):
        return False
    if exc.code == LOST_ANSWER:  # the error of `ServerHttpClient`
        return True
    return exc.code == CONNECTION_CLOSED and exc.message.startswith(_STREAM_ENDED)


def _convert_answer(answer: ServerAnswer) -> types.ElicitResult:
    content = None
    if answer.content is not None:
        content = _replace_surrogates(dict(answer.content))
    return types.ElicitResult(action=answer.action, content=content)


def _convert_questions(result: types.InputRequiredResult) -> Iterator[tuple[str, ServerQuestion]]:
    for key, request in (result.input_requests or {}).items():
        if not isinstance(request, types.ElicitRequest):
            raise ValueError(
                f"it sent a request of the kind {request.method}, which jp_nb does not support"
            )
        yield key, convert_question(key, request.params)


def convert_question(key: str, params: types.ElicitRequestParams) -> ServerQuestion:
    """Return the question of an elicitation."""
    if isinstance(params, types.ElicitRequestURLParams):
        identifier = params.elicitation_id
        return ServerQuestion(key, "url", params.message, None, str(params.url), identifier)
    return ServerQuestion(key, "form", params.message, dict(params.requested_schema))


def _convert_tool(tool: types.Tool) -> ServerTool:
    hints: dict[str, JsonValue] = {}
    if tool.annotations is not None:
        hints = tool.annotations.model_dump(by_alias=True, mode="json", exclude_none=True)
    return ServerTool(
        tool.name, tool.title, tool.description, tool.input_schema, tool.output_schema, hints
    )


def _replace_surrogates(value: Any) -> Any:
    """Return the JSON `value` without single surrogates, which no transport can encode."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {replace_surrogates(key): _replace_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_surrogates(item) for item in value]
    return value


__all__ = [
    "CONNECTION_CLOSED",
    "HEADER_MISMATCH",
    "LOST_SESSION",
    "Client",
    "MCPError",
    "call_tool",
    "connect_http",
    "convert_question",
    "is_lost_answer",
    "list_tools",
    "make_client",
    "read_resource",
]
