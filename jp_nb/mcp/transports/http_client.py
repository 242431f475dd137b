"""HTTP client for MCP servers: sizes, waits, refusals, and the rules of the environment.

The library `mcp` sends its requests through this client. An HTTP error of one request is returned
as an error of JSON-RPC, so that it ends only that request and not the connection.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from jp_nb.errors import JpNbError
from jp_nb.json_values import compact_json
from jp_nb.mcp.errors import StartError
from jp_nb.mcp.transports.launches import HttpLaunch
from jp_nb.mcp.transports.limits import MAX_HTTP_WAIT_S, MAX_HTTP_WAITS, MAX_REFUSAL_BYTES
from jp_nb.mcp.transports.loopback import is_loopback
from jp_nb.mcp.transports.server_messages import cut_deep, has_unanswered_id
from jp_nb.text import one_line

LOST_SESSION: Final = -32098
"""Code of the error for a session that the server has forgotten."""
LOST_ANSWER: Final = -32097
"""Code of the error for a request that was sent, and whose answer was lost."""
TRANSPORT_ERROR: Final = -32000
CONNECT_SECONDS: Final = 30.0
NOTICE_SECONDS: Final = 10.0
"""Seconds for the answer to a message that is no request."""
CLOSE_SECONDS: Final = 1.0
"""Seconds for the answer to the end of a session."""
_FIRST_WAIT_S: Final = 1.0
_BUSY: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_REFUSALS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "it refused the credentials (HTTP 401). Check its `headers`",
    HTTPStatus.FORBIDDEN: "it refused the request (HTTP 403). Check its `headers`",
}
_NOT_CONNECTED: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError)
_SESSION_ID: Final = "mcp-session-id"
_MANY_BRACKETS: Final = 100
"""JSON with fewer brackets is not nested too deeply, so it is not searched."""
_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


class MessageTooLargeError(httpx2.SSEError):
    """A message is larger than the limit; the library ends its request with this text."""


class UnreadableAnswerError(httpx2.TransportError):
    """An answer cannot be read; the message is the reason."""


def check_address(launch: HttpLaunch) -> None:
    """Check that the address of a server may be used.

    Raises:
        StartError: It is not an address, or it is not encrypted.
    """
    try:
        urlsplit(launch.url)
        url = httpx2.URL(launch.url)
    except (httpx2.InvalidURL, ValueError) as exc:
        raise StartError("its url is not an address") from exc
    if url.scheme not in ("http", "https") or not url.host:
        raise StartError("its url does not begin with https:// or http://")
    if url.scheme == "http" and not is_loopback(url.host) and not launch.insecure:
        raise StartError(
            "plain HTTP sends headers and data unencrypted to another computer. Use https://, or "
            "set `insecure = true` for this server"
        )
    for name, value in launch.headers.items():
        if not (name.isascii() and name.isprintable() and value.isprintable() and value.isascii()):
            raise StartError(f"its header {one_line(name)} has characters that are not valid")


class ServerHttpClient(httpx2.AsyncClient):
    """Sends the requests of the library to one server.

    Attributes:
        is_starting: True until the handshake has ended. Errors of the connection are raised.
        fault: The reason why the connection must end; "" while it works.
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
        self._max_message_bytes = max_message_bytes
        self.is_starting = True
        self.fault = ""
        self.pid: int | None = None  # another computer's
        self.discarded_lines = 0

    def stderr_lines(self) -> tuple[str, ...]:
        """Return no lines: they stay on the server's computer."""
        return ()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send `request`, and return its response, or an error of JSON-RPC as a response."""
        if request.method == "GET":  # the stream of messages outside of calls
            return await self._prepare_response(await super().send(request, **options))

        await request.aread()  # the library builds the request after a redirect with a stream
        message = _read_body(request)
        if not has_unanswered_id(message):
            return await self._send_notice(request, options)

        identifier = message["id"]
        try:
            response = await self._send_when_ready(request, options)
            return await self._prepare_response(response, identifier)
        except (httpx2.TransportError, httpx2.InvalidURL, JpNbError) as exc:
            # A `JpNbError` is about the tokens of a sign-in.
            if self.is_starting:
                raise
            code = LOST_ANSWER if _may_have_arrived(exc) else TRANSPORT_ERROR
            return _make_error(request, identifier, code, self.explain(exc))

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
            if response.status_code not in _BUSY:
                return response

            requested_s = _read_wait_s(response)
            if requested_s is not None:
                wait_s = requested_s
            if wait_s > MAX_HTTP_WAIT_S:
                return response

            await response.aclose()
            await asyncio.sleep(wait_s)
            wait_s *= 2

        return await super().send(request, **options)

    async def _prepare_response(
        self, response: httpx2.Response, identifier: object = None
    ) -> httpx2.Response:
        """Return a response that the library can read, of a bounded size.

        `identifier` is the id of the request; None for the stream of messages outside of calls.
        """
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding != "identity":
            await response.aclose()
            name = one_line(encoding, limit=50)
            raise UnreadableAnswerError(f"it compressed its answer as {name!r} without being asked")

        if identifier is not None and response.status_code >= HTTPStatus.BAD_REQUEST:
            return await self._read_refusal(response, identifier)

        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream":
            response.stream = _EventLines(response, self._max_message_bytes, self)
            return response
        if identifier is None or not kind.endswith("json"):
            return response

        body = await self._read_bounded(response, self._max_message_bytes)
        return _copy_response(response, _repair_body(body))

    async def _read_bounded(self, response: httpx2.Response, limit: int) -> bytes:
        body = bytearray()
        try:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > limit:
                    self.report_size()
                    raise MessageTooLargeError(self.fault)
        finally:
            await response.aclose()
        return bytes(body)

    def report_size(self) -> None:
        """Note that the connection must end because a message is too large."""
        limit = f"{self._max_message_bytes:,} bytes"
        self.fault = f"it sent a message of more than {limit} (max_response_bytes)"

    async def _read_refusal(self, response: httpx2.Response, identifier: object) -> httpx2.Response:
        body = bytearray()
        with suppress(httpx2.TransportError):
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_REFUSAL_BYTES:
                    break
        await response.aclose()

        status = response.status_code
        request = response.request
        if status == HTTPStatus.NOT_FOUND and _SESSION_ID in request.headers:
            text = "it has forgotten the session (HTTP 404)"
            return _make_error(request, identifier, LOST_SESSION, text)

        if status not in _REFUSALS and _is_rpc_error(bytes(body)):
            return _copy_response(response, bytes(body))

        text = _REFUSALS.get(status) or self._describe_status(response, bytes(body))
        return _make_error(request, identifier, TRANSPORT_ERROR, text)

    def _describe_status(self, response: httpx2.Response, body: bytes) -> str:
        status = response.status_code
        text = f"it answered with HTTP {status} {response.reason_phrase}".rstrip()
        wait = _read_wait_s(response)
        if status in _BUSY and wait is not None:
            text = f"{text}, and asks to wait {wait:.0f} s"

        kind = response.headers.get("content-type", "")
        shown = one_line(body.decode(errors="replace"), limit=200)
        if shown and "html" not in kind:
            text = f"{text}: {shown}"
        return self._launch.hide(text)

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


class _EventLines(httpx2.AsyncByteStream):
    """Stream of events in whole lines of a bounded size."""

    def __init__(self, response: httpx2.Response, limit: int, client: ServerHttpClient) -> None:
        self._stream = response.stream
        self._limit = limit
        self._client = client

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts: list[bytes] = []  # of the line that is not complete yet
        size = 0
        assert isinstance(self._stream, httpx2.AsyncByteStream)

        async for chunk in self._stream:
            *line_ends, line_start = chunk.split(b"\n")
            for line_end in line_ends:
                yield _repair_line(b"".join([*parts, line_end])) + b"\n"
                parts = []
                size = 0

            parts.append(line_start)
            size += len(line_start)
            if size > self._limit:
                self._client.report_size()
                raise MessageTooLargeError(self._client.fault)
        yield b"".join(parts)

    async def aclose(self) -> None:
        """Close the stream."""
        assert isinstance(self._stream, httpx2.AsyncByteStream)
        await self._stream.aclose()


def _repair_line(line: bytes) -> bytes:
    """Return a line of a stream of events, such as `data: {…}`, without parts that are too deep."""
    prefix, colon, data = line.partition(b":")
    if prefix != b"data" or not _may_be_deep(data):
        return line
    return prefix + colon + cut_deep(data.decode(errors="replace")).encode()


def _repair_body(body: bytes) -> bytes:
    if not _may_be_deep(body):
        return body
    return cut_deep(body.decode(errors="replace")).encode()


def _may_be_deep(data: bytes) -> bool:
    return data.count(b"[") + data.count(b"{") > _MANY_BRACKETS


def _may_have_arrived(exc: Exception) -> bool:
    """Return True if the server may have got the request, whose answer was then lost."""
    is_answered = isinstance(exc, MessageTooLargeError | UnreadableAnswerError)
    is_sent = not isinstance(exc, _NOT_CONNECTED)
    return isinstance(exc, httpx2.TransportError) and is_sent and not is_answered


def _read_body(request: httpx2.Request) -> dict[str, Any]:
    try:
        message = json.loads(request.content)
    except ValueError:  # `DELETE` has no body
        return {}
    return message if isinstance(message, dict) else {}


def _read_wait_s(response: httpx2.Response) -> float | None:
    """Return the seconds for which the server asks to wait, or None without a readable value."""
    text = response.headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(text):
        return float(text)

    try:
        wait = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, TypeError, LookupError, ArithmeticError, OSError):  # any text of a server
        return None

    return max(wait, 0)


def _is_rpc_error(body: bytes) -> bool:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and isinstance(message.get("error"), dict)


def _make_error(
    request: httpx2.Request, identifier: object, code: int, text: str
) -> httpx2.Response:
    error = {"code": code, "message": text}
    body = {"jsonrpc": "2.0", "id": identifier, "error": error}
    return httpx2.Response(
        HTTPStatus.OK,
        headers={"content-type": "application/json"},
        content=compact_json(body).encode(),
        request=request,
    )


def _copy_response(response: httpx2.Response, body: bytes) -> httpx2.Response:
    headers = {
        name: value
        for name, value in response.headers.items()
        if name not in ("content-length", "transfer-encoding", "content-encoding")
    }
    return httpx2.Response(
        response.status_code, headers=headers, content=body, request=response.request
    )
