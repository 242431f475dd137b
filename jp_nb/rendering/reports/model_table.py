"""The table of a provider's models: `%jp models`.

Source: `docs/guide.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from jp_nb.agent.model_info import ModelInfo, ModelList
from jp_nb.rendering.report import (
    Report,
    add_note,
    make_note,
    make_table,
)
from jp_nb.rendering.table_cells import MAX_TABLE_ROWS, format_count
from jp_nb.text import pluralize

NOT_KNOWN: Final = ""
CURRENT: Final = "current"
_GIGA: Final = 1e9

_COLUMNS: Final[Mapping[str, Callable[[ModelInfo], str]]] = {
    "name": lambda model: model.name if model.name != model.id else "",
    "context": lambda model: format_count(model.context_window, NOT_KNOWN),
    "output": lambda model: format_count(model.max_output, NOT_KNOWN),
    "reads": lambda model: ", ".join(model.inputs),
    "tools": lambda model: _format_flag(model.tools),
    "reasoning": lambda model: _format_flag(model.reasoning),
    "$/M in": lambda model: _format_price(model.input_price),
    "$/M out": lambda model: _format_price(model.output_price),
    "size": lambda model: _format_model_size(model),
    "ends": lambda model: _format_end(model),
}
"""Columns of the table of models: the cell of a model. A column without any text is omitted."""


def render_model_table(
    listed: ModelList,
    provider: str,
    *,
    current: str = "",
    aliases: Mapping[str, Sequence[str]] | None = None,
    words: Sequence[str] = (),
) -> Report:
    """Return a table of the models whose names contain all `words` in any case, used ones first.

    `current` is the name of the current model, if it belongs to this provider. `aliases` are the
    aliases of each model.
    """
    used_as = aliases or {}
    found = [model for model in listed.models if _has_words(model, words)]
    if not found:
        return _make_not_found_note(listed, provider, words)

    def get_sort_key(model: ModelInfo) -> tuple[bool, bool, bool, float, str]:
        # The current model first, then those with aliases, available ones, the newest; by name.
        has_no_alias = model.id not in used_as
        is_retired = model.state == "retired"
        newest_first = -(model.created or 0.0)
        return model.id != current, has_no_alias, is_retired, newest_first, model.id

    found.sort(key=get_sort_key)
    shown = found[:MAX_TABLE_ROWS]

    columns: dict[str, list[str]] = {}
    for head, format_cell in _COLUMNS.items():
        columns[head] = [format_cell(model) for model in shown]
    columns["used as"] = [_format_uses(model, current, used_as) for model in shown]
    filled_columns = {head: cells for head, cells in columns.items() if any(cells)}

    ids = [f"{provider}/{model.id}" for model in shown]
    rows = list(zip(ids, *filled_columns.values(), strict=True))
    table = make_table(("model", *filled_columns), rows)
    return add_note(table, _format_note(found, listed, provider))


def _make_not_found_note(listed: ModelList, provider: str, words: Sequence[str]) -> Report:
    """Return the note that no model has all `words`, or that there are no models."""
    if words and listed.models:
        count = len(listed.models)
        sought = " ".join(words)
        return make_note(f"None of the {count} models of {provider} matches {sought!r}.")
    return make_note(f"{provider} lists no models.")


def _format_uses(model: ModelInfo, current: str, aliases: Mapping[str, Sequence[str]]) -> str:
    """Return the aliases of a model, after a mark of the current one."""
    names = list(aliases.get(model.id, ()))
    if model.id == current:
        names.insert(0, CURRENT)
    return ", ".join(names)


def _has_words(model: ModelInfo, words: Sequence[str]) -> bool:
    names = f"{model.id} {model.name}".lower()
    return all(word.lower() in names for word in words)


def _format_note(found: Sequence[ModelInfo], listed: ModelList, provider: str) -> str:
    """Return the note below the table: the number of models, and how to use one."""
    count = len(listed.models)
    of_all = "" if len(found) == count else f" of {count}"
    note = f"{provider}: {len(found)}{of_all} {pluralize('model', count)}"

    hidden = len(found) - MAX_TABLE_ROWS
    if hidden > 0:
        note = f"{note}; {hidden} are not shown: search with `%jp models {provider} WORD`"
    if listed.is_cut:
        note = f"{note}; the list of the provider was truncated"

    return f"{note}. Use one: `%%jp -m {provider}/NAME`"


def _format_flag(value: bool | None) -> str:
    if value is None:
        return NOT_KNOWN

    return "yes" if value else "no"


def _format_price(price: float | None) -> str:
    if price is None:
        return NOT_KNOWN

    return "free" if price == 0 else f"{price:,.4g}"


def _format_model_size(model: ModelInfo) -> str:
    parts = (model.parameters, model.quantization, _format_size(model.size_bytes))
    return ", ".join(filter(None, parts))


def _format_end(model: ModelInfo) -> str:
    if model.state == "retired":
        return f"{model.state} {model.ends}".strip()

    return model.ends or model.state


def _format_size(size: int | None) -> str:
    return NOT_KNOWN if size is None else f"{size / _GIGA:,.1f} GB"
