"""Definitions of the tools of MCP servers for the model: description, schema, digest.

Everything that a server says about its tools is hostile text. A tool with a schema that cannot be
used is dropped alone, in bounded time.

Source: `docs/mcp.md`, Tools; https://modelcontextprotocol.io/specification/2026-07-28/server/tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pydantic import JsonValue

from jp_nb.json_schema import Schema
from jp_nb.json_writing import hash_json
from jp_nb.mcp.exchange import ServerTool
from jp_nb.mcp.tool_definitions.tool_names import map_names
from jp_nb.mcp.tool_definitions.tool_schemas import MAX_SCHEMA_CHARS, read_schema
from jp_nb.storable_json import make_storable
from jp_nb.text import plain
from jp_nb.toolkit.question_types.server_schema_checks import (
    find_property_problems,
    find_schema_problem,
    format_problems,
)

MAX_DESCRIPTION_CHARS: Final = 4_000
"""Maximum length of the description of a server's tool, as it is sent."""


@dataclass(frozen=True, slots=True)
class UnusableTool:
    """A tool of a server that is not offered, with the reason."""

    name: str
    reason: str


@dataclass(frozen=True)
class McpDefinition:
    """A tool of a server as the model gets it.

    Attributes:
        server: Name of the server in the configuration.
        tool: The tool as the server describes it.
        name: Name for the model.
        schema: JSON schema of the arguments.
    """

    server: str
    tool: ServerTool
    name: str
    schema: Schema

    @cached_property
    def digest(self) -> str:
        """Digest of everything that the server says about the tool."""
        return hash_definition(self.tool)

    @cached_property
    def description(self) -> str:
        """Description for the model, marked as the words of the server."""
        own = self.tool.description or self.tool.title or ""
        mark = f"[Tool of the MCP server {self.server}]"
        words = plain(own, limit=MAX_SCHEMA_CHARS).strip()
        return cut_text(f"{mark} {words}".strip(), MAX_DESCRIPTION_CHARS)

    @cached_property
    def _can_check(self) -> bool:
        """True if arguments can be checked with the schema in bounded time."""
        return find_schema_problem(self.schema) is None  # no reason against a check

    def check_arguments(self, arguments: Mapping[str, JsonValue]) -> str | None:
        """Return the problems of `arguments` in words, or None.

        A schema whose check may take too long is left to the server.
        """
        if not self._can_check:
            return None
        problems = find_property_problems(arguments, self.schema)
        if not problems:
            return None

        lines = format_problems(problems)
        return f"Invalid arguments for {self.name}: {'; '.join(lines)}. Correct the call."


@dataclass(frozen=True, slots=True)
class ServerDefinitions:
    """The tools of a server that can be offered, in its order, and the others."""

    usable: tuple[McpDefinition, ...] = ()
    unusable: tuple[UnusableTool, ...] = ()

    def find(self, tool: str) -> McpDefinition | None:
        """Return the definition of the tool that the server calls `tool`."""
        for definition in self.usable:
            if definition.tool.name == tool:
                return definition
        return None


def read_definitions(server: str, tools: Sequence[ServerTool]) -> ServerDefinitions:
    """Return the definitions of the `tools` of `server`."""
    # A tool without a unique name is not among them.
    names = map_names(server, [tool.name for tool in tools])
    usable: dict[str, McpDefinition] = {}
    unusable: list[UnusableTool] = []

    for tool in tools:
        name = names.get(tool.name)
        if name is None or name in usable:
            unusable.append(UnusableTool(tool.name, "another tool of the server has its name"))
            continue

        schema = read_schema(tool.input_schema)
        if isinstance(schema, str):
            unusable.append(UnusableTool(tool.name, schema))
        else:
            usable[name] = McpDefinition(server, tool, name, schema)

    return ServerDefinitions(tuple(usable.values()), tuple(unusable))


def hash_definition(tool: ServerTool) -> str:
    """Return the digest of everything that a server says about `tool`."""
    output_schema = None if tool.output_schema is None else dict(tool.output_schema)
    described: JsonValue = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": dict(tool.input_schema),
        "outputSchema": output_schema,
        "hints": dict(tool.hints),
    }
    return hash_json(make_storable(described))


def find_changes(before: ServerDefinitions, now: ServerDefinitions) -> list[str]:
    """Return the names for the model of the tools that changed, in the order of `before`.

    A tool that is missing now has not changed.
    """
    digests = {definition.name: definition.digest for definition in now.usable}
    changed = []
    for definition in before.usable:
        digest = digests.get(definition.name)
        if digest is not None and digest != definition.digest:
            changed.append(definition.name)
    return changed


def cut_text(text: str, limit: int) -> str:
    """Return `text` in at most `limit` characters, with a mark at a cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
