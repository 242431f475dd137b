"""Switching tools on and off: one directive, for a tool, a toolset, or all tools at once.

Source: `docs/turns.md`, `docs/decisions.md` D91.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from jp_nb.config.partial import Change, Partial
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.tree.tool_config import STAR
from jp_nb.errors import ConfigError

_BARE = frozenset({"any"})
_GROUP = frozenset({"any", "if_named_or_group"})
"""Rules under which a tool is switched along with others: with all, or with its toolset."""


def require_tools(config: AppConfig, names: Iterable[str]) -> None:
    """Raise `ConfigError` unless all `names` are tools or toolsets of `config`."""
    tools, toolsets = config.conversation.tools, config.conversation.toolset_names()
    known = {*tools, *toolsets} - {STAR}
    missing = list(dict.fromkeys(name for name in names if name not in known))
    if missing:
        word = "Tool" if len(missing) == 1 else "Tools"
        listed = f"; toolsets are {', '.join(toolsets)}" if toolsets else ""
        raise ConfigError(
            f"{word} not found: {', '.join(missing)}{listed}", path="conversation.tools"
        )


def toggled(config: AppConfig, name: str, *, on: bool) -> Change:
    """Return the change that switches tool `name` on or off; with "" every tool that lets itself.

    A toolset, unless a tool has that name, is all its tools that let themselves. Only the state
    changes, never who may change it. What is so already is left out.

    Raises:
        ConfigError: If `name` is locked, or every tool of that toolset.
    """
    conversation = config.conversation
    if not name:
        return _states(_willing(config, conversation.tools.keys() - {STAR}, _BARE, on=on), on=on)
    if name not in conversation.tools:
        return _toolset_toggled(config, name, on=on)
    state, rule = conversation.enabling(name)
    if state == on:
        return Change()
    if rule == "never":
        raise _locked(f"`{name}`: this tool is", f"conversation.tools.{name}.enable", on=on)
    return _states([name], on=on)


def _toolset_toggled(config: AppConfig, name: str, *, on: bool) -> Change:
    conversation = config.conversation
    tools = conversation.toolset(name)
    willing = _willing(config, tools, _GROUP, on=on)
    if not willing and tools and all(conversation.enabling(x)[0] != on for x in tools):
        raise _locked(
            f"the toolset `{name}`: all its tools are", f"conversation.toolsets.{name}", on=on
        )
    return _states(willing, on=on)


def _willing(
    config: AppConfig, names: Collection[str], rules: Collection[str], *, on: bool
) -> list[str]:
    """Return those of `names` that are not `on` and let themselves be switched under `rules`."""
    found = {
        name: config.conversation.enabling(name)
        for name in config.conversation.tools
        if name in names
    }
    return [name for name, (state, rule) in found.items() if state != on and rule in rules]


def _locked(what: str, path: str, *, on: bool) -> ConfigError:
    verb, state = ("enable", "off") if on else ("disable", "on")
    return ConfigError(f"cannot {verb} {what} configured as locked-{state}", path=path)


def _states(names: Sequence[str], *, on: bool) -> Change:
    tools: Partial = {name: {"enable": {"state": on}} for name in names}
    return Change({"conversation": {"tools": tools}}) if tools else Change()
