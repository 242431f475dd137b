"""Partial configurations: nested objects that hold only what somebody set.

A partial is a plain JSON object; what is absent (or null) says nothing. `merge` folds one over
another, `validate` turns the fold into an `AppConfig`.

Source: `spec/config.md` sections 4 and 5, `spec/conversation-stream.md` 5.2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard, get_origin

from pydantic import BaseModel, JsonValue, ValidationError

from jp_nb.config.app_config import AppConfig, Enable, ModelId
from jp_nb.config.paths import FREE_MAP, child, node_of
from jp_nb.errors import ConfigError

Partial = dict[str, JsonValue]


def merge(base: Mapping[str, JsonValue], over: Mapping[str, JsonValue]) -> Partial:
    """`base` with `over` folded in: objects recurse, lists append, the rest replaces.

    A list or a text written as `{value, strategy}` follows its strategy (`append`, `prepend`,
    `replace`), and keeps it: what lies below the result may come later. Neither argument is
    changed.
    """
    return _merge(AppConfig, base, over)


def _merge(node: Any, base: Mapping[str, JsonValue], over: Mapping[str, JsonValue]) -> Partial:
    result = dict(base)
    for key, value in over.items():
        if value is None:
            continue
        below = child(node, key)
        result[key] = _merge_value(below, result.get(key), value)
    return result


def _merge_value(node: Any, old: JsonValue, new: JsonValue) -> JsonValue:
    old, new = _normal(node, old), _normal(node, new)
    if is_wrapper(new, node):
        return _merge_wrapped(node, old, new)
    if isinstance(new, dict):
        below = unwrap(old, node)
        return _merge(node, below if isinstance(below, dict) else {}, new)
    items = unwrap(old, node)
    if isinstance(new, list) and isinstance(items, list) and node is not FREE_MAP:
        return _rewrap(node, old, [*items, *(item for item in new if item not in items)])
    return new


_WRAPPER = frozenset({"value", "strategy", "separator", "dedup", "discard_when_merged"})
_SEPARATORS = {"none": "", "space": " ", "line": "\n", "paragraph": "\n\n"}


def is_wrapper(value: object, node: Any) -> TypeGuard[dict[str, JsonValue]]:
    """Whether `value` for `node` is a list or a text written as `{value, strategy}`.

    Where any JSON may stand, both keys are needed: a map may have a key `value` of its own.
    """
    if not isinstance(value, dict) or "value" not in value or not value.keys() <= _WRAPPER:
        return False
    if node is FREE_MAP:
        return "strategy" in value
    return node is str or get_origin(node) is list


def unwrap(value: JsonValue, node: Any) -> JsonValue:
    """`value` without its strategy, if it was written with one."""
    return value["value"] if is_wrapper(value, node) else value


def _rewrap(node: Any, old: JsonValue, value: JsonValue) -> JsonValue:
    """`value` with the strategy of `old`, which says how it meets what lies below."""
    return {**old, "value": value} if is_wrapper(old, node) else value


def _merge_wrapped(node: Any, old: JsonValue, wrapped: dict[str, JsonValue]) -> JsonValue:
    below, new = unwrap(old, node), wrapped["value"]
    strategy = wrapped.get("strategy", "append")
    if below is None or strategy == "replace":
        return wrapped
    first, second = (new, below) if strategy == "prepend" else (below, new)
    if isinstance(first, list) and isinstance(second, list):
        return _rewrap(node, old, [*first, *second])
    if isinstance(first, str) and isinstance(second, str):
        separator = _SEPARATORS.get(str(wrapped.get("separator", "none")), "")
        return _rewrap(node, old, first + separator + second)
    return wrapped


def settled(partial: Mapping[str, JsonValue]) -> Partial:
    """`partial` without strategies: nothing lies below it."""
    return _settled(AppConfig, partial)


def _settled(node: Any, partial: Mapping[str, JsonValue]) -> Partial:
    result: Partial = {}
    for key, value in partial.items():
        below = child(node, key)
        plain = unwrap(value, below)
        result[key] = _settled(below, plain) if isinstance(plain, dict) else plain
    return result


def _normal(node: Any, value: JsonValue) -> JsonValue:
    """Shorthands in their one stored form, so that partials merge field by field."""
    if node is Enable and isinstance(value, (bool, str)):
        try:
            return Enable.model_validate(value).model_dump()
        except ValidationError:
            return value  # reported with its path by `validate`
    if node is ModelId and isinstance(value, str) and "/" in value:
        provider, _, name = value.partition("/")
        return {"provider": provider.strip(), "name": name.strip()}
    return value


def unset(partial: Partial, path: str) -> Partial:
    """`partial` without what it sets at `path` and below."""
    head, _, rest = path.partition(".")
    if head not in partial:
        return partial
    if not rest:
        return {key: value for key, value in partial.items() if key != head}
    below = partial[head]
    if not isinstance(below, dict):
        return partial
    return {**partial, head: unset(below, rest)}


def leaves(partial: Mapping[str, JsonValue], prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Every value that is set, with its dotted path."""
    for key, value in partial.items():
        path = f"{prefix}.{key}" if prefix else key
        plain = unwrap(value, node_of(path))
        if isinstance(plain, dict) and plain:
            yield from leaves(plain, path)
        elif plain is not None:
            yield path, plain


