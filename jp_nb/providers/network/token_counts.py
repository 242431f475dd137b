"""Token counts: ask a server for the size of a request that is not sent.

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/responses/input-tokens,
https://docs.anthropic.com/en/api/messages-count-tokens, https://ai.google.dev/api/tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from jp_nb.errors import ProtocolError, ProviderError
from jp_nb.json_values import as_object
from jp_nb.providers.network.http import HttpClient

NO_COUNT: Final = "does not count tokens of a request. `%jp request next` shows an estimate"
"""The end of an error, after the name of a server or provider."""
_TOO_MANY: Final = 2**53
"""No count of tokens: from here on, the numbers of JSON are not exact."""
_NO_ENDPOINT: Final = (404, 405, 501)
"""Statuses with which servers refuse an address that they do not know."""


@dataclass(frozen=True, slots=True)
class CountQuery:
    """A request that asks for the number of input tokens of another one.

    Each provider makes its own. `member` is the name of the answer's member with the number.
    """

    url: str
    body: JsonValue
    member: str = "input_tokens"
    headers: Mapping[str, str] = field(default_factory=dict)


async def fetch_token_count(
    http: HttpClient, query: CountQuery, *, model: str, seconds: float
) -> int:
    """Return the answer to `query`, about a request to `model`.

    Raises:
        ProviderError: The server has no such endpoint, the request fails, or it takes longer than
            `seconds`.
        ProtocolError: The answer has no number.
    """
    provider = http.endpoint.provider
    async with http.limit_time(seconds, "count the tokens"):
        try:
            answer = await http.fetch(query.url, query.body, headers=query.headers)
        except ProviderError as exc:
            # An error 404 that names the model is about the model, not about the endpoint.
            if exc.status not in _NO_ENDPOINT or model in str(exc):
                raise
            raise ProviderError(
                f"the server of {provider} {NO_COUNT}: {query.url} is not available ({exc})"
            ) from exc

        count = as_object(answer).get(query.member)
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < _TOO_MANY:
            raise ProtocolError(
                f"{provider} answered without a number of tokens ({query.url}). "
                "`%jp request next` shows an estimate"
            )

        return count
