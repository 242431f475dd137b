"""`ConfigSnapshot`: the configuration at the start of a cycle, which the calls of a batch share.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from pydantic import JsonValue

from jp_nb.config.aliases import map_models, resolve_references
from jp_nb.config.authority import IsInWorkspace, is_path_in_workspace
from jp_nb.config.partials.partial import Partial
from jp_nb.config.schema import ROOT
from jp_nb.config.setting_paths import PathKeys, look_up
from jp_nb.config.tree.app import AppConfig


@dataclass(frozen=True)
class ConfigSnapshot:
    """The configuration at the start of a cycle: the merged layers, and the validated `config`."""

    partial: Partial = field(default_factory=dict)
    defaults: Partial = field(default_factory=dict)
    """Values that are restored where something is unset."""
    config: AppConfig = field(default_factory=AppConfig)
    is_in_workspace: IsInWorkspace = is_path_in_workspace
    """Returns True if the URL of an attachment is in the workspace. The default follows no links.
    """

    @cached_property
    def values(self) -> Partial:
        """The effective configuration with defaults, and with models in place of aliases."""
        dumped = self.config.model_dump(mode="json", exclude_none=True)
        return resolve_references(dumped, self.config.providers.llm.aliases)[0]


def complete_model_ids(delta: Partial, basis: ConfigSnapshot) -> Partial:
    """Return `delta` with complete model ids; missing parts come from the current model."""

    def complete(keys: PathKeys, value: JsonValue) -> JsonValue:
        was = look_up(basis.partial, keys)
        now = look_up(basis.values, keys)
        if isinstance(value, dict) and not isinstance(was, dict) and isinstance(now, dict):
            return {**now, **value}
        return value

    return map_models(ROOT, delta, complete)  # type: ignore[no-any-return]
