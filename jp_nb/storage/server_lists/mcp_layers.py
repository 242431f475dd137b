"""Servers of the files in `providers.mcp_files`, as layers of the configuration.

Imported only if a file is listed. Such a file belongs to another application, so a problem in it is
a notice: it does not invalidate the configuration. `listed_servers.py` selects the files whose
servers apply, and those that need the user's consent.

Source: `docs/mcp.md`, Import what you have.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from jp_nb.config.layers import (
    ENVIRONMENT_LAYER,
    MCP_FILE_LAYER,
    USER_FILE_LAYER,
    Layer,
    merge_layers,
)
from jp_nb.config.partials.partial import build_partial, get_path
from jp_nb.config.partials.setting_leaves import iter_leaves
from jp_nb.config.setting_paths import format_path
from jp_nb.config.tree.server_settings import MCP_PATH
from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject
from jp_nb.json_writing import sorted_json
from jp_nb.storage.files import Stamp, make_stamp
from jp_nb.storage.server_lists.mcp_entries import ServerEntry
from jp_nb.storage.server_lists.mcp_files import read_server_file
from jp_nb.storage.server_lists.server_file_search import ServerFile, ServerScope
from jp_nb.text import one_line

MCP_FILES_PATH: Final = ("providers", "mcp_files")


class ServerLayers:
    """Reads the listed files, each again after a change.

    `add_notice` gets messages about problems.
    """

    def __init__(self, add_notice: Callable[[str], None]) -> None:
        self._add_notice = add_notice
        # The servers of a file, by its path and the workspace, with the stamp of the file.
        self._entries: dict[tuple[Path, Path], tuple[Stamp, list[ServerEntry]]] = {}
        # The last layer of each file. An equal layer stays the same object: merges are cached.
        self._layers: dict[Path, Layer] = {}

    def read(self, listed: str, root: Path, taken: Collection[str]) -> Layer | None:
        """Return the layer of a `listed` file, without the servers whose names are `taken`.

        Names are taken by the configuration, and by files that are listed before this one. Return
        None if no server is left. An unchanged layer is the same object.
        """
        path = locate_servers(listed, root)
        try:
            entries = self._read_entries(path, root)
        except StorageError as exc:
            self._add_notice(f"providers.mcp_files: {exc}")
            return None

        servers: JsonObject = {}
        for entry in entries:
            if entry.problem:
                name = one_line(entry.original_name, limit=60)
                self._add_notice(f"the MCP server {name!r} of {path} is not used: {entry.problem}")
            elif not entry.is_disabled and entry.name not in taken:
                servers.setdefault(entry.name, entry.settings)
        if not servers:
            return None

        partial = build_partial(MCP_PATH, servers)
        known = self._layers.get(path)
        if known is None or known.partial != partial:
            known = Layer(MCP_FILE_LAYER, partial, str(path))
            self._layers[path] = known
        return known

    def _read_entries(self, path: Path, root: Path) -> list[ServerEntry]:
        """Return the servers of a file, read again after a change. Raise `StorageError`."""
        try:
            now = make_stamp(path)
        except OSError as exc:
            raise StorageError(f"{path} was not read: {exc.strerror or exc}") from exc

        known = self._entries.get((path, root))
        if known is None or known[0] != now:
            # A file of the workspace must not be a link out of it.
            scope: ServerScope = "workspace" if path.is_relative_to(root) else "user"
            file = ServerFile(path, application="", scope=scope)  # any application may have it
            known = now, read_server_file(file, root)
            self._entries[path, root] = known

        return known[1]


def locate_servers(listed: str, root: Path) -> Path:
    """Return the path of a file in `providers.mcp_files`, relative to the workspace `root`."""
    return Path(os.path.normpath(root / os.path.expanduser(listed)))


def list_files(layers: Iterable[Layer]) -> list[str]:
    """Return the files that the merged `layers` list."""
    listed = get_path(merge_layers(layers), MCP_FILES_PATH)
    return list(map(str, listed)) if isinstance(listed, list) else []


def is_listed_by_user(path: Path, layers: Iterable[Layer], root: Path) -> bool:
    """Return True if the user's own configuration lists the file at `path`."""
    own = [layer for layer in layers if layer.name in (USER_FILE_LAYER, ENVIRONMENT_LAYER)]
    listed = chain.from_iterable(list_files([layer]) for layer in own)
    return any(locate_servers(each, root) == path for each in listed)


def list_server_names(layer: Layer) -> list[str]:
    """Return the names of the servers that `layer` configures."""
    servers = get_path(layer.partial, MCP_PATH)
    return list(servers) if isinstance(servers, dict) else []


def list_leaves(layer: Layer) -> Iterator[tuple[str, JsonValue]]:
    """Yield path and value of each setting of `layer`, for the user's consent."""
    for keys, value in iter_leaves(layer.partial):
        yield format_path(keys), value


def make_content(layer: Layer) -> bytes:
    """Return the part of the file that the user consents to: its servers, in one spelling."""
    return sorted_json(layer.partial).encode()
