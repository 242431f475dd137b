"""The server of `jp-nb mcp`, which offers the registered tools to other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jp_nb.headless.tool_server.client_forms import make_form_schema
from jp_nb.headless.tool_server.tool_host import ToolHost
from jp_nb.toolkit.function_tools.tool_registry import REGISTRY


class ToolServer:
    """The server, its tools, and the forms in which a client asks its questions."""

    @staticmethod
    async def start(folder: Path) -> tuple[Any, Any]:
        """Return a server of the registered tools, and its host, which has the `refused` tools."""
        from jp_nb.headless.tool_server import mcp_server  # it needs the library of servers

        host = ToolHost(folder, None)
        tools = mcp_server.ToolServer()
        tools.set_host(host, await host.load())
        return mcp_server.make_server("house.py", tools), host

    @staticmethod
    def forget_tools() -> None:
        """Remove all tools that were registered with `@jp.tool`."""
        for name in REGISTRY.all():
            REGISTRY.remove(name)

    @staticmethod
    def make_form(question: Any) -> Any:
        """Return the JSON Schema of the form in which a client asks `question`."""
        return make_form_schema(question)
