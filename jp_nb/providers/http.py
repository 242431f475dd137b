"""The one place that speaks HTTP (architecture D16).

A key is read when a request is made, goes straight into its header, and nowhere else: not into a
message, not into a log, and not into a frame that a verbose traceback could print.

Source: `spec/providers.md` sections 2.1, 2.2, 4 and 9.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Literal, cast
from urllib.parse import urlsplit

import httpx

from jp_nb.errors import ConfigError, ProtocolError, ProviderError, ProviderErrorKind
from jp_nb.providers.retry import classify

CONNECT_SECONDS: Final = 10.0
MAX_ERROR_BYTES: Final = 64 * 1024
EVENT_STREAM: Final = "text/event-stream"
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and as whom requests are made. Holds the name of a key's variable, never a key.

    Attributes:
        provider: Its name in the configuration, for messages.
        base_url: Address without `path`; one that already ends in the start of `path` also works.
        path: Such as `/v1/messages`.
        base_url_env: Variable whose value, if set, replaces `base_url`.
        key_env: Variable that holds the key; None if the server needs none.
        key_header: How the key is sent.
        key_required: Whether `base_url` answers nobody without a key.
        headers: Sent with every request; nothing secret.
    """

    provider: str
    base_url: str
    path: str
    base_url_env: str | None = None
    key_env: str | None = None
    key_header: Literal["authorization", "x-api-key"] = "authorization"
    key_required: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def override(self) -> str:
        """The base address that the environment names; "" if it names none.

        Raises:
            ConfigError: If it holds a user or a password; the message does not show it.
        """
        found = os.environ.get(self.base_url_env, "") if self.base_url_env else ""
        if "@" in re.split(r"[/?#]", found.rpartition("://")[2])[0]:
            raise ConfigError(
                f"the address in {self.base_url_env} holds no user and no password: put a key "
                "into an environment variable and name that in api_key_env",
                path=f"{self.setting}.base_url_env",
            )
        return found

    @property
    def url(self) -> str:
        """The address to post to."""
        return join_url(self.override or self.base_url, self.path)

    @property
    def setting(self) -> str:
        """Configuration path of this provider's settings."""
        return f"providers.llm.{self.provider}"


def join_url(base: str, path: str) -> str:
    """Join `path` to `base`, which may already end in the first segments of `path`."""
    base = base.rstrip("/")
    segments = path.strip("/").split("/")
    for count in range(len(segments), 0, -1):
        if base.endswith("/" + "/".join(segments[:count])):
            segments = segments[count:]
            break
    return "/".join([base, *segments])


class HttpClient:
    """Posts requests to one endpoint and streams the answers.

    Connections are opened at the first request and kept for the next; `aclose` closes them. To be
    used on one event loop.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._client: httpx.AsyncClient | None = None
        self._origin = ""

    async def post(self, body: bytes) -> AsyncGenerator[bytes, None]:
        """Send `body` and yield the event stream that answers it, as it arrives.

        Raises:
            ProviderError: If there is no key, no connection, an error status, or the answer
                breaks off.
            ProtocolError: If the answer is not an event stream.
        """
        endpoint = self.endpoint
        url = endpoint.url
        key = _KeyHeader(endpoint)
        key.check()
        try:
            client = await self._open(url)
            request = client.build_request(
                "POST",
                url,
                content=body,
                headers={
                    **endpoint.headers,
                    "content-type": "application/json",
                    "accept": EVENT_STREAM,
                },
            )
            response = await client.send(request, auth=key, stream=True)
            try:
                await self._check(response, key)
                async with aclosing(_chunks(response)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            finally:
                await response.aclose()
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise _translated(exc, endpoint, url, key) from _without_frames(exc)

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _open(self, url: str) -> httpx.AsyncClient:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if self._client is None or origin != self._origin:
            await self.aclose()  # its TLS settings were made for another server
            self._origin = origin
            self._client = httpx.AsyncClient(
                timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
                # Loading certificates takes 30 ms, which a plain-text server has no use for.
                verify=parts.scheme != "http",
                trust_env=parts.hostname not in _LOOPBACK,  # a proxy cannot reach our loopback
                headers={"user-agent": "jp-nb"},
            )
        return self._client

    async def _check(self, response: httpx.Response, key: _KeyHeader) -> None:
        """Raise unless `response` begins an event stream."""
        content_type = response.headers.get("content-type", EVENT_STREAM).partition(";")[0]
        ok = response.status_code == 200
        if ok and content_type.strip().lower() == EVENT_STREAM:
            return
        body = key.redact(await _bounded_text(response))
        if ok:
            raise ProtocolError(
                f"{self.endpoint.provider} answered with {content_type!r} where an event stream "
                f"was expected: {body[:200]!r}. Check {self.endpoint.setting}.base_url "
                f"({response.request.url})."
            )
        error = classify(
            response.status_code, response.headers, body, provider=self.endpoint.provider
        )
        error.args = (str(error) + self._hint(response),)
        raise error

    def _hint(self, response: httpx.Response) -> str:
        """What to do about an error status, in a sentence; "" if the server's text must do."""
        endpoint = self.endpoint
        match response.status_code:
            case 401 | 403 if endpoint.key_env:
                return f". Check the key in the environment variable {endpoint.key_env}."
            case 401 | 403:
                return f". Name the variable that holds its key in {endpoint.setting}.api_key_env."
            case 404 if endpoint.provider == "ollama":
                return ". Is the model there? `ollama list` shows them, `ollama pull` fetches one."
            case 404:
                return (
                    f". Check the model (assistant.model.id) and {endpoint.setting}.base_url "
                    f"({response.request.url})."
                )
        return ""


