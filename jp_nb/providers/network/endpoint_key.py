"""The API key of an endpoint: its check before a request, its header, and its place in a preview.

The key is read from its environment variable for each request, because the user may set it in a
running kernel. No object keeps it.

Source: `docs/providers.md`.
"""

from __future__ import annotations

from jp_nb.agent.provider import KeyReference
from jp_nb.errors import ProviderError
from jp_nb.providers.key_redactor import KeyRedactor, get_current_redactor, read_key
from jp_nb.providers.network.endpoint import Endpoint
from jp_nb.providers.network.model_choices import format_key_statement


class EndpointKey:
    """The key of one endpoint, which has the name of its variable and of its header."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    @property
    def is_required(self) -> bool:
        """True if no request is sent without a key.

        The user named its variable, or the default server requires one. Another server, at an
        address from the environment, may need none.
        """
        endpoint = self._endpoint
        return endpoint.key_configured or (endpoint.key_required and not endpoint.environment_url)

    def check(self) -> None:
        """Raise if no request can be sent with the current value of the variable.

        Raises:
            ProviderError: The key is missing or contains invalid characters.
        """
        endpoint = self._endpoint
        name = endpoint.key_env
        key = read_key(name)

        if name is not None and not key and self.is_required:
            raise ProviderError(
                f"{endpoint.provider} needs a key, and the environment variable "
                f"{name} is not set. Set it in this kernel: `{format_key_statement(name)}`. Or "
                f"use another variable: {endpoint.setting_path}.api_key_env."
            )

        if not (key.isascii() and key.isprintable()):
            raise ProviderError(
                f"the environment variable {name} contains characters that are not "
                "valid in a key. Set it again"
            )

    def make_header(self) -> dict[str, str]:
        """Return the header with the key; {} if the variable has no value."""
        key = read_key(self._endpoint.key_env)
        if not key:
            return {}
        return {self._endpoint.key_header: f"{self._prefix}{key}"}

    def make_reference(self) -> KeyReference | None:
        """Return the header and the variable of the key, for a preview; None if none is sent."""
        endpoint = self._endpoint
        is_set = endpoint.has_key
        if endpoint.key_env is None or not (is_set or self.is_required):
            return None
        return KeyReference(endpoint.key_header, self._prefix, endpoint.key_env, is_set)

    def get_redactor(self) -> KeyRedactor:
        """Return the redactor of the current key."""
        return get_current_redactor(self._endpoint.key_env)

    @property
    def _prefix(self) -> str:
        """Text before the key in its header."""
        return "Bearer " if self._endpoint.key_header == "authorization" else ""
