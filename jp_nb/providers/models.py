"""List the models of a server.

A field that is missing, too long, or of another type is omitted. The rest of the model is kept.

Source: `docs/providers.md`, https://docs.anthropic.com/en/api/models-list,
https://platform.openai.com/docs/api-reference/models, https://openrouter.ai/docs/models,
https://docs.ollama.com/api, https://ai.google.dev/api/models, https://github.com/ggml-org/llama.cpp/tree/master/tools/server,
`docs/extending.md`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Literal
from urllib.parse import quote

from pydantic import JsonValue

from jp_nb.agent.provider import ModelInfo, ModelList
from jp_nb.errors import ProviderError
from jp_nb.json_values import as_object, replace_surrogates
from jp_nb.providers.http import HttpClient

MAX_MODELS: Final = 5_000
MAX_ID_CHARS: Final = 200
MAX_ABILITIES: Final = 20  # of one kind, such as effort
_MAX_WORD_CHARS: Final = 40
_MILLION: Final = 1_000_000
_STATES: Final[Mapping[str, Literal["deprecated", "retired"]]] = {
    "deprecated": "deprecated",
    "retired": "retired",
}


def _parse_anthropic_model(identifier: str, entry: Mapping[str, JsonValue]) -> ModelInfo:
    capabilities = as_object(entry.get("capabilities"))
    ends = _read_day(entry.get("retires_at"))
    thinking = as_object(as_object(capabilities.get("thinking")).get("types"))
    if thinking:
        thinking = {"disabled": {"supported": True}, **thinking}  # older lists do not have this key

    state = _STATES.get(str(entry.get("lifecycle"))) or ""
    if not state and ends:
        state = "deprecated"
    return ModelInfo(
        identifier,
        _read_text(entry.get("display_name")),
        context_window=_read_count(entry.get("max_input_tokens")),
        max_output=_read_count(entry.get("max_tokens")),
        inputs=tuple(
            kind for kind in ("image", "pdf") if _read_supported(capabilities.get(f"{kind}_input"))
        ),
        reasoning=_read_supported(capabilities.get("thinking")),
        created=_read_timestamp(entry.get("created_at")),
        state=state,
        ends=ends,
        thinking=_read_supported_names(thinking),
        efforts=_read_supported_names(capabilities.get("effort")),
        structured=_read_supported(capabilities.get("structured_outputs")),
    )


def _read_supported_names(value: JsonValue) -> tuple[str, ...] | None:
    # The keys whose values are supported. `value` may also have a flag for all of them.
    names = as_object(value)
    if names.get("supported") is False:
        return ()
    known = [name for name in list(names)[:MAX_ABILITIES] if _read_supported(names[name])]
    return tuple(map(_read_word, known)) if names else None


def _read_supported(value: JsonValue) -> bool | None:
    return _read_flag(as_object(value).get("supported"))


def _parse_openai_model(identifier: str, entry: Mapping[str, JsonValue]) -> ModelInfo:
    # The fields of OpenAI, with the additions of compatible servers.
    top = as_object(entry.get("top_provider"))
    meta = as_object(entry.get("meta"))
    prices = as_object(entry.get("pricing"))
    limits = as_object(entry.get("limits"))
    known = _read_words(entry.get("supported_parameters"))
    listed = as_object(entry.get("architecture")).get("input_modalities")
    kinds = listed[:10] if isinstance(listed, list) else []
    ends = _read_day(entry.get("expiration_date")) or _read_day(entry.get("shutdown_date"))
    size = _read_count(meta.get("n_params"))

    tools = None if known is None else "tools" in known
    reasoning = None if known is None else "reasoning" in known
    parameters = "" if size is None else f"{size / 1e9:.1f}B"
    is_deprecated = ends or entry.get("deprecated") is True
    state: Literal["", "deprecated"] = "deprecated" if is_deprecated else ""

    return ModelInfo(
        identifier,
        _read_text(entry.get("name") or entry.get("display_name")),
        context_window=_read_count(
            entry.get("context_length"),
            entry.get("context_window"),
            entry.get("max_model_len"),  # vLLM
            entry.get("max_context_length"),
            limits.get("max_context_length"),
            meta.get("n_ctx"),
            meta.get("n_ctx_train"),  # llama.cpp
        ),
        max_output=_read_count(
            top.get("max_completion_tokens"),
            entry.get("max_completion_tokens"),
            limits.get("max_completion_tokens"),
        ),
        inputs=tuple(word for word in map(_read_word, kinds) if word not in ("", "text")),
        tools=tools,
        reasoning=reasoning,
        input_price=_read_price(prices.get("prompt")),
        output_price=_read_price(prices.get("completion")),
        created=_read_number(entry.get("created")),
        parameters=parameters,
        size_bytes=_read_count(meta.get("size")),
        state=state,
        ends=ends,
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
        context_window=_read_count(settings.get("n_ctx")) or model.context_window,
        inputs=tuple(kind for kind, has in kinds.items() if has is True) or model.inputs,
        tools=_read_flag(capabilities.get("supports_tools")),
    )


def _parse_google_model(identifier: str, entry: Mapping[str, JsonValue]) -> ModelInfo:
    return ModelInfo(
        identifier.removeprefix("models/"),
        _read_text(entry.get("displayName")),
        context_window=_read_count(entry.get("inputTokenLimit")),
        max_output=_read_count(entry.get("outputTokenLimit")),
        reasoning=_read_flag(entry.get("thinking")),
    )


def _parse_ollama_model(identifier: str, entry: Mapping[str, JsonValue]) -> ModelInfo:
    details = as_object(entry.get("details"))
    return ModelInfo(
        identifier,
        created=_read_timestamp(entry.get("modified_at")),
        parameters=_read_word(details.get("parameter_size")),
        quantization=_read_word(details.get("quantization_level")),
        size_bytes=_read_count(entry.get("size")),
    )


_PARSERS: Final[
    Mapping[str, tuple[str, tuple[str, ...], Callable[[str, Mapping[str, JsonValue]], ModelInfo]]]
] = {
    "anthropic": ("data", ("id",), _parse_anthropic_model),
    "openai": ("data", ("id",), _parse_openai_model),
    "google": ("models", ("name",), _parse_google_model),
    "ollama": ("models", ("model", "name"), _parse_ollama_model),
}
"""Key of the list, keys of the id of a model, and parser of a model, by protocol."""


def parse_models(
    page: JsonValue, protocol: Literal["anthropic", "google", "openai", "ollama"]
) -> list[ModelInfo]:
    """Parse one page of a list of models. Entries without an id are omitted."""
    key, id_keys, parse = _PARSERS[protocol]
    listed = as_object(page).get(key)
    models: list[ModelInfo] = []

    entries = listed[: MAX_MODELS + 1] if isinstance(listed, list) else []
    for entry in entries:
        for word in map(as_object(entry).get, id_keys):
            if isinstance(word, str) and 0 < len(word) <= MAX_ID_CHARS:
                models.append(parse(replace_surrogates(word), as_object(entry)))
                break
    return models


def add_ollama_details(model: ModelInfo, shown: JsonValue) -> ModelInfo:
    """Return `model` with the facts of Ollama's `/api/show`."""
    details = as_object(shown)
    info = as_object(details.get("model_info"))
    lengths = [value for key, value in info.items() if key.endswith(".context_length")]
    known = _read_words(details.get("capabilities"))
    inputs = ("image",) if known and "vision" in known else ()
    tools = None if known is None else "tools" in known
    reasoning = None if known is None else "thinking" in known

    return replace(
        model,
        context_window=_read_count(*lengths),
        inputs=inputs,
        tools=tools,
        reasoning=reasoning,
    )


