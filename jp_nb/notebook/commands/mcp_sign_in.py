"""Run `%jp mcp sign-in` and `%jp mcp sign-out`: the tokens of remote servers.

Both are refused while a turn runs, because it may use the server. `wait_for_server` runs the work
in the event loop of the servers, and shows its forms in the cell.

Source: `docs/mcp.md`, Sign in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jp_nb.notebook.commands import Invocation
from jp_nb.notebook.commands.mcp_server_names import take_server_name
from jp_nb.session.mcp_servers.server_sign_ins import ServerSignIns

SIGNED_IN: Final = (
    "You are signed in to the MCP server {0}. Its tokens are renewed silently, also in runs "
    "without a user. Delete them: `%jp mcp sign-out {0}`"
)
SIGNED_OUT: Final = "The tokens of the MCP server {} were deleted from this computer."
NO_STORED_TOKENS: Final = "There are no tokens of the MCP server {}."


def sign_in_by_name(call: Invocation, words: Sequence[str]) -> None:
    """Let the user sign in to a server, in a form with its page."""
    name = take_server_name(call, words, "sign-in")
    session = call.session
    session.active.refuse_while_running()
    settings = session.config.providers.mcp[name]
    sign_ins = ServerSignIns(session.turns.resolver.servers)
    session.turns.cell_resolver.wait_for_server(sign_ins.sign_in_to(name, settings))
    print(f"jp_nb: {SIGNED_IN.format(name)}")


def sign_out_by_name(call: Invocation, words: Sequence[str]) -> None:
    """Delete the tokens of a server."""
    name = take_server_name(call, words, "sign-out")
    session = call.session
    session.active.refuse_while_running()
    settings = session.config.providers.mcp[name]
    sign_ins = ServerSignIns(session.turns.resolver.servers)
    work = sign_ins.sign_out_of(name, settings)
    was_signed_in = session.turns.cell_resolver.wait_for_server(work)
    text = SIGNED_OUT if was_signed_in else NO_STORED_TOKENS
    print(f"jp_nb: {text.format(name)}")
