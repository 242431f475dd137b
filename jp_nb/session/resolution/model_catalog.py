"""Model lists of providers, and their entry for the current model.

Source: `docs/guide.md`, `docs/decisions.md` D107.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from jp_nb.agent.provider import ModelInfo, ModelList, Provider
from jp_nb.config.aliases import resolve_model
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.model_id import ModelId
from jp_nb.errors import ConfigError, ProviderError
from jp_nb.session.resolution.resolver import Resolver

CACHE_SECONDS: Final = 300.0
"""Lifetime of a cached model list."""
RETRY_SECONDS: Final = 5.0
"""Time until completion requests a list again that failed."""
TAB_SECONDS: Final = 0.4
"""Maximum wait of completion for a list."""
LIST_SECONDS: Final = 20.0
"""Limit for a provider to list its models."""
CHECK_SECONDS: Final = 3.0
"""Limit to list models if the user did not ask for the list."""
MODEL_UNKNOWN: Final = "it is unknown whether the provider has this model"


class ModelCatalog:
    """Model lists of providers, which the thread of the cell requests.

    `wait_for` and `start` run a request on the agent's thread. Turns take the size of a context
    from the last list, and do not request one.
    """

    def __init__(
        self,
        resolver: Resolver,
        wait_for: Callable[[Coroutine[Any, Any, ModelList]], ModelList],
        start: Callable[[Coroutine[Any, Any, ModelList]], Future[ModelList]],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._resolver = resolver
        self._wait_for = wait_for
        self._start = start
        self._clock = clock
        self._cache: dict[str, tuple[Provider, float, ModelList]] = {}
        self._background: dict[str, tuple[Provider, float, Future[ModelList]]] = {}
        resolver.find_context_tokens = self.find_context_tokens

    def find_context_tokens(self, model: ModelId) -> int | None:
        """Return the size of the context of `model`, if a list of this kernel names it."""
        _, _, models = self._cache.get(model.provider, (None, 0.0, ModelList()))
        listed = models.find(model.name)
        return None if listed is None else listed.context_window

    def models(
        self, name: str, config: AppConfig, *, refresh: bool = False, seconds: float = LIST_SECONDS
    ) -> ModelList:
        """Return the models of the provider `name`; a recent list is not requested again.

        Raises:
            ConfigError: There is no such provider.
            ProviderError: The provider does not list them.
        """
        provider = self._resolver.provider(name, config.providers.llm)
        known, when, models = self._cache.get(name, (None, 0.0, ModelList(())))
        if known is not provider or self._clock() - when >= CACHE_SECONDS or refresh:
            models = self._wait_for(provider.models(seconds=seconds))
            self._cache[name] = (provider, self._clock(), models)
        return models

    def offer(self, name: str, config: AppConfig, *, seconds: float = TAB_SECONDS) -> ModelList:
        """Return the models of the provider `name` for completion, in at most that many `seconds`.

        If they are not known, a request starts in the background, and a later call has its result.

        Raises:
            ConfigError: There is no such provider.
            ProviderError: The provider does not list them. The request is repeated after a while.
        """
        provider = self._resolver.provider(name, config.providers.llm)
        now = self._clock()
        known, when, models = self._cache.get(name, (None, 0.0, ModelList()))
        if known is provider and now - when < CACHE_SECONDS:
            return models

        asked, when, listing = self._background.get(name, (None, 0.0, Future[ModelList]()))
        if asked is not provider or _is_outdated(listing, now - when):
            when = now
            listing = self._start(provider.models(seconds=LIST_SECONDS))
            self._background[name] = (provider, when, listing)

        try:
            models = listing.result(timeout=seconds)
        except TimeoutError:
            return models if known is provider else ModelList()

        self._cache[name] = (provider, when, models)
        return models

    def describe_current(self, config: AppConfig) -> str:
        """Describe in a few words whether the provider lists the current model."""
        model, _ = self._resolver.model(config)
        try:
            listed = self.models(model.provider, config, seconds=CHECK_SECONDS)
        except ProviderError as exc:
            return f"{MODEL_UNKNOWN}: {exc}"

        if (found := listed.find(model.name)) is not None:
            warnings = [format_deprecation(found), format_output_limit(found, config)]
            warnings += _list_ending_aliases(listed, model.provider, config)
            return " ".join(filter(None, warnings)) or f"{model.provider} lists this model"

        if listed.is_cut or not listed.models:
            return f"{MODEL_UNKNOWN}: the model list of {model.provider} is incomplete"

        return (
            f"⚠ {model.provider} does not list {model.name}. It may still work, for "
            f"example as a short name. Show the list: `%jp models {model.provider}`"
        )


def _is_outdated(listing: Future[ModelList], age: float) -> bool:
    """Return True if a list that was requested `age` seconds ago must be requested again."""
    if not listing.done():
        return False  # the request has its own limit
    has_failed = listing.cancelled() or listing.exception() is not None
    return age >= (RETRY_SECONDS if has_failed else CACHE_SECONDS)


def format_deprecation(model: ModelInfo) -> str:
    """Return a warning if the provider announced the end of `model`, otherwise ""."""
    if not model.state:
        return ""

    state = f"ends on {model.ends}" if model.ends else "is deprecated"
    if model.state == "retired":
        state = f"has ended: {model.ends}" if model.ends else "has ended"
    return f"⚠ {model.id} {state}, according to its provider. Show other models: `%jp models`"


def _list_ending_aliases(listed: ModelList, provider: str, config: AppConfig) -> Iterator[str]:
    """Yield a warning for each alias of a model of `provider` whose end was announced."""
    known = config.providers.llm.aliases
    current = config.assistant.model.id
    for alias in known:
        with suppress(ConfigError):  # reported when the alias is used
            model = resolve_model(alias, known)
            found = listed.find(model.name) if model.provider == provider else None
            if found is not None and found.state and model != resolve_model(current, known):
                yield f"Alias `{alias}`: {format_deprecation(found)}"


def format_output_limit(model: ModelInfo, config: AppConfig) -> str:
    """Return a warning if the configured length of an answer exceeds that of `model`, else ""."""
    limit = model.max_output
    tokens = config.assistant.model.parameters.max_tokens
    if limit is None or tokens is None or tokens <= limit:
        return ""
    path = "assistant.model.parameters.max_tokens"
    return (
        f"⚠ {path} = {tokens}, but {model.id} writes at most {limit} tokens in an answer. "
        f"Reduce it: `%jp config {path}={limit}`"
    )
