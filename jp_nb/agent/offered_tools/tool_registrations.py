"""Add the tools that sources have discovered to a configuration, with their default settings.

A source that *discovers*, such as a server, has tools that are not configured. Each is added with
its *registration*, its default settings, below those that the user configured. Its setting `source`
names this one tool: `mcp.books.search` is `search` of the source `mcp.books`.

A source that was not asked yet recognizes its tools by their names (`ToolSource.may_have`):
`books__search` is one of `mcp.books`.

Source: `docs/turns.md`, `docs/extending.md`, `docs/decisions.md` D217.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from jp_nb.config.partials.partial import build_partial, get_path
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.tool_settings import Enable, ToolConfig
from jp_nb.toolkit.base import ToolRegistrations, ToolSource


def add_registrations(
    config: AppConfig,
    discovered: Mapping[str, ToolRegistrations],
    discovering: Sequence[ToolSource] = (),
) -> AppConfig:
    """Return `config` with the `discovered` tools, by the name of their source.

    Tools that are configured without a source belong to the source of `discovering` that may have
    them. The toolset of such a source is off, unless it is configured: a server may have a hundred
    tools, which the user did not choose one by one.
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
        source = registration.get("source")
        if configured is not None and configured.source not in (None, source):
            continue  # a tool of another source, such as a function of the notebook, has this name

        if source in renamed_sources:
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
