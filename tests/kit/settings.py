"""Settings as plain data: layers, their merged and their whole form, and changes of them.

A layer is the JSON object of one source, in which lists, texts, and maps may have a merge strategy.
A change is a pair: the settings that it sets, and the paths that it unsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jp_nb as jp
from jp_nb.config import layers, partial, proposal, validation
from jp_nb.config.access_rules import Grants
from jp_nb.config.argument_rules import JudgedCall, check_conditions, matches_conditions
from jp_nb.config.assignments import parse_assignment
from jp_nb.config.schema import ROOT, SchemaNode, format_path
from jp_nb.config.tool_toggles import require_tools, toggle_tools

Settings = dict[str, Any]
Change = tuple[Settings, tuple[str, ...]]


def list_field_paths() -> list[str]:
    """Return the paths of all settings. `*` is a key of a map; lists have no items here."""
    return list(_field_paths(ROOT, (), ()))


def _field_paths(node: SchemaNode, keys: tuple[str, ...], above: tuple[Any, ...]) -> list[str]:
    paths: list[str] = []
    if node.table in above:
        return paths  # a table that contains itself
    below = dict(node.fields)
    if node.kind == "map":
        below["*"] = node.item
    for key, child in below.items():
        path = (*keys, key)
        inner = _field_paths(child, path, (*above, node.table) if node.table else above)
        paths += inner if inner and child.kind != "json" else []
        if not inner or child.kind != "table" or child.takes_any_text:
            paths.append(format_path(path))
    return paths


# --- layers ------------------------------------------------------------------------------------


def setting(path: str, value: Any) -> Settings:
    """Return the layer that only has `value` at `path`."""
    return partial.build_partial(path, value)


def value_at(settings: Mapping[str, Any], path: str) -> Any:
    """Return the value at `path` without its merge strategy; None if it is not set."""
    return partial.get_path(settings, path)


def read_settings(
    source: str | Mapping[str, Any], layer: str = "workspace file", file: str = "f.toml"
) -> Settings:
    """Return the layer of a source, as it is stored. An invalid one is a `ConfigError`.

    The source is the text of the `file`, its content, or the variables of the environment.
    """
    if isinstance(source, str):
        return layers.parse_layer(source, layer, file).partial
    if layer == "environment":
        return layers.read_environment(source).partial
    return validation.validate_layer(validation.remove_ignored(source), layer=layer, file=file)


def merge_settings(*merged: Mapping[str, Any], plain: bool = True) -> Settings:
    """Return the merged layers, the lowest first: without merge strategies if `plain`."""
    result: Settings = {}
    for each in merged:
        result = partial.merge_partials(result, each)
    return partial.strip_strategies(result) if plain else result


def whole_settings(*merged: Mapping[str, Any]) -> Settings:
    """Return the effective configuration of the layers, with the defaults, as a JSON object.

    An invalid one is a `ConfigError`.
    """
    config = validation.validate_config(merge_settings(*merged, plain=False))
    return config.model_dump(mode="json", exclude_none=True)


def read_known_settings(source: Mapping[str, Any]) -> tuple[Settings, list[str]]:
    """Return the valid settings of `source`, as of a record, and the paths of the others."""
    known, problems = validation.split_unknown(source)
    return known, [problem.path for problem in problems]


# --- changes -----------------------------------------------------------------------------------


def change_settings(
    settings: Settings,
    *changes: Change,
    defaults: Settings | None = None,
    plain: bool = True,
) -> Settings:
    """Return `settings` after `changes`. `defaults` are restored where something is unset."""
    for delta, unsets in changes:
        settings = partial.apply_change(settings, partial.Change(delta, tuple(unsets)), defaults)
    return partial.strip_strategies(settings) if plain else settings


def assign(text: str, current: Settings | None = None) -> Change:
    """Return the change of an assignment, such as `user.name=Ada`."""
    return _as_pair(parse_assignment(text, current or {}))


def find_difference(before: Settings, after: Settings) -> Change:
    """Return the change that leads from `before` to `after`, both without merge strategies."""
    return _as_pair(partial.diff_partials(before, after))


def squash(changes: Sequence[Change], before: Settings, defaults: Settings) -> Change:
    """Return one change in place of `changes` of the settings `before`."""
    given = [partial.Change(delta, tuple(unsets)) for delta, unsets in changes]
    return _as_pair(proposal.squash_changes(given, before, defaults))


def list_changed(delta: Settings) -> list[str]:
    """Return the paths of all settings that the object of a change may change."""
    return [format_path(keys) for keys, _ in partial.iter_changed_leaves(delta)]


def _as_pair(change: partial.Change) -> Change:
    return change.delta, change.unsets


def switch_tools(settings: Settings, *switches: tuple[str, bool]) -> tuple[Change, dict[str, bool]]:
    """Return the change of the last of `switches`, and the states of all tools afterwards.

    A switch is the name of a tool or a toolset, or "" for all tools, and its new state.
    """
    config = validation.validate_config(settings)
    require_tools(config, [name for name, _ in switches if name])
    change: Change = ({}, ())

    for name, on in switches:
        change = _as_pair(toggle_tools(config, name, on=on))
        written = partial.make_replacement(config.model_dump(mode="json", exclude_none=True))
        config = validation.validate_config(change_settings(written, change))

    names = [name for name in config.conversation.tools if name != "*"]
    return change, {name: config.conversation.get_tool_state(name)[0] for name in names}


# --- tools -------------------------------------------------------------------------------------


def propose(
    config: Any,
    unset: Sequence[str] = (),
    *,
    rules: Iterable[jp.ConfigRule],
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Return the review of a change that a tool proposes; {} if it changes nothing.

    It has `paths`, and `delta`, `unsets`, `needs_approval`, `after`; or the `reason`, `detail`,
    `summary`, and `lines` of a refusal. `rules` are those of the tool, `settings` are plain.
    """
    now = settings or {}
    basis = proposal.ConfigSnapshot(now, {}, validation.validate_config(now))
    found = proposal.review_proposal(config, unset, Grants([*rules]), basis)
    if found is None:
        return {}
    if isinstance(found, proposal.Refusal):
        return {name: getattr(found, name) for name in proposal.Refusal.__slots__}

    return {
        "paths": found.paths,
        "delta": found.change.delta,
        "unsets": found.change.unsets,
        "needs_approval": found.needs_approval,
        "after": found.after,
    }


def select_visible(rules: Iterable[jp.ConfigRule], *merged: Mapping[str, Any]) -> Settings:
    """Return the effective settings that a tool with these `rules` may read."""
    whole = validation.validate_config(merge_settings(*merged, plain=False))
    snapshot = proposal.ConfigSnapshot(config=whole)
    return Grants([*rules]).select_readable(snapshot.values)


def meets_conditions(
    when: Mapping[str, Any],
    arguments: Mapping[str, Any],
    *folders: Path,
    hints: Mapping[str, bool] | None = None,
    only_these: bool = False,
) -> bool:
    """Return True if the arguments of a call meet the conditions `when` of a rule of its tool.

    The first of `folders` is the workspace. Conditions that are not valid are a `ValueError`.
    """
    workspace, *others = folders or (Path("/ws"),)
    call = JudgedCall(arguments, workspace, tuple(others), hints=hints or {})
    return matches_conditions(check_conditions(dict(when)), call, only_these=only_these)
