"""The server of `jp-nb mcp`, which offers the registered tools to other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jp_nb.headless.client_forms import make_form_schema
from jp_nb.headless.tool_host import ToolHost
from jp_nb.toolkit.python import REGISTRY


async def serve_tools(folder: Path) -> tuple[Any, Any]:
    """Return a server of the registered tools in `folder`, and its host with `refused` tools."""
    from jp_nb.headless.mcp_server import ToolServer, make_server  # needs the library of servers

    host = ToolHost(folder, None)
    tools = ToolServer()
    tools.set_host(host, await host.load())
    return make_server("house.py", tools), host


def forget_tools() -> None:
    """Remove all tools that were registered with `@jp.tool`."""
    for name in REGISTRY.all():
        REGISTRY.remove(name)


def make_client_form(question: Any) -> Any:
    """Return the JSON Schema of the form in which a client asks `question`."""
    return make_form_schema(question)
