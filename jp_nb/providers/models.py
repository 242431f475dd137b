"""List the models of a server.

A field that is missing, too long, or of another type is omitted. The rest of the model is kept.

Source: `docs/providers.md`, https://docs.anthropic.com/en/api/models-list,
https://platform.openai.com/docs/api-reference/models, https://openrouter.ai/docs/models,
https://docs.ollama.com/api, https://github.com/ggml-org/llama.cpp/tree/master/tools/server,
`docs/extending.md`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Final, Literal
from urllib.parse import quote

from pydantic import JsonValue

from jp_nb.agent.provider import ModelInfo, ModelList
from jp_nb.errors import ProviderError
from jp_nb.json_values import as_object, replace_surrogates
from jp_nb.providers.http import HttpClient

MAX_MODELS: Final = 5_000
MAX_ID_CHARS: Final = 200
_MAX_WORD_CHARS: Final = 40
_MILLION: Final = 1_000_000
_STATES: Final[Mapping[str, Literal["deprecated", "retired"]]] = {
    "deprecated": "deprecated",
    "retired": "retired",
}


def parse_anthropic_models(page: JsonValue) -> list[ModelInfo]:
    """Parse one page of Anthropic's list of models."""
    return [
        _parse_anthropic_model(entry)
        for entry in _read_objects(page, "data")
        if _read_id(entry.get("id"))
    ]


def _parse_anthropic_model(entry: Mapping[str, JsonValue]) -> ModelInfo:
    capabilities = as_object(entry.get("capabilities"))
    ends = _read_day(entry.get("retires_at"))
    state = _STATES.get(str(entry.get("lifecycle")))
    return ModelInfo(
        _read_text(entry.get("id")),
        _read_text(entry.get("display_name")),
        context_window=_read_count(entry.get("max_input_tokens")),
        max_output=_read_count(entry.get("max_tokens")),
        inputs=tuple(
            kind for kind in ("image", "pdf") if _read_supported(capabilities.get(f"{kind}_input"))
        ),
        reasoning=_read_supported(capabilities.get("thinking")),
        created=_read_timestamp(entry.get("created_at")),
        state=state or ("deprecated" if ends else ""),
        ends=ends,
    )


def _read_supported(value: JsonValue) -> bool | None:
    return _read_flag(as_object(value).get("supported"))


def parse_chat_completions_models(page: JsonValue) -> list[ModelInfo]:
    """Parse a list of models in OpenAI's format, with the additions of compatible servers."""
    return [
        _parse_chat_completions_model(entry)
        for entry in _read_objects(page, "data")
        if _read_id(entry.get("id"))
    ]


def _parse_chat_completions_model(entry: Mapping[str, JsonValue]) -> ModelInfo:
    top, meta = as_object(entry.get("top_provider")), as_object(entry.get("meta"))
    prices, limits = as_object(entry.get("pricing")), as_object(entry.get("limits"))
    parameters = entry.get("supported_parameters")
    known = _read_words(parameters) if isinstance(parameters, list) else None
    ends = _read_day(entry.get("expiration_date")) or _read_day(entry.get("shutdown_date"))
    return ModelInfo(
        _read_text(entry.get("id")),
        _read_text(entry.get("name") or entry.get("display_name")),
        context_window=_read_first_count(
            entry.get("context_length"),
            entry.get("context_window"),
            entry.get("max_model_len"),  # vLLM
            entry.get("max_context_length"),
            limits.get("max_context_length"),
            meta.get("n_ctx"),
            meta.get("n_ctx_train"),  # llama.cpp
        ),
        max_output=_read_first_count(
            top.get("max_completion_tokens"),
            entry.get("max_completion_tokens"),
            limits.get("max_completion_tokens"),
        ),
        inputs=_read_input_kinds(as_object(entry.get("architecture")).get("input_modalities")),
        tools=None if known is None else "tools" in known,
        reasoning=None if known is None else "reasoning" in known,
        input_price=_read_price(prices.get("prompt")),
        output_price=_read_price(prices.get("completion")),
        created=_read_number(entry.get("created")),
        parameters=_format_billions(_read_count(meta.get("n_params"))),
        size_bytes=_read_count(meta.get("size")),
        state="deprecated" if ends or entry.get("deprecated") is True else "",
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
        context_window=_read_first_count(settings.get("n_ctx")) or model.context_window,
        inputs=tuple(kind for kind, has in kinds.items() if has is True) or model.inputs,
        tools=_read_flag(capabilities.get("supports_tools")),
    )


