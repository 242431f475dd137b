"""Read settings from files, environment variables, and assignments, and merge their layers.

From low to high: defaults (in the schema), registrations of tools, the user's file, workspace
files, environment variables, the conversation, options of the running cell. This module reads no
files. Invalid settings are a `ConfigError` with all problems and their source.

Assignments have these forms. `parse_assignment` reads them by the type of the setting.

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
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pydantic import JsonValue, ValidationError

from jp_nb.config.directives import ENVIRONMENT_PREFIX
from jp_nb.config.partial import (
    Change,
    Partial,
    apply,
    build_partial,
    expand_shorthand,
    get_path,
    merge,
    strip_strategies,
    unwrap,
)
from jp_nb.config.schema import (
    JSON,
    Element,
    SchemaNode,
    find_path_end,
    format_path,
    is_index,
    node_at,
    parse_path,
    require_node,
)
from jp_nb.config.tree.app import AppConfig, ConversationConfig, Extend, is_ignored
from jp_nb.config.tree.base import shorten_for_error
from jp_nb.config.tree.tool_settings import STAR
from jp_nb.config.validation import remove_ignored, validate_layer
from jp_nb.errors import ConfigError, ConfigProblem
from jp_nb.json_values import MAX_CONFIG_LEVELS, read_json

REGISTRATIONS = "registrations"
USER_FILE = "user file"
WORKSPACE_FILE = "workspace file"
CONFIG_FILE = "config file"
MCP_FILE = "MCP file"
ENVIRONMENT = "environment"
FORMS = "path=value, path:=json, path+=value, path:+=json, or a JSON object"
LAYER = "assignment"
ONLY_IN_FILES: Final = "only a configuration file can set this"
FILE_ONLY: Final = ("extends", "inherit", "id")
"""Settings of a configuration file itself, which have no meaning in other sources."""


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A partial configuration and its source. An unchanged source keeps its layer."""

    name: str
    """The kind of source, such as `workspace file`."""
    partial: Partial
    file: str | None = None


def parse_layer(text: str, name: str, file: str) -> Layer:
    """Return the layer of a file with content `text`: JSON for the suffix `.json`, else TOML."""
    text = text.removeprefix("\ufeff")  # some editors begin a file with a byte order mark
    format_ = "JSON" if file.endswith(".json") else "TOML"
    try:
        is_json = format_ == "JSON"
        partial = read_json(text, max_levels=MAX_CONFIG_LEVELS) if is_json else tomllib.loads(text)
    except (ValueError, RecursionError) as exc:
        reason = "nested too deep" if isinstance(exc, RecursionError) else str(exc)
        raise ConfigError(
            f"not {format_}: {reason}", kind="malformed", layer=name, file=file
        ) from exc
    if not isinstance(partial, dict):
        raise ConfigError("expected an object", kind="malformed", layer=name, file=file)
    return Layer(name, validate_layer(remove_ignored(partial), layer=name, file=file), file)


def list_includes(layer: Layer) -> list[Extend]:
    """Return the entries of `extends` in `layer`."""
    return [Extend.model_validate(x) for x in get_path(layer.partial, "extends") or []]


def select_inherited(groups: Sequence[Sequence[Layer]]) -> list[Layer]:
    """Return the layers of `groups`, each a file with its included files, weakest first.

    A group with `inherit = false` disables all weaker groups.
    """
    kept: list[Layer] = []
    for group in groups:
        inherits = [x for layer in group if (x := layer.partial.get("inherit")) is not None]
        if inherits and inherits[-1] is False:
            kept = []
        kept += group
    return kept


def read_environment(environ: Mapping[str, str]) -> Layer:
    r"""Return the layer of the variables `JP_CFG_…`, such as `JP_CFG_ASSISTANT__MODEL__ID`.

    `__` separates the keys of a path; keys of maps are in lower case. A value is parsed by the type
    of its setting. The prefix `:` marks a value as JSON, and `+` adds the value to the setting.
    Both can be combined. `\:` and `\+` begin a text that starts with `:` or `+`.
    """
    partial: Partial = {}
    errors: list[ConfigError] = []
    for variable in sorted(environ):
        if variable.startswith(ENVIRONMENT_PREFIX):
            try:
                partial = _apply_variable(partial, variable, environ[variable])
            except ConfigError as exc:
                exc.file = variable
                errors.append(exc)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        problems = [f"{exc.file}: {problem}" for exc in errors for problem in exc.problems]
        raise ConfigError("\n".join(problems), kind=errors[0].kind, layer=ENVIRONMENT)
    return Layer(ENVIRONMENT, partial)


