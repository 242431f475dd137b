"""Pass on the requests of the OAuth flow of the library `mcp`, with checks of each one.

A server chooses the addresses of the flow, so they might lead into the user's network. Its answers
might be endless, or quote a token.

Source: `docs/mcp.md`, Sign in.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

import httpx2

from jp_nb.json_values import as_object
from jp_nb.mcp.oauth.address_rules import AddressRules
from jp_nb.mcp.oauth.oauth_answers import read_bounded

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider

_ERROR_CODE: Final = re.compile(r"[a-z]{1,20}(_[a-z]{1,20}){0,4}")
"""Codes of errors, such as `invalid_grant`. No token looks like them."""


class CheckedFlow(httpx2.Auth):
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
