"""Read assignments: texts that change settings, such as `style.reasoning.display=full`.

`parse_assignment` reads these forms by the type of the setting:

| form | value | effect |
|---|---|---|
| `path=text` | text in the form of the setting's type; commas separate items of a list | set |
| `path:=json` | JSON; `null` unsets | set; tables merge field by field |
| `path+=text`, `path:+=json` | as above | add to a list, a text, or a map |
| `{…}` | JSON object with settings | merge into the configuration |

Source: `docs/guide.md`, `docs/configuration.md`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from pydantic import JsonValue, ValidationError

from jp_nb.config.partials.partial import Partial, build_partial, get_path, unwrap
from jp_nb.config.partials.partial_change import Change
from jp_nb.config.partials.partial_merge import expand_shorthand
from jp_nb.config.schema import JSON, SchemaNode, node_at, require_node
from jp_nb.config.setting_paths import Element, find_path_end, format_path, is_index, parse_path
from jp_nb.config.tree.base import shorten_for_error
from jp_nb.config.validation import validate_layer
from jp_nb.errors import ConfigError, ConfigProblem
from jp_nb.json_values import MAX_CONFIG_LEVELS, read_json

ASSIGNMENT_FORMS = "path=value, path:=json, path+=value, path:+=json, or a JSON object"
ASSIGNMENT_LAYER = "assignment"
ONLY_IN_FILES: Final = "only a configuration file can set this"
FILE_ONLY_SETTINGS: Final = ("extends", "inherit", "id")
"""Settings of a configuration file itself, which have no meaning in other sources."""


def format_setting_value(value: object) -> str:
    """Return `value` as one line of JSON, as `%jp config` shows it."""
    return json.dumps(value, ensure_ascii=False, default=str)


def is_assignment(text: str) -> bool:
    """Return True if `text` is an assignment, not a name."""
    return text.lstrip().startswith("{") or "=" in text


def parse_assignment(text: str, current: Partial, *, layer: str = ASSIGNMENT_LAYER) -> Change:
    """Return the change of an assignment, one of the forms above.

    The new value is validated alone, not together with other settings. `+=`, items of lists, and
    short forms depend on the `current` settings. `layer` names the source in errors.
    """
    if text.lstrip().startswith("{"):
        value = _json(text, "")
        assert isinstance(value, dict)
        return Change(read_partial(value, layer=layer))

    end = find_path_end(text)
    left = text[:end]
    equals = end >= 0
    right = text[end + 1 :]
    path = left.rstrip(" :+").strip()
    operators = left.rstrip()[len(left.rstrip(" :+")) :].replace(" ", "")

    if not equals or not path or operators not in ("", ":", "+", ":+", "+:"):
        raise ConfigError(
            f"{shorten_for_error(text)!r} is not an assignment, expected {ASSIGNMENT_FORMS}",
            kind="malformed",
        )

    return assign_setting(
        path, right, current, as_json=":" in operators, extend="+" in operators, layer=layer
    )


def read_partial(value: Mapping[str, JsonValue], *, layer: str = ASSIGNMENT_LAYER) -> Partial:
    """Validate an object with settings that not only a file can have; return its stored form."""
    _check_no_file_settings(list(value), layer)
    return validate_layer(value, layer=layer)


def assign_setting(
    path: str,
    text: str,
    current: Partial,
    *,
    as_json: bool = False,
    extend: bool = False,
    layer: str = ASSIGNMENT_LAYER,
) -> Change:
    """Return the change that sets `path`, or adds to it: see `parse_assignment`."""
    node = require_node(path)
    keys = parse_path(path)
    _check_no_file_settings(keys[:1], layer)
    value = _json(text, path) if as_json else parse_setting_value(node, text, path)

    if value is None:
        if extend:
            raise ConfigError(
                "`+=` cannot add null; `:=null` unsets the setting", path=path, kind="type"
            )
        return Change(unsets=(path,))

    nodes = {place: node_at(keys[:place]) for place in range(1, len(keys))}
    places = (place for place, above in nodes.items() if above and above.kind == "list")
    if (place := next(places, None)) is not None:  # of the key of the first item of a list
        change = _set_in_list(keys, place, node, value, current, extend=extend)
    elif extend:
        change = Change(build_partial(path, _extend(path, node, value, current)))
    else:
        change = _set(path, node, value, current)

    return Change(validate_layer(change.delta, layer=layer), change.unsets)


def _check_no_file_settings(fields: Sequence[str], layer: str) -> None:
    wrong = [
        ConfigProblem(key, "value", ONLY_IN_FILES) for key in fields if key in FILE_ONLY_SETTINGS
    ]
    if wrong:
        raise ConfigError(wrong[0].message, path=wrong[0].path, layer=layer, others=wrong[1:])


def _set(path: str, node: SchemaNode, value: JsonValue, current: Partial) -> Change:
    if node.kind == "list":
        plain = unwrap(value, node)
        items: JsonValue = plain if isinstance(plain, list) else [plain]
        return Change(build_partial(path, {"value": items, "strategy": "replace"}))

    if node.kind == "map" and isinstance(value, dict):
        unsets = (path,) if get_path(current, path) else ()
        return Change(build_partial(path, value), unsets)

    _check_fits_table(path, value, current)
    return Change(build_partial(path, value))


def _check_fits_table(path: str, value: JsonValue, current: Partial) -> None:
    # A field cannot be set if its table has a short form now and needs other fields as well.
    *parent_keys, field = parse_path(path)
    parent = format_path(parent_keys)
    above = node_at(parent_keys)
    now = get_path(current, parent) if parent_keys else None

    if above is None or above.table is None or now is None or isinstance(now, dict):
        return
    if isinstance(expand_shorthand(above, now), dict) or set(above.required_fields) <= {field}:
        return

    raise ConfigError(
        f"`{parent}` is {shorten_for_error(json.dumps(now, ensure_ascii=False))}, which has "
        f"no {field!r}: set `{parent}` as a whole",
        path=path,
        kind="type",
    )


def _extend(path: str, node: SchemaNode, value: JsonValue, current: Partial) -> JsonValue:
    if node.kind == "list":
        return value if isinstance(value, list) else [value]
    if isinstance(value, dict) and node.kind in ("map", "json", "table"):
        return value

    now = get_path(current, path)
    if node.kind == "text" and isinstance(value, str):
        if node.merge.annotated:  # it appends to the text of lower layers
            return {"value": value, "strategy": "append"}
        return str(now or "") + value

    if node.kind == "json" and isinstance(now, list):
        added = value if isinstance(value, list) else [value]
        return {"value": [*now, *added], "strategy": "replace"}

    if node.kind == "json" and isinstance(now, str) and isinstance(value, str):
        return now + value
    raise ConfigError("`+=` works only on a list, a text, or a map", path=path, kind="type")


def _set_in_list(
    keys: Sequence[str],
    place: int,
    node: SchemaNode,
    value: JsonValue,
    current: Partial,
    *,
    extend: bool,
) -> Change:
    path = format_path(keys[:place])
    key = keys[place]

    now = get_path(current, path)
    items = list(now) if isinstance(now, list) else []

    if isinstance(key, Element) or int(key) >= len(items):
        has = f"the list has {len(items)}" if items else "the list is empty"
        raise ConfigError(
            f"unknown index: items are numbered from 0, and {has}",
            path=format_path(keys[: place + 1]),
            kind="unknown_index",
        )

    table = node_at(keys[: place + 1]) or JSON
    items[int(key)] = _replace(table, items[int(key)], keys[place + 1 :], value, extend, keys)
    return Change(build_partial(path, {"value": items, "strategy": "replace"}))


def _replace(
    node: SchemaNode,
    item: JsonValue,
    rest: Sequence[str],
    value: JsonValue,
    extend: bool,
    keys: Sequence[str],
) -> JsonValue:
    if not rest:
        return _extend_item(node, item, value, format_path(keys)) if extend else value

    key = rest[0]
    below = node.child(rest[0]) or JSON
    item = expand_shorthand(node, item)

    if isinstance(item, list):
        if not is_index(key) or int(key) >= len(item):
            raise ConfigError(
                f"unknown index: items are numbered from 0, and the list has {len(item)}",
                path=format_path(keys),
                kind="unknown_index",
            )
        inner = _replace(below, item[int(key)], rest[1:], value, extend, keys)
        return [*item[: int(key)], inner, *item[int(key) + 1 :]]
    table = item if isinstance(item, dict) else {}
    return {**table, str(key): _replace(below, table.get(key), rest[1:], value, extend, keys)}


def _extend_item(node: SchemaNode, item: JsonValue, value: JsonValue, path: str) -> JsonValue:
    match item, value:
        case list(), list():
            return [*item, *value]
        case (list(), _) if node.kind == "list":
            return [*item, value]
        case str(), str():
            return item + value
        case dict(), dict():
            return {**item, **value}
        case (None, _) if node.kind in ("list", "text", "map", "json"):
            return value
    raise ConfigError("`+=` works only on a list, a text, or a map", path=path, kind="type")


def _json(text: str, path: str) -> JsonValue:
    try:
        return read_json(text, max_levels=MAX_CONFIG_LEVELS)
    except ValueError as exc:
        raise ConfigError(f"not JSON: {exc}", path=path, kind="malformed") from exc


def parse_setting_value(node: SchemaNode, text: str, path: str) -> JsonValue:
    """Return `text` as a value of the type of `node`, not validated. A map has no text form."""
    if node.kind == "list":
        pieces = [piece.strip() for piece in text.split(",")]
        return [parse_setting_value(node.item, piece, path) for piece in pieces if piece]
    if node.kind == "map":
        raise ConfigError("expected JSON: write `:=` and an object", path=path, kind="type")
    if node.takes_any_text:
        return text
    with suppress(ValidationError):
        node.adapter.validate_python(text)
        return text
    with suppress(ValueError):
        value = read_json(text, max_levels=MAX_CONFIG_LEVELS)
        if isinstance(value, (bool, int, float)):
            return value
    return text
