"""Save the tokens of a sign-in, with everything that their renewal needs.

Source: `docs/mcp.md`, Sign in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jp_nb.json_values import JsonObject
from jp_nb.mcp.oauth.stored_tokens import compute_expiry_time
from jp_nb.mcp.transports.launches import CredentialStore

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken


class FlowMemory:
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
