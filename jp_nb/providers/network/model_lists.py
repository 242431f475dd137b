"""Read a server's list of models page by page, in the form of its protocol.

Each protocol has a module with its requests and its `ListFormat`: `anthropic_model_list.py`,
`google_model_list.py`, and `openai_model_list.py`.

Source: `docs/providers.md`, `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.model_info import ModelInfo, ModelList
from jp_nb.json_values import as_object
from jp_nb.providers.network.model_fields import MAX_ID_CHARS
from jp_nb.storable_json import replace_surrogates

MAX_MODELS: Final = 5_000
MAX_MODEL_PAGES: Final = 20
LIST_PAGE_SIZE: Final = 1000
"""Number of models that a request asks for."""
LIST_TASK: Final = "list its models"
"""The task of the requests, in the words of their errors."""


@dataclass(frozen=True, slots=True)
class ListFormat:
    """The form of a list of models in one protocol.

    Attributes:
        list_key: The key of the list in a page.
        id_keys: The keys of a model that may have its id; the first valid one counts.
        parse: Returns a model, of its id and its entry in the list.
    """

    list_key: str
    id_keys: tuple[str, ...]
    parse: Callable[[str, Mapping[str, JsonValue]], ModelInfo]


def parse_models(page: JsonValue, form: ListFormat) -> list[ModelInfo]:
    """Parse one page of a list of models. Entries without an id are omitted."""
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


async def collect_pages(pages: AsyncGenerator[list[ModelInfo], None]) -> ModelList:
    """Return the models of all `pages`, of which there are at most `MAX_MODEL_PAGES`.

    A page without a new model ends the list: a server may repeat its pages without an end.
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

    listed = limit_models(models.values())
    return ModelList(listed.models, is_cut=listed.is_cut or page_count == MAX_MODEL_PAGES)


def limit_models(models: Iterable[ModelInfo]) -> ModelList:
    """Return the first `MAX_MODELS` of `models`."""
    kept = tuple(models)
    return ModelList(kept[:MAX_MODELS], is_cut=len(kept) > MAX_MODELS)
