"""HTTP client for MCP servers: it waits for busy servers, and bounds their answers.

The library `mcp` sends its requests through this client. An HTTP error of one request is returned
as an error of JSON-RPC (`http_refusals.py`), so that it ends only that request and not the
connection.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from jp_nb.errors import JpNbError
from jp_nb.mcp.transports.http_bodies import (
    BodyLimits,
    MessageTooLargeError,
    UnreadableAnswerError,
    copy_response,
)
from jp_nb.mcp.transports.http_refusals import (
    LOST_ANSWER,
    TRANSPORT_ERROR,
    convert_refusal,
    make_rpc_error,
)
from jp_nb.mcp.transports.http_waits import BUSY_STATUSES, read_wait_s
from jp_nb.mcp.transports.launches import HttpLaunch
from jp_nb.mcp.transports.limits import MAX_HTTP_WAIT_S, MAX_HTTP_WAITS
from jp_nb.mcp.transports.loopback import is_loopback
from jp_nb.mcp.transports.server_messages import is_request
from jp_nb.text import one_line

CONNECT_SECONDS: Final = 30.0
NOTICE_SECONDS: Final = 10.0
"""Seconds for the answer to a message that is no request."""
CLOSE_SECONDS: Final = 1.0
"""Seconds for the answer to the end of a session."""
_FIRST_WAIT_S: Final = 1.0
"""First wait for a busy server that does not say how long to wait."""
_NOT_CONNECTED: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError)
EVENT_STREAM: Final = "text/event-stream"
"""Content type of a stream of events."""


class ServerHttpClient(httpx2.AsyncClient):
    """Sends the requests of the library to one server.

    It implements the protocol `Transport` (`transport_interface.py`).

    Attributes:
        fault: The reason why the connection must end; "" while it works.
        pid: None, because the server runs on another computer, or was not started here.
        discarded_lines: 0, because the server has no stdout here.
    """

    def __init__(
        self, launch: HttpLaunch, max_message_bytes: int, auth: httpx2.Auth | None = None
    ) -> None:
        host = urlsplit(launch.url).hostname or ""
        super().__init__(
            headers={**launch.headers, "user-agent": "jp-nb", "accept-encoding": "identity"},
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            # Loading certificates takes 30 ms, and a plain-text server needs none.
            verify=urlsplit(launch.url).scheme != "http",
            trust_env=not is_loopback(host),  # a proxy cannot reach this loopback
            auth=auth,
        )

        self._launch = launch
        self._body_limits = BodyLimits(max_message_bytes, self._note_fault)
        self._is_starting = True  # until the handshake has ended
        self.fault = ""
        self.pid: int | None = None
        self.discarded_lines = 0

    def mark_started(self) -> None:
        """Note that the handshake has ended: errors are answers to requests from now on."""
        self._is_starting = False

    def _note_fault(self, reason: str) -> None:
        self.fault = reason

    def stderr_lines(self) -> tuple[str, ...]:
        """Return no lines: they stay on the server's computer."""
        return ()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send `request`, and return its response, or an error of JSON-RPC as a response.

        During the handshake, errors of the connection are raised, because the start has failed.
        """
        if request.method == "GET":  # the stream of messages outside of calls
            return await self._prepare_stream(await super().send(request, **options))

        await request.aread()  # the library builds the request after a redirect with a stream
        message = _read_body(request)
        if not is_request(message):
            return await self._send_notice(request, options)

        request_id = message["id"]
        try:
            response = await self._send_when_ready(request, options)
            return await self._prepare_answer(response, request_id)
        except (httpx2.TransportError, httpx2.InvalidURL, JpNbError) as exc:
            # A `JpNbError` is about the tokens of a sign-in.
            if self._is_starting:
                raise
            code = LOST_ANSWER if _may_have_arrived(exc) else TRANSPORT_ERROR
            return make_rpc_error(request, request_id, code, self.explain(exc))

    async def _send_notice(
        self, request: httpx2.Request, options: dict[str, Any]
    ) -> httpx2.Response:
        """Send a message that gets no answer, and do not wait long for its response.

        The library sends messages one after the other: a server must not delay the next one.
        """
        seconds = NOTICE_SECONDS
        if request.method == "DELETE":
            seconds = CLOSE_SECONDS

        try:
            async with asyncio.timeout(seconds):
                response = await super().send(request, **options)
                if response.next_request is not None:  # the library follows it
                    return response
                await response.aclose()
                return httpx2.Response(response.status_code, request=request)
        except (httpx2.TransportError, TimeoutError, JpNbError):
            return httpx2.Response(HTTPStatus.ACCEPTED, request=request)

    async def _send_when_ready(
        self, request: httpx2.Request, options: dict[str, Any]
    ) -> httpx2.Response:
        """Send a request, again after a wait while the server is busy.

        The server says how long to wait. If it does not, each wait is twice as long as the last.
        """
        wait_s = _FIRST_WAIT_S

        for _ in range(MAX_HTTP_WAITS):
            response = await super().send(request, **options)
            if response.status_code not in BUSY_STATUSES:
                return response

            requested_s = read_wait_s(response)
            if requested_s is not None:
                wait_s = requested_s
            if wait_s > MAX_HTTP_WAIT_S:
                return response

            await response.aclose()
            await asyncio.sleep(wait_s)
            wait_s *= 2

        return await super().send(request, **options)

    async def _prepare_stream(self, response: httpx2.Response) -> httpx2.Response:
        """Return the stream of messages outside of calls, of a bounded size.

        A refusal is returned as it is: a server need not offer the stream.
        """
        await _check_encoding(response)
        if _get_content_type(response) == EVENT_STREAM:
            self._body_limits.limit_events(response)
        return response

    async def _prepare_answer(
        self, response: httpx2.Response, request_id: object
    ) -> httpx2.Response:
        """Return the response to a request, as the library can read it, of a bounded size."""
        await _check_encoding(response)
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            return await convert_refusal(response, request_id, self._launch)

        content_type = _get_content_type(response)
        if content_type == EVENT_STREAM:
            self._body_limits.limit_events(response)
            return response
        if not content_type.endswith("json"):  # the library reads no body of another type
            return response
        return copy_response(response, await self._body_limits.read_message(response))

    def explain(self, exc: Exception) -> str:
        """Return the reason of an error, without secrets."""
        reason = self._launch.hide(one_line(str(exc)) or type(exc).__name__)
        if not isinstance(exc, httpx2.TransportError):
            return reason
        if isinstance(exc, MessageTooLargeError | UnreadableAnswerError):
            return reason
        if isinstance(exc, _NOT_CONNECTED):
            return f"cannot connect to it: {reason}"
        return f"the connection to it was lost: {reason}"


def _may_have_arrived(exc: Exception) -> bool:
    """Return True if the server may have got the request, whose answer was then lost."""
    is_answered = isinstance(exc, MessageTooLargeError | UnreadableAnswerError)
    is_sent = not isinstance(exc, _NOT_CONNECTED)
    return isinstance(exc, httpx2.TransportError) and is_sent and not is_answered


async def _check_encoding(response: httpx2.Response) -> None:
    """Close and refuse a compressed response: its size cannot be bounded as it arrives."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        await response.aclose()
        name = one_line(encoding, limit=50)
        raise UnreadableAnswerError(f"it compressed its answer as {name!r} without being asked")


def _get_content_type(response: httpx2.Response) -> str:
    value: str = response.headers.get("content-type", "")
    return value.partition(";")[0].strip().lower()


def _read_body(request: httpx2.Request) -> dict[str, Any]:
    """Return the message in a request; an empty one if there is none."""
    try:
        message = json.loads(request.content)
    except ValueError:  # `DELETE` has no body
        return {}
    return message if isinstance(message, dict) else {}
