"""Sign in to remote servers with OAuth, and use the tokens.

Only `sign_in` begins a flow, and only with a user who opens its page. Requests use stored tokens
and renew them silently; without a valid token, an error names the command that signs in. A server
chooses the addresses of the flow, so each one is checked: see `AddressRules`. Its words may quote a
token, so errors of the flow do not contain them.

Source: `docs/mcp.md`, Sign in. https://modelcontextprotocol.io, basic/authorization.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from html import escape
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from pydantic import JsonValue

from jp_nb.errors import JpNbError
from jp_nb.json_values import JsonObject, as_object
from jp_nb.mcp.exchange import CredentialStore, HttpLaunch, SignInError
from jp_nb.mcp.http_client import UnreadableAnswerError, check_address
from jp_nb.mcp.launch import is_loopback
from jp_nb.mcp.limits import MAX_OAUTH_BYTES, MAX_REDIRECT_BYTES
from jp_nb.mcp.transport import StartError
from jp_nb.text import one_line

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import (
        AuthorizationCodeResult,
        OAuthClientInformationFull,
        OAuthToken,
    )

EXPIRY_MARGIN_S: Final = 30.0
"""A token is renewed this long before it expires."""
FLOW_SECONDS: Final = 30.0
"""Limit of one request of the flow."""
_PROTOCOL: Final = "2025-11-25"
_ERROR_CODE: Final = re.compile(r"[a-z]{1,20}(_[a-z]{1,20}){0,4}")
"""Codes of errors, such as `invalid_grant`. No token looks like them."""


_LIBRARY_LOG: Final = logging.getLogger("mcp.client.auth.oauth2")
_IN_SIGN_IN: ContextVar[bool] = ContextVar("_IN_SIGN_IN", default=False)
OTHER_SIGN_IN: Final = (
    "The address belongs to another sign-in. Sign in again, and use only the page that is shown "
    "then."
)


class SignInNeededError(UnreadableAnswerError):
    """A server needs a sign-in before it answers; the message names the command."""


def make_sign_in_needed(name: str, launch: HttpLaunch) -> SignInNeededError:
    """Return the error for a server that needs a sign-in."""
    text = f"it needs a sign-in (HTTP 401). Sign in with `%jp mcp sign-in {name}` in a notebook"
    if launch.headers:
        text = f"{text}, or check its `headers`"
    return SignInNeededError(text)


# --- requests of a turn --------------------------------------------------------------------------


class StoredTokens(httpx2.Auth):
    """Adds the stored token to requests, and renews it. It never begins a sign-in.

    Args:
        name: Name of the server in the configuration.
        launch: The address of the server.
    """

    def __init__(self, name: str, launch: HttpLaunch, store: CredentialStore) -> None:
        self._name = name
        self._launch = launch
        self._store = store
        self._rules = AddressRules(launch.url)
        self._lock = asyncio.Lock()
        self._is_refused = False
        self._refused_token: str | None = None

    @property
    def needs_sign_in(self) -> bool:
        """True if the server refused the stored token, or a request without one."""
        return self._is_refused and _access_token(self._store.load()) == self._refused_token

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Yield `request` with the token, after a renewal if the token has expired."""
        if _origin(str(request.url)) != _origin(self._launch.url):
            yield request
            return

        async with self._lock:
            credentials = self._store.load()
            if credentials is not None and _is_expired(credentials):
                renewal = await self._make_renewal(credentials)
                if renewal is not None:
                    credentials = await self._read_renewal(credentials, (yield renewal))
        _authorize(request, credentials)
        response = yield request
        if response.status_code != httpx2.codes.UNAUTHORIZED:
            self._is_refused = False
            return

        await read_bounded(response)
        async with self._lock:
            # Another kernel may have renewed the token.
            latest = self._store.load()
            if latest is not None and _access_token(latest) == _access_token(credentials):
                renewal = await self._make_renewal(latest)
                if renewal is None:
                    raise self._note_refusal(latest)
                latest = await self._read_renewal(latest, (yield renewal))
        if latest is None or _access_token(latest) == _access_token(credentials):
            raise self._note_refusal(latest)

        _authorize(request, latest)
        response = yield request
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            await read_bounded(response)
            raise self._note_refusal(latest)
        self._is_refused = False

    def _note_refusal(self, credentials: JsonObject | None) -> SignInNeededError:
        self._is_refused = True
        self._refused_token = _access_token(credentials)
        return make_sign_in_needed(self._name, self._launch)

    async def _make_renewal(self, credentials: JsonObject) -> httpx2.Request | None:
        tokens = as_object(credentials.get("tokens"))
        client = as_object(credentials.get("client"))
        token = tokens.get("refresh_token")
        endpoint = credentials.get("token_endpoint")
        if not isinstance(token, str) or not isinstance(endpoint, str):
            return None
        await self._rules.check(endpoint)

        data = {"grant_type": "refresh_token", "refresh_token": token}
        data["client_id"] = str(client.get("client_id", ""))
        data["resource"] = str(credentials.get("resource") or self._launch.url)
        auth: tuple[str, str] | None = None
        secret = client.get("client_secret")
        if isinstance(secret, str):
            if client.get("token_endpoint_auth_method") == "client_secret_basic":
                auth = (data["client_id"], secret)
            else:
                data["client_secret"] = secret
        request = httpx2.Request(
            "POST", endpoint, data=data, headers={"accept-encoding": "identity"}
        )
        if auth is not None:
            request = next(httpx2.BasicAuth(*auth).sync_auth_flow(request))
        return request

    async def _read_renewal(
        self, credentials: JsonObject, response: httpx2.Response
    ) -> JsonObject | None:
        body = await read_bounded(response)
        if response.status_code != httpx2.codes.OK:
            return credentials  # the token may still work; otherwise the server says so
        try:
            tokens = json.loads(body)
        except ValueError:
            return credentials
        if not isinstance(tokens, dict) or not isinstance(tokens.get("access_token"), str):
            return credentials

        before = as_object(credentials.get("tokens"))
        renewed: JsonObject = {
            **credentials,
            "tokens": {"refresh_token": before.get("refresh_token"), **tokens},
            "expires_at": _expiry(tokens.get("expires_in")),
        }
        self._store.save(str(credentials.get("issuer", "")), renewed)
        return renewed


