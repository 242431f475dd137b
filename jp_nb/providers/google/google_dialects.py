"""Create the provider of Gemini in the dialect that its settings name.

With `append_instructions`, changed instructions are appended to the conversation as a message. So
the instructions in front stay the same, and the server can reuse its cached prefix.

The dialects are the Interactions API (`interactions`), and `generateContent` (`generate`) for
proxies and older models.

Source: `docs/providers.md`, https://ai.google.dev/gemini-api/docs.
"""

from __future__ import annotations

import re
from typing import Any, Final

from jp_nb.config.tree.named_servers import Server
from jp_nb.config.tree.provider_settings import Google, ProviderConfig
from jp_nb.providers.http_provider import HttpProvider
from jp_nb.providers.network.endpoint import make_endpoint

_API_REVISION: Final = "2026-05-20"
"""The revision of the Interactions API in its versions before 1. Later ones ignore it."""
_VERSION_AT_END: Final = re.compile(r"/v\d\w*/?$")
"""The version in an address, such as `https://generativelanguage.googleapis.com/v1beta`."""


def create(name: str, config: Google) -> HttpProvider[Any]:
    """Return the provider that `config` describes.

    Raises:
        ConfigError: The address is not valid.
    """
    return _create(name, config, config.dialect, append_instructions=config.append_instructions)


def create_server(name: str, config: Server) -> HttpProvider[Any]:
    """Return the provider for the configured server `name`, which speaks a dialect of Gemini.

    It has no setting `append_instructions`: its value is the default of Google's.

    Raises:
        ConfigError: The address is not valid.
    """
    return _create(name, config, config.dialect, append_instructions=True)


def _create(
    name: str, config: ProviderConfig, dialect: str, *, append_instructions: bool
) -> HttpProvider[Any]:
    """Return the provider of `dialect`. The module of the other dialect is not loaded."""
    has_version = _VERSION_AT_END.search(config.base_url or "") is not None
    root = "" if has_version else "/v1"

    if dialect == "generate":
        from jp_nb.providers.google.google_generate import GenerateProvider

        endpoint = make_endpoint(
            name, config, f"{root}/models", headers={}, key_header="x-goog-api-key"
        )
        return GenerateProvider(endpoint, append_instructions=append_instructions)

    from jp_nb.providers.google.google_interactions import InteractionsProvider

    endpoint = make_endpoint(
        name,
        config,
        f"{root}/interactions",
        headers={"api-revision": _API_REVISION},
        key_header="x-goog-api-key",
    )
    return InteractionsProvider(endpoint, append_instructions=append_instructions)
