"""Read the lists of models that servers publish.

Fields that are missing, too long or of another type are omitted, and the rest stays readable.

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
from jp_nb.json_values import as_object, whole_text
from jp_nb.providers.http import HttpClient

MAX_MODELS: Final = 5_000
MAX_ID_CHARS: Final = 200
_MAX_WORD_CHARS: Final = 40
_MILLION: Final = 1_000_000
_STATES: Final[Mapping[str, Literal["deprecated", "retired"]]] = {
    "deprecated": "deprecated",
    "retired": "retired",
}


def anthropic_models(page: JsonValue) -> list[ModelInfo]:
    """Return the models of one page of Anthropic's list."""
    return [_anthropic(entry) for entry in _objects(page, "data") if _id(entry.get("id"))]


def _anthropic(entry: Mapping[str, JsonValue]) -> ModelInfo:
    can = as_object(entry.get("capabilities"))
    ends = _day(entry.get("retires_at"))
    told = _STATES.get(str(entry.get("lifecycle")))
    return ModelInfo(
        _text(entry.get("id")),
        _text(entry.get("display_name")),
        context_window=_count(entry.get("max_input_tokens")),
        max_output=_count(entry.get("max_tokens")),
        inputs=tuple(kind for kind in ("image", "pdf") if _supported(can.get(f"{kind}_input"))),
        reasoning=_supported(can.get("thinking")),
        created=_moment(entry.get("created_at")),
        state=told or ("deprecated" if ends else ""),
        ends=ends,
    )


def _supported(value: JsonValue) -> bool | None:
    return _flag(as_object(value).get("supported"))


def chat_models(page: JsonValue) -> list[ModelInfo]:
    """Return the models of a list in OpenAI's form, with what servers of that protocol add."""
    return [_chat(entry) for entry in _objects(page, "data") if _id(entry.get("id"))]


def _chat(entry: Mapping[str, JsonValue]) -> ModelInfo:
    top, meta = as_object(entry.get("top_provider")), as_object(entry.get("meta"))
    prices, limits = as_object(entry.get("pricing")), as_object(entry.get("limits"))
    known = _words(entry.get("supported_parameters"))
    told = isinstance(entry.get("supported_parameters"), list)
    ends = _day(entry.get("expiration_date")) or _day(entry.get("shutdown_date"))
    return ModelInfo(
        _text(entry.get("id")),
        _text(entry.get("name") or entry.get("display_name")),
        context_window=_first_count(
            entry.get("context_length"),
            entry.get("context_window"),
            entry.get("max_model_len"),  # vLLM
            entry.get("max_context_length"),
            limits.get("max_context_length"),
            meta.get("n_ctx"),
            meta.get("n_ctx_train"),  # llama.cpp
        ),
        max_output=_first_count(
            top.get("max_completion_tokens"),
            entry.get("max_completion_tokens"),
            limits.get("max_completion_tokens"),
        ),
        inputs=_beside_text(as_object(entry.get("architecture")).get("input_modalities")),
        tools="tools" in known if told else None,
        reasoning="reasoning" in known if told else None,
        input_price=_price(prices.get("prompt")),
        output_price=_price(prices.get("completion")),
        created=_number(entry.get("created")),
        parameters=_billions(_count(meta.get("n_params"))),
        size_bytes=_count(meta.get("size")),
        state="deprecated" if ends or entry.get("deprecated") is True else "",
        ends=ends,
    )


def with_props(model: ModelInfo, props: JsonValue) -> ModelInfo:
    """Return the only `model` of a llama.cpp server with what the server says of itself."""
    told = as_object(props)
    settings = as_object(told.get("default_generation_settings"))
    modalities = as_object(told.get("modalities"))
    kinds = {"image": modalities.get("vision"), "audio": modalities.get("audio")}
    caps = as_object(told.get("chat_template_caps"))
    return replace(
        model,
        context_window=_first_count(settings.get("n_ctx")) or model.context_window,
        inputs=tuple(kind for kind, has in kinds.items() if has is True) or model.inputs,
        tools=_flag(caps.get("supports_tools")),
    )


