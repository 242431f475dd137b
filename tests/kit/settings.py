"""Settings as plain data: layers, their merged and their whole form, and changes of them.

A layer is the JSON object of one source, in which lists, texts, and maps may have a merge strategy.
A change is a pair: the settings that it sets, and the paths that it unsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import jp_nb as jp
from jp_nb.config import (
    config_snapshot,
    environment_layer,
    known_settings,
    layers,
    proposal,
    refusal,
    validation,
)
from jp_nb.config.access_rules import Grants
from jp_nb.config.assignments import parse_assignment
from jp_nb.config.partials import (
    change_squash,
    partial,
    partial_change,
    partial_diff,
    partial_merge,
    partial_strategies,
    setting_leaves,
)
from jp_nb.config.schema import ROOT, SchemaNode
from jp_nb.config.setting_paths import format_path
from jp_nb.config.tool_toggles import require_tools, toggle_tools

Layer = dict[str, Any]
Change = tuple[Layer, tuple[str, ...]]


def setting(path: str, value: Any) -> Layer:
    """Return the layer that only has `value` at `path`."""
    return partial.build_partial(path, value)


def value_at(settings: Mapping[str, Any], path: str) -> Any:
    """Return the value at `path` without its merge strategy; None if it is not set."""
    return partial.get_path(settings, path)


class Settings:
    """The settings of some `layers`, the lowest first: `Settings(file, {"user": {"name": "Ada"}})`.

    The functions of the class read a layer or a change from its text.
    """

    def __init__(self, *layers: Mapping[str, Any]) -> None:
        self._layers = layers

    @classmethod
    def from_files(cls, files: Any, *names: str, load_paths: tuple[str, ...] = ()) -> Self:
        """Return the settings of the `config_files`, or of those with `names` in `load_paths`."""
        found = list(files.load_layers())
        if names:
            found = [layer for name in names for layer in files.load_named(name, list(load_paths))]
        return cls(*(layer.partial for layer in found))

    # --- from a text to a layer or a change ------------------------------------------------------

    @staticmethod
    def read(
        source: str | Mapping[str, Any], layer: str = "workspace file", file: str = "f.toml"
    ) -> Layer:
        """Return the layer of a source, as it is stored. An invalid one is a `ConfigError`.

        The source is the text of the `file`, its content, or the variables of the environment.
        """
        if isinstance(source, str):
            return layers.parse_layer(source, layer, file).partial
        if layer == "environment":
            return environment_layer.read_environment(source).partial
        return validation.validate_layer(
            known_settings.remove_ignored(source), layer=layer, file=file
        )

    @staticmethod
    def read_known(source: Mapping[str, Any]) -> tuple[Layer, list[str]]:
        """Return the valid settings of `source`, as of a record, and the paths of the others."""
        known, problems = known_settings.split_unknown(source)
        return known, [problem.path for problem in problems]

    @staticmethod
    def assign(text: str, current: Layer | None = None) -> Change:
        """Return the change of an assignment, such as `user.name=Ada`."""
        return _as_pair(parse_assignment(text, current or {}))

    # --- paths -----------------------------------------------------------------------------------

    @staticmethod
    def list_paths() -> list[str]:
        """Return the paths of all settings. `*` is a key of a map; lists have no items here."""
        return list(_list_paths(ROOT, (), ()))

    @staticmethod
    def list_changed(delta: Layer) -> list[str]:
        """Return the paths of all settings that the object of a change may change."""
        return [format_path(keys) for keys, _ in setting_leaves.iter_changed_leaves(delta)]

    # --- forms -----------------------------------------------------------------------------------

    def merged(self, *, plain: bool = True) -> Layer:
        """Return the merged layers: without merge strategies if `plain`."""
        result: Layer = {}
        for layer in self._layers:
            result = partial_merge.merge_partials(result, layer)
        return partial_strategies.strip_strategies(result) if plain else result

    def whole(self) -> Layer:
        """Return the effective configuration, with the defaults, as a JSON object.

        An invalid one is a `ConfigError`.
        """
        found: Layer = self._config().model_dump(mode="json", exclude_none=True)
        return found

    def visible(self, rules: Iterable[jp.ConfigRule]) -> Layer:
        """Return the effective settings that a tool with these `rules` may read."""
        snapshot = config_snapshot.ConfigSnapshot(config=self._config())
        return Grants([*rules]).select_readable(snapshot.values)

    # --- changes of one layer --------------------------------------------------------------------

    def change(self, *changes: Change, defaults: Layer | None = None, plain: bool = True) -> Layer:
        """Return the layer after `changes`. `defaults` are restored where something is unset."""
        after = self._layer
        for delta, unsets in changes:
            after = partial_change.apply_change(
                after, partial_change.Change(delta, tuple(unsets)), defaults
            )
        return partial_strategies.strip_strategies(after) if plain else after

    def difference(self, after: Layer) -> Change:
        """Return the change that leads to `after`. Both layers have no merge strategies."""
        return _as_pair(partial_diff.diff_partials(self._layer, after))

    def squash(self, changes: Sequence[Change], defaults: Layer) -> Change:
        """Return one change in place of `changes`."""
        given = [partial_change.Change(delta, tuple(unsets)) for delta, unsets in changes]
        return _as_pair(change_squash.squash_changes(given, self._layer, defaults))

    def switch_tools(self, *switches: tuple[str, bool]) -> tuple[Change, dict[str, bool]]:
        """Return the change of the last of `switches`, and the states of all tools afterwards.

        A switch is the name of a tool or a toolset, or "" for all tools, and its new state.
        """
        config = validation.validate_config(self._layer)
        require_tools(config, [name for name, _ in switches if name])
        change: Change = ({}, ())

        for name, on in switches:
            change = _as_pair(toggle_tools(config, name, on=on))
            written = partial_strategies.make_replacement(
                config.model_dump(mode="json", exclude_none=True)
            )
            config = validation.validate_config(Settings(written).change(change))

        names = [name for name in config.conversation.tools if name != "*"]
        return change, {name: config.conversation.get_tool_state(name)[0] for name in names}

    def propose(
        self, config: Any, unset: Sequence[str] = (), *, rules: Iterable[jp.ConfigRule]
    ) -> dict[str, Any]:
        """Return the review of a change that a tool with these `rules` proposes.

        It has `paths`, and `delta`, `unsets`, `needs_approval`, `after`; or the `reason`, `detail`,
        `summary`, and `lines` of a refusal. It is {} if the change changes nothing.
        """
        basis = config_snapshot.ConfigSnapshot(
            self._layer, {}, validation.validate_config(self._layer)
        )
        found = proposal.review_proposal(config, unset, Grants([*rules]), basis)
        if found is None:
            return {}
        if isinstance(found, refusal.Refusal):
            return {name: getattr(found, name) for name in refusal.Refusal.__slots__}

        return {
            "paths": found.paths,
            "delta": found.change.delta,
            "unsets": found.change.unsets,
            "needs_approval": found.needs_approval,
            "after": found.after,
        }

    @property
    def _layer(self) -> Any:
        """The only layer, as it was given; {} without any."""
        if not self._layers:
            return {}
        [layer] = self._layers
        return layer

    def _config(self) -> Any:
        return validation.validate_config(self.merged(plain=False))


def _as_pair(change: partial_change.Change) -> Change:
    return change.delta, change.unsets


def _list_paths(node: SchemaNode, keys: tuple[str, ...], above: tuple[Any, ...]) -> list[str]:
    paths: list[str] = []
    if node.table in above:
        return paths  # a table that contains itself

    below = dict(node.fields)
    if node.kind == "map":
        below["*"] = node.item

    for key, child in below.items():
        path = (*keys, key)
        inner = _list_paths(child, path, (*above, node.table) if node.table else above)
        paths += inner if inner and child.kind != "json" else []
        if not inner or child.kind != "table" or child.takes_any_text:
            paths.append(format_path(path))
    return paths
