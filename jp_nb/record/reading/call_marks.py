"""Marks of tool calls in the metadata of their responses: edits, rules, servers, and skipped calls.

Providers never receive these keys.

Source: `docs/record.md`.
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.entries.events import (
    ToolCallResponse,
)
from jp_nb.record.reading.outcome_words import END_WORDS

EDITED_ARGUMENTS_KEY: Final = "edited_arguments"
"""The arguments of a call that the user edited, on its response."""
SKIPPED_KEY: Final = "skipped"
"""True on the response to a call that the user or a rule skipped, or that the user stopped."""
RULE: Final = "rule"
"""The rule that decided about a call, on its response."""
SERVER: Final = "server"
"""Name of the MCP server in the configuration, of a call and of a question."""
SERVER_TOOL: Final = "server_tool"
"""The server's own name of a called tool."""


def make_edit_metadata(arguments: dict[str, JsonValue], channel: str) -> dict[str, JsonValue]:
    """Return the metadata of the response to a call with edited `arguments`."""
    return {EDITED_ARGUMENTS_KEY: arguments, "edited_by": "person", "channel": channel}


def make_server_marks(server: str, tool: str) -> JsonObject:
    """Return the metadata of the response to a call of a server's `tool`, by the server's name."""
    marks: JsonObject = {SERVER: server} if server else {}
    if server and tool:
        marks[SERVER_TOOL] = tool
    return marks


def read_rule(response: ToolCallResponse) -> JsonObject | None:
    """Return the rule that decided about the call, if the record has a valid one."""
    rule = as_object(response.metadata.get(RULE))
    is_valid = isinstance(rule.get("when"), dict) and isinstance(rule.get("from"), str)
    return rule if is_valid else None


def is_skipped(response: ToolCallResponse) -> bool:
    """Return True if the user or a rule skipped the call, or the user stopped it.

    Records of older releases have no mark, but only the text of the response.
    """
    if SKIPPED_KEY in response.metadata:
        return response.metadata[SKIPPED_KEY] is True
    declined = {words.response for words in END_WORDS.values()}
    return response.content in declined or response.content.startswith("Tool skipped by user")