class _KeyHeader(httpx.Auth):
    """Puts the key into its header when a request is sent. Has no key in its state."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def check(self) -> None:
        """Refuse what cannot be sent.

        Raises:
            ProviderError: If the key is missing but needed, or cannot be a key.
        """
        name = self._endpoint.key_env
        if name is None:
            return
        if not self._read():
            if self._endpoint.key_required and not self._endpoint.override:
                raise ProviderError(
                    f"{self._endpoint.provider} needs a key, and the environment variable {name} "
                    f"is not set. Set it, or name another one in "
                    f"{self._endpoint.setting}.api_key_env."
                )
        elif not (self._read().isascii() and self._read().isprintable()):
            raise ProviderError(
                f"the environment variable {name} holds characters that no key has; set it again"
            )

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the header."""
        if self._read():
            if self._endpoint.key_header == "authorization":
                request.headers["authorization"] = f"Bearer {self._read()}"
            else:
                request.headers[self._endpoint.key_header] = self._read()
        yield request

    def redact(self, text: str) -> str:
        """`text` without the key, should the server have sent it back."""
        return text.replace(self._read(), "[key]") if self._read() else text

    def _read(self) -> str:
        name = self._endpoint.key_env
        return os.environ.get(name, "").strip() if name else ""


def _chunks(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    return cast("AsyncGenerator[bytes, None]", response.aiter_bytes())  # typed as an iterator


async def _bounded_text(response: httpx.Response) -> str:
    body = bytearray()
    async with aclosing(_chunks(response)) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) >= MAX_ERROR_BYTES:
                break
    return body[:MAX_ERROR_BYTES].decode(errors="replace")


def _translated(
    exc: httpx.HTTPError | httpx.InvalidURL, endpoint: Endpoint, url: str, key: _KeyHeader
) -> ProviderError:
    kind: ProviderErrorKind
    match exc:
        case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.ProxyError():
            kind = "connect"
            message = (
                f"cannot connect to {endpoint.provider} at {url}: {exc or type(exc).__name__}. "
                f"Is the server running? Its address is {endpoint.setting}.base_url"
                + (f" or the variable {endpoint.base_url_env}." if endpoint.base_url_env else ".")
            )
        case httpx.TimeoutException():
            kind, message = "timeout", f"{endpoint.provider} did not answer in time: {exc}"
        case httpx.NetworkError() | httpx.RemoteProtocolError() | httpx.DecodingError():
            kind, message = "transient", f"the connection to {endpoint.provider} broke off: {exc}"
        case _:
            kind, message = "other", f"the request to {endpoint.provider} at {url} failed: {exc}"
    return ProviderError(key.redact(message), kind=kind)


def _without_frames(exc: Exception) -> Exception:
    """`exc` and its causes without their frames: httpx keeps the key's header in local names."""
    link: BaseException | None = exc
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return exc
