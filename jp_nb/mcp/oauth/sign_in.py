"""Sign in to a remote server with OAuth, with a user who opens its page.

A server chooses the addresses of the flow, so each one is checked (`address_rules.py`).
Its words may quote a token, so errors of the flow do not contain them.

Source: `docs/mcp.md`, Sign in. https://modelcontextprotocol.io, basic/authorization.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2

from jp_nb.errors import JpNbError
from jp_nb.json_values import JsonObject, as_object
from jp_nb.mcp.errors import SignInError, StartError
from jp_nb.mcp.oauth.address_rules import AddressRules
from jp_nb.mcp.oauth.browser_return import Redirect, get_first_value, listen, read_return
from jp_nb.mcp.oauth.oauth_answers import read_bounded
from jp_nb.mcp.oauth.stored_tokens import compute_expiry_time
from jp_nb.mcp.transports.http_client import check_address
from jp_nb.mcp.transports.launches import CredentialStore, HttpLaunch
from jp_nb.mcp.transports.library_log import without_library_log
from jp_nb.mcp.transports.loopback import is_loopback
from jp_nb.text import one_line

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

FLOW_SECONDS: Final = 30.0
"""Limit of one request of the flow."""
_PROTOCOL: Final = "2025-11-25"
_ERROR_CODE: Final = re.compile(r"[a-z]{1,20}(_[a-z]{1,20}){0,4}")
"""Codes of errors, such as `invalid_grant`. No token looks like them."""
OTHER_SIGN_IN: Final = (
    "The address belongs to another sign-in. Sign in again, and use only the page that is shown "
    "then."
)


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


async def sign_in_to_server(
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
    async with listen() as redirect:
        provider = _make_provider(
            name=name,
            launch=launch,
            store=store,
            show_page=show_page,
            redirect=redirect,
            client_name=client_name,
        )
        auth = _CheckedFlow(provider, AddressRules(launch.url))
        try:
            with without_library_log():
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
    """Return the status of an answer, and its error code if it has one: `HTTP 400, invalid_grant`.

    Other texts of the answer may contain a token.
    """
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

    The library's own `async_auth_flow` yields requests and gets their responses, as the contract of
    `httpx2.Auth` says. This one passes both on: to the HTTP client, and back to the library.

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
                # All but the original request go to addresses that servers have named.
                is_original = outgoing is request
                if not is_original:  # the server has refused the original request
                    self.has_signed_in = True
                    await self._rules.check(str(outgoing.url))

                outgoing.headers["accept-encoding"] = "identity"
                response = yield outgoing
                if is_original and response.status_code < httpx2.codes.BAD_REQUEST:
                    return  # accepted, perhaps with the new token

                body = await read_bounded(response)
                self.refusal = _describe_answer(response, body)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:  # the flow of the library has ended
            return
        finally:
            await flow.aclose()


def _make_provider(
    *,
    name: str,
    launch: HttpLaunch,
    store: CredentialStore,
    show_page: ShowPage,
    redirect: Redirect,
    client_name: str,
) -> OAuthClientProvider:
    """Return the flow of the library for one sign-in.

    The library calls `keep_page` with the address of the page, and then `wait_for_return`.
    """
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

    rules = AddressRules(launch.url)
    pages: list[SignInPage] = []  # the last one is the current one

    async def keep_page(url: str) -> None:
        """Check the address that the server names, and keep it for `wait_for_return`."""
        rules.check_form(url)
        await rules.check(url)
        pages.append(SignInPage(url, name))

    async def wait_for_return() -> AuthorizationCodeResult:
        """Show the page to the user, and wait until the browser has returned from it."""
        page = pages[-1]
        address = await _wait_for_address(show_page(page), redirect)
        returned = read_return(address)
        if returned.state != _read_state(page.url):
            raise SignInError(OTHER_SIGN_IN)
        return AuthorizationCodeResult(
            code=returned.code, state=returned.state, iss=returned.issuer
        )

    metadata = {
        "client_name": client_name,
        "redirect_uris": [redirect.url],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    memory = _FlowMemory(launch.url, store)
    provider = OAuthClientProvider(
        launch.url,
        OAuthClientMetadata.model_validate(metadata),
        memory,
        redirect_handler=keep_page,
        callback_handler=wait_for_return,
    )
    memory.provider = provider
    return provider


async def _wait_for_address(shown: Awaitable[str], redirect: Redirect) -> str:
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
        await asyncio.gather(pasted, return_exceptions=True)  # it closes its prompt


def _read_state(url: str) -> str | None:
    """Return the random `state` in the address of a page, which the browser has to bring back."""
    return get_first_value(parse_qs(urlsplit(url).query), "state")


class _FlowMemory:
    """Storage of the library during one flow: it begins empty, and saves the tokens at the end.

    It implements the protocol `TokenStorage` of the library (`mcp.client.auth`).

    Attributes:
        provider: The flow, which knows the servers when it saves the tokens; set before it begins.
    """

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

        # A server of an early protocol may publish no metadata.
        base = context.get_authorization_base_url(self._server_url)
        issuer = context.auth_server_url or self._server_url
        token_endpoint = f"{base}/token"
        if metadata is not None:
            issuer = str(metadata.issuer)
            if metadata.token_endpoint:
                token_endpoint = str(metadata.token_endpoint)

        client: JsonObject = {}
        if self._client is not None:
            client = self._client.model_dump(mode="json", exclude_none=True)

        self._store.save(
            issuer,
            {
                "issuer": issuer,
                "server": self._server_url,
                "client": client,
                "tokens": tokens.model_dump(mode="json", exclude_none=True),
                "expires_at": compute_expiry_time(tokens.expires_in),
                "token_endpoint": token_endpoint,
                "resource": context.get_resource_url(),
            },
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client that this flow registered."""
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep the client that this flow registered."""
        self._client = client_info
