"""Read assignments: texts that change settings, such as `style.reasoning.display=full`.

`parse_assignment` reads these forms by the type of the setting:

| form | value | effect |
|---|---|---|
| `path=text` | text in the form of the setting's type; commas separate items of a list | set |
| `path:=json` | JSON; `null` unsets | set; tables merge field by field |
| `path+=text`, `path:+=json` | as above | add to a list, a text, or a map |
| `{…}` | JSON object with settings | merge into the configuration |

The result is a `Change`: first its `unsets`, paths of settings, are unset, and then its `delta`, a
table of settings, is merged into the configuration. A merge adds to a list or a map. To replace it,
the delta has `{"value": […], "strategy": "replace"}`, or the path is also in `unsets`.

The type of a setting is its *node* in the schema (`schema.py`). Some tables have a *short form*,
such as the text `anthropic/claude` for a model id; `expand_shorthand` returns the table.

Source: `docs/guide.md`, `docs/configuration.md`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from pydantic import JsonValue, ValidationError

from jp_nb.config.list_item_changes import find_list_depth, set_in_list
from jp_nb.config.partials.partial import Partial, build_partial, get_path, unwrap
from jp_nb.config.partials.partial_change import Change
from jp_nb.config.partials.partial_merge import expand_shorthand
from jp_nb.config.schema import SchemaNode, node_at, require_node
from jp_nb.config.setting_paths import find_path_end, format_path, parse_path
from jp_nb.config.tree.value_errors import shorten_for_error
from jp_nb.config.validation import validate_layer
from jp_nb.errors import ConfigError, ConfigProblem
from jp_nb.json_limits import MAX_CONFIG_LEVELS
from jp_nb.json_reading import read_json

ASSIGNMENT_FORMS = "path=value, path:=json, path+=value, path:+=json, or a JSON object"
ASSIGNMENT_LAYER = "assignment"
ONLY_IN_FILES_MESSAGE: Final = "only a configuration file can set this"
FILE_ONLY_SETTINGS: Final = ("extends", "inherit", "id")
"""Settings of a configuration file itself, which have no meaning in other sources."""


def format_setting_value(value: object) -> str:
    """Return `value` as one line of JSON, as `%jp config` shows it."""
    return json.dumps(value, ensure_ascii=False, default=str)


def is_assignment(text: str) -> bool:
    """Return True if `text`, the argument of `-c`, is an assignment, not the name of a file."""
    return text.lstrip().startswith("{") or "=" in text


def parse_assignment(text: str, current: Partial, *, layer: str = ASSIGNMENT_LAYER) -> Change:
    """Return the change of an assignment, one of the forms above.

    The new value is validated alone, not together with other settings. `+=`, items of lists, and
    short forms depend on the `current` settings. `layer` names the source in errors.

    Raises:
        ConfigError: The text has none of the forms, or the path or the value is invalid.
    """
    if text.lstrip().startswith("{"):
        value = _read_json(text, "")
        assert isinstance(value, dict)  # JSON that begins with `{`
        return Change(read_partial(value, layer=layer))

    # For example, `style.code.theme :+= "x"` has the path, the operators `:+`, and the value. The
    # equals sign after the path is the first one outside of brackets.
    equals_sign = find_path_end(text)
    left = text[:equals_sign].rstrip()
    right = text[equals_sign + 1 :]
    path = left.rstrip(" :+")
    operators = left[len(path) :].replace(" ", "")
    path = path.strip()

    if equals_sign < 0 or not path or operators not in ("", ":", "+", ":+", "+:"):
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
    value = _read_json(text, path) if as_json else parse_setting_value(node, text, path)

    if value is None:
        if extend:
            raise ConfigError(
                "`+=` cannot add null; `:=null` unsets the setting", path=path, kind="type"
            )
        return Change(unsets=(path,))

    list_depth = find_list_depth(keys)
    if list_depth is not None:  # `path` is in an item of a list: the change has the whole list
        change = set_in_list(keys, list_depth, value, current, extend=extend)
    elif extend:
        change = Change(build_partial(path, _extend(path, node, value, current)))
    else:
        change = _set(path, node, value, current)

    return Change(validate_layer(change.delta, layer=layer), change.unsets)


def _check_no_file_settings(fields: Sequence[str], layer: str) -> None:
    wrong = [
        ConfigProblem(key, "value", ONLY_IN_FILES_MESSAGE)
        for key in fields
        if key in FILE_ONLY_SETTINGS
    ]
    if wrong:
        first, *others = wrong
        raise ConfigError(first.message, path=first.path, layer=layer, others=others)


def _set(path: str, node: SchemaNode, value: JsonValue, current: Partial) -> Change:
    """Return the change that replaces the value at `path`, whose node is `node`.

    A list or a map would be merged with the current one. So a list gets the strategy `replace`, and
    a map is unset first.
    """
    if node.kind == "list":
        plain = unwrap(value, node)  # without a merge strategy, which the user may have written
        items: JsonValue = plain if isinstance(plain, list) else [plain]
        return Change(build_partial(path, {"value": items, "strategy": "replace"}))

    if node.kind == "map" and isinstance(value, dict):
        has_entries = bool(get_path(current, path))
        return Change(build_partial(path, value), (path,) if has_entries else ())

    _check_fits_table(path, value, current)
    return Change(build_partial(path, value))


def _check_fits_table(path: str, value: JsonValue, current: Partial) -> None:
    """Raise if the table of the field at `path` is now a value that stands for no table.

    For example, `assistant.model.id` is the alias `fast`. With its field `name` alone, the model
    would have no provider.
    """
    *parent_keys, field = parse_path(path)
    parent = format_path(parent_keys)
    parent_node = node_at(parent_keys)
    if parent_node is None or parent_node.table is None:
        return

    short_form = get_path(current, parent) if parent_keys else None
    if short_form is None or isinstance(short_form, dict):
        return

    is_table = isinstance(expand_shorthand(parent_node, short_form), dict)
    needs_no_other_field = set(parent_node.required_fields) <= {field}
    if is_table or needs_no_other_field:
        return

    shown = shorten_for_error(json.dumps(short_form, ensure_ascii=False))
    raise ConfigError(
        f"`{parent}` is {shown}, which has no {field!r}: set `{parent}` as a whole",
        path=path,
        kind="type",
    )


def _extend(path: str, node: SchemaNode, value: JsonValue, current: Partial) -> JsonValue:
    """Return the value that adds `value` to the setting at `path`, if it is merged into it.

    The merge itself adds to a list, a map, a table, and an object in free JSON. A list or a text in
    free JSON, and most texts, would be replaced, so the result is then the whole new value.
    """
    if node.kind == "list":
        return value if isinstance(value, list) else [value]
    if isinstance(value, dict) and node.kind in ("map", "json", "table"):
        return value

    now = get_path(current, path)
    if node.kind == "text" and isinstance(value, str):
        # A text that may have a merge strategy is appended, also if a lower layer changes later.
        if node.merge.annotated:
            return {"value": value, "strategy": "append"}
        return str(now or "") + value

    if node.kind == "json" and isinstance(now, list):
        added = value if isinstance(value, list) else [value]
        return {"value": [*now, *added], "strategy": "replace"}

    if node.kind == "json" and isinstance(now, str) and isinstance(value, str):
        return now + value
    raise ConfigError("`+=` works only on a list, a text, or a map", path=path, kind="type")


def _read_json(text: str, path: str) -> JsonValue:
    try:
        return read_json(text, max_levels=MAX_CONFIG_LEVELS)
    except ValueError as exc:
        raise ConfigError(f"not JSON: {exc}", path=path, kind="malformed") from exc


def parse_setting_value(node: SchemaNode, text: str, path: str) -> JsonValue:
    """Return `text` as a value of the type of `node`, not yet validated.

    A map has no form as a text, which is an error. A text in no form of the type is returned as it
    is, so that the validation reports it.
    """
    if node.kind == "list":
        pieces = [piece.strip() for piece in text.split(",")]
        return [parse_setting_value(node.item, piece, path) for piece in pieces if piece]
    if node.kind == "map":
        raise ConfigError("expected JSON: write `:=` and an object", path=path, kind="type")
    if node.takes_any_text:
        return text

    with suppress(ValidationError):  # a text that is valid, such as one of several words
        node.adapter.validate_python(text)
        return text

    with suppress(ValueError):  # a number, `true`, or `false`
        value = read_json(text, max_levels=MAX_CONFIG_LEVELS)
        if isinstance(value, (bool, int, float)):
            return value
    return text
