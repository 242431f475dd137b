"""Convert the HTTP errors of an MCP server to errors of JSON-RPC, which end only one request.

The library `mcp` would end the whole connection at an HTTP error.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final

import httpx2

from jp_nb.json_writing import compact_json
from jp_nb.mcp.transports.http_bodies import copy_response, read_beginning
from jp_nb.mcp.transports.http_waits import BUSY_STATUSES, read_wait_s
from jp_nb.mcp.transports.launches import HttpLaunch
from jp_nb.mcp.transports.limits import MAX_REFUSAL_BYTES
from jp_nb.text import one_line

LOST_SESSION: Final = -32098
"""Code of the error for a session that the server has forgotten."""
LOST_ANSWER: Final = -32097
"""Code of the error for a request that was sent, and whose answer was lost."""
TRANSPORT_ERROR: Final = -32000
"""Code of the error for any other failure of a request."""
_REFUSALS: Final[dict[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "it refused the credentials (HTTP 401). Check its `headers`",
    HTTPStatus.FORBIDDEN: "it refused the request (HTTP 403). Check its `headers`",
}
"""Texts for statuses whose cause is known. They replace the text or the error in the body."""
_SESSION_ID: Final = "mcp-session-id"


async def convert_refusal(
    response: httpx2.Response, request_id: object, launch: HttpLaunch
) -> httpx2.Response:
    """Return an HTTP error as an error of JSON-RPC; the server's own one if the body has one.

    `launch` hides the secrets of the server in the text.
    """
    body = await read_beginning(response, MAX_REFUSAL_BYTES)
    status = response.status_code
    request = response.request
    if status == HTTPStatus.NOT_FOUND and _SESSION_ID in request.headers:
        text = "it has forgotten the session (HTTP 404)"
        return make_rpc_error(request, request_id, LOST_SESSION, text)

    if status not in _REFUSALS and _is_rpc_error(body):
        return copy_response(response, body)

    text = _REFUSALS.get(status) or launch.hide(_describe_status(response, body))
    return make_rpc_error(request, request_id, TRANSPORT_ERROR, text)


def _describe_status(response: httpx2.Response, body: bytes) -> str:
    """Return an HTTP error in words, with the text of the server unless it is a page."""
    status = response.status_code
    text = f"it answered with HTTP {status} {response.reason_phrase}".rstrip()
    wait = read_wait_s(response)
    if status in BUSY_STATUSES and wait is not None:
        text = f"{text}, and asks to wait {wait:.0f} s"

    kind = response.headers.get("content-type", "")
    shown = one_line(body.decode(errors="replace"), limit=200)
    if shown and "html" not in kind:
        text = f"{text}: {shown}"
    return text


def _is_rpc_error(body: bytes) -> bool:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and isinstance(message.get("error"), dict)


def make_rpc_error(
    request: httpx2.Request, request_id: object, code: int, text: str
) -> httpx2.Response:
    """Return a response that is an error of JSON-RPC, as if the server had sent it."""
    error = {"code": code, "message": text}
    body = {"jsonrpc": "2.0", "id": request_id, "error": error}
    return httpx2.Response(
        HTTPStatus.OK,
        headers={"content-type": "application/json"},
        content=compact_json(body).encode(),
        request=request,
    )
