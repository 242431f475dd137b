"""Makes providers by name. Loads the module of a provider when it is first wanted.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from jp_nb.agent.model_events import Provider
from jp_nb.config.tree.node import found
from jp_nb.errors import ConfigError

DEFAULTS: Final[Mapping[str, Mapping[str, object]]] = {
    "anthropic": {
        "api_key_env": "ANTHROPIC_API_KEY",
        "base_url": "https://api.anthropic.com",
        "beta_headers": (),
    },
    "cerebras": {"api_key_env": "CEREBRAS_API_KEY", "base_url": "https://api.cerebras.ai"},
    "deepseek": {"api_key_env": "DEEPSEEK_API_KEY", "base_url": "https://api.deepseek.com"},
    "llamacpp": {"base_url": "http://127.0.0.1:8080"},
    "ollama": {"base_url": "http://localhost:11434"},
    "openai": {
        "api_key_env": "OPENAI_API_KEY",
        "base_url": "https://api.openai.com",
        "base_url_env": "OPENAI_BASE_URL",
    },
    "openrouter": {
        "api_key_env": "OPENROUTER_API_KEY",
        "base_url": "https://openrouter.ai",
        "app_name": "jp_nb",
    },
    "scripted": {"folders": ()},
}
"""Settings of `providers.llm.NAME`; `scripted` has `folders`, where scripts are looked for."""

NAMES: Final = tuple(sorted(DEFAULTS))
NOT_YET: Final = frozenset({"google", "test", "xai"})
"""Providers that a configuration may name and that are not built."""


def create(name: str, settings: Mapping[str, object] | None = None) -> Provider:
    """Return the provider `name`, with `settings` over its defaults. Opens nothing.

    Raises:
        ConfigError: If there is no such provider (yet), or a setting cannot be.
    """
    if name in NOT_YET:
        raise ConfigError(
            f"the provider {name!r} is not available yet; there are {', '.join(NAMES)}",
            path="assistant.model.id.provider",
        )
    if name not in DEFAULTS:
        raise ConfigError(
            f"there is no provider {name!r}; there are {', '.join(NAMES)}",
            path="assistant.model.id.provider",
        )
    given = {key: value for key, value in (settings or {}).items() if value is not None}
    options = _Settings(name, {**DEFAULTS[name], **given})
    if name == "scripted":
        from jp_nb.providers.scripted import ScriptedProvider

        return ScriptedProvider(folders=[Path(folder) for folder in options.texts("folders")])
    return _over_http(name, options)


def _over_http(name: str, options: _Settings) -> Provider:
    from jp_nb.providers.http import Endpoint

    default_key = DEFAULTS[name].get("api_key_env")
    key_required = options.base_url() == DEFAULTS[name]["base_url"] and default_key is not None
    key_named = options.text("api_key_env") not in (None, default_key)
    if name == "anthropic":
        from jp_nb.providers import anthropic

        headers = {"anthropic-version": anthropic.VERSION}
        if betas := options.texts("beta_headers"):
            headers["anthropic-beta"] = ",".join(betas)
        return anthropic.AnthropicProvider(
            Endpoint(
                name,
                options.base_url(),
                anthropic.PATH,
                key_env=options.text("api_key_env"),
                key_header="x-api-key",
                key_required=key_required,
                key_named=key_named,
                headers=headers,
            )
        )
    from jp_nb.providers import openai_chat

    if options.text("dialect") not in (None, "chat"):
        raise ConfigError(
            "the dialect `responses` is not available yet, expected `chat` or nothing",
            path=f"providers.llm.{name}.dialect",
        )
    profile = openai_chat.PROFILES[name]
    attribution = {
        "x-title": options.text("app_name"),
        "http-referer": options.text("app_referrer"),
    }
    return openai_chat.ChatProvider(
        Endpoint(
            name,
            options.base_url(),
            profile.path,
            base_url_env=options.text("base_url_env"),
            key_env=options.text("api_key_env"),
            key_required=key_required,
            key_named=key_named,
            headers={key: value for key, value in attribution.items() if value},
        ),
        profile,
    )


class _Settings:
    """A provider's settings, checked as they are read."""

    def __init__(self, provider: str, values: Mapping[str, object]) -> None:
        self._provider = provider
        self._values = values

    def text(self, key: str) -> str | None:
        value = self._values.get(key)
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, "a text", value)
        return value or None

    def texts(self, key: str) -> list[str]:
        value = self._values.get(key, ())
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise self._wrong(key, "a list of texts", value)
        return [str(item) for item in value]

    def base_url(self) -> str:
        url = self.text("base_url") or ""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise self._wrong("base_url", "an http or https address", url)
        return url

    def _wrong(self, key: str, expected: str, value: object) -> ConfigError:
        path = f"providers.llm.{self._provider}.{key}"
        return ConfigError(f"expected {expected}, {found(value, path)}", path=path)
