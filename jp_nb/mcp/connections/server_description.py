"""The description that a server gives of itself: its protocol, its instructions, its tools.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

from dataclasses import dataclass

from jp_nb.mcp.exchange import Era, ServerTool


@dataclass(slots=True)
class ServerDescription:
    """The server's description of itself. It outlives a session, so that the next one knows it.

    Attributes:
        version: Version of the protocol; None before the first start.
        title: The server's own name and version, for display only.
        instructions: The server's instructions for a model.
        tools: The tools that the server listed, in its order.
        list_notes: Notes about tools that the server listed, and that cannot be offered.
        tools_expire: Time of the loop at which the list of tools is outdated; None for never.
        has_changed_tools: True if the server announced other tools since they were listed.
    """

    version: str | None = None
    title: str | None = None
    instructions: str | None = None
    tools: tuple[ServerTool, ...] = ()
    list_notes: tuple[str, ...] = ()
    tools_expire: float | None = None
    has_changed_tools: bool = False

    @property
    def era(self) -> Era | None:
        """Generation of the protocol; None before the first start."""
        if self.version is None:
            return None
        return "2026" if self.version >= "2026" else "2025"
