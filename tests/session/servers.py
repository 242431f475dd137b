"""Notebooks whose configuration has scripted MCP servers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs

from tests.kit.kinds import is_kind
from tests.kit.sessions import directive
from tests.mcp.helpers import Scripted, scripted
from tests.support.sessions import AskedNotebook

Json = dict[str, Any]


def settings_of(server: Scripted, **settings: Any) -> Json:
    """Return the settings of a server that follows a script."""
    assert is_kind(server.launch, "stdio_launch")
    return {
        "command": server.launch.command,
        "arguments": list(server.launch.arguments),
        **settings,
    }


def user_file() -> Path:
    """Return the user's configuration file."""
    return platformdirs.user_config_path("jp") / "config.toml"


def configure(servers: Mapping[str, Json], tools: Mapping[str, Json] | None = None) -> None:
    """Write the user's file with `servers`, by name, and `tools`."""
    user = user_file()
    user.parent.mkdir(exist_ok=True, parents=True)
    content = {"providers": {"mcp": servers}, "conversation": {"tools": tools or {}}}
    user.write_text('extends = ["servers.json"]')
    user.with_name("servers.json").write_text(json.dumps(content))


def remove_configuration() -> None:
    """Remove the files of `configure`."""
    user = user_file()
    for file in (user, user.with_name("servers.json")):
        file.unlink(missing_ok=True)


def make_books(folder: Path, **script: Any) -> Scripted:
    """Return a server with the tools `search` and `read`."""
    calls = {"search": [{"result": "Emma, 1815"}], "read": [{"arguments": True}]}
    return scripted(folder, **{"calls": calls, **script})


def turn_on(*names: str) -> list[Any]:
    return [directive("tool", name) for name in names]


def sent_tools(notebook: AskedNotebook) -> dict[str, str]:
    """Return the descriptions of the tools of servers in the last request."""
    last = notebook.session.turns.contexts.last_request
    assert last is not None
    return {tool.name: tool.description for tool in last.request.tools if "__" in tool.name}


def is_alive(pid: int | None) -> bool:
    """Return True if a process of that number runs."""
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] != "Z"
