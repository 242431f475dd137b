"""Changes of settings in words, such as `tools on: notebook` or `model openai/gpt-5`.

Only changes that have an option of `%%jp` have words. The others are shown with their paths.

Source: `docs/guide.md`, `docs/decisions.md` D186.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from pydantic import JsonValue

from jp_nb.config.secrets.api_keys import hide_credentials
from jp_nb.json_values import JsonObject, as_object
from jp_nb.rendering.transcripts.event_text import format_name
from jp_nb.text import MAX_LISTED_LINES, one_line

Toolsets: TypeAlias = Mapping[str, Collection[str]]
"""The names of the tools of each toolset."""

NO_TOOLSETS: Final[Toolsets] = MappingProxyType({})
_MODEL: Final = ("assistant", "model", "id")
_TOOLS: Final = ("conversation", "tools")


def split_change(
    delta: Mapping[str, JsonValue], toolsets: Toolsets = NO_TOOLSETS
) -> tuple[list[str], JsonObject]:
    """Return the words for parts of the change `delta`, and the settings that have none."""
    rest: JsonObject = dict(delta)  # the settings without words
    words = list[str]()

    model = as_object(_get_at(rest, _MODEL))
    provider = model.get("provider")
    name = model.get("name")
    if len(model) == 2 and isinstance(provider, str) and isinstance(name, str):
        shown = one_line(f"{provider}/{name}", limit=100)
        words.append(f"model {hide_credentials(shown)}")
        rest = _replace_at(rest, _MODEL, None)

    states, tools = _split_tools(as_object(_get_at(rest, _TOOLS)))
    if states:
        words += _list_tool_words(states, toolsets)
        rest = _replace_at(rest, _TOOLS, tools or None)

    return words, rest


def _split_tools(tools: Mapping[str, JsonValue]) -> tuple[dict[str, bool], JsonObject]:
    """Return the tools that are switched on or off, and the other settings of `tools`."""
    states: dict[str, bool] = {}
    rest: JsonObject = {}
    for name, value in tools.items():
        settings = as_object(value)
        enable = as_object(settings.get("enable"))
        state = enable.get("state")

        is_switch = isinstance(state, bool) and len(enable) == 1 and name != "*"
        if not is_switch:
            rest[name] = value
            continue

        states[name] = state is True
        others: JsonObject = {key: item for key, item in settings.items() if key != "enable"}
        if others:
            rest[name] = others

    return states, rest


def _list_tool_words(states: Mapping[str, bool], toolsets: Toolsets) -> Iterator[str]:
    """Yield `tools on: a, b` and `tools off: c`, with a toolset in place of all its tools."""
    for wanted, word in ((True, "on"), (False, "off")):
        names = dict.fromkeys(name for name, state in states.items() if state is wanted)

        # All toolsets are found before their tools are removed: a tool may belong to two.
        whole_toolsets: list[str] = []
        for toolset, tools in toolsets.items():
            if tools and names.keys() >= set(tools):
                whole_toolsets.append(toolset)
        for toolset in whole_toolsets:
            for tool in toolsets[toolset]:
                names.pop(tool, None)

        listed = [format_name(name) for name in [*whole_toolsets, *names]]
        omitted_count = len(listed) - MAX_LISTED_LINES
        if omitted_count > 0:
            listed[MAX_LISTED_LINES:] = [f"and {omitted_count} more"]
        if listed:
            joined = ", ".join(listed)
            yield f"tools {word}: {joined}"


def _get_at(value: Mapping[str, JsonValue], path: tuple[str, ...]) -> JsonValue:
    inner: JsonValue = dict(value)
    for key in path:
        inner = as_object(inner).get(key)
    return inner


def _replace_at(value: JsonObject, path: tuple[str, ...], new: JsonValue) -> JsonObject:
    """Return `value` with `new` at `path`; without the setting, and empty tables, if it is None."""
    key, *below = path
    inner = new
    if below:
        inner = _replace_at(as_object(value.get(key)), tuple(below), new)

    if inner is None or inner == {}:
        return {name: item for name, item in value.items() if name != key}
    return {**value, key: inner}
