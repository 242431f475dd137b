"""Add the stored OAuth token of a remote server to its requests, and renew it silently.

Nothing here begins a sign-in: without a valid token, an error names the command that signs in.

The stored *credentials* are those that `sign_in.py` saved at the end of a sign-in:

    issuer          the authorization server
    server          address of the MCP server
    client          the client that it registered: `client_id`, perhaps `client_secret`
    tokens          `access_token`, and `refresh_token` for a renewal
    expires_at      time at which the access token expires; null if it is unknown
    token_endpoint  address for a renewal
    resource        the resource for which the tokens are, usually the same address

Source: `docs/mcp.md`, Sign in. https://modelcontextprotocol.io, basic/authorization.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Final
from urllib.parse import urlsplit

import httpx2
from pydantic import JsonValue

from jp_nb.json_values import JsonObject, as_object
from jp_nb.mcp.oauth.address_rules import AddressRules
from jp_nb.mcp.oauth.oauth_answers import read_bounded
from jp_nb.mcp.transports.http_bodies import UnreadableAnswerError
from jp_nb.mcp.transports.launches import CredentialStore, HttpLaunch

EXPIRY_MARGIN_S: Final = 30.0
"""A token is renewed this long before it expires."""


class SignInNeededError(UnreadableAnswerError):
    """A server needs a sign-in before it answers; the message names the command."""


def make_sign_in_needed(name: str, launch: HttpLaunch) -> SignInNeededError:
    """Return the error for a server that needs a sign-in."""
    text = f"it needs a sign-in (HTTP 401). Sign in with `%jp mcp sign-in {name}` in a notebook"
    if launch.headers:
        text = f"{text}, or check its `headers`"
    return SignInNeededError(text)


def make_auth(name: str, launch: HttpLaunch) -> StoredTokens | None:
    """Return the authorization of requests to a server; None if its headers have one."""
    if launch.credentials is None or launch.has_authorization:
        return None
    return StoredTokens(name, launch, launch.credentials)


class StoredTokens(httpx2.Auth):
    """Adds the stored token to requests, and renews it. It never begins a sign-in.

    The HTTP client sends each request that `async_auth_flow` yields, and sends its response back
    into the generator (the contract of `httpx2.Auth`).

    Args:
        name: Name of the server in the configuration.
        launch: The address of the server.
        store: Has the tokens. Other kernels may renew them meanwhile.
    """

    def __init__(self, name: str, launch: HttpLaunch, store: CredentialStore) -> None:
        self._name = name
        self._launch = launch
        self._store = store
        self._rules = AddressRules(launch.url)
        self._lock = asyncio.Lock()  # held while a token is renewed: one renewal at a time
        # The server refused the last request, with this token; None if it had none.
        self._is_refused = False
        self._refused_token: str | None = None

    @property
    def needs_sign_in(self) -> bool:
        """True if the server refused the stored token, or a request without one.

        A token that was stored since, by a sign-in or another kernel, may be valid.
        """
        return self._is_refused and _get_access_token(self._store.load()) == self._refused_token

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Yield `request` with the token, after a renewal if the token has expired.

        If the server refuses the token, it is renewed, and the request is yielded once more.

        Raises:
            SignInNeededError: The server refuses the request, and there is no other token.
        """
        # The library `mcp` sends a new request after a redirect. Another server gets no token.
        if _get_origin(str(request.url)) != _get_origin(self._launch.url):
            yield request
            return

        # First renew a token that has expired. Other requests wait until the renewal is answered.
        async with self._lock:
            credentials = self._store.load()
            if credentials is not None and _is_expired(credentials):
                renewal = await self._make_renewal(credentials)
                if renewal is not None:
                    renewed = yield renewal
                    credentials = await self._read_renewal(credentials, renewed)

        _authorize(request, credentials)
        response = yield request
        if response.status_code != httpx2.codes.UNAUTHORIZED:
            self._is_refused = False
            return

        # The server refused the token: renew it, unless another kernel already did.
        await read_bounded(response)
        async with self._lock:
            latest = self._store.load()
            if latest is not None and _get_access_token(latest) == _get_access_token(credentials):
                renewal = await self._make_renewal(latest)
                if renewal is None:
                    raise self._note_refusal(latest)
                renewed = yield renewal
                latest = await self._read_renewal(latest, renewed)

        if latest is None or _get_access_token(latest) == _get_access_token(credentials):
            raise self._note_refusal(latest)

        # Send the request a second time, with the new token.
        _authorize(request, latest)
        response = yield request
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            await read_bounded(response)
            raise self._note_refusal(latest)
        self._is_refused = False

    def _note_refusal(self, credentials: JsonObject | None) -> SignInNeededError:
        """Note that the server refused this token, and return the error for the user."""
        self._is_refused = True
        self._refused_token = _get_access_token(credentials)
        return make_sign_in_needed(self._name, self._launch)

    async def _make_renewal(self, credentials: JsonObject) -> httpx2.Request | None:
        """Return the request for a new token; None if there is no token to renew."""
        tokens = as_object(credentials.get("tokens"))
        client = as_object(credentials.get("client"))
        token = tokens.get("refresh_token")
        endpoint = credentials.get("token_endpoint")
        if not isinstance(token, str) or not isinstance(endpoint, str):
            return None
        await self._rules.check(endpoint)  # raises an error for an address that gets no secrets

        client_id = str(client.get("client_id", ""))
        data = {
            "grant_type": "refresh_token",
            "refresh_token": token,
            "client_id": client_id,
            "resource": str(credentials.get("resource") or self._launch.url),
        }

        secret = client.get("client_secret")
        in_header = client.get("token_endpoint_auth_method") == "client_secret_basic"
        if isinstance(secret, str) and not in_header:
            data["client_secret"] = secret

        headers = {"accept-encoding": "identity"}  # `read_bounded` refuses compressed answers
        request = httpx2.Request("POST", endpoint, data=data, headers=headers)
        if isinstance(secret, str) and in_header:
            request = next(httpx2.BasicAuth(client_id, secret).sync_auth_flow(request))
        return request

    async def _read_renewal(self, credentials: JsonObject, response: httpx2.Response) -> JsonObject:
        """Store the new token in `response`; return the credentials that are valid now."""
        body = await read_bounded(response)
        if response.status_code != httpx2.codes.OK:
            return credentials  # the token may still work; otherwise the server rejects it

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
            "expires_at": compute_expiry_time(tokens.get("expires_in")),
        }
        self._store.save(str(credentials.get("issuer", "")), renewed)
        return renewed


def _get_access_token(credentials: Mapping[str, JsonValue] | None) -> str | None:
    token = as_object((credentials or {}).get("tokens")).get("access_token")
    return token if isinstance(token, str) else None


def _authorize(request: httpx2.Request, credentials: Mapping[str, JsonValue] | None) -> None:
    token = _get_access_token(credentials)
    if token is not None:
        request.headers["Authorization"] = f"Bearer {token}"


def _is_expired(credentials: Mapping[str, JsonValue]) -> bool:
    expires_at = credentials.get("expires_at")
    return isinstance(expires_at, int | float) and time.time() > expires_at - EXPIRY_MARGIN_S


def compute_expiry_time(seconds: object) -> float | None:
    """Return the time at which a token of `seconds` expires; None if that is unknown."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return time.time() + max(float(seconds), 0.0)


def _get_origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host, and port."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    port = parts.port or {"https": 443, "http": 80}.get(scheme)
    return scheme, (parts.hostname or "").lower(), port
