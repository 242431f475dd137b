"""Tools that the sources of this kernel have found, as a part of the settings.

Source: `docs/extending.md`, `docs/decisions.md` D217.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pydantic import JsonValue

from jp_nb.config.partial import Partial


class DiscoveredTools:
    """The registrations of discovered tools, and the toolsets of their sources.

    The agent's thread replaces `state`, and the cell's thread reads it.
    """

    def __init__(self) -> None:
        self.state = DiscoveredState()

    def update(
        self,
        sources: Collection[str],
        found: Mapping[str, Mapping[str, Mapping[str, JsonValue]]],
    ) -> bool:
        """Note the names of the `sources` that discover tools, and the tools that they have found.

        Return True if anything has changed.
        """
        toolsets: dict[str, JsonValue] = {name: {"state": False} for name in sources}
        tools: dict[str, Partial] = {}
        for registrations in found.values():
            for name, registration in registrations.items():
                tools[name] = dict(registration)

        if (tools, toolsets) == (self.state.tools, self.state.toolsets):
            return False

        self.state = DiscoveredState(tools, toolsets)
        return True


class DiscoveredState:
    """What is known at one time. A change makes a new object."""

    def __init__(
        self,
        tools: Mapping[str, Partial] | None = None,
        toolsets: Mapping[str, JsonValue] | None = None,
    ) -> None:
        self.tools: Mapping[str, Partial] = {} if tools is None else tools
        self.toolsets: Mapping[str, JsonValue] = {} if toolsets is None else toolsets

    def add_to(self, registrations: Partial) -> Partial:
        """Return `registrations` of tools with the discovered ones that have no other's name."""
        if not self.toolsets:
            return registrations

        conversation = registrations["conversation"]
        assert isinstance(conversation, dict)
        own_tools = conversation.get("tools")
        own_sets = conversation.get("toolsets")
        assert isinstance(own_tools, dict)
        assert isinstance(own_sets, dict)

        others = {name: tool for name, tool in self.tools.items() if name not in own_tools}
        tools = {**own_tools, **others}
        toolsets = {**self.toolsets, **own_sets}
        return {"conversation": {**conversation, "tools": tools, "toolsets": toolsets}}
