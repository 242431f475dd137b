"""Read files of other applications that list MCP servers.

Reading starts nothing and grants nothing. A file may come from someone else, so its size, its depth
and its number of servers are bounded, and a file of the workspace that is a link to another folder
is not read. `server_file_search.py` finds the files, and `mcp_entries.py` reads each server.

Source: `docs/mcp.md`, Import what you have. Each application's own documentation of its file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_limits import MAX_CONFIG_LEVELS, is_deeper
from jp_nb.json_values import JsonObject, as_object
from jp_nb.json_writing import sorted_json
from jp_nb.storage.files import ForeignFileError, read_owned_file
from jp_nb.storage.server_lists.json_with_comments import read_json_with_comments
from jp_nb.storage.server_lists.mcp_entries import ServerEntry, read_server_entry
from jp_nb.storage.server_lists.server_file_search import CLAUDE_FILE, ServerFile
from jp_nb.text import one_line

MAX_SERVER_FILE_BYTES: Final = 32_000_000
"""Claude Code keeps its history in the same file."""
MAX_FILE_SERVERS: Final = 200

_CONTAINERS: Final = ("mcpServers", "servers", "mcp_servers")
"""Keys of the tables of servers, or of the lists."""


@dataclass(frozen=True, slots=True)
class ListedServer:
    """A server of a file, in the order of priority.

    Attributes:
        shadowed_by: The file with a usable server of the same name and a higher priority, or None.
            That server hides this one.
    """

    entry: ServerEntry
    file: ServerFile
    shadowed_by: ServerFile | None = None


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The servers of all files that were found.

    Attributes:
        problems: A sentence for each file that cannot be read.
    """

    files: tuple[ServerFile, ...]
    servers: tuple[ListedServer, ...]
    problems: tuple[str, ...]


def read_server_files(files: Iterable[ServerFile], workspace: Path) -> ServerFiles:
    """Return the servers of `files`, which are ordered by decreasing priority.

    Servers that Claude Code keeps for this project come first. A server of the same name and with
    the same settings as an earlier one is omitted.
    """
    listed_files = tuple(files)
    problems: list[str] = []
    project_servers: list[ListedServer] = []  # those that Claude Code keeps for one project
    servers: list[ListedServer] = []

    for file in listed_files:
        try:
            content = _read_content(file, workspace)
        except StorageError as exc:
            problems.append(str(exc))
            continue

        for entry in _read_project(file, content, workspace):
            project_servers.append(ListedServer(entry, file))

        entries = read_servers(content)
        servers += [ListedServer(entry, file) for entry in entries[:MAX_FILE_SERVERS]]
        if len(entries) > MAX_FILE_SERVERS:
            problems.append(
                f"{file.path} has more than {MAX_FILE_SERVERS} servers; the others were not read"
            )

    in_order = [*project_servers, *servers]
    return ServerFiles(listed_files, tuple(_mark_shadowed(in_order)), tuple(problems))


def _mark_shadowed(servers: Sequence[ListedServer]) -> Iterator[ListedServer]:
    """Yield `servers` with marks on those that others hide. An equal hidden server is omitted."""
    usable: dict[str, ListedServer] = {}  # the first one of each name
    for server in servers:
        entry = server.entry
        above = usable.get(entry.name)

        if above is None:
            if not entry.problem and not entry.is_disabled:
                usable[entry.name] = server
            yield server
        elif sorted_json(above.entry.settings) != sorted_json(entry.settings):
            yield ListedServer(entry, server.file, shadowed_by=above.file)


def read_server_file(file: ServerFile, workspace: Path) -> list[ServerEntry]:
    """Return the servers of one file: those for the project, then the others.

    Raises:
        StorageError: The file cannot be read. The message names it and the reason.
    """
    content = _read_content(file, workspace)
    project = _read_project(file, content, workspace)
    return [*project, *read_servers(content)[:MAX_FILE_SERVERS]]


def _read_content(file: ServerFile, workspace: Path) -> JsonObject:
    """Return the table in a file: TOML, or JSON with comments. Raise `StorageError`."""
    path = file.path
    try:
        if file.scope == "workspace":
            _refuse_outside_link(path, workspace)
        text = read_owned_file(path, max_bytes=MAX_SERVER_FILE_BYTES).decode("utf-8-sig")
        is_toml = path.suffix == ".toml"
        value = tomllib.loads(text) if is_toml else read_json_with_comments(text)
        if is_deeper(value, MAX_CONFIG_LEVELS):
            raise ValueError(f"nested too deeply: more than {MAX_CONFIG_LEVELS} levels")
    except ForeignFileError as exc:
        raise StorageError(f"{path} was not read: {exc}") from exc
    except (OSError, ValueError, RecursionError) as exc:
        reason = getattr(exc, "strerror", None) or one_line(str(exc), limit=200)
        raise StorageError(f"{path} was not read: {reason or 'nested too deeply'}") from exc

    if not isinstance(value, dict):
        raise StorageError(f"{path} was not read: it contains no table")
    return value


def _refuse_outside_link(path: Path, workspace: Path) -> None:
    real = Path(os.path.realpath(path, strict=True))
    if not real.is_relative_to(os.path.realpath(workspace)):
        raise ForeignFileError("it is a link that leads out of the workspace")


def read_servers(content: Mapping[str, JsonValue]) -> list[ServerEntry]:
    """Return the servers in the `content` of a file, in any of the known forms."""
    inputs = _read_inputs(content.get("inputs"))
    servers: list[ServerEntry] = []
    nested = content.get("mcp")  # the settings of an editor have the tables below this key
    if not isinstance(nested, dict):
        nested = {}

    for table in (content, nested):
        for key in _CONTAINERS:
            items = list(_list_items(table.get(key)))
            servers += [read_server_entry(name, entry, inputs) for name, entry in items]
    return servers


def _list_items(container: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Yield name and entry of each server in a table or a list; one more than the limit."""
    if isinstance(container, dict):
        yield from list(container.items())[: MAX_FILE_SERVERS + 1]
    elif isinstance(container, list):
        for number, item in enumerate(container[: MAX_FILE_SERVERS + 1], 1):
            name = item.get("name") if isinstance(item, dict) else None
            if not isinstance(name, str):
                name = f"server {number}"
            yield name, item


def _read_inputs(listed: JsonValue) -> dict[str, str]:
    """Return the labels of the `inputs` of VS Code, which a server's `${input:ID}` refers to."""
    labels: dict[str, str] = {}
    for item in listed if isinstance(listed, list) else ():
        match item:
            case {"id": str(name), "description": str(label)}:
                labels[name] = one_line(label, limit=200)
    return labels


def _read_project(
    file: ServerFile, content: Mapping[str, JsonValue], workspace: Path
) -> list[ServerEntry]:
    """Return the servers that Claude Code keeps for the project in `workspace`."""
    if file.path.name != CLAUDE_FILE:
        return []
    projects = as_object(content.get("projects"))
    for folder in (workspace, *workspace.parents):
        project = projects.get(str(folder))
        if isinstance(project, dict) and project.get("mcpServers"):
            return read_servers({"mcpServers": project["mcpServers"]})

    return []
