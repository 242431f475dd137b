"""HTTP client of one model server: it sends requests, and reads the responses.

This is the only module that imports httpx (D16), so it also translates the errors of httpx.

A key is only in its header (`endpoint_key.py`), and not in messages, logs, or frames of a
traceback. Errors, headers, and responses are redacted on arrival, before they are cut or quoted,
because a server or a proxy may send the key back. A `KeyRedactor` has two methods for that: `hide`
always replaces the key. `hide_in_response` spares a short one, such as `none`, because the text of
a model may contain this word.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from pydantic import JsonValue

from jp_nb.agent.provider import SentRequest
from jp_nb.errors import ProtocolError, ProviderError, ProviderErrorKind
from jp_nb.json_reading import read_json
from jp_nb.json_writing import compact_json
from jp_nb.providers.key_redactor import KeyRedactor
from jp_nb.providers.network.endpoint import Endpoint
from jp_nb.providers.network.endpoint_key import EndpointKey
from jp_nb.providers.network.errors import classify_response
from jp_nb.providers.network.key_log_filter import hide_key_in_logs
from jp_nb.providers.network.local_server import forget_addresses
from jp_nb.providers.network.response_bodies import (
    DamagedBodyError,
    decompress_chunks,
    describe_json_limit,
    read_limited_body,
    split_lines,
)
from jp_nb.providers.network.sanitized_errors import iter_causes, sanitize_provider_error
from jp_nb.providers.network.server_urls import redact_url
from jp_nb.storable_json import encode_utf8

if TYPE_CHECKING:
    import httpx
else:
    try:
        import httpx2 as httpx  # the successor, with the same interface
    except ImportError:
        import httpx

CONNECT_TIMEOUT_S: Final = 10.0
MAX_ERROR_BYTES: Final = 64 * 1024
ERROR_BODY_SECONDS: Final = 10.0
"""Maximum time for reading the body of an error."""
EVENT_STREAM: Final = "text/event-stream"
AGENT: Final = {"user-agent": "jp-nb"}
ACCEPTED_ENCODINGS: Final = frozenset({"gzip", "deflate"})
"""Compressions of a response. Each piece from the network grows at most 1,000 times."""
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine."""
_parse_url: Final = lru_cache(8)(httpx.URL)


