"""Read the entries of a server's list of models, in the four protocols (`parse_models`).

The protocols are those of Anthropic, OpenAI, Google, and Ollama. Local servers tell more about a
model at another address: `add_llamacpp_properties` and `add_ollama_details` add that.

A field that is missing, too long, or of another type is omitted, which means that the list does not
tell it: it is None, or empty. The rest of the model is kept.

Source: `docs/providers.md`, https://docs.anthropic.com/en/api/models-list,
https://platform.openai.com/docs/api-reference/models, https://openrouter.ai/docs/models,
https://docs.ollama.com/api, https://ai.google.dev/api/models, https://github.com/ggml-org/llama.cpp/tree/master/tools/server,
`docs/extending.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.agent.model_info import ModelInfo
from jp_nb.json_values import as_object
from jp_nb.storable_json import replace_surrogates

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
    """Return a model with the abilities in `capabilities`.

    {"thinking": {"supported": true, "types": {"adaptive": {"supported": true}}}}
    """
    capabilities = as_object(entry.get("capabilities"))

    thinking = as_object(as_object(capabilities.get("thinking")).get("types"))
    if thinking:
        # Older lists do not have this key, although thinking can be switched off. Newer ones have
        # it, and may deny it.
        thinking = {"disabled": {"supported": True}, **thinking}

    ends = _read_day(entry.get("retires_at"))
    state = _STATES.get(str(entry.get("lifecycle"))) or ""
    if not state and ends:
        state = "deprecated"  # a model with a last day, which the list does not call so

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
    """Return the keys of `value` whose values are supported; None if it lists nothing.

    The key `supported` beside them is a flag for all: if it is false, nothing is supported.
    """
    names = as_object(value)
    if names.get("supported") is False:
        return ()
    known = [name for name in list(names)[:MAX_ABILITIES] if _read_supported(names[name])]
    return tuple(map(_read_word, known)) if names else None


def _read_supported(value: JsonValue) -> bool | None:
    return _read_flag(as_object(value).get("supported"))


def _parse_openai_model(identifier: str, entry: Mapping[str, JsonValue]) -> ModelInfo:
    """Return a model with the fields of OpenAI, and with the additions of compatible servers.

    OpenRouter has the most: abilities, prices, and limits. llama.cpp has `meta`. A field that
    several servers name differently is read from the first name that has a valid value.
    """
    top = as_object(entry.get("top_provider"))
    meta = as_object(entry.get("meta"))
    prices = as_object(entry.get("pricing"))
    limits = as_object(entry.get("limits"))

    supported = _read_words(entry.get("supported_parameters"))
    tools = None if supported is None else "tools" in supported
    reasoning = None if supported is None else "reasoning" in supported

    modalities = as_object(entry.get("architecture")).get("input_modalities")
    kinds = modalities[:10] if isinstance(modalities, list) else []

    parameter_count = _read_count(meta.get("n_params"))
    parameters = "" if parameter_count is None else f"{parameter_count / 1e9:.1f}B"

    ends = _read_day(entry.get("expiration_date")) or _read_day(entry.get("shutdown_date"))
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
            meta.get("n_ctx"),  # llama.cpp, as it runs
            meta.get("n_ctx_train"),  # what the model was trained for
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


def generates_text(entry: JsonValue) -> bool:
    """Return True if a model of Google's list generates texts, as far as the list says it."""
    known = _read_words(as_object(entry).get("supportedGenerationMethods"))
    return known is None or bool(known & {"generateContent", "createInteraction"})


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

    capabilities = _read_words(details.get("capabilities"))
    inputs = ("image",) if capabilities and "vision" in capabilities else ()
    tools = None if capabilities is None else "tools" in capabilities
    reasoning = None if capabilities is None else "thinking" in capabilities

    return replace(
        model,
        context_window=_read_count(*lengths),
        inputs=inputs,
        tools=tools,
        reasoning=reasoning,
    )


@dataclass(frozen=True, slots=True)
class _ListFormat:
    """The form of a list of models in one protocol.

    Attributes:
        list_key: The key of the list in a page.
        id_keys: The keys of a model that may have its id; the first valid one counts.
        parse: Returns a model, of its id and its entry in the list.
    """

    list_key: str
    id_keys: tuple[str, ...]
    parse: Callable[[str, Mapping[str, JsonValue]], ModelInfo]


_FORMATS: Final[Mapping[str, _ListFormat]] = {
    "anthropic": _ListFormat("data", ("id",), _parse_anthropic_model),
    "openai": _ListFormat("data", ("id",), _parse_openai_model),
    "google": _ListFormat("models", ("name",), _parse_google_model),
    "ollama": _ListFormat("models", ("model", "name"), _parse_ollama_model),
}


def parse_models(
    page: JsonValue, protocol: Literal["anthropic", "google", "openai", "ollama"]
) -> list[ModelInfo]:
    """Parse one page of a list of models. Entries without an id are omitted."""
    form = _FORMATS[protocol]
    listed = as_object(page).get(form.list_key)
    # One more than the maximum shows that the list is cut.
    entries = listed[: MAX_MODELS + 1] if isinstance(listed, list) else []

    models: list[ModelInfo] = []
    for entry in map(as_object, entries):
        identifier = _find_id(entry, form.id_keys)
        if identifier:
            models.append(form.parse(identifier, entry))
    return models


def _find_id(entry: Mapping[str, JsonValue], keys: Iterable[str]) -> str:
    """Return the id at the first of the `keys` that has a valid one; "" if none has."""
    for value in map(entry.get, keys):
        if isinstance(value, str) and 0 < len(value) <= MAX_ID_CHARS:
            return replace_surrogates(value)
    return ""


# --- fields, which may have any type: None or "" for one that is not valid -----------------------


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
    """Return the first positive number of the `values`."""
    numbers = (number for number in map(_read_number, values) if number is not None)
    return next((int(number) for number in numbers if number >= 1), None)


def _read_price(value: JsonValue) -> float | None:
    """Return the price of a million tokens, for a text with the price of one.

    A price that varies is negative there: it counts as unknown.
    """
    if not isinstance(value, str) or len(value) > _MAX_WORD_CHARS:
        return None
    try:
        price = round(float(value) * _MILLION, 6)
    except (OverflowError, ValueError):
        return None
    return price if math.isfinite(price) and price >= 0 else None


def _read_moment(value: JsonValue) -> datetime | None:
    """Return a date, a date with a time, or a Unix time; None for another value."""
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
