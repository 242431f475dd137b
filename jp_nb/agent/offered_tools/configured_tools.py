"""The tools in a configuration: their sources, the ones that are on, and the ones that were found.

The setting `source` of a tool is the name of its source, perhaps with the tool's name in it:
`python`, `local.build`, or `mcp.books.search`. A source that *discovers* has tools that are not
configured. Each is added to the configuration with its *registration*, its default settings.

Source: `docs/turns.md`, `docs/extending.md`, `docs/decisions.md` D37, D217.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from jp_nb.config.partials.partial import build_partial, get_path
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.tool_settings import STAR, Enable, ToolConfig
from jp_nb.toolkit.base import ToolRegistrations, ToolSource

CHOICES_WITHOUT_TOOL: Final = ("auto", "none", "required")
"""Values of `assistant.tool_choice` that name no tool."""


def is_enabled_or_forced(name: str, config: AppConfig) -> bool:
    """Return True if the tool `name` is on, or if the tool choice names it and may turn it on."""
    state, rule = config.conversation.get_tool_state(name)
    choice = config.assistant.tool_choice
    is_named = name == choice and choice not in CHOICES_WITHOUT_TOOL
    return state or (is_named and rule != "never")


def is_used(source: ToolSource, config: AppConfig) -> bool:
    """Return True if `config` has tools of `source` that are on."""
    toolset = config.conversation.toolsets.get(source.name)
    if toolset is not None and toolset.state:
        return True
    if any(is_enabled_or_forced(name, config) for name in _list_tools_of(source, config)):
        return True

    choice = config.assistant.tool_choice
    is_known = choice in CHOICES_WITHOUT_TOOL or choice in config.conversation.tools
    return not is_known and source.may_have(choice)


def _list_tools_of(source: ToolSource, config: AppConfig) -> Iterator[str]:
    for name, tool in config.conversation.tools.items():
        if name == STAR:
            continue
        if tool.source is not None:
            if find_source_name(tool, (source.name,)) is not None:
                yield name
        elif source.may_have(name) and tool.enable is not None and tool.enable.state is not None:
            yield name  # switched on before this kernel has discovered it


def find_source_name(tool: ToolConfig, names: Collection[str]) -> str | None:
    """Return the longest beginning of the setting `source` that is the name of a source."""
    parts = (tool.source or "").split(".")
    prefixes = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in names), None)


def add_registrations(
    config: AppConfig,
    discovered: Mapping[str, ToolRegistrations],
    finders: Sequence[ToolSource] = (),
) -> AppConfig:
    """Return `config` with the `discovered` tools of the sources `finders`.

    The settings of a tool are completed with its registration. A tool that is configured with the
    same source under another name has only that name.
    """
    tools = dict(config.conversation.tools)
    found: dict[str, Mapping[str, JsonValue]] = {}
    for registrations in discovered.values():
        found |= registrations
    sources_with_other_names = {tool.source for name, tool in tools.items() if name not in found}

    for name, registration in found.items():
        own = tools.get(name)
        if registration.get("source") in sources_with_other_names:
            tools.pop(name, None)
        elif own is None or own.source is None:
            tools[name] = _register(name, registration, own)

    for name, tool in config.conversation.tools.items():
        owner = next((each.name for each in finders if each.may_have(name)), None)
        if name in tools and owner is not None and tools[name].source is None:
            tools[name] = _register(name, {"source": owner, "toolset": owner}, tool)

    toolsets = dict(config.conversation.toolsets)
    for source in finders:
        toolsets.setdefault(source.name, Enable(state=False))
    conversation = config.conversation.model_copy(update={"tools": tools, "toolsets": toolsets})
    return config.model_copy(update={"conversation": conversation})


def _register(
    name: str, registration: Mapping[str, JsonValue], own: ToolConfig | None
) -> ToolConfig:
    """Return the settings `own` of a tool on top of its `registration`."""
    if own is None:
        return ToolConfig.model_validate(registration)

    path = f"conversation.tools.{name}"
    settings = own.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    merged = merge_partials(build_partial(path, dict(registration)), build_partial(path, settings))
    return ToolConfig.model_validate(get_path(merged, path))
