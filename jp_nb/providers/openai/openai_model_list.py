"""Request the list of models of OpenAI, or of a server with one of its APIs.

Many of these servers add fields to a model. A local server has further facts in an API of its own
(`local_model_details.py`).

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/models,
https://openrouter.ai/docs/models.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.agent.model_info import ModelInfo, ModelList
from jp_nb.json_values import as_object
from jp_nb.providers.network.http import HttpClient
from jp_nb.providers.network.local_server import Local
from jp_nb.providers.network.model_fields import (
    read_model_count,
    read_model_day,
    read_model_number,
    read_model_price,
    read_model_text,
    read_model_word,
    read_model_words,
)
from jp_nb.providers.network.model_lists import (
    LIST_PAGE_SIZE,
    LIST_TASK,
    MAX_MODEL_PAGES,
    ListFormat,
    collect_pages,
    limit_models,
    parse_models,
)
from jp_nb.providers.openai.local_model_details import (
    MAX_OLLAMA_DETAILS,
    OLLAMA_LIST,
    add_all_ollama_details,
    add_llamacpp_properties,
)


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
            models = parse_models(page, _OPENAI_LIST)
            yield models
            seen += len(models)

            if not as_object(as_object(page).get("links")).get("next"):  # OpenRouter's
                return
            page = await http.fetch(f"{root}/models?offset={seen}&limit={LIST_PAGE_SIZE}")

    async with http.limit_time(seconds, LIST_TASK):
        # Ollama's own API has the sizes of the models, and details of each.
        if local == "ollama":
            tags = parse_models(await http.fetch(f"{base}/api/tags"), OLLAMA_LIST)
            first = await add_all_ollama_details(http, base, tags[:MAX_OLLAMA_DETAILS])
            return limit_models([*first, *tags[MAX_OLLAMA_DETAILS:]])

        listed = await collect_pages(iter_pages())
        # llama.cpp's own API has further facts of the model that it runs.
        if local == "llamacpp" and len(listed.models) == 1:
            properties = await http.fetch_optional(f"{base}/props")
            return ModelList((add_llamacpp_properties(listed.models[0], properties),))
        return listed


def _parse_openai_model(identifier: str, entry: Mapping[str, JsonValue]) -> ModelInfo:
    """Return a model with the fields of OpenAI, and with the additions of compatible servers.

    OpenRouter has the most: abilities, prices, and limits. llama.cpp has `meta`. A field that
    several servers name differently is read from the first name that has a valid value.
    """
    top = as_object(entry.get("top_provider"))
    meta = as_object(entry.get("meta"))
    prices = as_object(entry.get("pricing"))
    limits = as_object(entry.get("limits"))

    supported = read_model_words(entry.get("supported_parameters"))
    tools = None if supported is None else "tools" in supported
    reasoning = None if supported is None else "reasoning" in supported

    modalities = as_object(entry.get("architecture")).get("input_modalities")
    kinds = modalities[:10] if isinstance(modalities, list) else []

    parameter_count = read_model_count(meta.get("n_params"))
    parameters = "" if parameter_count is None else f"{parameter_count / 1e9:.1f}B"

    ends = read_model_day(entry.get("expiration_date"))
    if not ends:
        ends = read_model_day(entry.get("shutdown_date"))
    is_deprecated = ends or entry.get("deprecated") is True
    state: Literal["", "deprecated"] = "deprecated" if is_deprecated else ""

    return ModelInfo(
        identifier,
        read_model_text(entry.get("name") or entry.get("display_name")),
        context_window=read_model_count(
            entry.get("context_length"),
            entry.get("context_window"),
            entry.get("max_model_len"),  # vLLM
            entry.get("max_context_length"),
            limits.get("max_context_length"),
            meta.get("n_ctx"),  # llama.cpp, as it runs
            meta.get("n_ctx_train"),  # what the model was trained for
        ),
        max_output=read_model_count(
            top.get("max_completion_tokens"),
            entry.get("max_completion_tokens"),
            limits.get("max_completion_tokens"),
        ),
        inputs=tuple(word for word in map(read_model_word, kinds) if word not in ("", "text")),
        tools=tools,
        reasoning=reasoning,
        input_price=read_model_price(prices.get("prompt")),
        output_price=read_model_price(prices.get("completion")),
        created=read_model_number(entry.get("created")),
        parameters=parameters,
        size_bytes=read_model_count(meta.get("size")),
        state=state,
        ends=ends,
    )


_OPENAI_LIST: Final = ListFormat("data", ("id",), _parse_openai_model)