async def read_bounded(response: httpx2.Response) -> bytes:
    """Read the body of an answer during a sign-in, of at most `MAX_OAUTH_BYTES`, and return it.

    Raises:
        UnreadableAnswerError: It is larger, or compressed.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        await response.aclose()
        raise UnreadableAnswerError("its authorization server compressed its answer")
    if not response.is_stream_consumed:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _BoundedStream(response.stream)
    return await response.aread()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_OAUTH_BYTES:
                raise UnreadableAnswerError("its authorization server sent too much")
            yield chunk

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


def _access_token(credentials: Mapping[str, JsonValue] | None) -> str | None:
    token = as_object((credentials or {}).get("tokens")).get("access_token")
    return token if isinstance(token, str) else None


def _authorize(request: httpx2.Request, credentials: Mapping[str, JsonValue] | None) -> None:
    token = _access_token(credentials)
    if token is not None:
        request.headers["Authorization"] = f"Bearer {token}"


def _is_expired(credentials: Mapping[str, JsonValue]) -> bool:
    expires_at = credentials.get("expires_at")
    return isinstance(expires_at, int | float) and time.time() > expires_at - EXPIRY_MARGIN_S


def _expiry(seconds: object) -> float | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return time.time() + max(float(seconds), 0.0)


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    port = parts.port or {"https": 443, "http": 80}.get(scheme)
    return scheme, (parts.hostname or "").lower(), port


# --- addresses that a server names ---------------------------------------------------------------


class AddressRules:
    """Checks the addresses that a server names during a sign-in.

    An address must use HTTPS. Plain HTTP, this computer, and private networks are allowed only if
    the server itself is there: otherwise a server could make the kernel send requests into the
    user's network.
    """

    def __init__(self, server_url: str) -> None:
        parts = urlsplit(server_url)
        self._host = (parts.hostname or "").lower()
        self._own_kinds: set[str] | None = None

    async def check(self, url: str) -> None:
        """Check an address of the flow.

        Raises:
            SignInError: It is not allowed.
        """
        host = self.check_form(url)
        if host == self._host:
            return
        if self._own_kinds is None:
            self._own_kinds = await _find_network_kinds(self._host)
        refused = await _find_network_kinds(host) - self._own_kinds
        if refused:
            raise SignInError(
                f"The server named an authorization address on {', '.join(sorted(refused))} "
                f"({one_line(host, limit=100)}). It is not used, because the server itself is not "
                "there."
            )

    def check_form(self, url: str) -> str:
        """Return the host of an address that has an allowed form, or raise `SignInError`."""
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").lower()
            _ = parts.port
        except ValueError:
            host = ""
        if not host or parts.username or parts.password:
            raise SignInError("The server named an authorization address that is not valid.")
        is_local = is_loopback(host) and is_loopback(self._host)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_local):
            raise SignInError(
                f"The server named an authorization address without HTTPS on "
                f"{one_line(host, limit=100)}. It is not used."
            )
        return host


async def _find_network_kinds(host: str) -> set[str]:
    """Return the kinds of special networks of `host`; none for addresses of the internet."""
    try:
        addresses: list[IPv4Address | IPv6Address] = [ip_address(host)]
    except ValueError:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, None)
        except (OSError, UnicodeError):
            return {"this computer"} if is_loopback(host) else set()
        addresses = [ip_address(str(each[4][0]).partition("%")[0]) for each in found]
    return {kind for address in addresses if (kind := _network_kind(address))}


def _network_kind(address: IPv4Address | IPv6Address) -> str:
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        address = mapped
    if address.is_loopback:
        return "this computer"
    if address.is_link_local:
        return "a link-local network"
    return "" if address.is_global and not address.is_multicast else "a private network"


# --- the flow ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SignInPage:
    """A page on which the user signs in.

    Attributes:
        url: Address of the page. The user decides whether to open it.
        server: Name of the server in the configuration.
    """

    url: str
    server: str


ShowPage = Callable[[SignInPage], Awaitable[str]]
"""Show the page to the user, and return the address to which the browser was sent.

