"""Describe the MCP servers of other applications for the user, before some of them are added.

The table of `%jp mcp import` has a row for each server: its command or address without keys, and
remarks about risks.

Source: `docs/mcp.md`, Import what you have.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from jp_nb.config.secret_settings.server_risks import describe_command_risks, describe_variable
from jp_nb.config.secret_settings.server_secrets import (
    find_literal_secrets,
    hide_arguments,
    hide_url,
)
from jp_nb.config.secrets.replacements import NOT_SHOWN
from jp_nb.config.tree.server_settings import McpServer
from jp_nb.json_values import as_object
from jp_nb.storage.server_lists.mcp_entries import ServerEntry
from jp_nb.storage.server_lists.mcp_files import ListedServer, ServerFiles

IMPORT_HEAD: Final = ("server", "from", "runs", "remarks")


def _describe_launch(entry: ServerEntry) -> str:
    """Return the command or the address of a server, without keys."""
    settings = entry.settings
    if isinstance(url := settings.get("url"), str):
        return hide_url(url)

    arguments = settings.get("arguments")
    words = [str(word) for word in arguments] if isinstance(arguments, list) else []
    return " ".join([str(settings.get("command", "")), *map(_quote, hide_arguments(words))])


def _quote(word: str) -> str:
    """Return a word as a shell needs it, but with readable references and hidden keys."""
    without_marks = word.replace("${", "").replace("}", "").replace(NOT_SHOWN, "")
    needs_no_quotes = word != "" and shlex.quote(without_marks) == without_marks
    return word if needs_no_quotes else shlex.quote(word)


def list_import_rows(
    found: ServerFiles, configured: Mapping[str, McpServer], short_paths: Mapping[Path, str]
) -> list[tuple[str, str, str, str]]:
    """Return a row for each server: name, file, command, and remarks.

    `short_paths` has the displayed text of each path.
    """
    rows: list[tuple[str, str, str, str]] = []
    for listed in found.servers:
        file = listed.file
        place = f"{file.application}: {short_paths.get(file.path, str(file.path))}"
        remarks = "; ".join(_list_remarks(listed, configured))
        rows.append((listed.entry.original_name, place, _describe_launch(listed.entry), remarks))
    return rows


def _list_remarks(listed: ListedServer, configured: Mapping[str, McpServer]) -> Iterable[str]:
    """Yield what the user should know before the server is added, such as risks of its command."""
    entry = listed.entry
    settings = entry.settings

    if entry.problem:
        yield f"cannot be used: {entry.problem}"
    if entry.is_disabled:
        yield "switched off there"
    if listed.shadowed_by is not None:
        yield f"{listed.shadowed_by.application} has another server of this name"
    if entry.name in configured:
        yield "already configured: it would be replaced"

    yield from entry.notes

    arguments = settings.get("arguments")
    words = list(map(str, arguments)) if isinstance(arguments, list) else []
    if isinstance(command := settings.get("command"), str):
        yield from describe_command_risks(command, words)

    yield from _list_variable_remarks(list(as_object(settings.get("env"))))

    headers = list(as_object(settings.get("headers")))
    if headers:
        yield f"sends {', '.join(headers)}"
    for path in find_literal_secrets(settings):
        yield f"contains a key as text: {path}"


def _list_variable_remarks(names: Sequence[str]) -> Iterable[str]:
    """Yield remarks about the environment variables that a server sets."""
    if names:
        yield f"sets {', '.join(names)}"

    for name in names:
        risk = describe_variable(name)
        if risk:
            yield f"`{name}` {risk}"
