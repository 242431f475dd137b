"""Warnings about access rules that have no effect, and the settings that Python tools register.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import sys

from jp_nb.config.access_rule_checks import find_rule_warnings, iter_rules
from jp_nb.config.layers import merge_layers
from jp_nb.config.partials.partial import Partial
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.partials.partial_strategies import strip_strategies
from jp_nb.storage.configuration.config_files import ConfigFiles


def list_registered_functions() -> Partial:
    """Return the default settings of the Python tools of this kernel, by name."""
    if "jp_nb.toolkit.function_tools.tool_registry" not in sys.modules:  # there are no tools
        return {}
    from jp_nb.toolkit.function_tools.tool_registry import REGISTRY

    return {name: dict(tool.registration) for name, tool in REGISTRY.all().items()}


def find_odd_rules(files: ConfigFiles, base: Partial) -> list[str]:
    """Return warnings about access rules in `base` on top of `files`, without invalid files."""
    functions: Partial = {"conversation": {"tools": list_registered_functions()}}
    below = merge_partials(functions, merge_layers(files.load_valid_layers()[0]))
    return find_odd_rules_in(merge_partials(below, base))


def find_odd_rules_in(partial: Partial) -> list[str]:
    """Return warnings about access rules in `partial`."""
    warnings: list[str] = []
    for tool, rules in iter_rules(strip_strategies(partial)):
        warnings += find_rule_warnings(tool, rules)
    return warnings
