"""Switching tools on and off: one directive, for a tool by its name or for all at once.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jp_nb.config.partial import Change, Partial
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.tree.tool_config import STAR, ToolConfig, enabling
from jp_nb.errors import ConfigError


def require_tools(config: AppConfig, names: Iterable[str]) -> None:
    """Raise `ConfigError` unless all `names` are tools of `config`."""
    tools = config.conversation.tools
    missing = list(dict.fromkeys(name for name in names if name == STAR or name not in tools))
    if missing:
        word = "Tool" if len(missing) == 1 else "Tools"
        raise ConfigError(f"{word} not found: {', '.join(missing)}", path="conversation.tools")


def toggled(config: AppConfig, name: str, *, on: bool) -> Change:
    """Return the change that switches tool `name` on or off; with "" every tool that lets itself.

    Only the state changes, never who may change it. What is so already is left out.

    Raises:
        ConfigError: If `name` is locked.
    """
    tools = config.conversation.tools
    star = tools.get(STAR, ToolConfig())
    if not name:
        candidates = (tool for tool in tools if tool != STAR)
        willing = [x for x in candidates if enabling(tools[x], star) == (not on, "any")]
        return _states(willing, on=on)
    state, rule = enabling(tools[name], star)
    if state == on:
        return Change()
    if rule == "never":
        raise ConfigError(
            f"cannot {'enable' if on else 'disable'} `{name}`: this tool is configured as "
            f"locked-{'on' if state else 'off'}",
            path=f"conversation.tools.{name}.enable",
        )
    return _states([name], on=on)


def _states(names: Sequence[str], *, on: bool) -> Change:
    tools: Partial = {name: {"enable": {"state": on}} for name in names}
    return Change({"conversation": {"tools": tools}}) if tools else Change()
