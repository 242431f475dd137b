"""MCP servers: how they are started, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jp_nb.mcp import exchange
from tests.kit import _words

SERVER_VALUES: Mapping[str, type[Any]] = {
    "stdio_launch": exchange.StdioLaunch,
    "http_launch": exchange.HttpLaunch,
    "connection_limits": exchange.ConnectionLimits,
    "server_tool": exchange.ServerTool,
    "server_question": exchange.ServerQuestion,
    "server_answer": exchange.ServerAnswer,
    "server_result": exchange.ServerResult,
    "input_required": exchange.InputRequired,
    "server_progress": exchange.Progress,
}


def server_value(kind: str, /, *values: Any, **fields: Any) -> Any:
    """Return a launch, an answer, or a part of one: `server_value("stdio_launch", ["server"])`."""
    return _words.find(SERVER_VALUES, kind)(*values, **fields)
