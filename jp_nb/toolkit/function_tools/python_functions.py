"""The source of the tools that the user registered with `@jp.tool`.

Source: `docs/tools.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from jp_nb.config.tree.tool_settings import RunMode, ToolConfig
from jp_nb.toolkit.base import Tool, ToolSource
from jp_nb.toolkit.function_tools.python import Registry


class PythonFunctions(ToolSource):
    """Source of the registered Python functions, which may replace tools of `builtins`."""

    name = "python"
    title = "Python"
    run: RunMode = "unattended"

    def __init__(self, functions: Registry, builtins: Collection[str] = ()) -> None:
        self._functions = functions
        self._builtins = builtins

    async def list(self, wanted: Mapping[str, ToolConfig]) -> Mapping[str, Tool]:
        """Return the functions with the wanted names, or with the names in their `source`."""
        functions = self._functions.all()
        names = {name: _get_function_name(tool) or name for name, tool in wanted.items()}
        return {name: functions[key] for name, key in names.items() if key in functions}

    def clashes(self, configured: Mapping[str, ToolConfig]) -> Mapping[str, str]:
        """Return a notice for each function that shares its name with another tool."""
        found: dict[str, str] = {}
        for name in self._functions.all():
            tool = configured.get(name)
            source = self.name
            if tool is not None and tool.source:
                source = tool.source
            kind = source.partition(".")[0]
            if kind != self.name or _get_function_name(tool) not in ("", name):
                is_builtin = kind == "builtin"
                other = "the built-in tool" if is_builtin else f'the configured tool ("{source}")'
                found[name] = (
                    f"{other} is used as {name!r} instead of your Python function of that name"
                )
            elif name in self._builtins:
                found[name] = (
                    f"your Python function {name!r} is used instead of the "
                    "built-in tool of that name"
                )
        return found


def _get_function_name(tool: ToolConfig | None) -> str:
    source = tool.source if tool is not None else None  # `python` or `python.NAME`
    return (source or "").partition(".")[2]
