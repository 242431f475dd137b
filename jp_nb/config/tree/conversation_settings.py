"""Settings of a conversation: its tools and toolsets, attachments, labels, and compaction.

A *toolset* is a group of tools that are switched together, such as `web`. A tool names its toolset.
The tools of an MCP server are found only when it starts. Their toolset is the server's,
`mcp.books`, and each has a `source`, such as `mcp.books.search`.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Final, Literal, NamedTuple

from pydantic import AfterValidator, Field

from jp_nb.config.tree.assistant_settings import AssistantOverrides
from jp_nb.config.tree.attachment_urls import format_attachment_url
from jp_nb.config.tree.base import (
    PLAIN_FORM,
    TABLE_FORM,
    TABLE_OR_PLAIN_FORM,
    ConfigTable,
    ShortTable,
    table,
)
from jp_nb.config.tree.command_settings import Command
from jp_nb.config.tree.compaction_settings import CompactionConfig
from jp_nb.config.tree.merge_rules import DEEP_MERGE, Merge
from jp_nb.config.tree.tool_settings import STAR, Enable, ToolConfig
from jp_nb.config.tree.value_checks import Flag, before, one_of
from jp_nb.config.tree.value_errors import UnexpectedValueError, shorten_for_error

AttachmentUrl = Annotated[str, before(format_attachment_url)]


class LabelCommand(ConfigTable):
    """A label whose value is the output of a command."""

    cmd: Command


class ApplyOn(ConfigTable):
    """New conversations that get the label."""

    new: Flag = True
    """Conversations that start empty."""
    fork: Flag = False
    """Copies of other conversations."""


class Label(ShortTable):
    """A label of conversations in JP. A plain text is its value. `jp_nb` does not use labels."""

    # The field that a plain text sets, and the accepted forms for an error.
    TEXT: ClassVar[str] = "value"
    FORMS: ClassVar[str] = "a text, or a table of value, apply_on, and run"

    value: Annotated[
        Annotated[str, PLAIN_FORM] | Annotated[LabelCommand, TABLE_FORM],
        TABLE_OR_PLAIN_FORM,
        one_of(str, dict, LabelCommand, expected="a text, or a table with the command `cmd`"),
    ]
    """The value, or a command that prints it."""
    apply_on: ApplyOn = table()
    run: Literal["ask", "unattended", "deny"] = "ask"
    """Permission to run the command."""


def _check_label_key(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", value):
        cause = f"{shorten_for_error(value)!r} is not a label name"
        raise UnexpectedValueError("a letter, followed by letters, digits, _, or -", cause=cause)
    return value


LabelKey = Annotated[str, AfterValidator(_check_label_key)]


class InquiryConfig(ConfigTable):
    """The model that answers questions of tools instead of the user."""

    assistant: AssistantOverrides = table()


ATTACHMENTS_MERGE = Merge("append", dedup=True, items="set", annotated=True)
"""Layers append attachments, each once. The list may be wrapped with another strategy."""

NEEDED_TOOLS: Final[Mapping[str, Sequence[str]]] = {
    "cells": ("notebook_cells", "notebook_cell", "notebook_search"),
}
"""Tools of other toolsets that a toolset needs: an edit needs the id and the version of a cell."""


class ToolState(NamedTuple):
    """The state of a tool, and the rule about its change: an `allow_toggle` of `Enable`."""

    is_on: bool
    toggle_rule: str


class ConversationConfig(ConfigTable):
    """Settings of a conversation."""

    tools: dict[str, ToolConfig] = Field(default_factory=dict)
    """The tools, by name."""
    toolsets: dict[str, Enable] = Field(default_factory=dict)
    """Toolsets that are on or off, by name: `true`, `false`, or a table. A tool's own `enable`
    overrides its toolset."""
    attachments: Annotated[list[AttachmentUrl], ATTACHMENTS_MERGE] = Field(default_factory=list)
    """Files, file patterns, and variables that are sent with each request."""
    labels: Annotated[dict[LabelKey, Label], DEEP_MERGE] = Field(default_factory=dict)
    """Labels of the conversation, by name."""
    inquiry: InquiryConfig = table()
    compaction: CompactionConfig = table()

    def get_tool_state(self, name: str) -> ToolState:
        """Return the state and the toggle rule of tool `name`.

        Each of the two is from the first of these that sets it: the tool, another toolset that is
        on and needs the tool, its own toolset, and the tool `*`. The default is on, with `any`.
        """
        tool = self.tools[name]
        sources = [tool.enable]
        if self._is_needed(name):
            sources.append(Enable(state=True))
        if tool.toolset:
            sources.append(self.toolsets.get(tool.toolset))
        if STAR in self.tools:
            sources.append(self.tools[STAR].enable)

        known = [source for source in sources if source is not None]
        states = (source.state for source in known if source.state is not None)
        rules = (source.allow_toggle for source in known if source.allow_toggle is not None)
        return ToolState(next(states, True), next(rules, "any"))

    def _is_needed(self, name: str) -> bool:
        """Return True if a toolset that is on needs the tool `name` of another toolset."""
        for toolset, needed in NEEDED_TOOLS.items():
            enable = self.toolsets.get(toolset)
            if name in needed and enable is not None and enable.state:
                return True
        return False

    def list_switched_tools(self, name: str, *, on: bool) -> list[str]:
        """Return the tools that `-t NAME` or `-T NAME` switches for the toolset `name`.

        A toolset that is switched on needs tools of other toolsets, which stay on afterwards.
        """
        tools = self.list_toolset_tools(name)
        if on:
            tools += [tool for tool in NEEDED_TOOLS.get(name, ()) if tool in self.tools]
        return tools

    def list_toolset_tools(self, name: str) -> list[str]:
        """Return the names of the tools of toolset `name`."""
        return [tool for tool, config in self.tools.items() if config.toolset == name]

    def list_toolsets(self) -> list[str]:
        """Return the names of the toolsets that have tools, sorted."""
        return sorted({tool.toolset for tool in self.tools.values() if tool.toolset})

    def list_source_toolsets(self) -> list[str]:
        """Return the names of the toolsets of sources that discover their tools: `mcp.books`."""
        return sorted(name for name in self.toolsets if "." in name)

    def list_tools_from(self, source: str) -> list[str]:
        """Return the names of the tools with this `source`, such as `mcp.books.search`.

        There is none for a name without a dot, and for a toolset such as `mcp.books`.
        """
        if "." not in source or source in self.toolsets:
            return []
        return [name for name, tool in self.tools.items() if tool.source == source]

    def tools_by_toolset(self) -> dict[str, list[str]]:
        """Return the names of the tools of each toolset."""
        return {name: self.list_toolset_tools(name) for name in self.list_toolsets()}