def parse_ollama_models(tags: JsonValue) -> list[ModelInfo]:
    """Parse the response of Ollama's `/api/tags`."""
    return [
        _parse_ollama_model(identifier, entry)
        for entry in _read_objects(tags, "models")
        if (
            identifier := _read_id(entry.get("model")) or _read_id(entry.get("name"))
        )  # in older ones
    ]


def _parse_ollama_model(identifier: str, entry: Mapping[str, JsonValue]) -> ModelInfo:
    details = as_object(entry.get("details"))
    return ModelInfo(
        identifier,
        created=_read_timestamp(entry.get("modified_at")),
        parameters=_read_word(details.get("parameter_size")),
        quantization=_read_word(details.get("quantization_level")),
        size_bytes=_read_count(entry.get("size")),
    )


def add_ollama_details(model: ModelInfo, shown: JsonValue) -> ModelInfo:
    """Return `model` with the facts of Ollama's `/api/show`."""
    details = as_object(shown)
    info = as_object(details.get("model_info"))
    lengths = [value for key, value in info.items() if key.endswith(".context_length")]
    capabilities = details.get("capabilities")
    known = _read_words(capabilities)
    is_listed = isinstance(capabilities, list)
    return replace(
        model,
        context_window=_read_first_count(*lengths),
        inputs=("image",) if "vision" in known else (),
        tools="tools" in known if is_listed else None,
        reasoning="thinking" in known if is_listed else None,
    )


# --- fields that a server sends ------------------------------------------------------------------


