"""Asks servers what they offer: pages, what else a local server says, and never for long.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Final, Literal
from urllib.parse import quote

from pydantic import JsonValue

from jp_nb.agent.model_info import ModelInfo, ModelList
from jp_nb.errors import ProviderError
from jp_nb.json_values import as_object
from jp_nb.providers.http import HttpClient
from jp_nb.providers.model_lists import (
    MAX_ID_CHARS,
    MAX_MODELS,
    anthropic_models,
    chat_models,
    ollama_models,
    with_details,
    with_props,
)

MAX_PAGES: Final = 20
MAX_DETAILED: Final = 30
"""Of so many models Ollama is asked for more than it lists."""
AT_ONCE: Final = 4
_PAGE: Final = 1000

Local = Literal["llamacpp", "ollama"]


async def list_anthropic(http: HttpClient, seconds: float) -> ModelList:
    """Return what a server that speaks Anthropic Messages offers.

    Raises:
        ProviderError: If it does not say within `seconds`.
    """
    url = f"{_beside(http, '/messages')}/models"

    async def pages() -> AsyncGenerator[list[ModelInfo], None]:
        after = ""
        for _ in range(MAX_PAGES):
            page = as_object(await http.fetch(f"{url}?limit={_PAGE}{after}"))
            yield anthropic_models(page)
            last = page.get("last_id")
            if page.get("has_more") is not True or not isinstance(last, str):
                return
            after = f"&after_id={quote(last[:MAX_ID_CHARS], safe='')}"

    return await _in_time(http, seconds, lambda: _gathered(pages()))


async def list_chat(http: HttpClient, seconds: float, local: Local | None = None) -> ModelList:
    """Return what a server that speaks chat completions offers; a `local` one says more.

    Raises:
        ProviderError: If it does not say within `seconds`.
    """
    root = _beside(http, "/chat/completions")
    base = root.removesuffix("/v1")

    async def pages() -> AsyncGenerator[list[ModelInfo], None]:
        page = await http.fetch(f"{root}/models")
        seen = 0
        for _ in range(MAX_PAGES):
            models = chat_models(page)
            yield models
            seen += len(models)
            if not as_object(as_object(page).get("links")).get("next"):  # OpenRouter's
                return
            page = await http.fetch(f"{root}/models?offset={seen}&limit={_PAGE}")

    async def llamacpp() -> ModelList:
        found = await _gathered(pages())
        if len(found.models) != 1:
            return found
        props = await _or_nothing(http, f"{base}/props")
        return ModelList((with_props(found.models[0], props),))

    async def ollama() -> ModelList:
        tags = ollama_models(await http.fetch(f"{base}/api/tags"))
        first = await _each(tags[:MAX_DETAILED], detailed)
        return _cut([*first, *tags[MAX_DETAILED:]])

    async def detailed(model: ModelInfo) -> ModelInfo:
        shown = await _or_nothing(http, f"{base}/api/show", {"model": model.id})
        return with_details(model, shown)

    ways = {"llamacpp": llamacpp, "ollama": ollama}
    ask = ways[local] if local is not None else lambda: _gathered(pages())
    return await _in_time(http, seconds, ask)


def _beside(http: HttpClient, tail: str) -> str:
    """Return the address that requests go to, without the `tail` that every one of them has."""
    return http.endpoint.url.removesuffix(tail)


async def _in_time(
    http: HttpClient, seconds: float, ask: Callable[[], Awaitable[ModelList]]
) -> ModelList:
    try:
        async with asyncio.timeout(seconds):
            return await ask()
    except TimeoutError as exc:
        late = f"{http.endpoint.provider} did not list its models within {seconds:g} s"
        error = ProviderError(late, kind="timeout")
        error.__cause__ = exc  # its frames hold the key's header
        raise http.told(error) from exc
    except ProviderError as exc:
        raise http.told(exc) from exc.__cause__


async def _gathered(pages: AsyncGenerator[list[ModelInfo], None]) -> ModelList:
    """Return the models of all `pages`; a page without a new one is the last."""
    found: dict[str, ModelInfo] = {}
    count = 0
    async with aclosing(pages) as each:
        async for page in each:
            before = len(found)
            found.update((model.id, model) for model in page if model.id not in found)
            count += 1
            if len(found) == before or len(found) > MAX_MODELS:
                break
    listed = _cut(found.values())
    return ModelList(listed.models, is_cut=listed.is_cut or count == MAX_PAGES)


def _cut(models: Iterable[ModelInfo]) -> ModelList:
    kept = tuple(models)
    return ModelList(kept[:MAX_MODELS], is_cut=len(kept) > MAX_MODELS)


async def _or_nothing(http: HttpClient, url: str, body: JsonValue = None) -> JsonValue:
    """Return what is at `url`, None if there is nothing: the list is good without it."""
    try:
        return await http.fetch(url, body)
    except ProviderError:
        return None


async def _each(
    models: Iterable[ModelInfo], work: Callable[[ModelInfo], Awaitable[ModelInfo]]
) -> list[ModelInfo]:
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(model: ModelInfo) -> ModelInfo:
        async with turns:
            return await work(model)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(model)) for model in models]
    return [task.result() for task in tasks]