The browser may return to this computer by itself: then the call is cancelled.
"""


async def sign_in(
    name: str,
    launch: HttpLaunch,
    store: CredentialStore,
    show_page: ShowPage,
    *,
    client_name: str = "jp_nb",
) -> None:
    """Sign in to the server, and store the tokens.

    Raises:
        SignInError: It failed, with the reason.
    """
    try:
        check_address(launch)
    except StartError as exc:
        raise SignInError(f"Signing in to {name} failed: {exc}") from exc
    status = 0
    reason = ""
    async with _listen() as redirect:
        provider = _make_provider(name, launch, store, show_page, redirect, client_name)
        auth = _CheckedFlow(provider, AddressRules(launch.url))
        try:
            with _without_library_log():
                status = await _send_first_request(launch, auth, client_name)
        except JpNbError:  # also the end of the user's question
            raise
        except Exception as exc:
            reason = _explain(exc, auth.refusal)

    # Outside of the handler: the exception of the library may quote a token.
    if reason:
        raise SignInError(f"Signing in to {name} failed: {launch.hide(reason)}")
    if not auth.has_signed_in:
        raise SignInError(f"The server {name} does not ask for a sign-in (HTTP {status}).")
    if status in (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN):
        raise SignInError(f"The server {name} refused the new token (HTTP {status}).")


async def _send_first_request(launch: HttpLaunch, auth: httpx2.Auth, client_name: str) -> int:
    """Send the handshake, which needs the sign-in, and return the status of its answer."""
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": _PROTOCOL,
            "capabilities": {},
            "clientInfo": {"name": client_name, "version": "1"},
        },
    }
    accepted = "application/json, text/event-stream"
    headers = {**launch.headers, "accept": accepted, "mcp-protocol-version": _PROTOCOL}
    is_local = is_loopback(urlsplit(launch.url).hostname or "")
    async with (
        httpx2.AsyncClient(
            auth=auth, timeout=FLOW_SECONDS, headers=headers, trust_env=not is_local
        ) as client,
        client.stream("POST", launch.url, json=message) as response,
    ):
        return response.status_code


@contextmanager
def _without_library_log() -> Iterator[None]:
    """Drop the log of the library in this block: tracebacks, which may quote tokens."""
    _LIBRARY_LOG.addFilter(_keep_record)  # has no effect the second time
    token = _IN_SIGN_IN.set(True)
    try:
        yield
    finally:
        _IN_SIGN_IN.reset(token)


def _keep_record(record: logging.LogRecord) -> bool:
    return not _IN_SIGN_IN.get()


def _explain(exc: BaseException, refusal: str) -> str:
    """Return the reason of a failed sign-in, without the texts that the servers sent."""
    from mcp.client.auth import OAuthRegistrationError, OAuthTokenError

    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    if isinstance(exc, OAuthRegistrationError):
        return f"the authorization server did not register jp_nb ({refusal})"
    if isinstance(exc, OAuthTokenError):
        return f"the authorization server gave no valid token ({refusal})"
    return one_line(str(exc), limit=300) or type(exc).__name__


def _describe_answer(response: httpx2.Response, body: bytes) -> str:
    """Return the status of an answer, and its code of an error if it looks like one."""
    text = f"HTTP {response.status_code}"
    try:
        code = as_object(json.loads(body)).get("error")
    except (ValueError, RecursionError):
        return text
    if isinstance(code, str) and _ERROR_CODE.fullmatch(code):
        return f"{text}, {code}"
    return text


class _CheckedFlow(httpx2.Auth):
    """The flow of the library, in which each address is checked and each answer is bounded.

    Attributes:
        has_signed_in: True if the server asked for a sign-in.
        refusal: Status and code of the last answer that the flow got.
    """

    def __init__(self, provider: OAuthClientProvider, rules: AddressRules) -> None:
        self._provider = provider
        self._rules = rules
        self.has_signed_in = False
        self.refusal = ""

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Yield the requests of the flow."""
        flow = self._provider.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                if outgoing is not request:
                    self.has_signed_in = True
                    await self._rules.check(str(outgoing.url))
                outgoing.headers["accept-encoding"] = "identity"
                response = yield outgoing
                if outgoing is request and response.status_code < httpx2.codes.BAD_REQUEST:
                    return
                body = await read_bounded(response)
                self.refusal = _describe_answer(response, body)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


