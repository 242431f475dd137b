"""`path=value` and its kin.

Source: `spec/config.md` section 7.
"""

from __future__ import annotations

import difflib
import json
import types
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, JsonValue, ValidationError

from jp_nb.config.app_config import AppConfig
from jp_nb.config.partial import Partial, at, build, explain, merge, validate
from jp_nb.config.paths import FREE_MAP, adapter, child, field_annotation, is_table, node_of
from jp_nb.errors import ConfigError

FORMS = "path=value, path:=json, path+=value, path:+=json, or a JSON object"


def parse_assignment(text: str, current: Partial, *, layer: str = "assignment") -> Partial:
    """The partial that `text` asks for.

    Args:
        text: One of the forms `path=value` (read as the target's type), `path:=json`,
            `path+=value` and `path:+=json` (add to a list or a text), or a JSON object.
        current: The partial in force, which `+=` adds to.
        layer: What to call the source in an error.

    Raises:
        ConfigError: If the form, the path or the value is wrong; `path` and `kind` tell.
    """
    if text.lstrip().startswith("{"):
        partial = _json(text, "")
        if not isinstance(partial, dict):
            raise ConfigError(f"expected a JSON object, found {text[:40]!r}", kind="malformed")
        validate(merge({}, partial), layer=layer)
        return partial
    left, equals, right = text.partition("=")
    if not equals or not left.strip(" :+"):
        raise ConfigError(f"{text!r} is not an assignment, expected {FORMS}", kind="malformed")
    path = left.rstrip(":+").strip()
    operators = left.rstrip()[len(left.rstrip(":+ ")) :]
    return assign(
        path, right, current, as_json=":" in operators, extend="+" in operators, layer=layer
    )


def assign(
    path: str,
    text: str,
    current: Partial,
    *,
    as_json: bool = False,
    extend: bool = False,
    layer: str = "assignment",
) -> Partial:
    """The partial that sets `path` (see `parse_assignment`)."""
    node = require(path)
    value = _json(text, path) if as_json else _from_text(path, node, text)
    if get_origin(node) is list:
        return build(path, _list_value(path, value, at(current, path), extend))
    if extend and isinstance(value, str) and node is str:
        value = str(at(current, path) or "") + value
    elif extend and not (isinstance(value, dict) and (is_table(node) or get_origin(node) is dict)):
        raise ConfigError("`+=` adds to a list, a text or a map", path=path, kind="type")
    if not (is_table(node) and isinstance(value, dict)):
        check(path, value, layer=layer)
    partial = build(path, value)
    validate(merge(current, partial), layer=layer)
    return partial


def _list_value(path: str, value: JsonValue, old: Any, extend: bool) -> JsonValue:
    items: list[JsonValue] = value if isinstance(value, list) else [value]
    whole: list[JsonValue] = [*old, *items] if extend and isinstance(old, list) else items
    check(path, whole)
    return {"value": whole, "strategy": "replace"}


def require(path: str) -> Any:
    """The schema node at `path`.

    Raises:
        ConfigError: If there is none; the message offers the nearest known key.
    """
    node: Any = AppConfig
    seen: list[str] = []
    for key in path.split("."):
        below = child(node, key)
        if below is None:
            known = sorted(node.model_fields) if is_table(node) else []
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {'.'.join([*seen, near[0]])!r}? " if near else ""
            accepted = f"expected one of: {', '.join(known)}" if known else "nothing lies below it"
            raise ConfigError(
                f"unknown key, {hint}{accepted}", path=".".join([*seen, key]), kind="unknown_key"
            )
        node = below
        seen.append(key)
    return node


def check(path: str, value: JsonValue, *, layer: str | None = None) -> None:
    """Raise `ConfigError` unless `value` may stand at `path`."""
    if node_of(path) is FREE_MAP:
        return
    try:
        adapter(path).validate_python(value)
    except ValidationError as exc:
        raise explain(exc, layer=layer, prefix=path) from exc


def _json(text: str, path: str) -> JsonValue:
    try:
        return json.loads(text)  # type: ignore[no-any-return]
    except json.JSONDecodeError as exc:
        raise ConfigError(f"not JSON: {exc}", path=path, kind="malformed") from exc


def _from_text(path: str, node: Any, text: str) -> JsonValue:
    """`text` as the target's type reads it; what does not fit is left for the check to name."""
    if node is FREE_MAP:
        return text
    if get_origin(node) is list:
        return [piece.strip() for piece in text.split(",") if piece.strip()]
    if _takes_text(field_annotation(path), text):
        return text
    try:
        value: JsonValue = json.loads(text)
    except json.JSONDecodeError:
        return text
    return value


def _takes_text(annotation: Any, text: str) -> bool:
    """Whether `text` itself, unparsed, is meant: a plain string or a word of a closed set."""
    if get_origin(annotation) is Annotated:
        return _takes_text(get_args(annotation)[0], text)
    if get_origin(annotation) in (Union, types.UnionType):
        return any(_takes_text(member, text) for member in get_args(annotation))
    if annotation is str:
        return True
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return False
    return text in get_args(annotation)