# --- fields that a server sends ------------------------------------------------------------------


def _read_text(value: JsonValue) -> str:
    return replace_surrogates(value[:MAX_ID_CHARS]) if isinstance(value, str) else ""


def _read_word(value: JsonValue) -> str:
    return _read_text(value)[:_MAX_WORD_CHARS]


def _read_words(value: JsonValue) -> set[str] | None:
    if not isinstance(value, list):
        return None
    return {word for word in value if isinstance(word, str)}


def _read_flag(value: JsonValue) -> bool | None:
    return value if isinstance(value, bool) else None


def _read_number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 2**53 and math.isfinite(value) else None


def _read_count(*values: JsonValue) -> int | None:
    # The first positive number.
    numbers = (number for number in map(_read_number, values) if number is not None)
    return next((int(number) for number in numbers if number >= 1), None)


def _read_price(value: JsonValue) -> float | None:
    # A text with the price of one token; negative for a price that varies.
    if not isinstance(value, str) or len(value) > _MAX_WORD_CHARS:
        return None
    try:
        price = round(float(value) * _MILLION, 6)
    except (OverflowError, ValueError):
        return None
    return price if math.isfinite(price) and price >= 0 else None


def _read_moment(value: JsonValue) -> datetime | None:
    # A date, a date with a time, or a Unix time.
    try:
        if (seconds := _read_number(value)) is not None:
            return datetime.fromtimestamp(seconds, UTC)
        if isinstance(value, str) and len(value) <= _MAX_WORD_CHARS:
            moment = datetime.fromisoformat(value)
            return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (OverflowError, ValueError, OSError):  # such as the year 1, in some time zones
        pass
    return None


def _read_timestamp(value: JsonValue) -> float | None:
    moment = _read_moment(value)
    return None if moment is None else moment.timestamp()


def _read_day(value: JsonValue) -> str:
    moment = _read_moment(value)
    return "" if moment is None else moment.date().isoformat()


MAX_MODEL_PAGES: Final = 20
MAX_OLLAMA_DETAILS: Final = 30
"""Maximum number of models for which Ollama is asked for details."""
_PAGE: Final = 1000
_TASK: Final = "list its models"

Local = Literal["llamacpp", "ollama"]


