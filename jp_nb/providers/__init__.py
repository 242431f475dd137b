"""Model providers: over HTTP, and the scripted one. The module of each is loaded on first use.

Source: `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from pydantic import ValidationError

from jp_nb.agent.provider import Provider
from jp_nb.config.tree.models import AVAILABLE_PROVIDERS, PROVIDERS, ProviderConfig
from jp_nb.errors import ConfigError


def create_provider(name: str, settings: Mapping[str, object] | None = None) -> Provider:
    """Return the provider `name` with `settings` over its defaults. Opens no connection.

    A setting that is None has its default.

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
    make: Callable[[str, ProviderConfig], Provider] = getattr(
        import_module(f"jp_nb.providers.{module}"), function
    )
    given = {key: value for key, value in (settings or {}).items() if value is not None}
    try:
        config = PROVIDERS[name].model_validate(given)
    except ValidationError as exc:
        first = exc.errors(include_input=False)[0]
        path = ".".join(map(str, ("providers", "llm", name, *first["loc"])))
        raise ConfigError(first["msg"].removeprefix("Value error, "), path=path) from None
    return make(name, config)
