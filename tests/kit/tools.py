"""Tools, the configuration of a test, and the tools that it offers to a model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jp_nb.agent.offered_tools.tool_set import offer_tools
from jp_nb.agent.offered_tools.tool_sources import ToolSources
from jp_nb.config.layers import merge_layers
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.tool_settings import ToolConfig
from jp_nb.config.validation import validate_config
from jp_nb.toolkit.base import Tool, ToolSource
from jp_nb.toolkit.builtin import BUILTINS, BuiltinTools, MissingTool
from jp_nb.toolkit.command_tools.command import CommandTool, CommandTools
from jp_nb.toolkit.function_tools.python_tool import PythonTool
from tests.kit._tool_layers import list_layers


def new_tool(
    source: Callable[..., Any] | Mapping[str, Any] | str, /, name: str | None = None, **options: Any
) -> Any:
    """Return a tool that does not have to be registered.

    `source` is a function, with the options of `jp.tool`; the settings of a command; or the name of
    a built-in tool.
    """
    if isinstance(source, str):
        return BUILTINS.get(source) or MissingTool(source)
    if isinstance(source, Mapping):
        settings = ToolConfig.model_validate({"source": "local", **source})
        return CommandTool(name or "t", settings)
    return PythonTool(source, name=name, **options)


class _GivenTools(ToolSource):
    """A source of given tools; other tools come from the source `beyond`, if it is set."""

    def __init__(
        self, name: str, tools: Mapping[str, Tool], beyond: ToolSource | None = None
    ) -> None:
        self.name = name
        self._tools = tools
        self._beyond = beyond
        self.run: Any = beyond.run if beyond else "unattended" if name == "python" else "ask"

    @property
    def title(self) -> str:
        return self._beyond.title if self._beyond else self.name.replace("python", "Python")

    async def list(self, wanted: Mapping[str, ToolConfig]) -> Mapping[str, Tool]:
        own = {name: (tool.source or "").partition(".")[2] or name for name, tool in wanted.items()}
        more = await self._beyond.list(wanted) if self._beyond else {}
        return {**more, **{name: self._tools[x] for name, x in own.items() if x in self._tools}}


def _tool_sources(executors: Mapping[str, Mapping[str, Tool]]) -> ToolSources:
    """Return sources of the tools in `executors`, by kind and name, of builtins and commands."""
    kinds: dict[str, ToolSource] = {"builtin": BuiltinTools(), "local": CommandTools()}
    sources = [
        _GivenTools(kind, executors.get(kind, {}), kinds.get(kind))
        for kind in {**kinds, **executors}
    ]
    return ToolSources(lambda _: sources)


def offer_now(
    config: AppConfig,
    executors: Mapping[str, Mapping[str, Tool]] | None = None,
    *,
    unavailable_reason: str | None = None,
) -> Any:
    """Return the tools that `config` offers to a model, with or without a running event loop."""
    offered = offer_tools(
        config, _tool_sources(executors or {}), unavailable_reason=unavailable_reason
    )
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, offered).result()


def configured(partial: dict[str, Any], tools: Iterable[PythonTool] = ()) -> AppConfig:
    """Return the configuration of `partial` over the registrations of builtins and `tools`."""
    return validate_config(merge_layers(list_layers(partial, tools)))
