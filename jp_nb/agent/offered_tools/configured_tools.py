"""The tools in a configuration: their sources, the ones that are on, and the ones that were found.

The setting `source` of a tool is the name of its source, perhaps with the tool's name in it:
`python`, `local.build`, or `mcp.books.search`. A source that *discovers* has tools that are not
configured. Each is added to the configuration with its *registration*, its default settings. Before
that, a source recognizes its tools by their names (`ToolSource.may_have`): `books__search` is one
of the source `mcp.books`.

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


def add_registrations(
    config: AppConfig,
    discovered: Mapping[str, ToolRegistrations],
    discovering: Sequence[ToolSource] = (),
) -> AppConfig:
    """Return `config` with the `discovered` tools, by the name of their source.

    Tools that are configured without a source belong to the source of `discovering` that may have
    them. The toolset of such a source is off, unless it is configured.
    """
    conversation = config.conversation
    tools = dict(conversation.tools)
    _add_discovered(tools, discovered)
    _assign_undiscovered(tools, conversation.tools, discovering)

    toolsets = dict(conversation.toolsets)
    for source in discovering:
        toolsets.setdefault(source.name, Enable(state=False))

    conversation = conversation.model_copy(update={"tools": tools, "toolsets": toolsets})
    return config.model_copy(update={"conversation": conversation})


def _add_discovered(
    tools: dict[str, ToolConfig], discovered: Mapping[str, ToolRegistrations]
) -> None:
    """Add the discovered tools to `tools`, the configured ones, whose settings have precedence.

    A discovered tool is omitted if the user configured it under another name, with its `source`.
    """
    registrations: dict[str, Mapping[str, JsonValue]] = {}
    for of_source in discovered.values():
        registrations |= of_source
    other_tools = [tool for name, tool in tools.items() if name not in registrations]
    renamed_sources = {tool.source for tool in other_tools}

    for name, registration in registrations.items():
        configured = tools.get(name)
        if registration.get("source") in renamed_sources:
            tools.pop(name, None)
        elif configured is None or configured.source is None:
            tools[name] = _register(name, registration, configured)


def _assign_undiscovered(
    tools: dict[str, ToolConfig],
    configured: Mapping[str, ToolConfig],
    discovering: Sequence[ToolSource],
) -> None:
    """Change `tools`: give `configured` ones without a source the source that may have them."""
    for name, tool in configured.items():
        if name not in tools or tools[name].source is not None:
            continue
        source = next((source.name for source in discovering if source.may_have(name)), None)
        if source is not None:
            tools[name] = _register(name, {"source": source, "toolset": source}, tool)


def _register(
    name: str, registration: Mapping[str, JsonValue], configured: ToolConfig | None
) -> ToolConfig:
    """Return the `configured` settings of a tool on top of its `registration`."""
    if configured is None:
        return ToolConfig.model_validate(registration)

    path = f"conversation.tools.{name}"
    settings = configured.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    merged = merge_partials(build_partial(path, dict(registration)), build_partial(path, settings))
    return ToolConfig.model_validate(get_path(merged, path))