def ollama_models(tags: JsonValue) -> list[ModelInfo]:
    """Return the models of Ollama's `/api/tags`."""
    return [
        _ollama(identifier, entry)
        for entry in _objects(tags, "models")
        if (identifier := _id(entry.get("model")) or _id(entry.get("name")))  # in older ones
    ]


def _ollama(identifier: str, entry: Mapping[str, JsonValue]) -> ModelInfo:
    details = as_object(entry.get("details"))
    return ModelInfo(
        identifier,
        created=_moment(entry.get("modified_at")),
        parameters=_word(details.get("parameter_size")),
        quantization=_word(details.get("quantization_level")),
        size_bytes=_count(entry.get("size")),
    )


def with_details(model: ModelInfo, shown: JsonValue) -> ModelInfo:
    """Return `model` with what Ollama's `/api/show` says of it."""
    told = as_object(shown)
    told_of = as_object(told.get("model_info"))
    lengths = [value for key, value in told_of.items() if key.endswith(".context_length")]
    capabilities = told.get("capabilities")
    known = _words(capabilities)
    has = isinstance(capabilities, list)
    return replace(
        model,
        context_window=_first_count(*lengths),
        inputs=("image",) if "vision" in known else (),
        tools="tools" in known if has else None,
        reasoning="thinking" in known if has else None,
    )


# --- fields of strangers -----------------------------------------------------------------------


def _objects(page: JsonValue, key: str) -> list[dict[str, JsonValue]]:
    """Return the objects in a list of `page`."""
    found = as_object(page).get(key)
    entries = found[: MAX_MODELS + 1] if isinstance(found, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def _id(value: JsonValue) -> str:
    """Return what a model is called in requests; "" if that cannot be its name."""
    return whole_text(value) if isinstance(value, str) and len(value) <= MAX_ID_CHARS else ""


def _text(value: JsonValue) -> str:
    return whole_text(value[:MAX_ID_CHARS]) if isinstance(value, str) else ""


def _word(value: JsonValue) -> str:
    return _text(value)[:_MAX_WORD_CHARS]


def _words(value: JsonValue) -> set[str]:
    return {word for word in value if isinstance(word, str)} if isinstance(value, list) else set()


def _beside_text(value: JsonValue) -> tuple[str, ...]:
    kinds: Sequence[JsonValue] = value[:10] if isinstance(value, list) else ()
    return tuple(word for word in map(_word, kinds) if word and word != "text")


def _flag(value: JsonValue) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 2**53 and math.isfinite(value) else None


def _count(value: JsonValue) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number > 0 else None


def _first_count(*values: JsonValue) -> int | None:
    return next((count for count in map(_count, values) if count), None)


def _price(value: JsonValue) -> float | None:
    """Return the price of a million tokens; that of one is a text, below 0 where it varies."""
    if not isinstance(value, str) or len(value) > _MAX_WORD_CHARS:
        return None
    try:
        price = round(float(value) * _MILLION, 6)
    except (OverflowError, ValueError):
        return None
    return price if math.isfinite(price) and price >= 0 else None


def _billions(count: int | None) -> str:
    return "" if count is None else f"{count / 1e9:.1f}B"


def _parsed(value: JsonValue) -> datetime | None:
    if not isinstance(value, str) or len(value) > _MAX_WORD_CHARS:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _moment(value: JsonValue) -> float | None:
    moment = _parsed(value)
    try:
        return None if moment is None else moment.timestamp()
    except (OverflowError, ValueError):  # the year 1, in some zones
        return None


def _day(value: JsonValue) -> str:
    """Return the day of a date, of a moment, or of seconds since 1970; "" if it is none."""
    seconds = _number(value)
    try:
        if seconds is not None:
            return datetime.fromtimestamp(seconds, UTC).date().isoformat()
        moment = _parsed(value)
        found: date | None = None if moment is None else moment.astimezone(UTC).date()
    except (OverflowError, ValueError, OSError):
        return ""
    return "" if found is None else found.isoformat()


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
