"""Sources of tools: places that tools come from, each with a life of its own.

Source: `docs/extending.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from jp_nb.config.tree.tool_config import RunMode, ToolConfig
from jp_nb.tooling.base import Tool


class ToolSource(Protocol):
    """A place that tools come from, such as the functions of the notebook, or one server.

    A source is a cheap value: nothing happens before `start`. One that compares equal to a source
    that runs under the same name is that source; one that does not takes its place.
    """

    @property
    def name(self) -> str:
        """The word that the configured `source` of its tools begins with: `python`, `mcp.books`."""
        ...

    @property
    def title(self) -> str:
        """The words by which a person knows the place: `built-in`, `MCP`."""
        ...

    @property
    def run(self) -> RunMode:
        """The way in which its tools run where nothing is configured."""
        ...

    async def start(self) -> None:
        """Get ready to list tools. Any exception counts as a failure, and is told."""
        ...

    async def list(self, wanted: Mapping[str, ToolConfig]) -> Mapping[str, Tool]:
        """Return those of the `wanted` tools that it has, by name.

        Args:
            wanted: What is configured for the tools that are from here, by name.
        """
        ...

    async def close(self) -> None:
        """Give back what `start` took, also where that failed."""
        ...

    def clashes(self, configured: Mapping[str, ToolConfig]) -> Mapping[str, str]:
        """Say for each name that another source has too which of the tools counts."""
        ...


class SourceDefaults:
    """The methods of a source with nothing to start or to close, and names of its own."""

    name: str
    run: RunMode = "ask"

    @property
    def title(self) -> str:
        """Its name."""
        return self.name

    async def start(self) -> None:
        """Do nothing: it is ready."""

    async def close(self) -> None:
        """Do nothing: there is nothing to give back."""

    def clashes(self, configured: Mapping[str, ToolConfig]) -> Mapping[str, str]:
        """Return nothing: no other source has its names."""
        return {}
