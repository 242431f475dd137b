"""The tools in a configuration: their sources, and which of them are on.

The setting `source` of a tool is the name of its source, perhaps with the tool's name in it:
`python`, `local.build`, or `mcp.books.search`. A source may also have tools that are not configured
(`tool_registrations.py`).

Source: `docs/turns.md`, `docs/extending.md`, `docs/decisions.md` D37, D217.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.tool_settings import STAR, Enable, ToolConfig
from jp_nb.toolkit.base import ToolSource

CHOICES_WITHOUT_TOOL: Final = ("auto", "none", "required")
"""Values of `assistant.tool_choice` that name no tool."""


def is_enabled_or_forced(name: str, config: AppConfig) -> bool:
    """Return True if the tool `name` is on, or if the tool choice names it and may turn it on."""
    is_on, toggle_rule = config.conversation.get_tool_state(name)
    choice = config.assistant.tool_choice
    is_named = name == choice and choice not in CHOICES_WITHOUT_TOOL
    is_locked = toggle_rule == "never"
    return is_on or (is_named and not is_locked)


def is_used(source: ToolSource, config: AppConfig) -> bool:
    """Return True if `config` has tools of `source` that are on, or may have one."""
    toolset = config.conversation.toolsets.get(source.name)
    if toolset is not None and toolset.state:
        return True
    if any(is_enabled_or_forced(name, config) for name in _iter_tool_names(source, config)):
        return True

    # The tool choice may name a tool that this kernel has not discovered yet.
    choice = config.assistant.tool_choice
    is_known = choice in CHOICES_WITHOUT_TOOL or choice in config.conversation.tools
    return not is_known and source.may_have(choice)


def _iter_tool_names(source: ToolSource, config: AppConfig) -> Iterator[str]:
    """Yield the names of the configured tools of `source`."""
    for name, tool in config.conversation.tools.items():
        if name == STAR:  # the settings of all tools
            continue
        if tool.source is not None:
            if find_source_name(tool, (source.name,)) is not None:
                yield name
            continue

        # A tool without a source was switched on or off before this kernel has discovered it.
        is_switched = tool.enable is not None and tool.enable.state is not None
        if is_switched and source.may_have(name):
            yield name


def find_source_name(tool: ToolConfig, source_names: Collection[str]) -> str | None:
    """Return the longest beginning of the setting `source` that is one of `source_names`."""
    parts = (tool.source or "").split(".")
    prefixes = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in source_names), None)


def with_all_tools_enabled(config: AppConfig) -> AppConfig:
    """Return `config` with all tools enabled, for reports about the tools that are off."""
    on = {"enable": Enable(state=True)}
    switched = dict(config.conversation.tools)
    for name, tool in switched.items():
        if name != STAR:  # which has settings of all tools
            switched[name] = tool.model_copy(update=on)

    conversation = config.conversation.model_copy(update={"tools": switched})
    return config.model_copy(update={"conversation": conversation})


def enable_tool(config: AppConfig, name: str) -> AppConfig:
    """Return `config` with the tool `name` enabled, if it has that tool."""
    tools = dict(config.conversation.tools)
    if name not in tools:
        return config

    tools[name] = tools[name].model_copy(update={"enable": Enable(state=True)})
    conversation = config.conversation.model_copy(update={"tools": tools})
    return config.model_copy(update={"conversation": conversation})
