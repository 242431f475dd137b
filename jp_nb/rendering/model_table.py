"""The models that a provider offers, as a table.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from jp_nb.agent.model_info import ModelInfo, ModelList
from jp_nb.rendering.question_table import with_note
from jp_nb.rendering.report import Report, table

MAX_ROWS: Final = 50
NOT_TOLD: Final = ""
IN_FORCE: Final = "current"
_GIGA: Final = 1e9

_COLUMNS: Final[Mapping[str, Callable[[ModelInfo], str]]] = {
    "name": lambda model: model.name if model.name != model.id else "",
    "context": lambda model: _count(model.context_window),
    "output": lambda model: _count(model.max_output),
    "reads": lambda model: ", ".join(model.inputs),
    "tools": lambda model: _flag(model.tools),
    "reasoning": lambda model: _flag(model.reasoning),
    "$/M in": lambda model: _price(model.input_price),
    "$/M out": lambda model: _price(model.output_price),
    "size": lambda model: _size(model),
    "ends": lambda model: model.ends or model.state,
}
"""What may be known of a model. A column that is empty is left out."""


def model_table(
    listed: ModelList,
    provider: str,
    *,
    in_force: str = "",
    aliases: Mapping[str, Sequence[str]] | None = None,
    words: Sequence[str] = (),
) -> Report:
    """Return the models of `provider` in which all `words` occur, those in use first.

    Args:
        listed: What it offers.
        provider: Its name.
        in_force: The name of the model in force, if it is one of this provider.
        aliases: Aliases by the name of the model that they stand for.
        words: What to look for in names, in lower or upper case.
    """
    named = aliases or {}
    found = [model for model in listed.models if _fits(model, words)]
    if not found:
        return _nothing(listed, provider, words)
    found.sort(key=lambda model: _rank(model, in_force, named))
    shown = found[:MAX_ROWS]
    columns = {head: [read(model) for model in shown] for head, read in _COLUMNS.items()}
    columns = {head: cells for head, cells in columns.items() if any(cells)}
    uses = [_use(model.id, in_force, named) for model in shown]
    if any(uses):
        columns["used as"] = uses
    ids = [f"{provider}/{model.id}" for model in shown]
    rows = list(zip(ids, *columns.values(), strict=True))
    report = table(("model", *columns), rows)
    return with_note(report, _note(found, listed, provider))


def _fits(model: ModelInfo, words: Sequence[str]) -> bool:
    text = f"{model.id} {model.name}".lower()
    return all(word.lower() in text for word in words)


def _rank(
    model: ModelInfo, in_force: str, aliases: Mapping[str, Sequence[str]]
) -> tuple[bool, bool, bool, float, str]:
    """Return where a model stands: used, then still there, then new, then by name."""
    used = model.id == in_force, model.id in aliases
    return not used[0], not used[1], model.state == "retired", -(model.created or 0.0), model.id


def _use(name: str, in_force: str, aliases: Mapping[str, Sequence[str]]) -> str:
    return ", ".join([*([IN_FORCE] if name == in_force else []), *aliases.get(name, ())])


def _nothing(listed: ModelList, provider: str, words: Sequence[str]) -> Report:
    if words and listed.models:
        text = f"None of the {len(listed.models)} models of {provider} matches {' '.join(words)!r}."
    else:
        text = f"{provider} lists no models."
    return with_note(Report("", ""), text)


def _note(found: Sequence[ModelInfo], listed: ModelList, provider: str) -> str:
    of_all = "" if len(found) == len(listed.models) else f" of {len(listed.models)}"
    total = f"{provider}: {len(found)}{of_all} {'model' if len(listed.models) == 1 else 'models'}"
    hidden = len(found) - MAX_ROWS
    search = f"search with `%jp models {provider} WORD`"
    more = f"; {hidden} are not shown: {search}" if hidden > 0 else ""
    cut = "; the list of the provider was truncated" if listed.is_cut else ""
    return f"{total}{more}{cut}. Use one: `%%jp -m {provider}/NAME`"


def _count(number: int | None) -> str:
    return NOT_TOLD if number is None else f"{number:,}"


def _flag(value: bool | None) -> str:
    return NOT_TOLD if value is None else "yes" if value else "no"


def _price(price: float | None) -> str:
    return NOT_TOLD if price is None else "free" if price == 0 else f"{price:,.4g}"


def _size(model: ModelInfo) -> str:
    size = "" if model.size_bytes is None else f"{model.size_bytes / _GIGA:,.1f} GB"
    return ", ".join(part for part in (model.parameters, model.quantization, size) if part)
