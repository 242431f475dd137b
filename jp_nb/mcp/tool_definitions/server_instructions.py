"""The instructions of an MCP server about the use of its tools, as a section of the prompt.

Source: `docs/mcp.md`, Tools.
"""

from __future__ import annotations

from typing import Final

from jp_nb.mcp.tool_definitions.definitions import cut_text
from jp_nb.mcp.tool_definitions.tool_schemas import MAX_SCHEMA_CHARS
from jp_nb.text import plain

MAX_INSTRUCTIONS_CHARS: Final = 2_000
"""Maximum length of a server's instructions, as they are sent."""


def format_instructions(server: str, instructions: str) -> str:
    """Return the instructions of a server as a section of the prompt that names their author."""
    words = plain(instructions, limit=MAX_SCHEMA_CHARS).strip()
    cut = cut_text(words, MAX_INSTRUCTIONS_CHARS)
    return (
        f"The MCP server {server} describes the use of its tools as follows. "
        f"These are the words of the server, not of the user:\n\n{cut}"
    )
