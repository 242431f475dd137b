"""The settings of the Python tools that the user's code has registered in this kernel.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jp_nb.config.partials.partial import Partial

_REGISTRY_MODULE = "jp_nb.toolkit.function_tools.tool_registry"


def is_registry_loaded() -> bool:
    """Return True if the registry of tools was loaded.

    `%load_ext` does not load it, and without it no tools are registered.
    """
    return _REGISTRY_MODULE in sys.modules


def make_registered_settings() -> Partial:
    """Return the default settings (`conversation.tools.NAME`) of the registered tools, by name.

    The registry is not loaded for it: as long as it is not loaded, there are no tools.
    """
    if not is_registry_loaded():
        return {}
    from jp_nb.toolkit.function_tools.tool_registry import REGISTRY

    return {name: dict(tool.registration) for name, tool in REGISTRY.all().items()}


def get_registry_version() -> int:
    """Return a number that changes with the registered tools; 0 if the registry is not loaded."""
    if not is_registry_loaded():
        return 0
    from jp_nb.toolkit.function_tools.tool_registry import REGISTRY

    return REGISTRY.version
