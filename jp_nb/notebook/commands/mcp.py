"""Run `%jp mcp`: its verbs.

Source: `docs/mcp.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from jp_nb.errors import UsageError
from jp_nb.notebook.commands import Invocation, suggest_name
from jp_nb.notebook.commands.mcp_import_command import import_servers
from jp_nb.notebook.commands.mcp_read import show_resource
from jp_nb.notebook.commands.mcp_servers import list_servers, restart_server, show_server_log
from jp_nb.notebook.commands.mcp_sign_in import sign_in_by_name, sign_out_by_name
from jp_nb.text import one_line


def run_mcp(call: Invocation) -> None:
    """Run `%jp mcp`."""
    verb, *words = call.options.words or ["list"]
    action = _MCP_COMMANDS.get(verb)
    if action is None:
        hint = suggest_name(verb, _MCP_COMMANDS, "mcp")
        raise UsageError(
            f"There is no `%jp mcp {one_line(verb, limit=60)}`. {hint}"
            f"Usage: `{call.subcommand.usage}`"
        )

    action(call, words)


_MCP_COMMANDS: Final[Mapping[str, Callable[[Invocation, Sequence[str]], None]]] = {
    "list": list_servers,
    "log": show_server_log,
    "restart": restart_server,
    "read": show_resource,
    "import": import_servers,
    "sign-in": sign_in_by_name,
    "sign-out": sign_out_by_name,
}
