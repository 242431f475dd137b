"""The layers of a configuration with tools, without a session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jp_nb.config.layers import Layer
from jp_nb.toolkit.builtin import tools_config
from jp_nb.toolkit.function_tools.python_tool import PythonTool


def list_layers(partial: dict[str, Any], tools: Iterable[PythonTool] = ()) -> list[Layer]:
    """Return the registrations of builtins and `tools`, and `partial` as a file over them."""
    functions = {tool.name: dict(tool.registration) for tool in tools}
    registrations = Layer("registrations", tools_config(functions))
    return [registrations, Layer("workspace file", partial)]
