"""The registry of the Python tools, and the decorator `@jp.tool` that fills it.

Source: `docs/tools.md`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Unpack, overload

from jp_nb.config.tree.access_settings import ConfigRule
from jp_nb.config.tree.tool_settings import RuleCoverage, RunMode
from jp_nb.errors import UsageError
from jp_nb.toolkit.function_tools.python_tool import PythonTool, ToolOptions


class Registry:
    """The Python tools of this process.

    Attributes:
        version: Number of changes so far, by which a session knows that the tools have changed.
    """

    def __init__(self) -> None:
        self._tools: dict[str, PythonTool] = {}
        self.version = 0

    def add(self, tool: PythonTool) -> PythonTool:
        """Register `tool` for the next turn, and return the registered tool.

        It replaces a tool of the same name. If its module was reloaded, the earlier tool is updated
        instead: names that the user imported are still the registered tool.
        """
        earlier = self._tools.get(tool.name)
        if earlier is not None and earlier.is_reloaded_as(tool):
            earlier.become(tool)  # it takes over all attributes, such as the function
            tool = earlier

        # `@jp.tool` on a method is noticed only at the end of the class, after the registration.
        tool.on_refused = self.discard
        self._tools[tool.name] = tool
        self.version += 1
        return tool

    def discard(self, tool: PythonTool) -> None:
        """Remove `tool` if it is registered."""
        if self._tools.get(tool.name) is tool:
            self.remove(tool.name)

    def remove(self, name: str) -> None:
        """Remove the tool `name`.

        Raises:
            UsageError: There is no such tool.
        """
        if name not in self._tools:
            known = ", ".join(sorted(self._tools)) or "none is defined"
            raise UsageError(f"there is no Python tool {name!r} (known: {known})")

        del self._tools[name]
        self.version += 1

    def all(self) -> dict[str, PythonTool]:
        """Return the tools by name, in the order they were first defined.

        Tools whose code `%autoreload` has replaced are read again.
        """
        for tool in self._tools.values():
            if tool.refresh():  # True if the code of the function is another object now
                self.version += 1
        return dict(self._tools)


REGISTRY: Final = Registry()


@overload
def tool(function: Callable[..., Any], /) -> PythonTool: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], PythonTool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    run: RunMode | None = None,
    covers: RuleCoverage | None = None,
    access: Sequence[ConfigRule] = (),
    thread: bool = False,
    toolset: str | None = None,
    read_only: bool | None = None,
) -> PythonTool | Callable[[Callable[..., Any]], PythonTool]:
    """Make a function available to the model as a tool.

    You can still call the function. If you define it again, the new tool replaces the old one.

    Example:
        >>> @tool
        ... def double(number: int) -> int:
        ...     return 2 * number
        >>> double(4)
        8
        >>> remove_tool("double")

    The model reads the return value: a text is sent unchanged, plain data as JSON, and any other
    value, such as a data frame or a figure, as a description (`jp.describe`). The function can also
    return an outcome: `jp.Success` or `jp.NeedsInput`. The model reads an exception as an error.

    Args:
        function: The function. Its type hints and its Google-style docstring define the schema;
            pydantic must support the types. A parameter of type `ToolContext` receives the context.
        name: Name for the model; None for the name of the function.
        run: `unattended` to run without a question; `ask` or `edit` to ask the user first; `skip`
            to never run. The configuration of the tool overrides it. None means `unattended`,
            unless the configuration of `*` differs.
        covers: Calls that the permission "for this turn" covers. `tool` means all calls of the
            tool, `arguments` only calls with the same arguments. Use `arguments` if an argument is
            executed, such as code, a command line, or SQL. The configuration overrides it. None
            means `tool`.
        access: Rules for the settings that the tool may read and propose to change. Files can add
            rules. After a rejected proposal the function runs again in the same call, up to three
            times, and `ctx.delta_rejection` has the reason.
        thread: True to run a `def` function in a worker thread, in parallel with other tools.
            Without it, such functions run in the cell's thread, one at a time. An `async def`
            function always runs in parallel with other tools.
        toolset: Name of a group of tools that are switched together: `%%jp -t NAME`, or the setting
            `conversation.toolsets.NAME = true`.
        read_only: True if a call certainly changes nothing, neither in the kernel nor elsewhere.
            In a turn that begins with a plan (`%%jp --plan`), only such tools run before the user
            has approved it. The configuration overrides it. None means False.

    Returns:
        The tool. `@jp.tool(…)` with options returns a decorator.

    Raises:
        UsageError: If `function` is not a function, a name or a parameter is not valid for a tool,
            or `thread` is set for an `async def` function.
        ConfigError: If `access` contains an invalid rule.
    """
    options = ToolOptions(
        name=name,
        run=run,
        covers=covers,
        access=access,
        thread=thread,
        toolset=toolset,
        read_only=read_only,
    )
    if function is None:
        return partial(tool, **options)

    new_tool = PythonTool(function, **options)
    if access:
        from jp_nb.config.access_rule_checks import find_rule_warnings  # few tools have rules

        for text in find_rule_warnings(new_tool.name, access):
            warnings.warn(text, stacklevel=2)

    return REGISTRY.add(new_tool)


def remove_tool(name: str) -> None:
    """Remove a Python tool, so that the model can no longer call it.

    Raises:
        UsageError: If there is no Python tool of this name.
    """
    REGISTRY.remove(name)