def _make_provider(
    name: str,
    launch: HttpLaunch,
    store: CredentialStore,
    show_page: ShowPage,
    redirect: _Redirect,
    client_name: str,
) -> OAuthClientProvider:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

    rules = AddressRules(launch.url)
    pages: list[SignInPage] = []

    async def open_page(url: str) -> None:
        rules.check_form(url)
        await rules.check(url)
        pages.append(SignInPage(url, name))

    async def wait_for_return() -> AuthorizationCodeResult:
        page = pages[-1]
        address = await _wait_for_address(show_page(page), redirect)
        code, state, issuer = read_return(address)
        if state != _read_state(page.url):
            raise SignInError(OTHER_SIGN_IN)
        return AuthorizationCodeResult(code=code, state=state, iss=issuer)

    memory = _FlowMemory(launch.url, store)
    provider = OAuthClientProvider(
        launch.url,
        OAuthClientMetadata.model_validate(
            {
                "client_name": client_name,
                "redirect_uris": [redirect.url],
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
            }
        ),
        memory,
        redirect_handler=open_page,
        callback_handler=wait_for_return,
    )
    memory.provider = provider
    return provider


async def _wait_for_address(shown: Awaitable[str], redirect: _Redirect) -> str:
    """Return the address to which the browser was sent, from its request or from the user."""
    pasted = asyncio.ensure_future(shown)
    waiting: list[asyncio.Future[Any]] = [pasted, redirect.address]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if redirect.address.done():
            return redirect.address.result()
        return pasted.result()
    finally:
        pasted.cancel()


