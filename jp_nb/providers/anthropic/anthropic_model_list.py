"""Request the list of models of a server with the Anthropic Messages API.

Source: `docs/providers.md`, https://docs.anthropic.com/en/api/models-list.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Final, Literal
from urllib.parse import quote

from pydantic import JsonValue

from jp_nb.agent.model_info import ModelInfo, ModelList
from jp_nb.json_values import as_object
from jp_nb.providers.network.http import HttpClient
from jp_nb.providers.network.model_fields import (
    MAX_ID_CHARS,
    read_model_count,
    read_model_day,
    read_model_flag,
    read_model_text,
    read_model_timestamp,
    read_model_word,
)
from jp_nb.providers.network.model_lists import (
    LIST_PAGE_SIZE,
    LIST_TASK,
    MAX_MODEL_PAGES,
    ListFormat,
    collect_pages,
    parse_models,
)

MAX_ABILITIES: Final = 20  # of one kind, such as effort
_STATES: Final[Mapping[str, Literal["deprecated", "retired"]]] = {
    "deprecated": "deprecated",
    "retired": "retired",
}


async def list_anthropic_models(http: HttpClient, seconds: float) -> ModelList:
    """List the models of a server with the Anthropic Messages API.

    Raises:
        ProviderError: The request fails or takes longer than `seconds`.
    """
    url = f"{http.endpoint.url.removesuffix('/messages')}/models"

    async def iter_pages() -> AsyncGenerator[list[ModelInfo], None]:
        after = ""
        for _ in range(MAX_MODEL_PAGES):
            page = as_object(await http.fetch(f"{url}?limit={LIST_PAGE_SIZE}{after}"))
            yield parse_models(page, _ANTHROPIC_LIST)

            last = page.get("last_id")
            if page.get("has_more") is not True or not isinstance(last, str):
                return
            after = f"&after_id={quote(last[:MAX_ID_CHARS], safe='')}"

    async with http.limit_time(seconds, LIST_TASK):
        return await collect_pages(iter_pages())


def _parse_anthropic_model(identifier: str, entry: Mapping[str, JsonValue]) -> ModelInfo:
    """Return a model with the abilities in `capabilities`, which are nested.

    For example, `{"thinking": {"supported": true, "types": {"adaptive": {"supported": true}}}}`.
    """
    capabilities = as_object(entry.get("capabilities"))

    thinking = as_object(as_object(capabilities.get("thinking")).get("types"))
    if thinking:
        # Older lists do not have the key `disabled`, although thinking can be switched off. Newer
        # ones have it, and may deny it.
        thinking = {"disabled": {"supported": True}, **thinking}

    ends = read_model_day(entry.get("retires_at"))
    state = _STATES.get(str(entry.get("lifecycle"))) or ""
    if not state and ends:
        state = "deprecated"  # a model with a last day, which the list does not call so

    return ModelInfo(
        identifier,
        read_model_text(entry.get("display_name")),
        context_window=read_model_count(entry.get("max_input_tokens")),
        max_output=read_model_count(entry.get("max_tokens")),
        inputs=tuple(
            kind for kind in ("image", "pdf") if _read_supported(capabilities.get(f"{kind}_input"))
        ),
        reasoning=_read_supported(capabilities.get("thinking")),
        created=read_model_timestamp(entry.get("created_at")),
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
    return tuple(map(read_model_word, known)) if names else None


def _read_supported(value: JsonValue) -> bool | None:
    return read_model_flag(as_object(value).get("supported"))


_ANTHROPIC_LIST: Final = ListFormat("data", ("id",), _parse_anthropic_model)
