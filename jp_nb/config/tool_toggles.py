"""Switch tools and toolsets on and off, as their toggle rules allow (`-t`, `-T`).

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jp_nb.config.partials.partial import Partial
from jp_nb.config.partials.partial_change import Change
from jp_nb.config.setting_paths import format_path
from jp_nb.config.tree.app import AppConfig, ConversationConfig
from jp_nb.config.tree.tool_settings import STAR
from jp_nb.errors import ConfigError


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
    missing = list(
        dict.fromkeys(name for name in unknown if not conversation.list_tools_from(name))
    )

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
        tools = conversation.list_switched_tools(name, on=on)
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
