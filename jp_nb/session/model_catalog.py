"""What providers offer, as this kernel was told: asked for when somebody asks, kept for a while.

Source: `docs/guide.md`, `docs/decisions.md` D107.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from jp_nb.agent.model_events import Provider
from jp_nb.agent.model_info import ModelInfo, ModelList
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.errors import ConfigError, ProviderError
from jp_nb.session.resolving import Resolver

KEPT_SECONDS: Final = 300.0
LIST_SECONDS: Final = 20.0
"""How long a provider may take to list its models."""
CHECK_SECONDS: Final = 3.0
"""The same, where nobody asked for the list itself."""
UNKNOWN: Final = "it is unknown whether the provider has this model"


@dataclass(frozen=True, slots=True)
class _Answered:
    provider: Provider
    when: float
    models: ModelList


class ModelCatalog:
    """Asks providers what they offer. Nothing but `models` sends anything.

    Args:
        resolver: Makes providers.
        wait_for: Runs work on the agent's loop, and waits for it.
        clock: Seconds.
    """

    def __init__(
        self,
        resolver: Resolver,
        wait_for: Callable[[Coroutine[Any, Any, ModelList]], ModelList],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._resolver = resolver
        self._wait_for = wait_for
        self._clock = clock
        self._told: dict[str, _Answered] = {}

    def models(
        self, name: str, config: AppConfig, *, refresh: bool = False, seconds: float = LIST_SECONDS
    ) -> ModelList:
        """Return what the provider `name` offers: what it told lately, unless `refresh`.

        Raises:
            ConfigError: If there is no such provider.
            ProviderError: If it does not say.
        """
        provider = self._resolver.provider(name, config.providers.llm)
        told = self._told.get(name)
        fresh = told is not None and self._clock() - told.when < KEPT_SECONDS
        if told is not None and told.provider is provider and fresh and not refresh:
            return told.models
        found = self._wait_for(provider.models(seconds=seconds))
        self._told[name] = _Answered(provider, self._clock(), found)
        return found

    def told(self, config: AppConfig) -> Iterator[str]:
        """Yield what providers told in this kernel, as `provider/name`. Sends nothing."""
        for name, told in self._told.items():
            if self._is_same(name, told, config):
                yield from (f"{name}/{model.id}" for model in told.models.models)

    def _is_same(self, name: str, told: _Answered, config: AppConfig) -> bool:
        try:
            return self._resolver.provider(name, config.providers.llm) is told.provider
        except ConfigError:
            return False

    def standing(self, config: AppConfig) -> str:
        """Return what the provider in force says about the model in force, in a few words.

        Raises:
            ConfigError: If there is no such model.
        """
        model, _ = self._resolver.model(config)
        try:
            listed = self.models(model.provider, config, seconds=CHECK_SECONDS)
        except ProviderError as exc:
            return f"{UNKNOWN}: {exc}"
        found = listed.find(model.name)
        if found is not None:
            return ending(found) or f"{model.provider} lists this model"
        if listed.is_cut or not listed.models:
            return f"{UNKNOWN}: the model list of {model.provider} is incomplete"
        return (
            f"⚠ {model.provider} does not list {model.name}. It may still work, for "
            f"example as a short name. Show the list: `%jp models {model.provider}`"
        )


def ending(model: ModelInfo) -> str:
    """Return that `model` ends, or has ended, and what to do; "" if nobody said so."""
    if not model.state:
        return ""
    when = f" on {model.ends}" if model.ends else ""
    what = f"ends{when}" if when else "is deprecated"
    if model.state == "retired":
        what = f"has ended{f': {model.ends}' if when else ''}"
    return f"⚠ {model.id} {what}, according to its provider. Show other models: `%jp models`"
