"""The table of the configured tools, with their states and sources: `%jp tools`.

A tool is *offered* if the configuration enables it and its source provides it. The table asks twice
for the offer (`MakeOffer`): as the configuration is, and with all tools enabled (`possible`),
because a tool that is off has no definition otherwise. `tool_text.py` shows one tool.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from typing import Protocol

from jp_nb.agent.offered_tools.configured_tools import with_all_tools_enabled
from jp_nb.agent.offered_tools.tool_set import ToolSet
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.tool_settings import STAR
from jp_nb.rendering.prompt_texts.grant_text import format_grants
from jp_nb.rendering.report import Report, make_table


class MakeOffer(Protocol):
    """Returns the tools that a configuration enables.

    Without `may_start`, sources such as servers do not start for it. The tools of those that run
    are known.
    """

    def __call__(self, config: AppConfig, *, may_start: bool = True) -> ToolSet:
        """Return the tools of `config`."""
        ...


def render_tools(config: AppConfig, offer: MakeOffer, toolset: str | None = None) -> Report:
    """Return all configured tools with their state, source and settings.

    With `toolset`, return only its tools.
    """
    offered = offer(config)
    config = offered.config or config  # with the tools that the sources have found just now
    possible = offer(with_all_tools_enabled(config), may_start=False)

    rows = []
    for name, tool in config.conversation.tools.items():
        if name == STAR or toolset not in (None, tool.toolset):
            continue

        # A tool that is not available has only what is configured for it.
        found = possible.tools.get(name) or tool
        source = tool.source or ""
        if name in offered.clashes:
            source = f"{source}: {offered.clashes[name]}"
        state = describe_tool_state(name, config, offered)
        run = found.run or ""
        result = found.result or ""
        grants = format_grants(tool.access)
        rows.append((name, state, source, tool.toolset or "-", run, result, grants))

    for name in config.conversation.list_source_toolsets():
        is_shown = toolset in (None, name) and not config.conversation.list_toolset_tools(name)
        if is_shown:
            state = _describe_source(name, config, offered)
            rows.append((f"{name}.*", state, name, name, "", "", ""))

    return make_table(("tool", "state", "source", "toolset", "run", "result", "grants"), rows)


def _describe_source(name: str, config: AppConfig, offered: ToolSet) -> str:
    """Return the state of a source whose tools are not known."""
    if name in offered.failed_sources:
        return f"missing: {offered.failed_sources[name]}"
    if config.conversation.toolsets[name].state:
        return "on"
    return f"off: {name} has not started. List its tools: `%jp tools {name}`"


def describe_tool_state(name: str, config: AppConfig, offered: ToolSet) -> str:
    """Return the state of a tool in the list: `on`, `off`, or `missing` with the reason."""
    if name in offered.missing:
        return f"missing: {offered.missing[name]}"
    if name not in offered.tools:
        return "off"

    is_on, _ = config.conversation.get_tool_state(name)
    return "on" if is_on else "on: assistant.tool_choice names it"