def _read_state(url: str) -> str | None:
    return _first(parse_qs(urlsplit(url).query), "state")


class _FlowMemory:
    """Storage of the library during one flow: it begins empty, and saves the tokens at the end."""

    def __init__(self, server_url: str, store: CredentialStore) -> None:
        self._server_url = server_url
        self._store = store
        self._client: OAuthClientInformationFull | None = None
        self.provider: OAuthClientProvider | None = None

    async def get_tokens(self) -> OAuthToken | None:
        """Return no token, so that the user signs in."""
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Save the tokens, with everything that their renewal needs."""
        assert self.provider is not None
        context = self.provider.context
        metadata = context.oauth_metadata
        issuer = str(metadata.issuer) if metadata else context.auth_server_url or self._server_url
        client = self._client.model_dump(mode="json", exclude_none=True) if self._client else {}
        endpoint = metadata.token_endpoint if metadata else None
        base = context.get_authorization_base_url(self._server_url)
        self._store.save(
            issuer,
            {
                "issuer": issuer,
                "server": self._server_url,
                "client": client,
                "tokens": tokens.model_dump(mode="json", exclude_none=True),
                "expires_at": _expiry(tokens.expires_in),
                "token_endpoint": str(endpoint) if endpoint else f"{base}/token",
                "resource": context.get_resource_url(),
            },
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client that this flow registered."""
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep the client that this flow registered."""
        self._client = client_info


def read_return(address: str) -> tuple[str, str | None, str | None]:
    """Return code, state, and issuer of the address to which the browser was sent.

    Raises:
        SignInError: It has no code, or the reason why the user was refused.
    """
    try:
        query = parse_qs(urlsplit(address.strip()).query)
    except ValueError:
        query = {}
    if error := query.get("error"):
        reason = query.get("error_description", error)[0]
        raise SignInError(f"The sign-in was refused: {one_line(reason, limit=300)}")
    if not (codes := query.get("code")):
        raise SignInError(
            "The address has no code. Paste the whole address to which the browser was sent after "
            "you signed in."
        )
    return codes[0], _first(query, "state"), _first(query, "iss")


def _first(query: Mapping[str, list[str]], name: str) -> str | None:
    values = query.get(name)
    return values[0] if values else None


@dataclass(slots=True)
class _Redirect:
    """The page of this computer to which the browser returns."""

    url: str
    address: asyncio.Future[str]


@asynccontextmanager
async def _listen() -> AsyncGenerator[_Redirect]:
    """Listen on a free port of this computer, until the `with` block ends."""
    path = f"/callback/{secrets.token_urlsafe(16)}"
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            line = await asyncio.wait_for(reader.readuntil(b"\r\n"), FLOW_SECONDS)
            method, target, *_ = [*line.decode("latin-1").split(), "", ""]
            is_return = method == "GET" and urlsplit(target).path == path
            if is_return and not address.done():
                address.set_result(target)
            text = "You can close this page." if is_return else "There is no such page."
            status = "200 OK" if is_return else "404 Not Found"
            body = f"<!doctype html><title>jp_nb</title><p>{escape(text)}</p>".encode()
            head = (
                f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=MAX_REDIRECT_BYTES)
    port = server.sockets[0].getsockname()[1]
    try:
        yield _Redirect(f"http://127.0.0.1:{port}{path}", address)
    finally:
        server.close()
        address.cancel()


def make_auth(name: str, launch: HttpLaunch) -> StoredTokens | None:
    """Return the authorization of requests to a server; None if its headers have one."""
    if launch.credentials is None or launch.has_authorization:
        return None
    return StoredTokens(name, launch, launch.credentials)
