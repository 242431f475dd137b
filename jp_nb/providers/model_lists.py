"""Lists of models: from what servers send to `ModelInfo`. Pure.

What is missing, of another type or out of bounds is left out: no field of a stranger's is taken on
trust, and none makes the rest unreadable.

Source: `docs/providers.md`; https://docs.anthropic.com/en/api/models-list,
https://platform.openai.com/docs/api-reference/models,
https://openrouter.ai/docs/models, https://docs.ollama.com/api,
https://github.com/ggml-org/llama.cpp/tree/master/tools/server
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.agent.model_info import ModelInfo
from jp_nb.json_values import as_object, whole_text

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
