"""The source of the tools that the user registered with `@jp.tool`.

Source: `docs/tools.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from jp_nb.config.tree.tool_settings import RunMode, ToolConfig
from jp_nb.toolkit.base import Tool, ToolSource
from jp_nb.toolkit.function_tools.tool_registry import Registry


class PythonFunctions(ToolSource):
    """Source of the registered Python functions.

    `builtins` are the names of the built-in tools, which a function of the same name replaces.
    """

    name = "python"
    title = "Python"
    run: RunMode = "unattended"  # the user wrote the function, so its calls need no permission

    def __init__(self, functions: Registry, builtins: Collection[str] = ()) -> None:
        self._functions = functions
        self._builtins = builtins

    async def list(self, wanted: Mapping[str, ToolConfig]) -> Mapping[str, Tool]:
        """Return the function of each wanted tool, by the name of the tool.

        The setting `source` of a wanted tool is `python`, or `python.NAME` for the function NAME.
        """
        functions = self._functions.all()
        tools: dict[str, Tool] = {}
        for name, config in wanted.items():
            _, _, function_name = _get_source(config).partition(".")
            function = functions.get(function_name or name)
            if function is not None:
                tools[name] = function
        return tools

    def clashes(self, configured: Mapping[str, ToolConfig]) -> Mapping[str, str]:
        """Return a notice for each function that shares its name with another tool."""
        notices: dict[str, str] = {}
        for name in self._functions.all():
            source = _get_source(configured.get(name))
            kind, _, function_name = source.partition(".")
            is_this_function = kind == self.name and function_name in ("", name)

            if not is_this_function:
                is_builtin = kind == "builtin"
                other = "the built-in tool" if is_builtin else f'the configured tool ("{source}")'
                notices[name] = (
                    f"{other} is used as {name!r} instead of your Python function of that name"
                )
            elif name in self._builtins:
                notices[name] = (
                    f"your Python function {name!r} is used instead of the "
                    "built-in tool of that name"
                )
        return notices


def _get_source(config: ToolConfig | None) -> str:
    """Return the setting `source`; `python`, its default for a registered function, without one."""
    source = config.source if config is not None else None
    return source or PythonFunctions.name
