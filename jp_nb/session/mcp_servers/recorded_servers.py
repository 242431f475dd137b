"""Tools of MCP servers in a replay that also replaces the results of tools: no server starts.

The cassette has the definitions of the tools that the server offered. A call gets its recorded
result before the tool would run.

Source: `docs/cassettes.md`, `docs/mcp.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.config.tree.tool_settings import RunMode, ToolConfig
from jp_nb.errors import ToolError
from jp_nb.json_values import as_object
from jp_nb.mcp.source import PREFIX
from jp_nb.mcp.tool_definitions.tool_names import SEPARATOR, may_be_name
from jp_nb.storage.cassettes.cassette_content import CassetteContent
from jp_nb.toolkit.base import Tool, ToolRegistrations, ToolSource
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.outcome import Outcome
from jp_nb.toolkit.tool_context import ToolContext

NO_RESULT: Final = (
    "The tool of the MCP server {} did not run: a replay with recorded results starts no server."
)


class RecordedServer(ToolSource):
    """The tools of one server as they were recorded on a cassette.

    It fills in `ToolSource` (`toolkit/base.py`), as `McpSource` does for a server that runs. Two
    sources are equal if they have the same server and the same cassette: then the source of the
    last turn is kept.
    """

    run: RunMode = "ask"
    discovers = True

    def __init__(self, server_name: str, content: CassetteContent) -> None:
        self.name = f"{PREFIX}{server_name}"
        self.server = server_name
        self._content = content

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordedServer):
            return NotImplemented
        return self.name == other.name and self._content is other._content

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def title(self) -> str:
        """The displayed name of the kind of tools."""
        return "MCP"

    @property
    def owner(self) -> str:
        """The name of the server in the configuration."""
        return self.server

    def may_have(self, name: str) -> bool:
        """Return True if `name` is one for a tool of this server."""
        return may_be_name(self.server, name)

    async def discover(self) -> ToolRegistrations:
        """Return the registrations of the recorded tools, in the order of the cassette."""
        return {
            name: self._register(name, value)
            for name, value in self._find_own_definitions().items()
        }

    async def list(self, wanted: Mapping[str, ToolConfig]) -> Mapping[str, Tool]:
        """Return the wanted tools that were recorded, also under names of the configuration."""
        # A name in the configuration may have any form, so it need not be one of `may_have`. All
        # `wanted` tools are of this server.
        definitions = self._read_definitions()
        return {
            name: RecordedTool(self.server, definitions[name])
            for name in wanted
            if name in definitions
        }

    def _find_own_definitions(self) -> Mapping[str, Mapping[str, JsonValue]]:
        """Return the definitions of tools whose names show that they are of this server."""
        definitions = self._read_definitions()
        return {name: value for name, value in definitions.items() if self.may_have(name)}

    def _read_definitions(self) -> Mapping[str, Mapping[str, JsonValue]]:
        """Return the definitions of all tools on the cassette, by name. The last one counts."""
        # The parts of requests have kind and id as keys. The kind of a tool's definition is "tool".
        values = (part.value for (kind, _), part in self._content.parts.items() if kind == "tool")
        return dict(_iter_named(values))

    def _register(self, name: str, definition: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the default settings of a tool, such as a server that runs would give it.

        The own name of the tool is not recorded. Usually it is in the name for the model, behind
        that of the server.
        """
        own_name = name.partition(SEPARATOR)[2]
        return {
            "source": f"{self.name}.{own_name}",
            "toolset": self.name,
            "description": definition.get("description", ""),
        }


class RecordedTool(Tool):
    """A tool whose results are on the cassette. It never runs; it fills in `Tool`.

    A cassette has the name of a tool for the model, and not that at the server.
    """

    def __init__(self, server: str, definition: Mapping[str, JsonValue]) -> None:
        self.server = server
        self.description = str(definition.get("description", ""))
        self.schema = as_object(definition.get("parameters"))

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Refuse to run. A turn takes the recorded result instead; `%jp call` runs the tool.

        Raises:
            ToolError: Always.
        """
        raise ToolError(NO_RESULT.format(self.server))


def _iter_named(
    values: Iterable[Mapping[str, JsonValue]],
) -> Iterable[tuple[str, Mapping[str, JsonValue]]]:
    """Yield each definition with its name. A damaged cassette may have some without."""
    for value in values:
        name = value.get("name")
        if isinstance(name, str):
            yield name, value
