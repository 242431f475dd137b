"""Sign in to a remote server with OAuth, with a user who opens its page.

The library `mcp` has the flow: it registers jp_nb at the authorization server, asks for a code
through the user's browser, and gets tokens for the code. A server chooses the addresses of the
flow, so each one is checked (`checked_flow.py`). `flow_memory.py` saves the tokens.

A server's words may quote a token, so errors of the flow do not contain them.

Source: `docs/mcp.md`, Sign in. https://modelcontextprotocol.io, basic/authorization.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2

from jp_nb.errors import JpNbError
from jp_nb.mcp.errors import SignInError, StartError
from jp_nb.mcp.oauth.address_rules import AddressRules
from jp_nb.mcp.oauth.browser_return import get_first_value, read_return
from jp_nb.mcp.oauth.checked_flow import CheckedFlow
from jp_nb.mcp.oauth.flow_memory import FlowMemory
from jp_nb.mcp.oauth.redirect_page import Redirect, listen
from jp_nb.mcp.transports.http_address import check_address
from jp_nb.mcp.transports.launches import CredentialStore, HttpLaunch
from jp_nb.mcp.transports.library_log import without_library_log
from jp_nb.mcp.transports.loopback import is_loopback
from jp_nb.text import one_line

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult

FLOW_SECONDS: Final = 30.0
"""Limit of one request of the flow."""
_PROTOCOL: Final = "2025-11-25"
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
        # Runs the flow of `provider` when the server answers that it needs a sign-in. Afterwards,
        # `has_signed_in` tells if it did, and `refusal` has the status of the last answer.
        auth = CheckedFlow(provider, AddressRules(launch.url))
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
    memory = FlowMemory(launch.url, store)
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
