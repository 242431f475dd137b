"""Request the list of models of a server.

Source: `docs/providers.md`, `docs/extending.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Final
from urllib.parse import quote

from pydantic import JsonValue

from jp_nb.agent.model_info import ModelInfo, ModelList
from jp_nb.errors import ProviderError
from jp_nb.json_values import as_object
from jp_nb.providers.network.http import HttpClient
from jp_nb.providers.network.local_server import Local
from jp_nb.providers.network.model_entries import (
    MAX_ID_CHARS,
    MAX_MODELS,
    add_llamacpp_properties,
    add_ollama_details,
    generates_text,
    parse_models,
)

MAX_MODEL_PAGES: Final = 20
MAX_OLLAMA_DETAILS: Final = 30
"""Maximum number of models for which Ollama is asked for details."""
_PAGE: Final = 1000
_TASK: Final = "list its models"


async def list_anthropic_models(http: HttpClient, seconds: float) -> ModelList:
    """List the models of a server with the Anthropic Messages API.

    Raises:
        ProviderError: The request fails or takes longer than `seconds`.
    """
    url = f"{http.endpoint.url.removesuffix('/messages')}/models"

    async def iter_pages() -> AsyncGenerator[list[ModelInfo], None]:
        after = ""
        for _ in range(MAX_MODEL_PAGES):
            page = as_object(await http.fetch(f"{url}?limit={_PAGE}{after}"))
            yield parse_models(page, "anthropic")

            last = page.get("last_id")
            if page.get("has_more") is not True or not isinstance(last, str):
                return
            after = f"&after_id={quote(last[:MAX_ID_CHARS], safe='')}"

    async with http.limit_time(seconds, _TASK):
        return await _collect_pages(iter_pages())


async def list_google_models(http: HttpClient, seconds: float) -> ModelList:
    """List the models of Google that generate texts.

    Raises:
        ProviderError: The request fails or takes longer than `seconds`.
    """
    root = http.endpoint.url.removesuffix("/interactions").removesuffix("/models")

    async def iter_pages() -> AsyncGenerator[list[ModelInfo], None]:
        after = ""
        for _ in range(MAX_MODEL_PAGES):
            page = as_object(await http.fetch(f"{root}/models?pageSize={_PAGE}{after}"))
            listed = page.get("models")
            entries = listed if isinstance(listed, list) else []
            chosen = [entry for entry in entries if generates_text(entry)]
            models = parse_models({"models": chosen}, "google")

            # An empty page ends the list. One with models for other tasks only must not.
            if models or not entries:
                yield models

            token = page.get("nextPageToken")
            if not isinstance(token, str) or not token:
                return
            after = f"&pageToken={quote(token, safe='')}"

    async with http.limit_time(seconds, _TASK):
        return await _collect_pages(iter_pages())


async def list_chat_completions_models(
    http: HttpClient, seconds: float, local: Local | None = None
) -> ModelList:
    """List the models of a server with the Chat Completions or the Responses API.

    `local` selects further requests to a local server. This is not the list of a provider with the
    Messages API: its pages and fields differ (`list_anthropic_models`).

    Raises:
        ProviderError: The request fails or takes longer than `seconds`.
    """
    root = http.endpoint.url.removesuffix("/chat/completions").removesuffix("/responses")
    base = root.removesuffix("/v1")

    async def iter_pages() -> AsyncGenerator[list[ModelInfo], None]:
        page = await http.fetch(f"{root}/models")
        seen = 0
        for _ in range(MAX_MODEL_PAGES):
            models = parse_models(page, "openai")
            yield models
            seen += len(models)

            if not as_object(as_object(page).get("links")).get("next"):  # OpenRouter's
                return
            page = await http.fetch(f"{root}/models?offset={seen}&limit={_PAGE}")

    async with http.limit_time(seconds, _TASK):
        # Ollama's own API has the sizes of the models, and details of each.
        if local == "ollama":
            tags = parse_models(await http.fetch(f"{base}/api/tags"), "ollama")
            first = await _add_all_details(http, base, tags[:MAX_OLLAMA_DETAILS])
            return _limit_models([*first, *tags[MAX_OLLAMA_DETAILS:]])

        listed = await _collect_pages(iter_pages())
        # llama.cpp's own API has further facts of the model that it runs.
        if local == "llamacpp" and len(listed.models) == 1:
            properties = await _fetch_optional(http, f"{base}/props")
            return ModelList((add_llamacpp_properties(listed.models[0], properties),))
        return listed


async def _collect_pages(pages: AsyncGenerator[list[ModelInfo], None]) -> ModelList:
    """Return the models of all `pages`. A page without a new model ends the list.

    A server may repeat its pages without an end.
    """
    models: dict[str, ModelInfo] = {}
    page_count = 0
    async with aclosing(pages) as opened_pages:
        async for page in opened_pages:
            earlier_count = len(models)
            models.update((model.id, model) for model in page if model.id not in models)
            page_count += 1
            if len(models) == earlier_count or len(models) > MAX_MODELS:
                break

    listed = _limit_models(models.values())
    return ModelList(listed.models, is_cut=listed.is_cut or page_count == MAX_MODEL_PAGES)


def _limit_models(models: Iterable[ModelInfo]) -> ModelList:
    kept = tuple(models)
    return ModelList(kept[:MAX_MODELS], is_cut=len(kept) > MAX_MODELS)


async def _fetch_optional(http: HttpClient, url: str, body: JsonValue = None) -> JsonValue:
    """Return the JSON at `url`, or None after an error: the list is useful without details."""
    try:
        return await http.fetch(url, body)
    except ProviderError:
        return None


async def _add_all_details(
    http: HttpClient, base: str, models: Iterable[ModelInfo]
) -> list[ModelInfo]:
    """Return `models` with the details that Ollama at the address `base` has about each."""
    semaphore = asyncio.Semaphore(4)  # a local server answers a few requests at once

    async def add_details(model: ModelInfo) -> ModelInfo:
        async with semaphore:
            shown = await _fetch_optional(http, f"{base}/api/show", {"model": model.id})
        return add_ollama_details(model, shown)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(add_details(model)) for model in models]
    return [task.result() for task in tasks]
