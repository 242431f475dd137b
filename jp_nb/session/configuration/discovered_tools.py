"""The settings of tools that sources have found in this kernel: a layer below all other settings.

A tool *source*, such as an MCP server, may *discover* tools: the configuration does not name them.
Each discovered tool has a *registration*, its default settings (`conversation.tools.NAME`). A
source is also a *toolset*, and the discovered tools of a toolset are off until the user turns them
on.

Source: `docs/extending.md`, `docs/decisions.md` D217.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pydantic import JsonValue

from jp_nb.config.partials.partial import Partial


class DiscoveredTools:
    """The discovered tools at the moment.

    Attributes:
        state: The tools and toolsets. The agent's thread replaces the object as a whole, and the
            cell's thread reads it, so neither needs a lock.
    """

    def __init__(self) -> None:
        self.state = DiscoveredState()

    def update(
        self,
        sources: Collection[str],
        found: Mapping[str, Mapping[str, Mapping[str, JsonValue]]],
    ) -> bool:
        """Set the names of the `sources` that discover tools, and the tools that they have found.

        `found` has the registrations by source and tool. Return True if anything has changed.
        """
        toolsets: dict[str, JsonValue] = {name: {"state": False} for name in sources}
        tools: dict[str, Partial] = {}
        for registrations in found.values():
            for name, registration in registrations.items():
                tools[name] = dict(registration)

        if tools == self.state.tools and toolsets == self.state.toolsets:
            return False

        self.state = DiscoveredState(tools, toolsets)
        return True


class DiscoveredState:
    """The discovered tools at one time; a change makes a new object.

    It is compared by identity, so that it can be the key of a cache.

    Attributes:
        tools: The registration of each tool, by its name.
        toolsets: The default settings of each source as a toolset, which is off, by its name.
    """

    def __init__(
        self,
        tools: Mapping[str, Partial] | None = None,
        toolsets: Mapping[str, JsonValue] | None = None,
    ) -> None:
        self.tools: Mapping[str, Partial] = {} if tools is None else tools
        self.toolsets: Mapping[str, JsonValue] = {} if toolsets is None else toolsets

    def add_to(self, registrations: Partial) -> Partial:
        """Return the `registrations` of this kernel's tools, and those of the discovered tools.

        Both are settings: `{"conversation": {"tools": {NAME: {…}}, "toolsets": {NAME: {…}}}}`. A
        tool of this kernel has priority over a discovered one of the same name.
        """
        if not self.toolsets:  # without sources, there are no tools either
            return registrations

        conversation = registrations["conversation"]
        assert isinstance(conversation, dict)
        own_tools = conversation.get("tools")
        own_toolsets = conversation.get("toolsets")
        assert isinstance(own_tools, dict)
        assert isinstance(own_toolsets, dict)

        # The own tools stay first. Each request begins with the tools, so that servers can cache
        # this beginning, which another order would change.
        others = {name: tool for name, tool in self.tools.items() if name not in own_tools}
        tools = {**own_tools, **others}
        toolsets = {**self.toolsets, **own_toolsets}
        return {"conversation": {**conversation, "tools": tools, "toolsets": toolsets}}