def format_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables that set `settings`: texts by path, such as `prompt.answers`.

    Values such as `123` and `:x` remain texts.
    """
    return {
        ENVIRONMENT_PREFIX + path.upper().replace(".", "__"): (
            f"\\{text}" if text[:1] in (":", "+") else text
        )
        for path, text in settings.items()
    }


def _apply_variable(partial: Partial, variable: str, text: str) -> Partial:
    path = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
    operators = ""
    while text[:1] in (":", "+") and text[0] not in operators:
        operators = operators + text[0]
        text = text[1:]
    if text[:2] in ("\\:", "\\+"):
        text = text[1:]
    try:
        if is_ignored(parse_path(path)):
            return partial  # JP reads the same variables
        require_node(path)
        as_json = ":" in operators
        extend = "+" in operators
        change = assign(path, text, partial, as_json=as_json, extend=extend, layer=ENVIRONMENT)
    except ConfigError as exc:
        exc.layer = ENVIRONMENT
        raise
    return apply(partial, change)


def merge_layers(layers: Iterable[Layer]) -> Partial:
    """Merge `layers`, the lowest first. The result is shared: do not modify it."""
    return merge_and_strip(tuple(layers))[0]


@lru_cache(maxsize=16)
def merge_and_strip(layers: tuple[Layer, ...]) -> tuple[Partial, Partial]:
    """Return the merged `layers`, and the same without merge strategies."""
    result: Partial = {}
    for layer in layers:
        result = merge(result, layer.partial)
    return result, strip_strategies(result)


def format_value(value: object) -> str:
    """Return `value` as one line of JSON, as `%jp config` shows it."""
    return json.dumps(value, ensure_ascii=False, default=str)


def is_assignment(text: str) -> bool:
    """Return True if `text` is an assignment, not a name."""
    return text.lstrip().startswith("{") or "=" in text


def parse_assignment(text: str, current: Partial, *, layer: str = LAYER) -> Change:
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
            f"{shorten_for_error(text)!r} is not an assignment, expected {FORMS}", kind="malformed"
        )
    return assign(
        path, right, current, as_json=":" in operators, extend="+" in operators, layer=layer
    )


def read_partial(value: Mapping[str, JsonValue], *, layer: str = LAYER) -> Partial:
    """Validate an object with settings that not only a file can have; return its stored form."""
    _check_no_file_settings(list(value), layer)
    return validate_layer(value, layer=layer)


def assign(
    path: str,
    text: str,
    current: Partial,
    *,
    as_json: bool = False,
    extend: bool = False,
    layer: str = LAYER,
) -> Change:
    """Return the change that sets `path`, or adds to it: see `parse_assignment`."""
    node = require_node(path)
    keys = parse_path(path)
    _check_no_file_settings(keys[:1], layer)
    value = _json(text, path) if as_json else parse_value(node, text, path)
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
    wrong = [ConfigProblem(key, "value", ONLY_IN_FILES) for key in fields if key in FILE_ONLY]
    if wrong:
        raise ConfigError(wrong[0].message, path=wrong[0].path, layer=layer, others=wrong[1:])


def _set(path: str, node: SchemaNode, value: JsonValue, current: Partial) -> Change:
    if node.kind == "list":
        plain = unwrap(value, node)
        items: JsonValue = plain if isinstance(plain, list) else [plain]
        return Change(build_partial(path, {"value": items, "strategy": "replace"}))
    if node.kind == "map" and isinstance(value, dict):
        return Change(build_partial(path, value), (path,) if get_path(current, path) else ())
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
        return {"value": [*now, *(value if isinstance(value, list) else [value])],
                "strategy": "replace"}  # fmt: skip
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


def parse_value(node: SchemaNode, text: str, path: str) -> JsonValue:
    """Return `text` as a value of the type of `node`, not validated. A map has no text form."""
    if node.kind == "list":
        pieces = [piece.strip() for piece in text.split(",")]
        return [parse_value(node.item, piece, path) for piece in pieces if piece]
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


def require_tools(config: AppConfig, names: Iterable[str]) -> None:
    """Check that all `names` are tools, toolsets, or single tools of a source in `config`.

    Raises:
        ConfigError: One is not.
    """
    conversation = config.conversation
    tools = conversation.tools
    toolsets = conversation.list_toolsets()
    known = {*tools, *toolsets, *conversation.list_source_toolsets()} - {STAR}
    unknown = (name for name in names if name not in known)
    missing = list(dict.fromkeys(x for x in unknown if not conversation.list_tools_from(x)))
    if missing:
        word = "Tool" if len(missing) == 1 else "Tools"
        listed = f"; toolsets are {', '.join(toolsets)}" if toolsets else ""
        raise ConfigError(
            f"{word} not found: {', '.join(missing)}{listed}", path="conversation.tools"
        )


def toggle_tools(config: AppConfig, name: str, *, on: bool) -> Change:
    """Return the change that switches a tool or toolset on or off; "" for all tools.

    Of a toolset, or of all tools, only the tools whose toggle rule allows it are switched. The
    change does not set toggle rules. A toolset of a source, such as `mcp.books`, is switched as a
    whole, because its tools may not be known yet. `mcp.books.search` is one tool of a source.

    Raises:
        ConfigError: If the tool, or each tool of the toolset, is locked.
    """
    conversation = config.conversation
    tools = [tool for tool in conversation.tools if tool != STAR]
    rules = {"any"}
    locked = ""
    if name in conversation.tools:
        tools = [name]
        rules = {"any", "if_named", "if_named_or_group"}
        locked = f"`{name}`: this tool is"
        path = f"conversation.tools.{name}.enable"
    elif named := conversation.list_tools_from(name):
        tools = named
        rules = {"any", "if_named", "if_named_or_group"}
        locked = f"`{name}`: this tool is"
        path = f"conversation.tools.{named[0]}.enable"
    elif name:
        tools = conversation.list_toolset_tools(name)
        rules = {"any", "if_named_or_group"}
        locked = f"the toolset `{name}`: all its tools are"
        path = f"conversation.toolsets.{name}"
    states = {tool: conversation.get_tool_state(tool) for tool in tools}
    switched = [tool for tool, (state, rule) in states.items() if state != on and rule in rules]
    if locked and tools and not switched and all(state != on for state, _ in states.values()):
        verb, now = ("enable", "off") if on else ("disable", "on")
        raise ConfigError(f"cannot {verb} {locked} configured as locked-{now}", path=path)
    if name in conversation.list_source_toolsets():
        return _toggle_source(conversation, name, switched, on=on)
    partial: Partial = {tool: {"enable": {"state": on}} for tool in switched}
    return Change({"conversation": {"tools": partial}}) if partial else Change()


def _toggle_source(
    conversation: ConversationConfig, name: str, tools: Sequence[str], *, on: bool
) -> Change:
    """Return the change that switches the toolset `name`, and its `tools` with their own state."""
    toolset = conversation.toolsets[name]
    if toolset.allow_toggle in ("never", "if_named"):
        verb = "enable" if on else "disable"
        raise ConfigError(
            f"cannot {verb} the toolset `{name}`: `allow_toggle` locks it",
            path=format_path(("conversation", "toolsets", name)),
        )
    change: Partial = {}
    if toolset.state != on:
        change["toolsets"] = {name: {"state": on}}
    own = [(tool, conversation.tools[tool].enable) for tool in tools]
    explicit = [tool for tool, enable in own if enable is not None and enable.state is not None]
    if explicit:
        change["tools"] = {tool: {"enable": {"state": on}} for tool in explicit}
    return Change({"conversation": change}) if change else Change()
