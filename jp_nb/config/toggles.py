"""Switch tools and toolsets on and off, by their toggle rules.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from jp_nb.config.partial import Change, Partial
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.tools import STAR
from jp_nb.errors import ConfigError

_TOOLSET_RULES = frozenset({"any", "if_named_or_group"})
"""Toggle rules under which a tool is switched with its toolset."""


def require_tools(config: AppConfig, names: Iterable[str]) -> None:
    """Raise `ConfigError` unless all `names` are tools or toolsets of `config`."""
    tools, toolsets = config.conversation.tools, config.conversation.list_toolsets()
    known = {*tools, *toolsets} - {STAR}
    missing = list(dict.fromkeys(name for name in names if name not in known))
    if missing:
        word = "Tool" if len(missing) == 1 else "Tools"
        listed = f"; toolsets are {', '.join(toolsets)}" if toolsets else ""
        raise ConfigError(
            f"{word} not found: {', '.join(missing)}{listed}", path="conversation.tools"
        )


def toggle_tools(config: AppConfig, name: str, *, on: bool) -> Change:
    """Return the change that switches a tool or toolset on or off; "" for all tools.

    Of a toolset, or of all tools, only the tools whose toggle rule allows it are switched. The
    change does not set toggle rules.

    Raises:
        ConfigError: If the tool, or each tool of the toolset, is locked.
    """
    conversation = config.conversation
    if not name:
        tools = conversation.tools.keys() - {STAR}
        return _set_states(_find_switchable(config, tools, {"any"}, on=on), on=on)
    if name not in conversation.tools:
        return _toggle_toolset(config, name, on=on)
    state, rule = conversation.get_tool_state(name)
    if state == on:
        return Change()
    if rule == "never":
        raise _create_locked_error(
            f"`{name}`: this tool is", f"conversation.tools.{name}.enable", on=on
        )
    return _set_states([name], on=on)


def _toggle_toolset(config: AppConfig, name: str, *, on: bool) -> Change:
    conversation = config.conversation
    tools = conversation.list_toolset_tools(name)
    switchable = _find_switchable(config, tools, _TOOLSET_RULES, on=on)
    if not switchable and tools and all(conversation.get_tool_state(x)[0] != on for x in tools):
        raise _create_locked_error(
            f"the toolset `{name}`: all its tools are", f"conversation.toolsets.{name}", on=on
        )
    return _set_states(switchable, on=on)


def _find_switchable(
    config: AppConfig, names: Collection[str], rules: Collection[str], *, on: bool
) -> list[str]:
    states = {
        name: config.conversation.get_tool_state(name)
        for name in config.conversation.tools
        if name in names
    }
    return [name for name, (state, rule) in states.items() if state != on and rule in rules]


def _create_locked_error(subject: str, path: str, *, on: bool) -> ConfigError:
    verb, state = ("enable", "off") if on else ("disable", "on")
    return ConfigError(f"cannot {verb} {subject} configured as locked-{state}", path=path)


def _set_states(names: Sequence[str], *, on: bool) -> Change:
    tools: Partial = {name: {"enable": {"state": on}} for name in names}
    return Change({"conversation": {"tools": tools}}) if tools else Change()
