"""Model providers: over HTTP, and the scripted one. The module of each is loaded on first use.

Source: `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, TypeVar

from pydantic import ValidationError

from jp_nb.agent.provider import Provider
from jp_nb.config.tree.declared_servers import SERVERS_PATH
from jp_nb.config.tree.named_servers import Server
from jp_nb.config.tree.provider_settings import (
    AVAILABLE_PROVIDERS,
    PROVIDER_CLASSES,
    ProviderConfig,
)
from jp_nb.errors import ConfigError

ConfigT = TypeVar("ConfigT", bound=ProviderConfig)


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

    settings_class = PROVIDER_CLASSES[name]
    config = _read_settings(settings_class, settings or {}, f"providers.llm.{name}")

    # Such as `openai.openai_dialects:create`.
    module_name, _, function = settings_class.FACTORY.partition(":")
    module = import_module(f"jp_nb.providers.{module_name}")
    make: Callable[[str, ProviderConfig], Provider] = getattr(module, function)
    return make(name, config)


_MODULE_OF_DIALECT: Final[Mapping[str, str]] = {
    "chat": "openai.openai_dialects",
    "responses": "openai.openai_dialects",
    "messages": "anthropic.anthropic_messages",
    "interactions": "google.google_dialects",
    "generate": "google.google_dialects",
}
"""The module whose `create_server` makes the provider of a dialect."""


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

    module = import_module(f"jp_nb.providers.{_MODULE_OF_DIALECT[config.dialect]}")
    make: Callable[[str, Server], Provider] = module.create_server
    return make(name, config)


def _read_settings(
    settings_class: type[ConfigT], settings: Mapping[str, object], setting_path: str
) -> ConfigT:
    """Return validated settings. Those that are None have their defaults."""
    configured = {key: value for key, value in settings.items() if value is not None}
    try:
        return settings_class.model_validate(configured)
    except ValidationError as exc:
        # Neither the input nor the cause is shown: a mistyped setting may contain a key.
        first = exc.errors(include_input=False)[0]
        path = ".".join((setting_path, *map(str, first["loc"])))
        raise ConfigError(first["msg"].removeprefix("Value error, "), path=path) from None
