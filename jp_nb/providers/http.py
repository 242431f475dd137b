"""HTTP client: timeouts, proxies and limits, with keys hidden in errors.

A key is read when a request is made, and is only in its header: not in a message, a log, or a
frame of a verbose traceback. A server or a proxy may send a key back, in an error, a header or a
response, so all of these are redacted on arrival, before they are cut or quoted.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Final, cast
from urllib.parse import quote, urlsplit

import httpx
from pydantic import JsonValue

from jp_nb.agent.provider import KeyReference, SentRequest
from jp_nb.config.secrets import PROVIDER_KEY, SHORTEST
from jp_nb.errors import ProtocolError, ProviderError, ProviderErrorKind
from jp_nb.json_values import compact_json, read_json, to_utf8
from jp_nb.providers.endpoint import Endpoint, public_url
from jp_nb.providers.errors import advice, classify, set_key

SHORTEST_IN_ANSWERS = 16
"""Characters of a key that is hidden in what a model says too: `none` or `lm-studio`, which local
servers are given for a key, are words."""
_SHORTEST_BASE64 = 8
_BEGINNING = 4
"""Characters of a key that may pass before the rest of it is looked for."""
_ESCAPES = ("\\u00", "\\x", "\\/", "%", "&#")


class Redaction:
    """Replaces a key in texts; its `repr` shows nothing of it.

    Found are the key as it is, each of its characters as JSON, Python, HTML or a URL may spell it,
    and its Base64, whatever stands before it there.
    """

    __slots__ = ("_forms", "_key", "in_answers")

    def __init__(self, key: str) -> None:
        self._key = key if len(key) >= SHORTEST else ""
        self._forms = tuple(sorted(_forms(self._key), key=len, reverse=True))
        self.in_answers = len(key) >= SHORTEST_IN_ANSWERS

    def __call__(self, text: str) -> str:
        """`text` without the key."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, PROVIDER_KEY)
        if self._key and any(sign in text for sign in _ESCAPES):
            text = re.sub("".join(map(_spellings, self._key)), PROVIDER_KEY, text)
        return text

    def in_json(self, value: JsonValue) -> JsonValue:
        """`value` without the key in any text of it."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, list):
            return [self.in_json(each) for each in value]
        if isinstance(value, dict):
            return self.in_mapping(value)
        return value

    def in_mapping(self, value: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """`value` without the key in any text of it."""
        return {self(key): self.in_json(each) for key, each in value.items()}

    def first(self, text: str) -> int:
        """Return where the key begins in `text`; the length of `text` if it does not hold it."""
        places = [place for form in self._forms if (place := text.find(form)) >= 0]
        return min(places, default=len(text))

    def beginning(self, text: str) -> int:
        """Return how many characters at the end of `text` may be the beginning of a key."""
        longest = 0
        for form in self._forms:
            place = text.find(form[:_BEGINNING], max(len(text) - len(form) + 1, 0))
            while place >= 0 and not form.startswith(text[place:]):
                place = text.find(form[:_BEGINNING], place + 1)
            if place >= 0:
                longest = max(longest, len(text) - place)
        return longest


class StreamedText:
    """A text that comes in pieces, without a key that several of them hold together.

    Nothing is held back unless it begins as the key does. A piece that ends in less than four
    characters of it has passed then, and the rest of the key is taken out.
    """

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._passed = ""
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return what is shown of the text so far, and was not given before."""
        before = len(self._passed)
        text = self._passed + self._held + piece
        found = self._redaction.first(text)
        if found < len(text):
            text = text[before:found] + self._redaction(text[found:])
            before = 0
        held = min(self._redaction.beginning(text), len(text) - before)
        shown = text[before : len(text) - held]
        self._held = text[len(text) - held :]
        self._passed = (self._passed + shown)[1 - _BEGINNING :]
        return shown

    def rest(self) -> str:
        """Return what was held back, when nothing more comes."""
        held, self._held = self._held, ""
        return held


