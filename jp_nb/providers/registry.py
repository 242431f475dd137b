"""Create providers by name. The module of a provider is loaded on first use.

Source: `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from jp_nb.agent.provider import Provider
from jp_nb.config.tree.models import AVAILABLE_PROVIDERS, PROVIDERS
from jp_nb.errors import ConfigError
from jp_nb.providers.endpoint import ProviderSettings


def create_provider(name: str, settings: Mapping[str, object] | None = None) -> Provider:
    """Return the provider `name` with `settings` over its defaults. Opens no connection.

    Raises:
        ConfigError: There is no such provider, or a setting is not valid.
    """
    if name not in AVAILABLE_PROVIDERS:
        known = f"the provider {name!r} is not available yet" if name in PROVIDERS else ""
        raise ConfigError(
            f"{known or f'unknown provider {name!r}'}; available: {', '.join(AVAILABLE_PROVIDERS)}",
            path="assistant.model.id.provider",
        )
    module, _, function = PROVIDERS[name].FACTORY.partition(":")
    make: Callable[[ProviderSettings], Provider] = getattr(
        import_module(f"jp_nb.providers.{module}"), function
    )
    # `settings` may contain null, which selects the default.
    return make(ProviderSettings(name, settings or {}, PROVIDERS[name]().model_dump()))