def at(partial: Mapping[str, Any], path: str) -> Any:
    """What `partial` holds at `path`, without its strategy; None if nothing."""
    value: Any = partial
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return unwrap(value, node_of(path))


def build(path: str, value: JsonValue) -> Partial:
    """A partial that sets `path` alone."""
    head, _, rest = path.partition(".")
    return {head: build(rest, value) if rest else value}


def validate(partial: Mapping[str, JsonValue], *, layer: str | None = None) -> AppConfig:
    """The whole configuration: `partial` with defaults where it says nothing.

    Raises:
        ConfigError: If a key is unknown or a value is wrong. All of them are named.
    """
    try:
        return AppConfig.model_validate(settled(partial))
    except ValidationError as exc:
        raise explain(exc, layer=layer) from exc


def explain(exc: ValidationError, *, layer: str | None = None, prefix: str = "") -> ConfigError:
    """One error that names every wrong value in `exc`, its path and what is accepted."""
    found: dict[str, tuple[str, str]] = {}
    for error in exc.errors():
        path = _config_path(prefix, error["loc"], error["type"])
        found.setdefault(path, _describe(path, error["type"], error["msg"], error["input"]))
    problems = [f"{path}: {text}" if path else text for path, (_, text) in found.items()]
    first, (kind, text) = next(iter(found.items()))
    if len(problems) == 1:
        return ConfigError(text, path=first, kind=kind, layer=layer)
    return ConfigError("\n".join(problems), path=first, kind=kind, layer=layer)


def _config_path(prefix: str, loc: tuple[str | int, ...], kind: str) -> str:
    """The dotted path of an error; the union members that pydantic tried are left out."""
    path = prefix
    for part in loc:
        below = f"{path}.{part}" if path else str(part)
        if node_of(below) is None and kind != "extra_forbidden":
            break
        path = below
    return path


def _is_field(node: Any) -> bool:
    return isinstance(node, type) and issubclass(node, BaseModel)


def _describe(path: str, kind: str, message: str, value: object) -> tuple[str, str]:
    if kind == "extra_forbidden":
        parent, _, key = path.rpartition(".")
        node = node_of(parent)
        known = sorted(node.model_fields) if _is_field(node) else []
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return "unknown_key", f"unknown key, {hint}expected one of: {', '.join(known)}"
    message = message.removeprefix("Value error, ")
    shown = repr(value)
    if kind == "value_error":
        return "value", message
    return "type", f"{message[:1].lower()}{message[1:]}, found {shown[:80]}"
