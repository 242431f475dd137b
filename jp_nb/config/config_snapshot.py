"""`ConfigSnapshot`: the configuration at the start of a cycle, which the calls of a batch share.

A *cycle* is one request to the model, and the calls of tools that it answers with. Each of them
sees the same configuration, also if one of them changes it.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from pydantic import JsonValue

from jp_nb.config.aliases import resolve_references
from jp_nb.config.partials.partial import Partial
from jp_nb.config.partials.partial_models import map_models
from jp_nb.config.schema import ROOT
from jp_nb.config.setting_paths import PathKeys, look_up
from jp_nb.config.tool_authority import IsInWorkspace
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.attachment_urls import is_path_in_workspace


@dataclass(frozen=True)
class ConfigSnapshot:
    """The configuration at the start of a cycle: the merged layers, and the validated `config`."""

    partial: Partial = field(default_factory=dict)
    """The merged layers: only settings that are set, in the form in which they are written."""
    defaults: Partial = field(default_factory=dict)
    """Values that are restored where something is unset."""
    config: AppConfig = field(default_factory=AppConfig)
    is_in_workspace: IsInWorkspace = is_path_in_workspace
    """Returns True if the URL of an attachment is in the workspace.

    A tool may propose a change of the configuration, such as another attachment. A file outside of
    the workspace then needs the user (`proposal.py`). The default compares paths without following
    links; a session passes a function that follows them.
    """

    @cached_property
    def values(self) -> Partial:
        """The effective configuration with defaults, and with models in place of aliases."""
        dumped = self.config.model_dump(mode="json", exclude_none=True)
        resolved, _unknown_names = resolve_references(dumped, self.config.providers.llm.aliases)
        return resolved

    def complete_model_ids(self, delta: Partial) -> Partial:
        """Return `delta`, settings to merge into this configuration, with complete model ids.

        For example, `{name = "claude-opus"}` gets the provider of the current model. If the current
        id is written as a table, the merge adds its keys. If it is an alias or a text, or is only
        the default, the merge would replace it, so the keys are added here.
        """

        def complete(keys: PathKeys, value: JsonValue) -> JsonValue:
            written = look_up(self.partial, keys)
            current = look_up(self.values, keys)
            is_merged_later = isinstance(written, dict)
            if isinstance(value, dict) and not is_merged_later and isinstance(current, dict):
                return {**current, **value}
            return value

        # Calls `complete` with the keys and the id of each model in `delta`.
        return map_models(ROOT, delta, complete)  # type: ignore[no-any-return]
