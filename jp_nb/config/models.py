"""From what a user calls a model to the model.

Source: `spec/config.md` section 3.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, JsonValue

from jp_nb.config.app_config import AppConfig, ModelId
from jp_nb.config.model_config import read_model_id
from jp_nb.config.paths import format_path
from jp_nb.errors import ConfigError

PATH = "assistant.model.id"
ALIASES = "providers.llm.aliases"
_ALIAS_KEYS = tuple(ALIASES.split("."))

Aliases = Mapping[str, Any]
"""Model ids, names of aliases, and tables of provider and name, by alias."""


# --- one reference ---------------------------------------------------------------------------


def resolve(reference: ModelId | str, aliases: Aliases, *, path: str = PATH) -> ModelId:
    """The model that `reference` names, through as many aliases as it takes.

    A name that is no alias may be a whole `provider/name`.

    Raises:
        ConfigError: If it is neither, or any aliases go in circles, used here or not.
    """
    check_aliases(aliases)
    while isinstance(reference, str) and (reference := reference.strip()) in aliases:
        path, reference = format_path([*_ALIAS_KEYS, reference]), aliases[reference]
    if isinstance(reference, str) and "/" not in reference:
        known = ", ".join(sorted(aliases)) or "none is defined"
        raise ConfigError(
            f"{reference!r} is neither an alias (known: {known}) nor `provider/name`", path=path
        )
    return _model(reference, path)


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
                    f"these aliases go in circles: {' -> '.join(circle)}", path=ALIASES
                )
            chain.append(target)
            target = aliases[target]
        fine.update(chain)


def parse(text: str) -> ModelId | str:
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

    _settled(AppConfig, config.model_dump(mode="json", exclude_none=True), (), note)
    return found


def resolve_all(config: AppConfig) -> AppConfig:
    """`config` without an alias where a model is named.

    Raises:
        ConfigError: If one cannot be resolved; the path tells which.
    """
    aliases = config.providers.llm.aliases
    check_aliases(aliases)
    if not any(isinstance(reference, str) for _, reference in references(config)):
        return config

    def settle(path: str, reference: Any) -> Any:
        return dict(resolve(reference, aliases, path=path)) if _is_name(reference) else reference

    dumped = config.model_dump(mode="json", exclude_none=True)
    return AppConfig.model_validate(_settled(AppConfig, dumped, (), settle))


def resolve_partial(partial: Mapping[str, JsonValue], aliases: Aliases) -> dict[str, JsonValue]:
    """`partial` with models in place of aliases, as far as `aliases` tell.

    What cannot be resolved stays as it is. Done before a delta is stored, so that it means the
    same model after the aliases changed.
    """

    def settle(path: str, reference: Any) -> Any:
        if not _is_name(reference):
            return reference
        try:
            return dict(resolve(reference, aliases, path=path))
        except ConfigError:
            return reference

    return _settled(AppConfig, dict(partial), (), settle)  # type: ignore[no-any-return]


def _is_name(reference: Any) -> bool:
    return isinstance(reference, str) and bool(reference.strip())


Settle = Callable[[str, Any], Any]
"""From the path of a reference, and the reference, to what is to stand there."""


def _settled(node: Any, value: Any, keys: tuple[str, ...], settle: Settle) -> Any:
    """`value` of `node`, with every reference in it settled."""
    if value is None or keys == _ALIAS_KEYS:
        return value
    if node is ModelId:
        return settle(format_path(keys), value)
    if isinstance(value, list) and get_origin(node) is list:
        below = _below(node, "")
        return [_settled(below, v, (*keys, str(i)), settle) for i, v in enumerate(value)]
    if not isinstance(value, dict) or node is None:
        return value
    if _is_wrapped(node, value):
        return {**value, "value": _settled(node, value["value"], keys, settle)}
    return {k: _settled(_below(node, k), v, (*keys, k), settle) for k, v in value.items()}


def _is_wrapped(node: Any, value: Mapping[str, Any]) -> bool:
    """Whether a list or a map is written with its strategy."""
    if get_origin(node) is list:
        return "value" in value
    return get_origin(node) is dict and "value" in value and isinstance(value.get("strategy"), str)


@cache
def _below(node: Any, key: str) -> Any:
    """What holds fields or items below `node` at `key`: a model, a map, a list; else None."""
    if isinstance(node, type) and issubclass(node, BaseModel):
        field = node.model_fields.get(key)
        return None if field is None else _container(field.annotation)
    return _container(get_args(node)[-1]) if get_origin(node) in (dict, list) else None


def _container(annotation: Any) -> Any:
    """Of several forms, the one that holds something."""
    if get_origin(annotation) is Annotated:
        return _container(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        found = (_container(member) for member in get_args(annotation))
        return next((form for form in found if form is not None), None)
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return annotation if is_model or get_origin(annotation) in (dict, list) else None
