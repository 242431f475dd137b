"""Run `%jp mcp read`: show a resource of a server. It is not sent to a model.

Source: `docs/mcp.md`, Resources.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jp_nb.errors import UsageError
from jp_nb.images import Image
from jp_nb.notebook.commands import Invocation
from jp_nb.notebook.commands.mcp_server_names import find_running, require_server
from jp_nb.notebook.commands.mcp_servers import NONE_CONFIGURED
from jp_nb.rendering.report import join_reports, make_block, make_line, make_note
from jp_nb.session.session import Session
from jp_nb.text import one_line
from jp_nb.toolkit.outcome import Success

MAX_RESOURCE_IMAGES: Final = 20
"""Maximum number of images of a resource that are shown."""
MAX_RESOURCE_CHARS: Final = 100_000
"""Maximum length of the text of a resource that is shown. The rest is cut."""
READ_USAGE: Final = "`%jp mcp read` takes the address of a resource: `%jp mcp read [NAME] URI`"
SEVERAL: Final = "Name the server that has the resource ({}): `%jp mcp read NAME URI`"
REPLACED: Final = (
    "The MCP server {} does not run: a cassette with recorded results of tools replaces it. "
    "`%jp cassette off` ends the replay."
)


def show_resource(call: Invocation, words: Sequence[str]) -> None:
    """Read a resource, from a server that starts if necessary, and show it."""
    session = call.session
    session.active.refuse_while_running()
    name, uri = _read_words(session, words)

    # This starts the server if it does not run.
    session.turns.cell_resolver.discover_tools(f"mcp.{name}")
    source = find_running(session, name)
    if source is None:  # a cassette replaces the server
        raise UsageError(REPLACED.format(name))

    resource = session.turns.cell_resolver.wait_for_server(source.read_resource(uri))
    _show(call, resource, f"{one_line(uri, limit=500)} of the MCP server {name}:")


def _read_words(session: Session, words: Sequence[str]) -> tuple[str, str]:
    """Return the name of the server, and the address of the resource."""
    servers = session.config.providers.mcp
    if not servers:
        raise UsageError(NONE_CONFIGURED)

    match words:
        case [uri] if uri not in servers:
            return _find_only_server(session), uri
        case [name, uri]:
            require_server(session, name)
            return name, uri
        case _:
            raise UsageError(READ_USAGE)


def _find_only_server(session: Session) -> str:
    """Return the only server that runs, or the only one that is configured.

    If there are several, the user has to name one: an address is not sent to another server than
    was meant.
    """
    servers = list(session.config.providers.mcp)
    running = [name for name in servers if find_running(session, name) is not None]
    candidates = running or servers
    if len(candidates) > 1:
        raise UsageError(SEVERAL.format(", ".join(candidates)))
    return candidates[0]


def _show(call: Invocation, resource: Success, title: str) -> None:
    parts = [make_line(title), make_block(resource.content, limit=MAX_RESOURCE_CHARS)]
    more = len(resource.images) - MAX_RESOURCE_IMAGES
    if more > 0:
        parts.append(make_note(f"Images that are not shown: {more}"))

    call.show(join_reports(parts))

    for image in resource.images[:MAX_RESOURCE_IMAGES]:
        _publish(call, image)


def _publish(call: Invocation, image: Image) -> None:
    if image.display_data:
        bundle = {"text/plain": repr(image), **image.display_data}
        call.shell.display_pub.publish(data=bundle, metadata={})
