"""Facts about the models of Ollama and llama.cpp that only their own APIs have.

Source: `docs/providers.md`, https://docs.ollama.com/api,
https://github.com/ggml-org/llama.cpp/tree/master/tools/server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.model_info import ModelInfo
from jp_nb.json_values import as_object
from jp_nb.providers.network.http import HttpClient
from jp_nb.providers.network.model_fields import (
    read_model_count,
    read_model_flag,
    read_model_timestamp,
    read_model_word,
    read_model_words,
)
from jp_nb.providers.network.model_lists import ListFormat

MAX_OLLAMA_DETAILS: Final = 30
"""Maximum number of models for which Ollama is asked for details: `openai_model_list.py` calls
`add_all_ollama_details` with the first ones."""


def _parse_ollama_model(identifier: str, entry: Mapping[str, JsonValue]) -> ModelInfo:
    details = as_object(entry.get("details"))
    return ModelInfo(
        identifier,
        created=read_model_timestamp(entry.get("modified_at")),
        parameters=read_model_word(details.get("parameter_size")),
        quantization=read_model_word(details.get("quantization_level")),
        size_bytes=read_model_count(entry.get("size")),
    )


OLLAMA_LIST: Final = ListFormat("models", ("model", "name"), _parse_ollama_model)
"""The form of the list at `/api/tags`."""


async def add_all_ollama_details(
    http: HttpClient, base: str, models: Iterable[ModelInfo]
) -> list[ModelInfo]:
    """Return `models` with the details that Ollama at the address `base` has about each."""
    semaphore = asyncio.Semaphore(4)  # a local server answers a few requests at once

    async def add_details(model: ModelInfo) -> ModelInfo:
        async with semaphore:
            shown = await http.fetch_optional(f"{base}/api/show", {"model": model.id})
        return _add_ollama_details(model, shown)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(add_details(model)) for model in models]
    return [task.result() for task in tasks]


def _add_ollama_details(model: ModelInfo, shown: JsonValue) -> ModelInfo:
    """Return `model` with the facts of Ollama's `/api/show`."""
    details = as_object(shown)
    info = as_object(details.get("model_info"))
    lengths = [value for key, value in info.items() if key.endswith(".context_length")]

    capabilities = read_model_words(details.get("capabilities"))
    inputs = ("image",) if capabilities and "vision" in capabilities else ()
    tools = None if capabilities is None else "tools" in capabilities
    reasoning = None if capabilities is None else "thinking" in capabilities

    return replace(
        model,
        context_window=read_model_count(*lengths),
        inputs=inputs,
        tools=tools,
        reasoning=reasoning,
    )


def add_llamacpp_properties(model: ModelInfo, props: JsonValue) -> ModelInfo:
    """Return the only model of a llama.cpp server with the facts of its `/props`."""
    properties = as_object(props)
    settings = as_object(properties.get("default_generation_settings"))
    modalities = as_object(properties.get("modalities"))
    kinds = {"image": modalities.get("vision"), "audio": modalities.get("audio")}
    capabilities = as_object(properties.get("chat_template_caps"))

    return replace(
        model,
        context_window=read_model_count(settings.get("n_ctx")) or model.context_window,
        inputs=tuple(kind for kind, has in kinds.items() if has is True) or model.inputs,
        tools=read_model_flag(capabilities.get("supports_tools")),
    )
