"""From what a user calls a model to the model.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.config.partial import get_path, is_wrapper
from jp_nb.config.paths import format_path
from jp_nb.config.schema import ROOT, SchemaNode
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.tree.model_config import MODEL_NAME, ModelId, read_model_id
from jp_nb.config.tree.node import shortened
from jp_nb.errors import ConfigError

PATH = "assistant.model.id"
ALIASES = "providers.llm.aliases"
_ALIAS_KEYS = tuple(ALIASES.split("."))

MAX_NAME_CHARS: Final = 60
"""Characters of an unknown name that are compared with the known ones."""
_FAMILY: Final = re.compile(
    r"(?P<openai>gpt-|chatgpt-|o[1-9](?:-|$))|(?P<anthropic>claude|opus|sonnet|haiku)"
    r"|(?P<deepseek>deepseek-)|(?P<ollama>(?:llama|qwen|gemma|mistral|phi)[0-9.]*(?:[:-]|$))"
)
"""Beginnings of models' names, by the provider that serves them."""

Aliases = Mapping[str, Any]
"""Model ids, names of aliases, and tables of provider and name, by alias."""


def aliases_in(partial: Mapping[str, Any]) -> Aliases:
    """The aliases that `partial` sets."""
    found = get_path(partial, ALIASES)
    return found if isinstance(found, dict) else {}


# --- one reference ---------------------------------------------------------------------------


def resolve_model(reference: ModelId | str, aliases: Aliases, *, path: str = PATH) -> ModelId:
    """The model that `reference` names, through as many aliases as it takes.

    A name that is no alias may be a whole `provider/name`.

    Raises:
        ConfigError: If it is neither, or any aliases go in circles, used here or not.
    """
    check_aliases(aliases)
    return _resolved(reference, aliases, path)


def _resolved(reference: ModelId | str, aliases: Aliases, path: str) -> ModelId:
    """As `resolve_model`, of aliases that do not go in circles."""
    while isinstance(reference, str) and (reference := reference.strip()) in aliases:
        path, reference = format_path([*_ALIAS_KEYS, reference]), aliases[reference]
    if isinstance(reference, str) and "/" not in reference:
        known = ", ".join(sorted(aliases)) or "none is defined"
        near = _nearest(reference, aliases)
        meant = f": did you mean {near!r}?" if near else ""
        raise ConfigError(
            f"{shortened(reference)!r} is neither an alias (known: {known}) nor "
            f"`provider/name`{meant}",
            path=path,
        )
    return _model(reference, path)


def _nearest(reference: str, aliases: Aliases) -> str | None:
    """Return the alias or the model id that `reference` may mean; None if nothing is near."""
    if near := difflib.get_close_matches(reference[:MAX_NAME_CHARS], aliases, n=1):
        return near[0]
    known = _FAMILY.match(reference.lower())
    if known is None or not MODEL_NAME.fullmatch(reference) or len(reference) > MAX_NAME_CHARS:
        return None
    return f"{known.lastgroup}/{reference}"


def _model(value: Any, path: str) -> ModelId:
    """The model of a table or of `provider/name`."""
    if isinstance(value, ModelId):
        return value
    try:
        table = read_model_id(value)
        if isinstance(table, dict):
            if set(table) != {"provider", "name"}:
                raise ValueError("expected a model id: a table of provider and name")
            table = read_model_id(f"{table['provider']}/{table['name']}")
    except ValueError as exc:
        raise ConfigError(str(exc), path=path) from exc
    return ModelId(**table)


def check_aliases(aliases: Aliases) -> None:
    """Raise `ConfigError` if aliases go in circles, whether anything refers to them or not."""
    fine: set[str] = set()
    for alias in aliases:
        chain: list[str] = []
        target: Any = alias
        while isinstance(target, str) and target in aliases and target not in fine:
            if target in chain:
                circle = [*chain[chain.index(target) :], target]
                raise ConfigError(
                    f"these aliases form a cycle: {' -> '.join(circle)}", path=ALIASES
                )
            chain.append(target)
            target = aliases[target]
        fine.update(chain)


def parse_model_id(text: str) -> ModelId | str:
    """A full id or an alias, as written.

    Raises:
        ConfigError: If it has a `/` and is no valid id; unknown providers list the valid ones.
    """
    try:
        found = read_model_id(text)
    except ValueError as exc:
        raise ConfigError(str(exc), path=PATH) from exc
    return found if isinstance(found, str) else ModelId(**found)


# --- all references of a configuration -------------------------------------------------------


def references(config: AppConfig) -> list[tuple[str, ModelId | str]]:
    """Every model that `config` names, with its path, but for the aliases themselves."""
    found: list[tuple[str, ModelId | str]] = []

    def note(path: str, reference: Any) -> Any:
        found.append((path, reference if isinstance(reference, str) else ModelId(**reference)))
        return reference

    with_models(ROOT, config.model_dump(mode="json", exclude_none=True), note)
    return found


def resolve_partial(partial: Mapping[str, JsonValue], aliases: Aliases) -> dict[str, JsonValue]:
    """Return `partial` with models in place of aliases, as far as `aliases` tell.

    What cannot be resolved stays as it is. Done before a delta is stored, so that it means the
    same model after the aliases changed.
    """
    return resolve_references(partial, aliases)[0]


def resolve_references(
    partial: Mapping[str, JsonValue], aliases: Aliases
) -> tuple[dict[str, JsonValue], list[tuple[str, str]]]:
    """As `resolve_partial`; also return path and text of what stays a name."""
    unresolved: list[tuple[str, str]] = []
    try:
        check_aliases(aliases)
        in_circles = False
    except ConfigError:
        in_circles = True

    def settle(path: str, reference: Any) -> Any:
        if not isinstance(reference, str):
            return reference
        try:
            if reference.strip() and not in_circles:
                return dict(_resolved(reference, aliases, path))
        except ConfigError:
            pass  # its name is what is left of it
        unresolved.append((path, reference))
        return reference

    return with_models(ROOT, dict(partial), settle), unresolved


Settle = Callable[[str, Any], Any]
"""From the path of a reference, and the reference, to what is to stand there."""


def with_models(
    node: SchemaNode | None, value: Any, settle: Settle, keys: tuple[str, ...] = ()
) -> Any:
    """Return `value` of `node`, with every reference in it settled."""
    if value is None or node is None or node.kind == "json" or keys == _ALIAS_KEYS:
        return value
    if node.table is ModelId:
        return settle(format_path(keys), value)
    if is_wrapper(value, node):
        return {**value, "value": with_models(node, value["value"], settle, keys)}
    if isinstance(value, list) and node.kind == "list":
        numbered = enumerate(value)
        return [with_models(node.item, x, settle, (*keys, str(i))) for i, x in numbered]
    if not isinstance(value, dict):
        return value
    return {k: with_models(node.child(k), v, settle, (*keys, k)) for k, v in value.items()}