async def list_anthropic_models(http: HttpClient, seconds: float) -> ModelList:
    """List the models of a server with the Anthropic Messages API.

    Raises:
        ProviderError: The request fails or takes longer than `seconds`.
    """
    url = f"{http.endpoint.url.removesuffix('/messages')}/models"

    async def pages() -> AsyncGenerator[list[ModelInfo], None]:
        after = ""
        for _ in range(MAX_MODEL_PAGES):
            page = as_object(await http.fetch(f"{url}?limit={_PAGE}{after}"))
            yield parse_models(page, "anthropic")

            last = page.get("last_id")
            if page.get("has_more") is not True or not isinstance(last, str):
                return
            after = f"&after_id={quote(last[:MAX_ID_CHARS], safe='')}"

    async with limit_time(http, seconds, _TASK):
        return await _collect_pages(pages())


async def list_google_models(http: HttpClient, seconds: float) -> ModelList:
    """List the models of Google that generate texts.

    Raises:
        ProviderError: The request fails or takes longer than `seconds`.
    """
    root = http.endpoint.url.removesuffix("/interactions").removesuffix("/models")

    async def pages() -> AsyncGenerator[list[ModelInfo], None]:
        after = ""
        for _ in range(MAX_MODEL_PAGES):
            page = as_object(await http.fetch(f"{root}/models?pageSize={_PAGE}{after}"))
            listed = page.get("models")
            entries = listed if isinstance(listed, list) else []
            chosen: list[JsonValue] = [
                each
                for each in entries
                if _generates_text(as_object(each).get("supportedGenerationMethods"))
            ]
            yield parse_models({"models": chosen}, "google")

            token = page.get("nextPageToken")
            if not isinstance(token, str) or not token:
                return
            after = f"&pageToken={quote(token, safe='')}"

    async with limit_time(http, seconds, _TASK):
        return await _collect_pages(pages())


def _generates_text(methods: JsonValue) -> bool:
    known = _read_words(methods)
    return known is None or bool(known & {"generateContent", "createInteraction"})


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

    async def pages() -> AsyncGenerator[list[ModelInfo], None]:
        page = await http.fetch(f"{root}/models")
        seen = 0
        for _ in range(MAX_MODEL_PAGES):
            models = parse_models(page, "openai")
            yield models
            seen += len(models)

            if not as_object(as_object(page).get("links")).get("next"):  # OpenRouter's
                return
            page = await http.fetch(f"{root}/models?offset={seen}&limit={_PAGE}")

    async with limit_time(http, seconds, _TASK):
        if local == "ollama":
            tags = parse_models(await http.fetch(f"{base}/api/tags"), "ollama")
            first = await _add_all_details(http, base, tags[:MAX_OLLAMA_DETAILS])
            return _limit_models([*first, *tags[MAX_OLLAMA_DETAILS:]])

        found = await _collect_pages(pages())
        if local == "llamacpp" and len(found.models) == 1:
            props = await _fetch_optional(http, f"{base}/props")
            return ModelList((add_llamacpp_properties(found.models[0], props),))
        return found


@asynccontextmanager
async def limit_time(http: HttpClient, seconds: float, task: str) -> AsyncGenerator[None, None]:
    """Limit the time of requests for `task`, such as `list its models`, and sanitize errors.

    Raises:
        ProviderError: A request fails, or they take longer than `seconds`.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as exc:
        late = f"{http.endpoint.provider} did not {task} within {seconds:g} s"
        error = ProviderError(late, kind="timeout")
        error.__cause__ = exc  # its frames contain the key's header
        raise http.sanitize_error(error) from exc
    except ProviderError as exc:
        raise http.sanitize_error(exc) from exc.__cause__


async def _collect_pages(pages: AsyncGenerator[list[ModelInfo], None]) -> ModelList:
    # A page without a new model ends the list: a server may repeat pages.
    found: dict[str, ModelInfo] = {}
    count = 0
    async with aclosing(pages) as each:
        async for page in each:
            before = len(found)
            found.update((model.id, model) for model in page if model.id not in found)
            count += 1
            if len(found) == before or len(found) > MAX_MODELS:
                break

    listed = _limit_models(found.values())
    return ModelList(listed.models, is_cut=listed.is_cut or count == MAX_MODEL_PAGES)


def _limit_models(models: Iterable[ModelInfo]) -> ModelList:
    kept = tuple(models)
    return ModelList(kept[:MAX_MODELS], is_cut=len(kept) > MAX_MODELS)


async def _fetch_optional(http: HttpClient, url: str, body: JsonValue = None) -> JsonValue:
    try:
        return await http.fetch(url, body)
    except ProviderError:
        return None


async def _add_all_details(
    http: HttpClient, base: str, models: Iterable[ModelInfo]
) -> list[ModelInfo]:
    semaphore = asyncio.Semaphore(4)  # a local server answers a few requests at once

    async def add_details(model: ModelInfo) -> ModelInfo:
        async with semaphore:
            shown = await _fetch_optional(http, f"{base}/api/show", {"model": model.id})
        return add_ollama_details(model, shown)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(add_details(model)) for model in models]
    return [task.result() for task in tasks]
