"""Effective settings of the session, their drafts, and changes of them.

Invalid settings are a `ConfigError`, before anything is recorded.

Source: `docs/guide.md`, `docs/configuration.md`, `docs/record.md`, `docs/decisions.md` D8, D13,
D20, D34.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Literal

from pydantic import JsonValue

from jp_nb.config.aliases import MODEL_PATH, parse_model_reference, resolve_model
from jp_nb.config.assignments import is_assignment, parse_assignment
from jp_nb.config.directives import DEFAULT_MODEL, Directive
from jp_nb.config.layers import (
    ENVIRONMENT_LAYER,
    MCP_FILE_LAYER,
    REGISTRATIONS_LAYER,
    USER_FILE_LAYER,
    WORKSPACE_FILE_LAYER,
    Layer,
    merge_layers,
)
from jp_nb.config.partial import Partial, get_path, iter_leaf_paths
from jp_nb.config.partial_change import Change
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.schema import (
    Element,
    find_node,
    format_path,
    mask_secrets,
    parse_path,
    require_node,
)
from jp_nb.config.tool_toggles import require_tools, toggle_tools
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.attachment_urls import parse_attachment_argument
from jp_nb.config.validation import validate_config
from jp_nb.errors import ConfigError, UsageError
from jp_nb.record.claims import ChangeSource, revert_source, revert_value
from jp_nb.record.config_changes import (
    ChangedPaths,
    find_changes_if_trusted,
    find_untrusted_changes,
    make_inherited_changes,
    make_inherited_settings,
    select_changes,
)
from jp_nb.record.config_draft import Draft
from jp_nb.record.config_history import BASE, CONVERSATION, Projection, Provenance
from jp_nb.record.signing import MOVED
from jp_nb.record.stream import ConversationStream
from jp_nb.session.base_config import (
    LOAD_PATHS,
    find_odd_rules_in,
    model_partial,
    registered_functions,
    requested_changes,
    to_store,
    with_model,
)
from jp_nb.session.discovered_tools import DiscoveredState, DiscoveredTools
from jp_nb.session.notebook_values import is_value
from jp_nb.storage.attachments import AttachmentError, Attachments
from jp_nb.storage.config_files import ConfigFiles, format_paths
from jp_nb.storage.config_writer import ConfigFile
from jp_nb.toolkit.builtin import tools_config


@lru_cache(maxsize=4)
def _registrations(version: int, discovered: DiscoveredState) -> Layer:
    """Return the layer of all tools, for this `version` of the registry."""
    return Layer(REGISTRATIONS_LAYER, discovered.add_to(tools_config(registered_functions())))


def _list_paths(partials: Iterable[Partial]) -> list[str]:
    """Return the path of each value in `partials`."""
    paths: list[str] = []
    for partial in partials:
        paths += [path for path, _ in iter_leaf_paths(partial)]
    return paths


class DirectiveDraft(Draft):
    """Draft that directives change one by one, with notices about those without effect."""

    def __init__(self, projection: Projection, files: ConfigFiles) -> None:
        super().__init__(projection)
        self._files = files

    def apply(self, directive: Directive) -> None:
        """Add the changes of `directive`. One that cannot be applied is a `UsageError`."""
        match directive.kind:
            case "cfg":
                self._set(directive.text)
            case "no_cfg":
                self._revert(directive.text)
            case "tool" | "no_tool":
                on = directive.kind == "tool"
                self.assign(toggle_tools(self.config(), directive.text, on=on))
            case "attach":
                url = self._attachment_url(directive.text)
                self.assign(Change({"conversation": {"attachments": [url]}}))
            case "unset":
                self._unset(directive.text)

    def assign(self, change: Change) -> None:
        """Add `change` as an assignment of the user."""
        if change:
            self.add_from(ChangeSource.assignment(change), change)

    def _unset(self, path: str) -> None:
        require_node(path)
        if self.add_from(None, Change(unsets=(path,), uncovers=frozenset({path}))):
            return

        shown = format_path(parse_path(path))
        sources = [x for x in self._projection.explain([path])[path] if x.source != BASE]
        notice = f"{shown} is not set, so nothing changes"
        if sources and sources[-1].value is not None:
            notice = (
                f"this conversation does not set {shown}; its value is from {sources[-1].place}. "
                f"Unset it in this conversation: `%jp config {shlex.quote(f'{shown}:=null')}`"
            )
        self.notices.append(notice)

    def _attachment_url(self, text: str) -> str:
        """Return the URL of `-a TEXT`, after a test read."""
        root = self._files.root
        within = self._files.folder.relative_to(root).as_posix()

        try:
            url = parse_attachment_argument(text, within=within)
        except ValueError as exc:
            raise UsageError(f"-a: {exc}") from exc
        if is_value(url):
            return url  # read later, on the cell's thread

        try:
            Attachments().read([url], root)
        except AttachmentError as exc:
            raise UsageError(f"-a {text}: {exc}") from exc
        return url

    def _set(self, text: str) -> None:
        if text in ("NONE", "WORKSPACE"):
            self.reset()
            if text == "WORKSPACE":
                settings = with_model(merge_layers(self._files.layers()))
                self.add_from(None, Change(to_store(settings)))
            return

        for change, layer in requested_changes(text, self.partial(), self._files):
            source = ChangeSource.assignment(change) if layer is None else self._source_of(layer)
            self.add_from(source, change)

    def _source_of(self, layer: Layer) -> ChangeSource:
        names, label = self._files.claim_names(layer)
        return ChangeSource.named(*names, label=label)

    def _revert(self, text: str) -> None:
        """Revert the changes of a file, or values from any source, for `-C`."""
        if not is_assignment(text):
            named = self._files.named(text, get_path(self.partial(), LOAD_PATHS) or [])
            hashes = frozenset().union(*(self._source_of(layer).hashes for layer in named))

            layers = [x for x in self._files.load_valid_layers()[0] if x.name == ENVIRONMENT_LAYER]
            variables = _list_paths(layer.partial for layer in layers)

            revert = revert_source(self.steps(), hashes, unclaimed=variables)
            if revert.claims:
                self.add(*revert)
            else:
                self.notices.append(f"no current setting is from {text!r}, so nothing changes")
            return

        change = parse_assignment(text, self.partial())
        if change.unsets and not change.delta:
            raise UsageError(
                "-C undoes a value or the settings of a file. To undo a setting of this "
                f"conversation, use `%jp config --unset {change.unsets[0]}`"
            )

        for path, value in iter_leaf_paths(change.delta):
            if not self._revert_value(path, value):
                shown = json.dumps(mask_secrets(value, parse_path(path)), ensure_ascii=False)
                self.notices.append(f"{path} is not {shown}, so nothing changes")

    def _revert_value(self, path: str, value: JsonValue) -> bool:
        node = find_node(path)
        now = get_path(self.partial(), path)
        if node is not None and node.kind == "list" and isinstance(value, list) and value != now:
            present = [item for item in value if isinstance(now, list) and item in now]
            keys = parse_path(path)
            items = Change(unsets=tuple(format_path((*keys, Element(item))) for item in present))
            return bool(present) and self.add_from(None, items)

        revert = revert_value(self.steps(), path, value)
        if revert is not None:
            self.add(*revert)
        return revert is not None


class Settings:
    """The settings of one conversation of a notebook; `Projection` describes the arguments."""

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
            self._layers_below,
            trusted=trusted,
            is_local=is_local,
            untrusted_count=untrusted_count,
        )

    def _layers_below(self) -> list[Layer]:
        skips = self._skips_invalid_files
        files = self._files
        found = files.load_valid_layers()[0] if skips else files.layers()
        return [self._make_lowest_layer(), *found]

    def _make_lowest_layer(self) -> Layer:
        python = sys.modules.get("jp_nb.toolkit.python")
        version = python.REGISTRY.version if python is not None else 0
        return _registrations(version, self._discovered.state)

    def renew_tools(self) -> None:
        """Use the tools that sources have found in the running turn. No file is read again."""
        self.projection.replace_lowest(self._make_lowest_layer())

    @contextmanager
    def skip_invalid_files(self) -> Iterator[None]:
        """Ignore configuration files that are not valid in this block."""
        before = self._skips_invalid_files
        self._skips_invalid_files = True
        try:
            yield
        finally:
            self._skips_invalid_files = before

    @property
    def config(self) -> AppConfig:
        """The effective configuration, with the current files, environment, and tools."""
        self.projection.reload_layers()
        return self.projection.config()

    def readable_partial(self) -> Partial:
        """Return the settings of all valid layers."""
        self._reload_valid_layers()
        return self.projection.partial()

    def _reload_valid_layers(self) -> None:
        with self.skip_invalid_files():
            self.projection.reload_layers()

    @property
    def model(self) -> str:
        """The current model, as `provider/name` or an alias."""
        model = get_path(self.projection.partial(), MODEL_PATH)
        if isinstance(model, dict):
            return f"{model.get('provider')}/{model.get('name')}"
        return str(model or DEFAULT_MODEL)

    def warnings(self, distrust: str | None = None) -> list[str]:
        """Return warnings about settings of the record, and about access rules."""
        self.projection.reload_layers()
        warnings = []

        if ignored := find_untrusted_changes(self.projection):
            warning = (
                "this notebook's record also has settings that only you can decide; "
                f"they are ignored until `%jp trust`: {format_paths(ignored)}"
            )
            if distrust:
                warning += f" ({distrust})"
            if distrust == MOVED:
                warning += ". If you moved the whole project: `%jp trust --workspace`"
            warnings.append(warning)

        if problems := self.projection.problems:
            warnings.append(
                "this notebook's record has settings that this version of jp_nb does not "
                f"know: {format_paths(problems)}"
            )

        return warnings + find_odd_rules_in(self.projection.partial())

    def if_trusted(self) -> dict[str, JsonValue]:
        """Return the values that differ if the record is trusted, by path."""
        return find_changes_if_trusted(self.projection)

    def explain(self, paths: Iterable[str]) -> dict[str, list[Provenance]]:
        """Return the sources of values at `paths`, by increasing priority."""
        all_paths = list(paths)
        for path in all_paths:
            require_node(path)
        self._reload_valid_layers()
        return self.projection.explain(all_paths)

    def set_paths(self) -> list[str]:
        """Return every path that a file, the environment, or the conversation sets."""
        self._reload_valid_layers()
        partials = [x.partial for x in self.projection.layers() if x.name != REGISTRATIONS_LAYER]
        partials += [step.change.delta for step in self.projection.steps()]
        return sorted(set(_list_paths(partials)))

    def change(self, *directives: Directive, model: str | None = None) -> list[str]:
        """Record all changes, left to right and the model last, or none. Return notices."""
        draft = self.draft(directives, model=model)
        draft.record()
        return draft.notices

    def snapshot(self, draft: Draft | Projection | None = None) -> ConfigSnapshot:
        """Return the effective configuration, or the one after `draft`, for a cycle of a turn.

        `draft` can also be an earlier state of the conversation (`Projection.until`).
        """
        source = draft or self.projection
        config = source.config()
        now = source.now()
        return ConfigSnapshot(now.after, now.defaults, config, self._files.is_inside)

    def find_carried_over(self, other: Projection) -> Change:
        """Return the change that copies settings of another conversation that are not set here."""
        self.projection.reload_layers()
        other.reload_layers()
        change = make_inherited_changes(other, self.projection.partial())
        steps = self.projection.steps() if change else ()
        own = ChangedPaths(steps)
        return select_changes(change, lambda path: path not in own)

    def record_change(self, change: Change) -> None:
        """Record `change` without a source."""
        draft = Draft(self.projection)
        draft.add_from(None, change)
        draft.config()  # validates it
        draft.record()

    def inherit(self, other: Settings, paths: Collection[str]) -> Change:
        """Record and return the settings at `paths` as the user set them for `other`.

        Invalid configuration files are ignored, so that they cause no loss of settings.
        """
        with self.skip_invalid_files(), other.skip_invalid_files():
            self.projection.reload_layers()
            other.projection.reload_layers()
            change = make_inherited_settings(other.projection, self.projection, paths)
            if change:
                draft = Draft(self.projection)
                draft.add_from(None, change)
                draft.record()
        return change

    def draft(self, directives: Sequence[Directive], *, model: str | None = None) -> Draft:
        """Return the changes that `change` records, without recording them."""
        only_unsets = model is None and all(x.kind == "unset" for x in directives)
        with self.skip_invalid_files() if only_unsets else nullcontext():
            self.projection.reload_layers()

        draft = DirectiveDraft(self.projection, self._files)
        if {"NONE", "WORKSPACE"} <= {x.text for x in directives if x.kind == "cfg"}:
            raise UsageError("`-c NONE` and `-c WORKSPACE` cannot be combined: use one of them")

        names = [x.text for x in directives if x.kind in ("tool", "no_tool") and x.text]
        if names:
            require_tools(draft.config(), names)

        for directive in directives:
            draft.apply(directive)
        if model is not None:
            reference = parse_model_reference(model)
            draft.assign(Change(model_partial(reference, draft.partial())))

        try:
            _check_model(draft.config())
        except ConfigError:
            if only_unsets:
                try:
                    _check_model(self.projection.config())
                except ConfigError:
                    return draft  # it was invalid before
            raise
        return draft


def _check_model(config: AppConfig) -> None:
    llm = config.providers.llm
    llm.require(resolve_model(config.assistant.model.id, llm.aliases).provider)


def write_config_file(
    where: Literal["user", "workspace"],
    directives: Sequence[Directive],
    projection: Projection,
    files: ConfigFiles,
) -> list[str]:
    """Write values to the file of the user or the workspace, effective at once; return notices.

    The conversation's values at the same paths are removed.

    Raises:
        ConfigError: A value or the resulting configuration is not valid.
        StorageError: The file cannot be read or written.
    """
    layer_name = USER_FILE_LAYER if where == "user" else WORKSPACE_FILE_LAYER
    file = ConfigFile(files.file_of(where), layer_name)

    for directive in directives:
        file.change(directive)
    _check_layer(file.layer(), projection.layers())
    needed_consent = files.awaits_consent(where)
    file.save()

    if not needed_consent:
        files.consent_to(where)

    return [
        f"written to {file.path}: {', '.join(file.paths)}",
        *_unset_in_conversation(file, projection),
    ]


def _check_layer(layer: Layer, layers: list[Layer]) -> None:
    """Raise `ConfigError` if the configuration is not valid with `layer` for its file."""
    old = next((n for n, other in enumerate(layers) if other.file == layer.file), None)
    if old is not None:
        layers[old] = layer
    else:  # above the weaker kinds
        weaker = [WORKSPACE_FILE_LAYER] if layer.name != USER_FILE_LAYER else []
        kinds = [REGISTRATIONS_LAYER, MCP_FILE_LAYER, USER_FILE_LAYER, *weaker]
        layers.insert(sum(other.name in kinds for other in layers), layer)

    config = validate_config(merge_layers(layers), layer=layer.name, file=layer.file)
    resolve_model(validate_config(layer.partial).assistant.model.id, config.providers.llm.aliases)


def _paths_of_secrets(file: ConfigFile) -> list[str]:
    """Return the changed paths whose values contain secrets. A reference to one is no secret."""
    settings = file.layer().partial
    found: list[str] = []
    for path in file.paths:
        value = get_path(settings, path)
        if mask_secrets(value, parse_path(path)) != value:
            found.append(path)

    def has_setting(table: str) -> bool:
        return any(path.startswith(f"{table}.") for path in found)

    # A table is not named beside its own setting.
    return [path for path in found if not has_setting(path)]


def _unset_in_conversation(file: ConfigFile, projection: Projection) -> Iterator[str]:
    projection.reload_layers()
    draft = Draft(projection)

    for path in _paths_of_secrets(file):
        yield f"{path} looks like a secret: the file now contains it as plain text"
    for path in file.paths:
        draft.add_from(None, Change(unsets=(path,), uncovers=frozenset({path})))
    draft.config()
    draft.record()

    for path, sources in projection.explain(file.paths).items():
        below = [x for x in sources if x.source not in (BASE, CONVERSATION)]
        if below and below[-1].file != str(file.path):
            stronger = below[-1].place
            yield f"{path} has another value here, from {stronger}, which overrides that file"
