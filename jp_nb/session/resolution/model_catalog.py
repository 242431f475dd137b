"""Model lists of providers, and their entry for the current model.

Source: `docs/guide.md`, `docs/decisions.md` D107.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from time import monotonic
from typing import Any, Final, NamedTuple

from jp_nb.agent.model_info import ModelList
from jp_nb.agent.provider import Provider
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.model_id import ModelId
from jp_nb.errors import ProviderError
from jp_nb.session.resolution.model_warnings import list_model_warnings
from jp_nb.session.resolution.resolver import Resolver

CACHE_SECONDS: Final = 300.0
"""Lifetime of a cached model list."""
RETRY_SECONDS: Final = 5.0
"""Time until the Tab key requests a list again that failed."""
TAB_SECONDS: Final = 0.4
"""Maximum wait of the Tab key for a list."""
LIST_SECONDS: Final = 20.0
"""Limit for a provider to list its models."""
CHECK_SECONDS: Final = 3.0
"""Limit to list models if the user did not ask for the list."""
MODEL_UNKNOWN: Final = "it is unknown whether the provider has this model"


class _CachedList(NamedTuple):
    """A model list, and the time of its request."""

    provider: Provider
    time: float
    models: ModelList


class _ListRequest(NamedTuple):
    """A request for a model list that the Tab key started, and that runs in the background."""

    provider: Provider
    time: float
    future: Future[ModelList]


class ModelCatalog:
    """Model lists of providers, which the thread of the cell requests.

    Commands wait for a list (`list_models`), and the Tab key only a moment (`offer`). Turns take
    the size of a context from the last list, and do not request one: the `resolver` calls
    `find_context_tokens`.

    Args:
        wait_for: Runs a request on the agent's thread, and waits for it.
        start: Starts a request on the agent's thread.
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
        self._cache: dict[str, _CachedList] = {}
        self._background: dict[str, _ListRequest] = {}
        resolver.find_context_tokens = self.find_context_tokens

    def find_context_tokens(self, model: ModelId) -> int | None:
        """Return the size of the context of `model`, if a list of this kernel names it."""
        cached = self._cache.get(model.provider)
        listed = None if cached is None else cached.models.find(model.name)
        return None if listed is None else listed.context_window

    def list_models(
        self, name: str, config: AppConfig, *, refresh: bool = False, seconds: float = LIST_SECONDS
    ) -> ModelList:
        """Return the models of the provider `name`; a recent list is not requested again.

        Raises:
            ConfigError: There is no such provider.
            ProviderError: The provider does not list them.
        """
        provider = self._resolver.open_provider(name, config.providers.llm)
        cached = self._find_cached(name, provider)
        if cached is not None and not refresh:
            return cached

        models = self._wait_for(provider.models(seconds=seconds))
        self._cache[name] = _CachedList(provider, self._clock(), models)
        return models

    def _find_cached(self, name: str, provider: Provider) -> ModelList | None:
        """Return the recent list of `provider`; None if there is none."""
        cached = self._cache.get(name)
        # With other settings, such as another key, it is another object.
        if cached is None or cached.provider is not provider:
            return None
        is_recent = self._clock() - cached.time < CACHE_SECONDS
        return cached.models if is_recent else None

    def offer(self, name: str, config: AppConfig, *, seconds: float = TAB_SECONDS) -> ModelList:
        """Return the models of the provider `name` for the Tab key, in at most that many `seconds`.

        If they are not known, a request starts in the background, and a later call has its result.
        Meanwhile it returns the last known list, or an empty one.

        Raises:
            ConfigError: There is no such provider.
            ProviderError: The provider does not list them. The request is repeated after a while.
        """
        provider = self._resolver.open_provider(name, config.providers.llm)
        recent = self._find_cached(name, provider)
        if recent is not None:
            return recent

        request = self._background.get(name)
        if request is None or request.provider is not provider or self._is_outdated(request):
            future = self._start(provider.models(seconds=LIST_SECONDS))
            request = _ListRequest(provider, self._clock(), future)
            self._background[name] = request

        try:
            models = request.future.result(timeout=seconds)
        except TimeoutError:
            # An old list is better than none.
            old = self._cache.get(name)
            return old.models if old is not None and old.provider is provider else ModelList()

        self._cache[name] = _CachedList(provider, request.time, models)
        return models

    def _is_outdated(self, request: _ListRequest) -> bool:
        """Return True if the list must be requested again."""
        if not request.future.done():
            return False  # the request has its own limit

        age = self._clock() - request.time
        has_failed = request.future.cancelled() or request.future.exception() is not None
        return age >= (RETRY_SECONDS if has_failed else CACHE_SECONDS)

    def describe_current(self, config: AppConfig) -> str:
        """Describe in a few words whether the provider lists the current model."""
        model, _ = self._resolver.open_model(config)
        try:
            listed = self.list_models(model.provider, config, seconds=CHECK_SECONDS)
        except ProviderError as exc:
            return f"{MODEL_UNKNOWN}: {exc}"

        info = listed.find(model.name)
        if info is not None:
            warnings = list_model_warnings(info, listed, model.provider, config)
            return " ".join(warnings) or f"{model.provider} lists this model"

        if listed.is_cut or not listed.models:
            return f"{MODEL_UNKNOWN}: the model list of {model.provider} is incomplete"

        return (
            f"⚠ {model.provider} does not list {model.name}. It may still work, for "
            f"example as a short name. Show the list: `%jp models {model.provider}`"
        )
