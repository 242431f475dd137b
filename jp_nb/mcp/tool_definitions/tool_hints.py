"""Hints of an MCP server about its tools, such as `readOnlyHint`: a tool changes nothing.

Source: `docs/mcp.md`, Tools; https://modelcontextprotocol.io/specification/2026-07-28/server/tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

# Our names of the hints, by the names of the protocol.
_HINTS: Final[Mapping[str, str]] = {
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}


def read_hints(annotations: Mapping[str, JsonValue]) -> dict[str, bool]:
    """Return the hints of a server about one of its tools, by our names. Nothing checks them."""
    hints: dict[str, bool] = {}
    for key, name in _HINTS.items():
        value = annotations.get(key)
        if isinstance(value, bool):
            hints[name] = value
    return hints
