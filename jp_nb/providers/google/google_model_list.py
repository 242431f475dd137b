"""The list of the models of Google that generate texts, and the names of models in it.

The list has names such as `models/gemini-3`. Requests and users omit the prefix.

Source: `docs/providers.md`, https://ai.google.dev/api/models.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Final
from urllib.parse import quote

from pydantic import JsonValue

from jp_nb.agent.model_info import ModelInfo, ModelList
from jp_nb.agent.provider import ModelRequest
from jp_nb.json_values import as_object
from jp_nb.providers.network.http import HttpClient
from jp_nb.providers.network.model_fields import (
    read_model_count,
    read_model_flag,
    read_model_text,
    read_model_words,
)
from jp_nb.providers.network.model_lists import (
    LIST_PAGE_SIZE,
    LIST_TASK,
    MAX_MODEL_PAGES,
    ListFormat,
    collect_pages,
    parse_models,
)


def name_model(request: ModelRequest) -> str:
    """Return the model's name without the prefix of the list of models."""
    return request.model.removeprefix("models/")


async def list_google_models(http: HttpClient, seconds: float) -> ModelList:
    """List the models of Google that generate texts.

    Raises:
        ProviderError: The request fails or takes longer than `seconds`.
    """
    root = http.endpoint.url.removesuffix("/interactions").removesuffix("/models")

    async def iter_pages() -> AsyncGenerator[list[ModelInfo], None]:
        after = ""
        for _ in range(MAX_MODEL_PAGES):
            page = as_object(await http.fetch(f"{root}/models?pageSize={LIST_PAGE_SIZE}{after}"))
            listed = page.get("models")
            entries = listed if isinstance(listed, list) else []
            chosen = [entry for entry in entries if _generates_text(entry)]
            models = parse_models({"models": chosen}, _GOOGLE_LIST)

            # An empty page ends the list. One with models for other tasks only must not.
            if models or not entries:
                yield models

            token = page.get("nextPageToken")
            if not isinstance(token, str) or not token:
                return
            after = f"&pageToken={quote(token, safe='')}"

    async with http.limit_time(seconds, LIST_TASK):
        return await collect_pages(iter_pages())


def _parse_google_model(identifier: str, entry: Mapping[str, JsonValue]) -> ModelInfo:
    return ModelInfo(
        identifier.removeprefix("models/"),
        read_model_text(entry.get("displayName")),
        context_window=read_model_count(entry.get("inputTokenLimit")),
        max_output=read_model_count(entry.get("outputTokenLimit")),
        reasoning=read_model_flag(entry.get("thinking")),
    )


def _generates_text(entry: JsonValue) -> bool:
    """Return True if a model of Google's list generates texts, as far as the list says it."""
    known = read_model_words(as_object(entry).get("supportedGenerationMethods"))
    return known is None or bool(known & {"generateContent", "createInteraction"})


_GOOGLE_LIST: Final = ListFormat("models", ("name",), _parse_google_model)
