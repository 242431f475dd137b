"""Notices about the Python tools that the user's code has registered: clashing names, and advice.

Source: `docs/tools.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from jp_nb.errors import ConfigError
from jp_nb.session.configuration.registered_tools import is_registry_loaded

if TYPE_CHECKING:
    from jp_nb.config.tree.app import AppConfig


class ToolNotices:
    """Knows the notices that the user has got, so that each one is given once."""

    def __init__(self) -> None:
        self._clashes: Mapping[str, str] = {}  # the reported clashes of names, by name
        # Name, signature, and docstring of tools with reported advice.
        self._advised: set[tuple[str, ...]] = set()

    def list_new(self, read_config: Callable[[], AppConfig]) -> list[str]:
        """Return the notices that are new since the last call.

        `read_config` returns the effective configuration. It is not called before the registry of
        tools is loaded.
        """
        if not is_registry_loaded():
            return []
        from jp_nb.toolkit.builtin import BUILTINS
        from jp_nb.toolkit.function_tools.python_functions import PythonFunctions
        from jp_nb.toolkit.function_tools.tool_advice import suggest_improvements
        from jp_nb.toolkit.function_tools.tool_registry import REGISTRY

        try:
            tools = read_config().conversation.tools
            clashes = PythonFunctions(REGISTRY, BUILTINS).clashes(tools)
        except ConfigError:  # reported when a command needs the configuration
            clashes = self._clashes

        notices: list[str] = []
        for name, text in clashes.items():
            if self._clashes.get(name) != text:
                notices.append(f"two tools have the same name: {text}. Rename one of them")
        self._clashes = clashes

        for tool in REGISTRY.all().values():
            if tool.definition not in self._advised:
                self._advised.add(tool.definition)
                advice = suggest_improvements(tool)
                notices += [f"tool {tool.name}: {sentence}" for sentence in advice]
        return notices