def _forms(key: str) -> set[str]:
    if not key:
        return set()
    forms = {key, quote(key, safe="")}
    for before in range(3):
        bits = 8 * (before + len(key))
        text = b64encode(b"\0" * before + key.encode() + b"\0\0").decode()
        core = text[-(-8 * before // 6) : bits // 6]
        if len(core) >= _SHORTEST_BASE64:
            forms |= {core, core.translate({ord("+"): "-", ord("/"): "_"})}
    return forms


def _spellings(char: str) -> str:
    """A pattern for `char` as it may stand in quoted text. Each part of it is bounded."""
    code = ord(char)
    return (
        rf"(?:\\{{0,8}}{re.escape(char)}|\\{{1,8}}(?:u00|x)(?i:{code:02x})"
        rf"|%(?:25){{0,4}}(?i:{code:02x})|&\#(?:0{{0,8}}{code}|[xX]0{{0,8}}(?i:{code:x}));?)"
    )


CONNECT_SECONDS: Final = 10.0
MAX_ERROR_BYTES: Final = 64 * 1024
MAX_JSON_BYTES: Final = 16 * 2**20
"""Of one answer that is no stream."""
ERROR_BODY_SECONDS: Final = 10.0
_LOGGERS: Final = (
    "httpx",
    *(f"httpcore.{part}" for part in ("connection", "http11", "proxy", "socks")),
)
EVENT_STREAM: Final = "text/event-stream"
AGENT: Final = {"user-agent": "jp-nb"}
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


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
            request = client.build_request("POST", url, content=body, headers=self._headers())
            response = await client.send(request, auth=key, stream=True)
            try:
                await self._check(response)
                async with aclosing(_chunks(response)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            finally:
                await response.aclose()
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise _translated(exc, endpoint, url) from exc

    def check_ready(self) -> None:
        """Raise if no request can be sent.

        Raises:
            ConfigError: If the environment names an address that cannot be used.
            ProviderError: If the key is missing or cannot be sent.
        """
        _ = self.endpoint.url
        _KeyHeader(self.endpoint).check()

    async def fetch(self, url: str, body: JsonValue = None) -> JsonValue:
        """Return the JSON that is at `url`, an address of this endpoint's server.

        Args:
            url: Where it is.
            body: What is posted; None: nothing is, it is got.

        Raises:
            ProviderError: If there is no key, no connection, an error status, or the answer
                breaks off.
            ProtocolError: If the answer is no JSON, or too much of it.
        """
        endpoint = self.endpoint
        key = _KeyHeader(endpoint)
        key.check()
        method, content = ("GET", None) if body is None else ("POST", to_utf8(compact_json(body)))
        headers = {**self._headers(), "accept": "application/json"}
        try:
            client = await self._open(url)
            request = client.build_request(method, url, content=content, headers=headers)
            response = await client.send(request, auth=key, stream=True)
            try:
                return await self._read_json(response, self.redaction())
            finally:
                await response.aclose()
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise _translated(exc, endpoint, url) from exc

    async def _read_json(self, response: httpx.Response, redaction: Redaction) -> JsonValue:
        if response.status_code != 200:
            body = redaction(await _bounded_text(response))
            raise classify(
                response.status_code, response.headers, body, provider=self.endpoint.provider
            )
        received = bytearray()
        async with aclosing(_chunks(response)) as chunks:
            async for chunk in chunks:
                received += chunk
                if len(received) > MAX_JSON_BYTES:
                    raise self._no_json(response, f"more than {MAX_JSON_BYTES // 2**20} MiB")
        text = received.decode(errors="replace")
        text = redaction(text) if redaction.in_answers else text
        try:
            return read_json(text)
        except ValueError as exc:
            raise self._no_json(response, f"{redaction(text)[:200]!r}") from exc

    def _no_json(self, response: httpx.Response, what: str) -> ProtocolError:
        return ProtocolError(
            f"{self.endpoint.provider} answered with {what} instead of JSON. Check "
            f"{self.endpoint.setting}.base_url "
            f"({public_url(str(response.request.url))})."
        )

    def preview(self, body: bytes, *, left_out: Sequence[str] = ()) -> SentRequest:
        """Return what `post` sends for `body`, without the key; `left_out` is not in it.

        Raises:
            ConfigError: If the environment names an address that cannot be.
        """
        redaction = self.redaction()
        # A short one, such as `none`, is a word.
        hide = redaction if redaction.in_answers else str
        url, public = self.endpoint.url, hide(public_url(self.endpoint.url))
        shown = to_utf8(hide(body.decode()))
        return SentRequest(
            "POST",
            public,
            {name: hide(value) for name, value in {**AGENT, **self._headers()}.items()},
            shown,
            _KeyHeader(self.endpoint).reference(),
            tuple(map(hide, left_out)),
            is_exact=(url, body) == (public, shown),
            hide=hide,
        )

    def _headers(self) -> dict[str, str]:
        return {
            **self.endpoint.headers,
            "content-type": "application/json",
            "accept": EVENT_STREAM,
        }

    def redaction(self) -> Redaction:
        """Return what takes the key, as it is now, out of a text."""
        return Redaction(_KeyHeader(self.endpoint).read())

    def told(self, error: ProviderError) -> ProviderError:
        """`error` as it may be shown: without the key, and with what to do about it.

        It and its causes lose their frames: there httpx keeps the key's header in local names.
        """
        redaction = self.redaction()
        for link in _chain(error):
            link.__traceback__ = None
            link.args = tuple(_shown(arg, redaction) for arg in link.args)
        if how := advice(error, self.endpoint):
            error.args = (f"{str(error).rstrip('. ')}. {how}.",)
        error.address = self.endpoint.url
        return error

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
            _keep_out_of_logs(self.endpoint.key_env)
            self._client = httpx.AsyncClient(
                timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
                # Loading certificates takes 30 ms, which a plain-text server has no use for.
                verify=parts.scheme != "http",
                trust_env=parts.hostname not in _LOOPBACK,  # a proxy cannot reach our loopback
                headers=AGENT,
            )
        return self._client

    async def _check(self, response: httpx.Response) -> None:
        """Raise unless `response` begins an event stream."""
        content_type = response.headers.get("content-type", EVENT_STREAM).partition(";")[0]
        ok = response.status_code == 200
        if ok and content_type.strip().lower() == EVENT_STREAM:
            return
        redaction = self.redaction()
        body = redaction(await _bounded_text(response))
        if ok:
            raise ProtocolError(
                f"{self.endpoint.provider} answered with "
                f"{redaction(content_type)[:100]!r} instead of an event stream: "
                f"{body[:200]!r}. Check {self.endpoint.setting}.base_url "
                f"({response.request.url})."
            )
        raise classify(
            response.status_code, response.headers, body, provider=self.endpoint.provider
        )


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
        endpoint = self._endpoint
        if not self.read():
            if self._demanded:
                raise ProviderError(
                    f"{endpoint.provider} needs a key, and the environment variable "
                    f"{name} is not set. Set it in this kernel: `{set_key(name)}`. Or "
                    f"use another variable: {endpoint.setting}.api_key_env."
                )
        elif not (self.read().isascii() and self.read().isprintable()):
            raise ProviderError(
                f"the environment variable {name} contains characters that are not "
                "valid in a key. Set it again"
            )

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the header."""
        if self.read():
            request.headers[self._endpoint.key_header] = f"{self._before}{self.read()}"
        yield request

    def reference(self) -> KeyReference | None:
        """The place of the key in a request; None if none is sent."""
        endpoint, is_set = self._endpoint, bool(self.read())
        if endpoint.key_env is None or not (is_set or self._demanded):
            return None
        return KeyReference(endpoint.key_header, self._before, endpoint.key_env, is_set)

    @property
    def _demanded(self) -> bool:
        endpoint = self._endpoint
        return endpoint.key_named or (endpoint.key_required and not endpoint.override)

    @property
    def _before(self) -> str:
        return "Bearer " if self._endpoint.key_header == "authorization" else ""

    def read(self) -> str:
        """The key; "" if there is none."""
        name = self._endpoint.key_env
        return os.environ.get(name, "").strip() if name else ""


def _chunks(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    return cast("AsyncGenerator[bytes, None]", response.aiter_bytes())  # typed as an iterator


async def _bounded_text(response: httpx.Response) -> str:
    """The body of an error as far as it comes: its status says more than that it breaks off."""
    body = bytearray()
    with suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(ERROR_BODY_SECONDS), aclosing(_chunks(response)) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) >= MAX_ERROR_BYTES:
                    break
    return body[:MAX_ERROR_BYTES].decode(errors="replace")


def _translated(
    exc: httpx.HTTPError | httpx.InvalidURL, endpoint: Endpoint, url: str
) -> ProviderError:
    kind: ProviderErrorKind
    match exc:
        case httpx.ConnectError() if _nobody_listens(exc) and urlsplit(url).hostname in _LOOPBACK:
            # It begins to listen when somebody starts it, not because we wait.
            kind, message = "refused", f"no server of {endpoint.provider} runs at {url}"
        case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.ProxyError():
            kind = "connect"
            message = f"cannot connect to {endpoint.provider} at {url}: {_reason(exc)}"
        case httpx.TimeoutException():
            kind, message = "timeout", f"{endpoint.provider} did not answer in time: {exc}"
        case httpx.NetworkError() | httpx.RemoteProtocolError() | httpx.DecodingError():
            kind, message = "transient", f"the connection to {endpoint.provider} was lost: {exc}"
        case _:
            kind, message = "other", f"the request to {endpoint.provider} at {url} failed: {exc}"
    return ProviderError(message, kind=kind)


def _reason(exc: Exception) -> str:
    return str(exc) or type(exc).__name__


def _nobody_listens(exc: BaseException) -> bool:
    """Return True if every address of the host refused the connection."""
    causes = [link for link in _chain(exc) if isinstance(link, OSError) and link.errno is not None]
    return bool(causes) and all(cause.errno == errno.ECONNREFUSED for cause in causes)


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """`exc` and what caused it, groups and what is in them included."""
    waiting: list[BaseException] = [exc]
    seen: set[int] = set()
    while waiting:
        link = waiting.pop()
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting += [each for each in (link.__cause__, link.__context__) if each is not None]
        if isinstance(link, BaseExceptionGroup):
            waiting += link.exceptions


def _shown(arg: object, redaction: Redaction) -> object:
    if isinstance(arg, str):
        return redaction(arg)
    text = repr(arg)
    return arg if redaction(text) == text else redaction(text)


class _WithoutKeys(logging.Filter):
    """Takes keys out of what the HTTP library logs: reason phrases and headers are a server's."""

    def __init__(self) -> None:
        super().__init__()
        self.variables: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite `record` if a key is in it; none is left out."""
        message = shown = record.getMessage()
        for name in self.variables:
            shown = Redaction(os.environ.get(name, "").strip())(shown)
        if shown != message:
            record.msg, record.args = shown, ()
        return True


_WITHOUT_KEYS: Final = _WithoutKeys()


def _keep_out_of_logs(variable: str | None) -> None:
    if variable is not None:
        _WITHOUT_KEYS.variables.add(variable)
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_WITHOUT_KEYS)  # once, however often