def _read_objects(page: JsonValue, key: str) -> list[dict[str, JsonValue]]:
    found = as_object(page).get(key)
    entries = found[: MAX_MODELS + 1] if isinstance(found, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def _read_id(value: JsonValue) -> str:
    return (
        replace_surrogates(value) if isinstance(value, str) and len(value) <= MAX_ID_CHARS else ""
    )


def _read_text(value: JsonValue) -> str:
    return replace_surrogates(value[:MAX_ID_CHARS]) if isinstance(value, str) else ""


def _read_word(value: JsonValue) -> str:
    return _read_text(value)[:_MAX_WORD_CHARS]


def _read_words(value: JsonValue) -> set[str]:
    return {word for word in value if isinstance(word, str)} if isinstance(value, list) else set()


def _read_input_kinds(value: JsonValue) -> tuple[str, ...]:
    kinds: Sequence[JsonValue] = value[:10] if isinstance(value, list) else ()
    return tuple(word for word in map(_read_word, kinds) if word and word != "text")


def _read_flag(value: JsonValue) -> bool | None:
    return value if isinstance(value, bool) else None


def _read_number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 2**53 and math.isfinite(value) else None


def _read_count(value: JsonValue) -> int | None:
    number = _read_number(value)
    return int(number) if number is not None and number > 0 else None


def _read_first_count(*values: JsonValue) -> int | None:
    return next((count for count in map(_read_count, values) if count), None)


def _read_price(value: JsonValue) -> float | None:
    # A text with the price of one token; negative for a price that varies.
    if not isinstance(value, str) or len(value) > _MAX_WORD_CHARS:
        return None
    try:
        price = round(float(value) * _MILLION, 6)
    except (OverflowError, ValueError):
        return None
    return price if math.isfinite(price) and price >= 0 else None


def _format_billions(count: int | None) -> str:
    return "" if count is None else f"{count / 1e9:.1f}B"


def _parse_datetime(value: JsonValue) -> datetime | None:
    if not isinstance(value, str) or len(value) > _MAX_WORD_CHARS:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _read_timestamp(value: JsonValue) -> float | None:
    moment = _parse_datetime(value)
    try:
        return None if moment is None else moment.timestamp()
    except (OverflowError, ValueError):  # the year 1, in some time zones
        return None


def _read_day(value: JsonValue) -> str:
    # A date, a date with a time, or a Unix time.
    seconds = _read_number(value)
    try:
        if seconds is not None:
            return datetime.fromtimestamp(seconds, UTC).date().isoformat()
        moment = _parse_datetime(value)
        found: date | None = None if moment is None else moment.astimezone(UTC).date()
    except (OverflowError, ValueError, OSError):
        return ""
    return "" if found is None else found.isoformat()


MAX_PAGES: Final = 20
MAX_OLLAMA_DETAILS: Final = 30
"""Maximum number of models for which Ollama is asked for details."""
MAX_CONCURRENT: Final = 4
_PAGE: Final = 1000

Local = Literal["llamacpp", "ollama"]


async def list_anthropic_models(http: HttpClient, seconds: float) -> ModelList:
    """List the models of a server with the Anthropic Messages API.

    Raises:
        ProviderError: The request fails or takes longer than `seconds`.
    """
    url = f"{_root_url(http, '/messages')}/models"

    async def pages() -> AsyncGenerator[list[ModelInfo], None]:
        after = ""
        for _ in range(MAX_PAGES):
            page = as_object(await http.fetch(f"{url}?limit={_PAGE}{after}"))
            yield parse_anthropic_models(page)
            last = page.get("last_id")
            if page.get("has_more") is not True or not isinstance(last, str):
                return
            after = f"&after_id={quote(last[:MAX_ID_CHARS], safe='')}"

    return await _run_with_timeout(http, seconds, lambda: _collect_pages(pages()))


async def list_chat_completions_models(
    http: HttpClient, seconds: float, local: Local | None = None
) -> ModelList:
    """List the models of a server with the Chat Completions API.

    `local` selects further requests to a local server. This is not the list of a provider with the
    Messages API: its pages and fields differ (`list_anthropic_models`).

    Raises:
        ProviderError: The request fails or takes longer than `seconds`.
    """
    root = _root_url(http, "/chat/completions")
    base = root.removesuffix("/v1")

    async def pages() -> AsyncGenerator[list[ModelInfo], None]:
        page = await http.fetch(f"{root}/models")
        seen = 0
        for _ in range(MAX_PAGES):
            models = parse_chat_completions_models(page)
            yield models
            seen += len(models)
            if not as_object(as_object(page).get("links")).get("next"):  # OpenRouter's
                return
            page = await http.fetch(f"{root}/models?offset={seen}&limit={_PAGE}")

    async def llamacpp() -> ModelList:
        found = await _collect_pages(pages())
        if len(found.models) != 1:
            return found
        props = await _fetch_optional(http, f"{base}/props")
        return ModelList((add_llamacpp_properties(found.models[0], props),))

    async def ollama() -> ModelList:
        tags = parse_ollama_models(await http.fetch(f"{base}/api/tags"))
        first = await _map_concurrently(tags[:MAX_OLLAMA_DETAILS], detailed)
        return _limit_models([*first, *tags[MAX_OLLAMA_DETAILS:]])

    async def detailed(model: ModelInfo) -> ModelInfo:
        shown = await _fetch_optional(http, f"{base}/api/show", {"model": model.id})
        return add_ollama_details(model, shown)

    listers = {"llamacpp": llamacpp, "ollama": ollama}
    lister = listers[local] if local is not None else lambda: _collect_pages(pages())
    return await _run_with_timeout(http, seconds, lister)


def _root_url(http: HttpClient, tail: str) -> str:
    return http.endpoint.url.removesuffix(tail)


async def _run_with_timeout(
    http: HttpClient, seconds: float, lister: Callable[[], Awaitable[ModelList]]
) -> ModelList:
    try:
        async with asyncio.timeout(seconds):
            return await lister()
    except TimeoutError as exc:
        late = f"{http.endpoint.provider} did not list its models within {seconds:g} s"
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
    return ModelList(listed.models, is_cut=listed.is_cut or count == MAX_PAGES)


def _limit_models(models: Iterable[ModelInfo]) -> ModelList:
    kept = tuple(models)
    return ModelList(kept[:MAX_MODELS], is_cut=len(kept) > MAX_MODELS)


async def _fetch_optional(http: HttpClient, url: str, body: JsonValue = None) -> JsonValue:
    try:
        return await http.fetch(url, body)
    except ProviderError:
        return None


async def _map_concurrently(
    models: Iterable[ModelInfo], work: Callable[[ModelInfo], Awaitable[ModelInfo]]
) -> list[ModelInfo]:
    semaphore = asyncio.Semaphore(MAX_CONCURRENT)

    async def one(model: ModelInfo) -> ModelInfo:
        async with semaphore:
            return await work(model)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(model)) for model in models]
    return [task.result() for task in tasks]