class HttpClient:
    """HTTP client of one endpoint, for one event loop.

    Connections open with the first request. They are reused until `aclose`. Errors of httpx become
    a `ProviderError` with a kind, which decides about retries (`errors.py`).
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._key = EndpointKey(endpoint)
        self._client: httpx.AsyncClient | None = None  # None: no request was sent yet
        self._origin = ""  # scheme and host of the server that the client is for

    def check_ready(self) -> None:
        """Raise if no request can be sent.

        Raises:
            ConfigError: The address in the environment is not valid.
            ProviderError: The key is missing or contains invalid characters.
        """
        _ = self.endpoint.url  # raises `ConfigError` for an address that is not valid
        self._key.check()

    async def post(
        self, body: bytes, *, url: str = "", headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Send `body`, which is JSON, and yield the bytes of the event stream in the response.

        `url` is an address of this endpoint's server; "" for that of the endpoint. `headers` are
        those of this request only.

        Raises:
            ProviderError: The key is missing, the connection fails, or the status is an error.
            ProtocolError: The response is not an event stream.
        """
        url = url or self.endpoint.url
        async with self._open_response("POST", url, body, self._make_headers(headers)) as response:
            await self._check_event_stream(response)
            async with aclosing(_iter_chunks(response)) as chunks:
                async for chunk in chunks:
                    yield chunk

    @asynccontextmanager
    async def _open_response(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str]
    ) -> AsyncGenerator[httpx.Response, None]:
        """Send a request, and yield its response, which is closed afterwards."""
        self._key.check()

        try:
            client = await self._open_client(url)
            address = _parse_url(url)
            request = client.build_request(method, address, content=content, headers=headers)
            response = await self._send_on_live_connection(client, request)
            try:
                self._check_encoding(response)
                yield response
            finally:
                await response.aclose()
        except (httpx.HTTPError, httpx.InvalidURL, DamagedBodyError) as exc:
            raise _translate_error(exc, self.endpoint, url) from exc

    async def _open_client(self, url: str) -> httpx.AsyncClient:
        """Return the client for the server at `url`: another one if the address has changed."""
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"

        if self._client is None or origin != self._origin:
            await self.aclose()  # its TLS settings are for another server
            self._origin = origin
            hide_key_in_logs(self.endpoint.key_env)
            self._client = httpx.AsyncClient(
                timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
                # Loading certificates takes 30 ms, and a plain-text server needs none.
                verify=parts.scheme != "http",
                trust_env=parts.hostname not in _LOOPBACK,  # a proxy cannot reach this loopback
                headers={**AGENT, "accept-encoding": ", ".join(sorted(ACCEPTED_ENCODINGS))},
            )

        return self._client

    def _check_encoding(self, response: httpx.Response) -> None:
        """Raise if the response is compressed in a way that turns kilobytes into gigabytes.

        Several compressions do so, and those with a high ratio.
        """
        listed = response.headers.get("content-encoding", "").split(",")
        encodings = [name.strip().lower() for name in listed if name.strip()]
        compressions = [name for name in encodings if name != "identity"]

        if len(compressions) > 1 or not ACCEPTED_ENCODINGS.issuperset(compressions):
            shown = self.get_redactor().hide(", ".join(encodings))[:100]
            raise ProtocolError(
                f"{self.endpoint.provider} compressed its response (status "
                f"{response.status_code}) as {shown!r}, which may be much larger than it seems. "
                "Only one of gzip and deflate is accepted. Check "
                f"{self.endpoint.setting_path}.base_url, or the proxy"
            )

    async def _send_on_live_connection(
        self, client: httpx.AsyncClient, request: httpx.Request
    ) -> httpx.Response:
        """Send `request`, and send it again if it was sent on a connection that is closed.

        A server may have closed a kept connection, as llama-server does after each stream. A
        request that gets no byte of an answer there is sent again, as RFC 9112 9.3.1 allows.
        """
        is_new_connection = False

        # httpx calls this for each step of the request. A kept connection needs no TCP connect.
        async def trace(event: str, _info: Mapping[str, object]) -> None:
            nonlocal is_new_connection
            if event == "connection.connect_tcp.started":
                is_new_connection = True

        request.extensions = {**request.extensions, "trace": trace}
        try:
            return await client.send(request, auth=self._add_key, stream=True)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            if is_new_connection:
                raise
        return await client.send(request, auth=self._add_key, stream=True)

    def _add_key(self, request: httpx.Request) -> httpx.Request:
        """Add the header with the key. httpx calls it just before it sends the request."""
        request.headers.update(self._key.make_header())
        return request

    async def _check_event_stream(self, response: httpx.Response) -> None:
        """Raise if `response` has an error status, or is no event stream; see `post`."""
        if response.status_code != 200:
            raise await self._read_error(response)

        content_type = response.headers.get("content-type", EVENT_STREAM).partition(";")[0]
        if content_type.strip().lower() != EVENT_STREAM:
            hide = self.get_redactor().hide
            body = hide(await _read_error_body(response))
            raise ProtocolError(
                f"{self.endpoint.provider} answered with "
                f"{hide(content_type)[:100]!r} instead of an event stream: "
                f"{body[:200]!r}. Check {self.endpoint.setting_path}.base_url "
                f"({redact_url(str(response.request.url))})."
            )

    async def fetch(
        self, url: str, body: JsonValue = None, *, headers: Mapping[str, str] | None = None
    ) -> JsonValue:
        """Return the JSON at `url`, an address of this endpoint's server.

        Posts `body`, unless it is None. `headers` are those of this request only.

        Raises:
            ProviderError: The key is missing, the connection fails, or the status is an error.
            ProtocolError: The response is too large or is not JSON.
        """
        content = None if body is None else encode_utf8(compact_json(body))
        method = "GET" if content is None else "POST"
        return await self._fetch_json(method, url, content, self._make_headers(headers))

    async def fetch_optional(self, url: str, body: JsonValue = None) -> JsonValue:
        """Return the JSON at `url` as `fetch` does, or None after an error.

        Use it for details without which the result is still useful.
        """
        try:
            return await self.fetch(url, body)
        except ProviderError:
            return None

    async def upload(
        self, url: str, content: bytes, *, name: str, fields: Mapping[str, str]
    ) -> JsonValue:
        """Send a file with the form `fields`, and return the JSON that the server answers.

        Raises:
            ProviderError: The key is missing, the connection fails, or the status is an error.
            ProtocolError: The response is too large or is not JSON.
        """
        # This request is not sent: httpx encodes the form for it.
        form = httpx.Request("POST", url, data=dict(fields), files={"file": (name, content)})
        body = form.read()
        headers = {**self._make_headers(None), "content-type": form.headers["content-type"]}
        return await self._fetch_json("POST", url, body, headers)

    async def _fetch_json(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str]
    ) -> JsonValue:
        """Send a request, and return the JSON of its response; see `fetch`."""
        sent = {**headers, "accept": "application/json"}
        redactor = self.get_redactor()

        async with self._open_response(method, url, content, sent) as response:
            if response.status_code != 200:
                raise await self._read_error(response)
            received = await read_limited_body(_iter_chunks(response))
            if received is None:
                raise self._make_json_error(response, f"more than {describe_json_limit()}")

            text = redactor.hide_in_response(received.decode(errors="replace"))
            try:
                return read_json(text)
            except ValueError as exc:
                raise self._make_json_error(response, f"{redactor.hide(text)[:200]!r}") from exc

    async def fetch_lines(self, url: str) -> AsyncGenerator[JsonValue | ProtocolError, None]:
        """Yield the JSON of each line at `url`, or an error for a line that is not JSON.

        `url` is an address of this endpoint's server.

        Raises:
            ProviderError: The key is missing, the connection fails, or the status is an error.
            ProtocolError: A line is too large. Later ones are not read.
        """
        headers = {**self._make_headers(None), "accept": "*/*"}

        async with self._open_response("GET", url, None, headers) as response:
            if response.status_code != 200:
                raise await self._read_error(response)
            async with aclosing(split_lines(_iter_chunks(response))) as lines:
                async for line in lines:
                    if line is None:
                        shown = f"a line of more than {describe_json_limit()}"
                        raise self._make_json_error(response, shown)
                    if line.strip():
                        yield self._read_line(line, response)

    def _read_line(self, line: bytes, response: httpx.Response) -> JsonValue | ProtocolError:
        """Return the JSON of a line, or the error if it is not JSON."""
        redactor = self.get_redactor()
        text = redactor.hide_in_response(line.decode(errors="replace"))
        try:
            return read_json(text)
        except ValueError:
            return self._make_json_error(response, f"{redactor.hide(text)[:200]!r}")

    def _make_json_error(self, response: httpx.Response, content: str) -> ProtocolError:
        return ProtocolError(
            f"{self.endpoint.provider} answered with {content} instead of JSON. Check "
            f"{self.endpoint.setting_path}.base_url "
            f"({redact_url(str(response.request.url))})."
        )

    async def _read_error(self, response: httpx.Response) -> ProviderError:
        """Return the error for a `response` with an error status. Its kind decides about retries.

        `classify_response` finds the kind by the status, the headers, and the text.
        """
        body = self.get_redactor().hide(await _read_error_body(response))
        return classify_response(
            response.status_code, response.headers, body, provider=self.endpoint.provider
        )

    def preview(
        self,
        body: bytes,
        *,
        url: str,
        headers: Mapping[str, str] | None = None,
        omitted: Sequence[str] = (),
    ) -> SentRequest:
        """Return the request that `post` sends, without the key, for the user to read.

        `omitted` are settings that the request does not contain, each with the reason.
        """
        redactor = self.get_redactor()
        # A short key is spared, as in a response, because it may be a common word. `str` changes
        # nothing.
        hide = redactor.hide if redactor.applies_to_responses else str
        shown_url = hide(redact_url(url))
        shown_body = encode_utf8(hide(body.decode()))
        sent_headers = {**AGENT, **self._make_headers(headers)}

        return SentRequest(
            "POST",
            shown_url,
            {name: hide(value) for name, value in sent_headers.items()},
            shown_body,
            self._key.make_reference(),
            tuple(map(hide, omitted)),
            is_exact=(url, body) == (shown_url, shown_body),
            hide=hide,
        )

    def _make_headers(self, of_request: Mapping[str, str] | None) -> dict[str, str]:
        """Return the headers of a request, without the key: JSON for an event stream.

        Callers that send or want something else replace `content-type` or `accept`.
        """
        return {
            **self.endpoint.headers,
            **(of_request or {}),
            "content-type": "application/json",
            "accept": EVENT_STREAM,
        }

    def get_redactor(self) -> KeyRedactor:
        """Return the redactor of the current key."""
        return self._key.get_redactor()

    @asynccontextmanager
    async def limit_time(self, seconds: float, task: str) -> AsyncGenerator[None, None]:
        """Limit the time of requests for `task`, such as `list its models`, and sanitize errors.

        Raises:
            ProviderError: A request fails, or they take longer than `seconds`.
        """
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as exc:
            late = f"{self.endpoint.provider} did not {task} within {seconds:g} s"
            error = ProviderError(late, kind="timeout")
            # Set before it is raised: `sanitize_error` also removes the frames of the cause, which
            # contain the key's header.
            error.__cause__ = exc
            raise self.sanitize_error(error) from exc
        except ProviderError as exc:
            raise self.sanitize_error(exc) from exc.__cause__

    def sanitize_error(self, error: ProviderError) -> ProviderError:
        """Return `error`, which it changes: the key is removed, and the message gets advice.

        See `sanitize_provider_error` (`sanitized_errors.py`).
        """
        return sanitize_provider_error(error, self.endpoint, self.get_redactor().hide)

    async def aclose(self) -> None:
        """Close the connections."""
        client = self._client
        self._client = None
        if client is not None:
            await client.aclose()


