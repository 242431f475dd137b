"""Address of a provider's server, and the variable with its key, from the settings.

Source: `docs/providers.md`, `docs/configuration.md`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from jp_nb.config.tree.declared_servers import SERVERS_PATH
from jp_nb.config.tree.named_servers import Server
from jp_nb.config.tree.provider_settings import OpenAi, ProviderConfig
from jp_nb.config.tree.value_errors import describe_found
from jp_nb.errors import ConfigError
from jp_nb.providers.network.local_server import find_answering_address
from jp_nb.providers.network.server_urls import join_url

KeyHeader = Literal["authorization", "x-api-key", "x-goog-api-key"]
_OPENAI_URL: Final = re.compile(
    r"https?://(?:[a-z0-9-]+\.)*api\.openai\.com(?=[:/]|$)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of a server, and the environment variable with its key. It holds no key.

    Attributes:
        provider: The name of the provider in the configuration.
        base_url: The address without `path`. It may end in the first segments of `path`. The
            settings accept no user name or password in it.
        path: The path of the API, such as `/v1/messages`.
        other_base_urls: Addresses at which the server may run instead of `base_url`.
        base_url_env: The environment variable whose address replaces `base_url`.
        key_env: The environment variable of the key; None if the server needs no key.
        key_header: The header of a request that has the key.
        key_required: True if the server at `base_url` requires a key.
        key_configured: True if the user set `key_env`: no request is sent without a key.
        headers: Further headers of each request. The settings accept no keys in them.
        is_server: True if the provider is one of the user's `providers.llm.servers`.
        local: The kind of a local server, such as `ollama`, for advice; "" for other servers.
            `openai_dialects.py` sets it.
    """

    provider: str
    base_url: str
    path: str
    other_base_urls: tuple[str, ...] = ()
    base_url_env: str | None = None
    key_env: str | None = None
    key_header: KeyHeader = "authorization"
    key_required: bool = False
    key_configured: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    is_server: bool = False
    local: str = ""

    @property
    def setting_path(self) -> str:
        """Path of the settings in the configuration."""
        table = SERVERS_PATH if self.is_server else "providers.llm"
        return f"{table}.{self.provider}"

    @property
    def environment_url(self) -> str:
        """Base URL from the environment; "" if it sets none.

        Raises:
            ConfigError: It contains a user name or a password, which the message does not show.
        """
        url = os.environ.get(self.base_url_env, "") if self.base_url_env else ""

        host = re.split(r"[/?#]", url.rpartition("://")[2])[0]
        if "@" in host:
            raise ConfigError(
                f"the address in {self.base_url_env} cannot contain a user name or "
                "password. Put the key into an environment variable and set "
                "api_key_env to its name",
                path=f"{self.setting_path}.base_url_env",
            )
        return url

    @property
    def software(self) -> str:
        """Name of the software that runs as this server, for advice: its kind, or the provider."""
        return self.local or self.provider

    @property
    def has_key(self) -> bool:
        """True if the environment variable of the key is set."""
        return bool(self.key_env and os.environ.get(self.key_env, "").strip())

    @property
    def base_urls(self) -> tuple[str, ...]:
        """Base URLs at which the server may run."""
        return self.base_url, *self.other_base_urls

    @property
    def url(self) -> str:
        """Address of the endpoint, with `path`. Raises `ConfigError` as `environment_url` does.

        If the server may run at several addresses, each is asked (`local_server.py`) until one has
        answered, which is then remembered.
        """
        base = find_answering_address(self.base_urls) if self.other_base_urls else self.base_url
        return join_url(self.environment_url or base, self.path)

    @property
    def is_openai(self) -> bool:
        """True if the server is OpenAI's own. Unlike `url`, it never raises or asks a server."""
        from_environment = os.environ.get(self.base_url_env, "") if self.base_url_env else ""
        url = from_environment or self.base_url
        return _OPENAI_URL.match(url) is not None


def make_endpoint(
    provider: str,
    config: ProviderConfig,
    path: str,
    *,
    headers: Mapping[str, str],
    key_header: KeyHeader = "authorization",
) -> Endpoint:
    """Return the endpoint at `path` of the configured server.

    Raises:
        ConfigError: `base_url` is not an http or https address.
    """
    table = "providers.llm"
    if isinstance(config, Server):
        table = SERVERS_PATH
        headers = {**headers, **{name.lower(): value for name, value in config.headers.items()}}

    # A local server may run at one of several default addresses.
    addresses = [config.base_url] if config.base_url else list(config.DEFAULT_ADDRESSES)
    base_url, *others = addresses or [""]

    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        setting = f"{table}.{provider}.base_url"
        found = describe_found(base_url, setting)
        raise ConfigError(f"expected an http or https address, {found}", path=setting)

    defaults = type(config)()
    key_env = config.api_key_env or None
    base_url_env = config.base_url_env if isinstance(config, OpenAi) else None
    return Endpoint(
        provider,
        base_url,
        path,
        other_base_urls=tuple(others),
        base_url_env=base_url_env,
        key_env=key_env,
        key_header=key_header,
        key_required=config.base_url == defaults.base_url,  # another server may need no key
        key_configured=key_env not in (None, defaults.api_key_env),
        headers=headers,
        is_server=isinstance(config, Server),
    )


def find_dialect(provider: str, config: ProviderConfig) -> str | None:
    """Return the API that requests to `provider` use; None if it has only one.

    It is the configured one. Without one, OpenAI's own server gets requests of the Responses API,
    and another server at the address of the provider `openai` those of Chat Completions.

    Raises:
        ConfigError: `base_url` is not an http or https address.
    """
    dialect: str | None = getattr(config, "dialect", None)
    if dialect is None and isinstance(config, OpenAi):
        is_openai = make_endpoint(provider, config, "", headers={}).is_openai
        return "responses" if is_openai else "chat"
    return dialect
