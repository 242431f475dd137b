"""Remove settings that a notebook cannot store: infinite numbers, NaN, and deeply nested values.

The record of a conversation has its configuration as JSON in the notebook's metadata.

Source: `docs/configuration.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from pydantic import JsonValue

from jp_nb.config.partials.partial import Partial
from jp_nb.config.setting_paths import PathKeys, format_path
from jp_nb.errors import ConfigProblem
from jp_nb.json_limits import MAX_CONFIG_LEVELS


def remove_unstorable(partial: Mapping[str, JsonValue]) -> tuple[Partial, list[ConfigProblem]]:
    """Return `partial` without the values that a notebook cannot store, and a problem for each.

    These are infinite numbers, NaN, and values that are nested too deeply.
    """
    problems: list[ConfigProblem] = []
    return _select_storable(dict(partial), (), problems), problems


def _select_storable(value: JsonValue, above: PathKeys, problems: list[ConfigProblem]) -> Any:
    """Return `value`, which is at the keys `above`, without unstorable parts; add `problems`."""
    if not isinstance(value, (dict, list)):
        return value

    kept: dict[str, JsonValue] = {}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for name, item in items:
        keys = (*above, str(name))
        problem = _find_storage_problem(item, len(keys))
        if problem is None:
            kept[str(name)] = _select_storable(item, keys, problems)
        else:
            problems.append(ConfigProblem(format_path(keys), "value", problem))

    return kept if isinstance(value, dict) else list(kept.values())


def _find_storage_problem(value: JsonValue, level: int) -> str | None:
    """Return the reason why a notebook cannot store `value` at this level, or None."""
    if isinstance(value, float) and not isfinite(value):
        return f"expected a finite number, found {value}"
    if isinstance(value, (dict, list)) and level >= MAX_CONFIG_LEVELS:
        return f"more than {MAX_CONFIG_LEVELS} tables and lists are nested here"
    return None
