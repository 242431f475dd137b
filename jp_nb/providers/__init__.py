"""Model providers: over HTTP, and the scripted one. The module of each is loaded on first use.

Source: `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TypeVar

from pydantic import ValidationError

from jp_nb.agent.provider import Provider
from jp_nb.config.tree.named_servers import SERVERS_PATH, Server
from jp_nb.config.tree.provider_settings import (
    AVAILABLE_PROVIDERS,
    PROVIDER_CLASSES,
    ProviderConfig,
)
from jp_nb.errors import ConfigError


def create_provider(name: str, settings: Mapping[str, object] | None = None) -> Provider:
    """Return the provider `name` with `settings` over its defaults. Opens no connection.

    A setting that is None has its default.

    Raises:
        ConfigError: There is no such provider, or a setting is not valid.
    """
    if name not in AVAILABLE_PROVIDERS:
        problem = f"unknown provider {name!r}"
        if name in PROVIDER_CLASSES:
            problem = f"the provider {name!r} is not available yet"
        raise ConfigError(
            f"{problem}; available: {', '.join(AVAILABLE_PROVIDERS)}",
            path="assistant.model.id.provider",
        )

    kind = PROVIDER_CLASSES[name]
    module, _, function = kind.FACTORY.partition(":")
    make: Callable[[str, ProviderConfig], Provider] = getattr(
        import_module(f"jp_nb.providers.{module}"), function
    )

    config = _read_settings(kind, settings or {}, f"providers.llm.{name}")
    return make(name, config)


ConfigT = TypeVar("ConfigT", bound=ProviderConfig)


def create_server(name: str, settings: Mapping[str, object]) -> Provider:
    """Return the provider for the server `name` of the configuration. Opens no connection.

    Raises:
        ConfigError: A setting is missing or not valid.
    """
    config = _read_settings(Server, settings, f"{SERVERS_PATH}.{name}")
    if not config.base_url:
        raise ConfigError(
            "the address of the server is missing", path=f"{SERVERS_PATH}.{name}.base_url"
        )

    module = {
        "chat": "openai.openai_chat",
        "responses": "openai.openai_chat",
        "messages": "anthropic.anthropic_messages",
        "interactions": "google.google_interactions",
        "generate": "google.google_interactions",
    }[config.dialect]

    make: Callable[[str, Server], Provider] = import_module(
        f"jp_nb.providers.{module}"
    ).create_server

    return make(name, config)


def _read_settings(
    kind: type[ConfigT], settings: Mapping[str, object], setting_path: str
) -> ConfigT:
    given = {key: value for key, value in settings.items() if value is not None}
    try:
        return kind.model_validate(given)
    except ValidationError as exc:
        first = exc.errors(include_input=False)[0]
        path = ".".join((setting_path, *map(str, first["loc"])))
        raise ConfigError(first["msg"].removeprefix("Value error, "), path=path) from None
