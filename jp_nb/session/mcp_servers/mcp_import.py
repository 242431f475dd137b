"""Add MCP servers of other applications to the user's or the workspace's configuration file.

A `ListedServer` has the `entry` of a server in a `file` of an application, already as `settings` of
this program, with the reason why it cannot be used (`problem`). If several files have a usable
server of the same name, the one with the highest priority hides the others (`shadowed_by`).
`mcp_import_rows.py` has the table of all servers.

Source: `docs/mcp.md`, Import what you have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jp_nb.config.directives import Directive
from jp_nb.config.secret_settings.server_keys import find_ambiguous_variables, replace_keys
from jp_nb.config.secret_settings.server_secrets import find_literal_secrets
from jp_nb.config.setting_paths import format_path
from jp_nb.config.tree.server_settings import MCP_PATH, McpServer
from jp_nb.errors import UsageError
from jp_nb.json_writing import compact_json
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.storage.server_lists.mcp_files import ListedServer, ServerFiles, read_server_files
from jp_nb.storage.server_lists.server_file_search import ServerFile, find_server_files

Target = Literal["user", "workspace"]
KeyChoice = Literal["variables", "copy"]


@dataclass(frozen=True, slots=True)
class ImportChoice:
    """A server that the user can add.

    Attributes:
        label: The name, with the file if another server has the same name.
        listed: The entry of the server, with its file.
        is_suggested: True if the choice is made in advance.
        has_keys: True if the entry contains keys as text.
    """

    label: str
    listed: ListedServer
    is_suggested: bool
    has_keys: bool


def find_servers(files: ConfigFiles, path: str | None) -> ServerFiles:
    """Return the servers of the known applications, or of the file or folder at `path`.

    A folder is searched for the files that applications have in a workspace.

    Raises:
        UsageError: There is nothing at `path`.
    """
    if path is None:
        return read_server_files(find_server_files(files.root), files.root)

    try:
        place = (files.folder / Path(path).expanduser()).absolute()
        if place.is_dir():
            in_folder = [file for file in find_server_files(place) if file.scope == "workspace"]
            return read_server_files(in_folder, place)
        if place.exists() or place.is_symlink():
            # The user has named it, so it counts as the user's own.
            return read_server_files([ServerFile(place, "file", "user")], files.root)
    except (OSError, RuntimeError, ValueError) as exc:
        raise UsageError(f"{path[:80]!r} is not a valid file name: {exc}") from exc
    raise UsageError(f"There is no file {str(place)[:300]!r}.")


def list_import_choices(
    found: ServerFiles, configured: Mapping[str, McpServer]
) -> list[ImportChoice]:
    """Return the usable servers of `found`, those with the highest priority first.

    A server is suggested if it is new, not switched off, and has the highest priority of its name.
    """
    choices: list[ImportChoice] = []
    labels: set[str] = set()
    for listed in found.servers:
        entry = listed.entry
        if entry.problem:
            continue

        label = entry.name
        if label in labels:
            label = f"{entry.name} ({listed.file.path})"
        is_repeated = label in labels  # a file has the name twice: the first entry counts
        if is_repeated:
            continue

        labels.add(label)
        is_new = entry.name not in configured
        choices.append(
            ImportChoice(
                label,
                listed,
                is_suggested=is_new and not entry.is_disabled and listed.shadowed_by is None,
                has_keys=any(find_literal_secrets(entry.settings)),
            )
        )
    return choices


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The changes of a configuration file for the chosen servers.

    Attributes:
        directives: The changes, for `write_config_file`.
        names: The names of the servers.
        variables: The variables that the user has to set, in order.
        copies_keys: True if the file will contain keys.
    """

    directives: tuple[Directive, ...]
    names: tuple[str, ...]
    variables: tuple[str, ...]
    copies_keys: bool


def plan_import(chosen: Sequence[ImportChoice], target: Target, keys: KeyChoice) -> ImportPlan:
    """Return the changes that add the `chosen` servers.

    `keys` tells if the keys in the entries are copied, or replaced by references to environment
    variables, which the user then has to set. A file of the workspace never gets a key.

    Raises:
        UsageError: Two servers have the same name.
    """
    names = [choice.listed.entry.name for choice in chosen]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise UsageError(f"Choose one server of each name. Chosen twice: {', '.join(repeated)}")

    directives: list[Directive] = []
    variables: dict[str, None] = {}
    copies = keys == "copy" and target == "user"
    ambiguous = find_ambiguous_variables(choice.listed.entry.settings for choice in chosen)
    for choice in chosen:
        entry = choice.listed.entry
        settings = entry.settings
        if not copies:
            without_keys = replace_keys(entry.name, settings, ambiguous)
            settings = without_keys.settings
            variables |= dict.fromkeys(without_keys.variables.values())

        # Unset first: an entry of this name is replaced as a whole, not merged.
        path = format_path((*MCP_PATH, entry.name))
        directives.append(Directive("unset", path))
        directives.append(Directive("cfg", f"{path}:={compact_json(settings)}"))

    has_keys = any(choice.has_keys for choice in chosen)
    return ImportPlan(tuple(directives), tuple(names), tuple(variables), copies and has_keys)
