"""List the inputs and variables that the settings of a server refer to, before it starts.

Source: `docs/mcp.md`, Configure servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jp_nb.config.secret_settings.references import list_references
from jp_nb.config.tree.server_settings import McpServer


def _list_place_texts(server: McpServer) -> list[str]:
    """Return the settings that say where the program is, or the address."""
    places = (server.command, server.cwd, server.env_file, server.url)
    return [text for text in places if text is not None]


def list_server_texts(server: McpServer) -> Iterator[str]:
    """Yield the settings of `server` that may contain references."""
    yield from _list_place_texts(server)
    yield from server.arguments
    yield from server.env.values()
    yield from server.headers.values()


def find_inputs(server: McpServer) -> dict[str, str]:
    """Return the label of each `${input:ID}` of `server` by its id: the user is asked for them."""
    references = list_references(list_server_texts(server))
    ids = [reference.name for reference in references if reference.kind == "input"]
    # An input without an entry in the settings is labeled with its id.
    return {name: server.inputs.get(name) or name for name in ids}


def find_unset_listed_variables(server: McpServer, environ: Mapping[str, str]) -> list[str]:
    """Return the names in the list `variables` that are not set. The server starts without them."""
    return [name for name in server.variables if name not in environ]


def find_unset_referenced_variables(server: McpServer, environ: Mapping[str, str]) -> list[str]:
    """Return the variables in references such as `${NAME}` that have no value and no default.

    The server does not start without them.
    """
    needed: dict[str, None] = {}  # a set that keeps the order
    for reference in list_references(list_server_texts(server)):
        if reference.kind == "variable" and reference.default is None:
            needed[reference.name] = None
    return [name for name in needed if name not in environ]


def has_inputs_in_place(server: McpServer) -> bool:
    """Return True if the place of the program, or the address, refers to the user's inputs.

    Then it cannot be shown before the user has given them.
    """
    references = list_references(_list_place_texts(server))
    return any(reference.kind == "input" for reference in references)
