"""Files of other applications that list MCP servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jp_nb.storage import mcp_entries, mcp_files


def find_listed_servers(folder: Path) -> Any:
    """Return the servers that the files around a notebook in `folder` list, and their problems."""
    return mcp_files.read_server_files(mcp_files.find_server_files(folder), folder)


def read_listed_servers(path: Path) -> list[Any]:
    """Return the servers that the file at `path` lists: `name`, `settings`, `problem`, `notes`."""
    return list(mcp_files.read_server_file(mcp_files.ServerFile(path, "", "user"), path.parent))


def read_listed_server(name: str, entry: Any) -> Any:
    """Return the server of one entry of a file, with its `settings`, `problem`, and `notes`."""
    return mcp_entries.read_server_entry(name, entry)