def _iter_chunks(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Return the decoded body of `response`, in pieces of a bounded size."""
    raw = cast("AsyncGenerator[bytes, None]", response.aiter_raw())  # typed as an iterator
    return decompress_chunks(raw, response.headers.get("content-encoding", ""))


async def _read_error_body(response: httpx.Response) -> str:
    """Return the text of an error, as far as it arrives: its status decides."""
    body = bytearray()
    with suppress(TimeoutError, httpx.HTTPError, DamagedBodyError):
        async with asyncio.timeout(ERROR_BODY_SECONDS), aclosing(_iter_chunks(response)) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) >= MAX_ERROR_BYTES:
                    break

    return body[:MAX_ERROR_BYTES].decode(errors="replace")


def _translate_error(
    exc: httpx.HTTPError | httpx.InvalidURL | DamagedBodyError, endpoint: Endpoint, url: str
) -> ProviderError:
    """Return the error of a request to `url` without a response; its kind decides about retries."""
    kind: ProviderErrorKind
    address = redact_url(url)
    match exc:
        case httpx.ConnectError() if _is_refused(exc) and urlsplit(url).hostname in _LOOPBACK:
            # A local server has one of several addresses. If one of them has answered before, the
            # server was running: the retry looks for it at all addresses again.
            if forget_addresses(endpoint.base_urls):
                kind = "connect"
                message = f"the server of {endpoint.provider} at {address} has stopped"
            else:  # retrying does not help until the user starts the server
                also = "".join(f" or {other}" for other in endpoint.other_base_urls)
                kind = "refused"
                message = f"no server of {endpoint.provider} runs at {address}{also}"
        case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.ProxyError():
            kind = "connect"
            message = (
                f"cannot connect to {endpoint.provider} at {address}: "
                f"{str(exc) or type(exc).__name__}"
            )
        case httpx.TimeoutException():
            kind = "timeout"
            message = f"{endpoint.provider} did not answer in time: {exc}"
        case (
            httpx.NetworkError()
            | httpx.RemoteProtocolError()
            | httpx.DecodingError()
            | DamagedBodyError()
        ):
            kind = "transient"
            message = f"the connection to {endpoint.provider} was lost: {exc}"
        case _:
            kind = "other"
            message = f"the request to {endpoint.provider} at {address} failed: {exc}"

    return ProviderError(message, kind=kind)


def _is_refused(exc: BaseException) -> bool:
    """Return True if the computer refused the connection, at each of its addresses."""
    system_errors = [cause for cause in iter_causes(exc) if isinstance(cause, OSError)]
    numbers = [error.errno for error in system_errors if error.errno is not None]
    return bool(numbers) and all(number == errno.ECONNREFUSED for number in numbers)
