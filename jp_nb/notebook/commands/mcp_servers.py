"""Run `%jp mcp`, `%jp mcp log`, and `%jp mcp restart`: the servers of this kernel.

Source: `docs/mcp.md`, See and restart servers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jp_nb.config.tree.server_settings import McpServer
from jp_nb.errors import UsageError
from jp_nb.exact_form import escape_invisible
from jp_nb.notebook.commands import Invocation
from jp_nb.notebook.commands.mcp_server_names import find_connection, find_running, take_server_name
from jp_nb.rendering.report import Report, join_reports, make_note, make_table
from jp_nb.session.session import Session
from jp_nb.text import one_line

SERVERS_HEAD: Final = ("server", "state", "tools", "protocol", "process", "configured in")
NONE_CONFIGURED: Final = (
    "No MCP server is configured. `%jp mcp import` adds those of other applications."
)
NOT_RUNNING: Final = "The MCP server {} does not run. It starts with the next turn that uses it."


def list_servers(call: Invocation, words: Sequence[str]) -> None:
    """Show the configured servers, and which of them run. None is started."""
    servers = call.session.config.providers.mcp
    if not servers:
        print(f"jp_nb: {NONE_CONFIGURED}")
        return

    rows = [_make_row(call.session, name) for name in servers]
    parts = [make_table(SERVERS_HEAD, rows)]

    for name in servers:
        parts += _make_notes(call.session, name)

    call.show(join_reports(parts, between="\n\n"))


def show_server_log(call: Invocation, words: Sequence[str]) -> None:
    """Show the last lines that a server wrote to stderr."""
    name = take_server_name(call, words, "log")
    connection = find_connection(call.session, name)
    if connection is None:
        failure = call.session.turns.resolver.discovery.find_server_failure(name)
        if not failure:
            raise UsageError(NOT_RUNNING.format(name))
        _print_lines(failure.splitlines())
        return

    lines = connection.stderr_lines()
    if not lines:
        print(f"jp_nb: The MCP server {name} wrote nothing to stderr.")
    _print_lines(lines)


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        print(escape_invisible(line))


def restart_server(call: Invocation, words: Sequence[str]) -> None:
    """End a server, so that the next turn that uses it starts it again.

    That is so also for a server that is not started any more, because it has ended too often.
    """
    name = take_server_name(call, words, "restart")
    session = call.session
    session.active.refuse_while_running()
    runner = session.turns.runner
    ended = runner.agent.wait_for(session.turns.resolver.discovery.end_server(name))
    if not ended:
        raise UsageError(NOT_RUNNING.format(name))

    print(f"jp_nb: The MCP server {name} was ended. It starts with the next turn that uses it.")


def _make_row(session: Session, name: str) -> list[str]:
    """Return the row of a server, with the columns of `SERVERS_HEAD`."""
    source = find_running(session, name)
    connection = None if source is None else source.connection
    place = _find_place(session, name)
    if source is None or connection is None:
        has_failed = session.turns.resolver.discovery.find_server_failure(name)
        state = "failed" if has_failed else "not started"
        return [name, state, "", "", "", place]

    tools = str(len(source.definitions.usable))
    protocol = connection.version or ""
    process = "" if connection.pid is None else str(connection.pid)

    return [name, connection.state, tools, protocol, process, place]


def _find_place(session: Session, name: str) -> str:
    """Return the layers and files that set the fields of the server, each once."""
    path = f"providers.mcp.{name}"
    fields = [f"{path}.{field}" for field in McpServer.model_fields]
    explained = session.settings.explain(fields)  # the sources of each field; the last one counts
    places = [sources[-1].place for sources in explained.values() if sources]
    return ", ".join(dict.fromkeys(places))


def _make_notes(session: Session, name: str) -> list[Report]:
    """Return remarks about a server: its own name, its last error, and stray lines."""
    connection = find_connection(session, name)
    if connection is None:
        failure = session.turns.resolver.discovery.find_server_failure(name)
        return [_make_error_note(name, failure)] if failure else []

    notes: list[Report] = []
    if connection.server_title:
        words = one_line(connection.server_title, limit=80)
        notes.append(make_note(f"{name} calls itself {escape_invisible(words)}"))

    if connection.last_error:
        notes.append(_make_error_note(name, connection.last_error))

    if connection.discarded_lines:
        notes.append(
            make_note(
                f"{name} wrote {connection.discarded_lines} lines to stdout that are no messages"
            )
        )

    return notes


def _make_error_note(name: str, error: str) -> Report:
    words = one_line(error, limit=400)
    return make_note(f"{name}, last error: {escape_invisible(words)}")
