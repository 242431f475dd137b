"""Warnings about access rules of tools that have no effect.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from jp_nb.config.access_rule_checks import find_rule_warnings, iter_rules
from jp_nb.config.layers import merge_layers
from jp_nb.config.partials.partial import Partial
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.partials.partial_strategies import strip_strategies
from jp_nb.session.configuration.registered_tools import make_registered_settings
from jp_nb.storage.configuration.config_files import ConfigFiles


def list_rule_warnings_of_base(files: ConfigFiles, base: Partial) -> list[str]:
    """Return warnings about access rules of a new conversation with the configuration `base`.

    The rules are those of `base`, on top of registered tools and valid files. The effective
    configuration (`Settings`) has the same ones, but loads more slowly.
    """
    registered: Partial = {"conversation": {"tools": make_registered_settings()}}
    layers, _ = files.load_valid_layers()
    below = merge_partials(registered, merge_layers(layers))
    return list_rule_warnings(merge_partials(below, base))


def list_rule_warnings(partial: Partial) -> list[str]:
    """Return warnings about access rules in `partial`."""
    warnings: list[str] = []
    for tool, rules in iter_rules(strip_strategies(partial)):
        warnings += find_rule_warnings(tool, rules)
    return warnings
