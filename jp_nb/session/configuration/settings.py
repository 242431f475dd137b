"""The settings of a conversation: the effective configuration, and recorded changes of it.

The effective configuration has layers: defaults and registered tools, files, environment variables,
and the changes in the record of the conversation, from the lowest to the highest priority. A
`Projection` (`record/changes/config_history.py`) merges them. It keeps the layers below the
conversation until `reload_layers`, so each method that needs current files begins with that.

A change is drafted first (`Draft`, `config_draft.py`): if it is not valid, a `ConfigError` is
raised before anything is recorded. The user's changes are *directives*, such as `-c style.tone=dry`
or `-t NAME`. A `DirectiveDraft` applies them one by one.

Source: `docs/guide.md`, `docs/configuration.md`, `docs/record.md`, `docs/decisions.md` D8, D13,
D20, D34.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

from pydantic import JsonValue

from jp_nb.config.aliases import MODEL_PATH, parse_model_reference, resolve_model
from jp_nb.config.config_snapshot import ConfigSnapshot
from jp_nb.config.directives import Directive
from jp_nb.config.early_constants import DEFAULT_MODEL
from jp_nb.config.layers import REGISTRATIONS_LAYER, Layer
from jp_nb.config.partials.partial import Partial, get_path
from jp_nb.config.partials.partial_change import Change
from jp_nb.config.partials.setting_leaves import list_leaf_paths
from jp_nb.config.schema import require_node
from jp_nb.config.tool_toggles import require_tools
from jp_nb.config.tree.app import AppConfig
from jp_nb.errors import ConfigError, UsageError
from jp_nb.record.changes.changed_paths import ChangedPaths
from jp_nb.record.changes.config_draft import Draft
from jp_nb.record.changes.config_history import Projection
from jp_nb.record.changes.inherited_changes import (
    make_own_result,
    make_user_settings,
    select_changes,
)
from jp_nb.record.changes.provenance import Provenance
from jp_nb.record.changes.untrusted_changes import find_changes_if_trusted, find_untrusted_changes
from jp_nb.record.documents.record_trust import MOVED
from jp_nb.record.stream import ConversationStream
from jp_nb.session.configuration.directive_draft import DirectiveDraft
from jp_nb.session.configuration.discovered_tools import DiscoveredState, DiscoveredTools
from jp_nb.session.configuration.registered_tools import (
    get_registry_version,
    make_registered_settings,
)
from jp_nb.session.configuration.requested_changes import make_model_partial
from jp_nb.session.configuration.rule_warnings import list_rule_warnings
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.storage.configuration.consent_texts import format_paths
from jp_nb.toolkit.builtin import tools_config


class Settings:
    """The settings of one conversation of a notebook.

    Args:
        stream: The conversation, whose changes of settings are the highest layer.
        files: The configuration files of the notebook.
        discovered: The tools that sources have found in this kernel.
        trusted: False to ignore the settings of the record that only the user may set.
        is_local: True if this process made every entry of the conversation.
        untrusted_count: Number of the first changes that are untrusted if the record is; None for
            all. A branch of an untrusted conversation begins with the changes of that one.

    Attributes:
        projection: The merged layers, before and after each change in the record.
    """

    def __init__(
        self,
        stream: ConversationStream,
        files: ConfigFiles,
        discovered: DiscoveredTools | None = None,
        *,
        trusted: bool,
        is_local: bool = False,
        untrusted_count: int | None = None,
    ) -> None:
        self._files = files
        self._discovered = DiscoveredTools() if discovered is None else discovered
        self._skips_invalid_files = False
        self.projection = Projection(
            stream,
            self._load_layers_below,
            trusted=trusted,
            is_local=is_local,
            untrusted_count=untrusted_count,
        )

    def _load_layers_below(self) -> list[Layer]:
        """Return the layers below the conversation, by increasing priority."""
        if self._skips_invalid_files:
            layers, _errors = self._files.load_valid_layers()
        else:
            layers = self._files.load_layers()
        return [self._make_lowest_layer(), *layers]

    def _make_lowest_layer(self) -> Layer:
        """Return the layer with the defaults of tools, which is below all others."""
        return _make_registrations_layer(get_registry_version(), self._discovered.state)

    def renew_tools(self) -> None:
        """Use the tools that sources have found in the running turn. No file is read again."""
        self.projection.replace_lowest(self._make_lowest_layer())

    @contextmanager
    def skip_invalid_files(self) -> Iterator[None]:
        """Ignore configuration files that are not valid in this block."""
        previous = self._skips_invalid_files
        self._skips_invalid_files = True
        try:
            yield
        finally:
            self._skips_invalid_files = previous

    @property
    def config(self) -> AppConfig:
        """The effective configuration, with the current files, environment, and tools."""
        self.projection.reload_layers()
        return self.projection.config()

    def read_valid_partial(self) -> Partial:
        """Return the settings of all valid layers."""
        self._reload_valid_layers()
        return self.projection.partial()

    def _reload_valid_layers(self) -> None:
        """Read the files and variables again, without files that are not valid."""
        with self.skip_invalid_files():
            self.projection.reload_layers()

    @property
    def model(self) -> str:
        """The current model, as `provider/name` or an alias."""
        model = get_path(self.projection.partial(), MODEL_PATH)
        if isinstance(model, dict):
            return f"{model.get('provider')}/{model.get('name')}"
        return str(model or DEFAULT_MODEL)

    def list_warnings(self, distrust: str | None = None) -> list[str]:
        """Return warnings about settings of the record, and about access rules.

        `distrust` is the reason in words why the record is not trusted (`Trust.why_not`).
        """
        self.projection.reload_layers()
        warnings = []

        ignored = find_untrusted_changes(self.projection)
        if ignored:
            warning = (
                "this notebook's record also has settings that only you can decide; "
                f"they are ignored until `%jp trust`: {format_paths(ignored)}"
            )
            if distrust:
                warning += f" ({distrust})"
            if distrust == MOVED:  # signed by the user in another folder
                warning += ". If you moved the whole project: `%jp trust --workspace`"
            warnings.append(warning)

        problems = self.projection.problems
        if problems:
            warnings.append(
                "this notebook's record has settings that this version of jp_nb does not "
                f"know: {format_paths(problems)}"
            )

        return warnings + list_rule_warnings(self.projection.partial())

    def list_changes_if_trusted(self) -> dict[str, JsonValue]:
        """Return the values that differ if the record is trusted, by path."""
        return find_changes_if_trusted(self.projection)

    def explain(self, paths: Iterable[str]) -> dict[str, list[Provenance]]:
        """Return the sources of values at `paths`, by increasing priority."""
        all_paths = list(paths)
        for path in all_paths:
            require_node(path)
        self._reload_valid_layers()
        return self.projection.explain(all_paths)

    def list_set_paths(self) -> list[str]:
        """Return every path that a file, the environment, or the conversation sets."""
        self._reload_valid_layers()
        layers = self.projection.layers()
        partials = [layer.partial for layer in layers if layer.name != REGISTRATIONS_LAYER]
        partials += [step.change.delta for step in self.projection.steps()]
        return sorted(set(list_leaf_paths(partials)))

    def change(self, *directives: Directive, model: str | None = None) -> list[str]:
        """Record all changes, left to right and the model last, or none. Return notices."""
        draft = self.draft(directives, model=model)
        draft.record()
        return draft.notices

    def snapshot(self, draft: Draft | Projection | None = None) -> ConfigSnapshot:
        """Return the effective configuration, or the one after `draft`, for a request of a turn.

        Later changes do not affect it. `draft` can also be an earlier state of the conversation
        (`Projection.until`).
        """
        source = self.projection if draft is None else draft
        config = source.config()
        now = source.now()  # the state after the last change
        return ConfigSnapshot(
            now.after, now.defaults, config, self._files.workspace.contains_attachment
        )

    def find_carried_over(self, other: Projection) -> Change:
        """Return the change that copies settings of another conversation that are not set here.

        It has all of them, for `%jp new --keep-config`. `inherit` copies only those at some paths,
        which every new conversation gets.
        """
        self.projection.reload_layers()
        other.reload_layers()
        change = make_own_result(other, self.projection.partial())
        if not change:
            return change

        own_paths = ChangedPaths(self.projection.steps())
        return select_changes(change, lambda path: path not in own_paths)

    def record_change(self, change: Change) -> None:
        """Record a `change` that comes from neither a file nor an assignment of the user.

        Raises:
            ConfigError: The configuration is not valid with it. Nothing is recorded.
        """
        draft = Draft(self.projection)
        draft.add_from(None, change)
        draft.config()  # validates it
        draft.record()

    def inherit(self, other: Settings, paths: Collection[str]) -> Change:
        """Record and return the settings at `paths` as the user set them for `other`.

        Invalid configuration files are ignored, and the result is not validated: otherwise, these
        settings would be lost while the user repairs a file.
        """
        with self.skip_invalid_files(), other.skip_invalid_files():
            self.projection.reload_layers()
            other.projection.reload_layers()
            change = make_user_settings(other.projection, self.projection, paths)
            if change:
                draft = Draft(self.projection)
                draft.add_from(None, change)
                draft.record()
        return change

    def draft(self, directives: Sequence[Directive], *, model: str | None = None) -> Draft:
        """Return the changes that `change` records, without recording them.

        A user who repairs a configuration that is not valid unsets values. So with directives that
        only unset, files that are not valid are ignored, and the model may stay invalid.

        Raises:
            ConfigError: A change, or the configuration with the changes, is not valid.
            UsageError: A directive cannot be applied.
        """
        only_unsets = model is None and all(directive.kind == "unset" for directive in directives)
        if only_unsets:
            self._reload_valid_layers()
        else:
            self.projection.reload_layers()

        draft = DirectiveDraft(self.projection, self._files)
        _check_directives(directives, draft)

        for directive in directives:
            draft.apply(directive)
        if model is not None:
            reference = parse_model_reference(model)
            draft.assign(Change(make_model_partial(reference, draft.partial())))

        try:
            _check_model(draft.config())
        except ConfigError:
            # An unset may repair only a part. But it must not make a valid configuration invalid.
            was_valid = self._has_valid_model()
            if was_valid or not only_unsets:
                raise
        return draft

    def _has_valid_model(self) -> bool:
        try:
            _check_model(self.projection.config())
        except ConfigError:
            return False
        return True


@lru_cache(maxsize=4)
def _make_registrations_layer(version: int, discovered: DiscoveredState) -> Layer:
    """Return the layer of all tools: registered ones, built-in ones, and the `discovered` ones.

    It is kept until the `version` of the registry, or the state of the discovered tools changes.
    """
    own_tools = tools_config(make_registered_settings())
    return Layer(REGISTRATIONS_LAYER, discovered.add_to(own_tools))


def _check_directives(directives: Sequence[Directive], draft: DirectiveDraft) -> None:
    """Raise an error if directives contradict each other, or name unknown tools."""
    config_texts = {directive.text for directive in directives if directive.kind == "cfg"}
    if config_texts >= {"NONE", "WORKSPACE"}:
        raise UsageError("`-c NONE` and `-c WORKSPACE` cannot be combined: use one of them")

    toggles = [directive for directive in directives if directive.kind in ("tool", "no_tool")]
    tool_names = [toggle.text for toggle in toggles if toggle.text]
    if tool_names:
        require_tools(draft.config(), tool_names)


def _check_model(config: AppConfig) -> None:
    """Raise `ConfigError` unless the model's provider, or its alias, is configured."""
    llm = config.providers.llm
    llm.require(resolve_model(config.assistant.model.id, llm.aliases).provider)
