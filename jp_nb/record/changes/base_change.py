"""The configuration change of a stored base configuration: the settings a conversation began with.

It is a table of settings, or has a base with changes, as JP's own file may have (`jp_nb/interop`):

    {"base": {…}, "init": [{"delta": {…}, "unsets": ["style.theme"]}, {"op": "reset"}, …]}

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.config.partials.partial import Partial
from jp_nb.config.partials.partial_change import Change, unset_path
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.errors import ConfigError, ConfigProblem
from jp_nb.record.changes.change_budget import MAX_UNTRUSTED_WORK, TOO_MANY_CHANGES, Budget


def read_base_change(
    base_config: Mapping[str, JsonValue], problems: dict[str, ConfigProblem]
) -> Change:
    """Return the change of a stored base configuration in either form.

    The deltas in `init` are merged. Their work is limited as for an untrusted record, even in a
    trusted one. A delta that cannot be applied is added to `problems`, by path.
    """
    base = base_config.get("base")
    if not isinstance(base, dict):  # the first form: a table of settings
        return Change(dict(base_config))

    partial: Partial = dict(base)
    unsets: dict[str, None] = {}
    budget = Budget(MAX_UNTRUSTED_WORK)

    for number, delta in enumerate(_as_list(base_config.get("init"))):
        if not isinstance(delta, dict):
            continue
        if delta.get("op") == "reset":
            partial = {}
            unsets = {}
            continue

        paths = _as_list(delta.get("unsets"))
        values = delta.get("delta")
        if not budget.allows(partial, values, paths):
            place = f"base_config.init[{number}]"
            problems[place] = ConfigProblem(place, "value", TOO_MANY_CHANGES.format(place=place))
            break

        for path in map(str, paths):
            try:
                partial = unset_path(partial, path)
                unsets[path] = None
            except ConfigError as exc:
                problems[path] = ConfigProblem(path, "malformed", str(exc))
        if isinstance(values, dict):
            partial = merge_partials(partial, values)

    return Change(partial, tuple(unsets))


def _as_list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
