"""Check the MCP servers of a configuration for `%jp doctor`. None is started or contacted.

Source: `docs/mcp.md`, See and restart servers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from jp_nb.config.secret_settings.server_secrets import find_literal_secrets, hide_url
from jp_nb.config.setting_paths import parse_path
from jp_nb.config.tree.server_settings import MCP_PATH, McpServer
from jp_nb.errors import ConfigError
from jp_nb.exact_form import escape_invisible
from jp_nb.notebook.commands.mcp_server_names import find_running
from jp_nb.session.session import Session
from jp_nb.text import MAX_LISTED_LINES, one_line

NEEDS_CONSENT = "ignored until you consent to it: `%jp trust --workspace` shows the entry"


def check_servers(session: Session) -> Iterator[tuple[str, str]]:
    """Yield name and result of the check of each server, also of those that need consent."""
    try:
        servers = session.config.providers.mcp
    except ConfigError:
        return  # reported by the other checks

    if servers:
        from jp_nb.mcp.server_start import NOT_INSTALLED, has_library

        if not has_library():
            yield "MCP servers", f"error: {NOT_INSTALLED}"

    for name, server in servers.items():
        yield f"MCP server {name}", "; ".join(_check_server(session, name, server))

    for name in _list_pending(session):
        yield f"MCP server {escape_invisible(one_line(name, limit=40))}", NEEDS_CONSENT


def _list_pending(session: Session) -> list[str]:
    """Return the names of the servers with a setting that needs the user's consent."""
    paths: list[str] = []
    for pending in session.files.list_pending():
        # A leaf is a single setting, with its path first.
        paths += [path for path, _, _ in pending.leaves]

    # The first key below `providers.mcp` is the name of a server.
    depth = len(MCP_PATH)
    all_keys = [tuple(map(str, parse_path(path))) for path in paths]
    names = [keys[depth] for keys in all_keys if keys[:depth] == MCP_PATH and len(keys) > depth]
    return list(dict.fromkeys(names))


def _check_server(session: Session, name: str, server: McpServer) -> Iterator[str]:
    """Yield remarks about a server: its state, and the problems of its settings."""
    from jp_nb.mcp.transports.server_references import find_unset_listed_variables

    yield _describe_state(session, name, server)
    yield from _describe_traffic(session, name)

    if unset_passed := find_unset_listed_variables(server, os.environ):
        yield f"it gets no {_format_names(unset_passed)}: not set in this kernel"

    settings: dict[str, JsonValue] = server.model_dump(mode="json", exclude_defaults=True)
    if places := list(find_literal_secrets(settings)):
        names = _format_names(places)
        yield f"a key is written as text in {names}: use a reference such as `${{TOKEN}}`"


def _describe_state(session: Session, name: str, server: McpServer) -> str:
    """Return whether the server runs. If not, return how it starts, and its last error."""
    source = find_running(session, name)
    connection = None if source is None else source.connection
    if source is not None and connection is not None and connection.state == "running":
        count = len(source.definitions.usable)
        noun = "tool" if count == 1 else "tools"
        return f"running, protocol {connection.version}, {count} {noun}"

    failure = session.turns.resolver.discovery.find_server_failure(name)
    if connection is not None and connection.last_error:
        failure = connection.last_error

    launch = _describe_launch(session, name, server)
    if not failure:
        return launch

    error = escape_invisible(one_line(failure, limit=400))
    return f"{launch}; last error: {error}"


def _describe_launch(session: Session, name: str, server: McpServer) -> str:
    """Return the program or the address that starts next, or the reason why it cannot start."""
    from jp_nb.mcp.transports.launches import StdioLaunch
    from jp_nb.mcp.transports.server_references import find_unset_referenced_variables
    from jp_nb.session.mcp_servers.mcp_launches import ServerLaunches

    unset_required = find_unset_referenced_variables(server, os.environ)
    if len(unset_required) > 1:  # `preview` reports a single one, with the setting that names it
        return f"error: the environment variables {_format_names(unset_required)} are not set"

    try:
        launch = ServerLaunches(session.files).preview(name, server)
    except ConfigError as exc:
        return f"error: {exc}"

    if launch is None:
        return "not started: it asks for its inputs when it starts"
    if isinstance(launch, StdioLaunch):
        return f"not started: {launch.hide(launch.command)}"

    return f"not connected: {hide_url(launch.masked)}"


def _describe_traffic(session: Session, name: str) -> Iterator[str]:
    """Yield a remark about stray lines on the server's stdout, if there are some."""
    source = find_running(session, name)
    connection = None if source is None else source.connection
    if connection is not None and connection.discarded_lines:
        yield f"{connection.discarded_lines} lines on its stdout were no messages and are ignored"


def _format_names(names: Sequence[str]) -> str:
    more = len(names) - MAX_LISTED_LINES
    listed = ", ".join(names[:MAX_LISTED_LINES])
    shown = f"{listed} and {more} more" if more > 0 else listed
    return escape_invisible(one_line(shown, limit=400))
