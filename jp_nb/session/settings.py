"""Effective settings of the session, their drafts, and changes of them.

`%load_ext` loads this module if something is configured, so it imports little.

Source: `docs/guide.md`, `docs/decisions.md` D13, D20, `docs/configuration.md`, `docs/record.md`,
`docs/decisions.md` D20, `docs/decisions.md` D8, D34.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Literal

from pydantic import JsonValue

from jp_nb.config.access_rules import find_rule_warnings, iter_rules
from jp_nb.config.aliases import (
    get_aliases,
    parse_model_reference,
    require_tools,
    resolve_model,
    resolve_partial,
    toggle_tools,
)
from jp_nb.config.assignments import FILE_ONLY, is_assignment, parse_assignment
from jp_nb.config.authority import strip_untrusted_record
from jp_nb.config.directives import DEFAULT_MODEL, Directive
from jp_nb.config.layers import (
    ENVIRONMENT,
    REGISTRATIONS,
    USER_FILE,
    WORKSPACE_FILE,
    Layer,
    merge_layers,
)
from jp_nb.config.masking import is_secret_path, mask_secrets
from jp_nb.config.partial import (
    Change,
    Partial,
    apply,
    as_replacement,
    build_partial,
    get_path,
    iter_leaf_paths,
    merge,
    strip_strategies,
)
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.schema import Element, find_node, format_path, parse_path, require_node
from jp_nb.config.tree.app import AppConfig, parse_attachment_argument
from jp_nb.config.validation import validate
from jp_nb.errors import ConfigError, UsageError
from jp_nb.record.claims import Source, claims_for, revert_source, revert_value
from jp_nb.record.config_changes import (
    ChangedPaths,
    Draft,
    changes_if_trusted,
    inherited_changes,
    inherited_settings,
    select_changes,
    untrusted_changes,
)
from jp_nb.record.config_history import BASE, CONVERSATION, Projection, Provenance
from jp_nb.record.stream import ConversationStream
from jp_nb.session.notebook_values import is_value
from jp_nb.storage import environment
from jp_nb.storage.attachments import AttachmentError, Attachments
from jp_nb.storage.config_files import ConfigFiles, format_paths
from jp_nb.storage.config_writer import ConfigFile
from jp_nb.tools.builtin import tools_config

MODEL = "assistant.model.id"
CASSETTE = "providers.cassette"


def requested_changes(
    text: str, current: Partial, files: ConfigFiles
) -> list[tuple[Change, Layer | None]]:
    """Return the changes that `-c TEXT` asks for under `current`, each with the file it is from.

    Raises:
        ConfigError: If it is no assignment, no JSON object and no configuration file's name, or
            sets what no conversation may say.
        UsageError: If it is empty.
    """
    if not text.strip():
        raise UsageError("-c takes path=value, a JSON object, or the name of a configuration file")
    if is_assignment(text):
        change = parse_assignment(text, current)
        _no_business_of_conversations(change.delta)
        change = Change(_resolved(change.delta, apply(current, change)), change.unsets)
        return [(change, None)]
    found: list[tuple[Change, Layer | None]] = []
    for layer in files.named(text, load_paths(current)):
        delta = {key: value for key, value in layer.partial.items() if key not in FILE_ONLY}
        _no_business_of_conversations(delta)
        change = Change(_resolved(delta, merge(current, delta)))
        current = apply(current, change)
        found.append((change, layer))
    return found


def _no_business_of_conversations(delta: Partial) -> None:
    """Raise if `delta` says of a conversation what none may say (D109)."""
    if get_path(delta, CASSETTE) is not None:
        raise ConfigError(
            "a conversation cannot set this. Use `%jp cassette` for this kernel, "
            "options of `jp-nb run` for a run, or `%jp config` with `--user` or "
            "`--workspace` for a file",
            path=CASSETTE,
        )


def load_paths(current: Partial) -> list[str]:
    """Return the folders in which configuration files are looked for by name."""
    found: list[str] = get_path(current, "config_load_paths") or []
    return found


def model_partial(reference: Any, current: Partial) -> Partial:
    """Return a partial that sets the model which `reference` names under `current`'s aliases.

    Raises:
        ConfigError: If it names none.
    """
    model = resolve_model(reference, get_aliases(current))
    return build_partial(MODEL, {"provider": model.provider, "name": model.name})


def _resolved(delta: Partial, current: Partial) -> Partial:
    """Return `delta` with its models resolved: an alias may mean another one later."""
    return resolve_partial(delta, get_aliases(current))


def base_config(files: ConfigFiles) -> Partial:
    """Return what a new conversation starts from: what somebody set, and the model (D8).

    What only an owner may decide stays in the owner's files and variables: there it counts for
    them, tightened later too, and nowhere else is it anybody's.

    Raises:
        ConfigError: If a file or a variable is wrong.
    """
    partial = with_model(merge_layers(files.layers()))
    validate(partial)
    return strip_untrusted_record(to_store(partial))[0]


def continues_headless(files: ConfigFiles) -> bool:
    """Return whether `record.headless` says that a headless run continues a conversation (D18)."""
    return bool(
        get_path(merge_layers(files.load_valid_layers()[0]), "record.headless") == "continue"
    )


def is_reproducible(files: ConfigFiles) -> bool:
    """Return whether `record.reproducible` has a headless run write what the last one wrote.

    An argument of the run that is wrong says nothing here: what begins with it says so.
    """
    below = merge_layers(files.load_valid_layers()[0])
    with suppress(ConfigError):
        below = merge(below, apply_overrides({}, files))
    return get_path(below, "record.reproducible") is True


def to_store(partial: Partial) -> Partial:
    """Return `partial` as a record holds it: it replaces, and says nothing about files."""
    return {key: value for key, value in as_replacement(partial).items() if key not in FILE_ONLY}


def with_model(partial: Partial) -> Partial:
    """Return `partial` with its model resolved, or with the default one.

    Raises:
        ConfigError: If it names a model that there is not.
    """
    return merge(partial, model_partial(get_path(partial, MODEL) or DEFAULT_MODEL, partial))


def read_overrides() -> list[Directive]:
    """Return the `-c` arguments of the run, if a runner gave some."""
    value = json.loads(os.environ.get(environment.OVERRIDES) or "[]")
    return [Directive("cfg", str(item)) for item in value]


def apply_overrides(base: Partial, files: ConfigFiles) -> Partial:
    """Return `base` with the arguments of the run in it (D34).

    Raises:
        ConfigError: If one of them is wrong.
    """
    given = read_overrides()
    if not given:
        return base
    below = merge_layers(files.layers())
    for directive in given:
        for change, _ in requested_changes(directive.text, merge(below, base), files):
            base = apply(base, change)
    validate(merge(below, base))
    return base


def registered_functions() -> Partial:
    """Return what each Python tool of this kernel brings along, by its name."""
    python = sys.modules.get("jp_nb.tools.python")  # where there is none there is no tool
    functions = python.REGISTRY.all() if python is not None else {}
    return {name: dict(tool.registration) for name, tool in functions.items()}


def find_odd_rules(files: ConfigFiles, base: Partial) -> list[str]:
    """Say which rules about the configuration are hardly meant, where `base` lies over `files`.

    Files that are wrong are passed over.
    """
    tools_config: Partial = {"conversation": {"tools": registered_functions()}}
    return odd_rules_in(
        merge(merge(tools_config, merge_layers(files.load_valid_layers()[0])), base)
    )


def odd_rules_in(partial: Partial) -> list[str]:
    """Say which rules about the configuration in `partial` are hardly meant."""
    found = iter_rules(strip_strategies(partial))
    return [text for tool, rules in found for text in find_rule_warnings(tool, rules)]


class Drafting:
    """Makes the changes of directives, one after the other, in a draft on top of `projection`.

    Attributes:
        draft: What was made so far, with notices of what there was not to change.
    """

    def __init__(self, projection: Projection, files: ConfigFiles) -> None:
        self.draft = Draft(projection)
        self._projection = projection
        self._files = files

    def make(self, directive: Directive) -> None:
        """Make the change that `directive` asks for.

        Raises:
            ConfigError: If it is malformed, or names something that there is not.
            UsageError: If nothing can be made of it.
        """
        match directive.kind:
            case "cfg":
                self._set(directive.text)
            case "no_cfg":
                self._take_back(directive.text)
            case "tool" | "no_tool":
                config, on = self.draft.config(), directive.kind == "tool"
                self._assign(toggle_tools(config, directive.text, on=on))
            case "attach":
                self._assign(
                    Change({"conversation": {"attachments": [self._attached(directive.text)]}})
                )
            case "unset":
                self._uncover(directive.text)

    def choose_model(self, text: str) -> None:
        """Set the model that `text` names, as `provider/name` or an alias.

        Raises:
            ConfigError: If it names none.
        """
        self._assign(Change(model_partial(parse_model_reference(text), self.draft.partial())))

    def _assign(self, change: Change) -> None:
        if change:
            self.draft.add(change, claims_for(change, Source.assignment(change)))

    def _uncover(self, path: str) -> None:
        """Take back what the conversation says at `path`."""
        require_node(path)
        change = Change(unsets=(path,), uncovers=frozenset({path}))
        if self.draft.add(change, claims_for(change, None)):
            return
        shown = format_path(parse_path(path))
        said = [x for x in self._projection.explain([path])[path] if x.source != BASE]
        if not said or said[-1].value is None:
            self._note(f"{shown} is not set, so nothing changes")
            return
        where = ", ".join(filter(None, (said[-1].source, said[-1].file)))
        self._note(
            f"this conversation does not set {shown}; its value is from {where}. "
            "Unset it in this conversation: `%jp config "
            f"{shlex.quote(f'{shown}:=null')}`"
        )

    def _note(self, text: str) -> None:
        self.draft.notices.append(text)

    def _attached(self, text: str) -> str:
        """Return the URL that `-a TEXT` attaches, once it could be read."""
        root = self._files.root
        within = self._files.folder.relative_to(root).as_posix()
        try:
            url = parse_attachment_argument(text, within=within)
        except ValueError as exc:
            raise UsageError(f"-a: {exc}") from exc
        if is_value(url):
            return url  # it is looked at where the variables are
        try:
            Attachments().read([url], root)
        except AttachmentError as exc:
            raise UsageError(f"-a {text}: {exc}") from exc
        return url

    def _set(self, text: str) -> None:
        if text in ("NONE", "WORKSPACE"):
            self.draft.reset()
            if text == "WORKSPACE":
                change = Change(to_store(with_model(merge_layers(self._files.layers()))))
                self.draft.add(change, claims_for(change, None))
            return
        for change, layer in requested_changes(text, self.draft.partial(), self._files):
            source = Source.assignment(change) if layer is None else self._source_of(layer)
            self.draft.add(change, claims_for(change, source))

    def _source_of(self, layer: Layer) -> Source:
        names, label = self._files.claim_names(layer)
        return Source.named(*names, label=label)

    # --- taking back -------------------------------------------------------------------------

    def _take_back(self, text: str) -> None:
        """Take back what `-C` names: a file's changes, or values wherever they are from."""
        if not is_assignment(text):
            self._take_file_back(text)
            return
        change = parse_assignment(text, self.draft.partial())
        if change.unsets and not change.delta:
            raise UsageError(
                "-C undoes a value or the settings of a file. To undo a setting of "
                "this conversation, "
                f"use `%jp config --unset {change.unsets[0]}`"
            )
        for path, value in iter_leaf_paths(change.delta):
            if not self._take_value_back(path, value):
                shown = json.dumps(mask_secrets(value, parse_path(path)), ensure_ascii=False)
                self._note(f"{path} is not {shown}, so nothing changes")

    def _take_file_back(self, name: str) -> None:
        hashes: frozenset[str] = frozenset()
        for layer in self._files.named(name, load_paths(self.draft.partial())):
            hashes |= self._source_of(layer).hashes
        revert = revert_source(self.draft.steps(), hashes, unclaimed=self._in_environment())
        if revert.claims:
            self.draft.add(revert.change, revert.claims)
        else:
            self._note(f"no current setting is from {name!r}, so nothing changes")

    def _take_value_back(self, path: str, value: JsonValue) -> bool:
        node = find_node(path)
        now = get_path(self.draft.partial(), path)
        if node is not None and node.kind == "list" and isinstance(value, list) and value != now:
            present = [item for item in value if isinstance(now, list) and item in now]
            keys = parse_path(path)
            items = Change(unsets=tuple(format_path((*keys, Element(item))) for item in present))
            return bool(present) and self.draft.add(items, claims_for(items, None))
        revert = revert_value(self.draft.steps(), path, value)
        if revert is None:
            return False
        self.draft.add(revert.change, revert.claims)
        return True

    def _in_environment(self) -> list[str]:
        return [
            path
            for layer in self._files.load_valid_layers()[0]
            if layer.name == ENVIRONMENT
            for path, _ in iter_leaf_paths(layer.partial)
        ]


class Settings:
    """The configuration of one conversation, in one notebook.

    Args:
        stream: The conversation.
        files: Files and environment.
        trusted: True if what the conversation holds already counts in full.
        is_local: True if this process made all of it.
        untrusted_count: Number of changes that other processes made; None for all.
    """

    def __init__(
        self,
        stream: ConversationStream,
        files: ConfigFiles,
        *,
        trusted: bool,
        is_local: bool = False,
        untrusted_count: int | None = None,
    ) -> None:
        self._stream = stream
        self._files = files
        self._lenient = False
        self.projection = Projection(
            stream,
            self._layers_below,
            trusted=trusted,
            is_local=is_local,
            untrusted_count=untrusted_count,
        )

    def _layers_below(self) -> list[Layer]:
        files = self._files.load_valid_layers()[0] if self._lenient else self._files.layers()
        return [Layer(REGISTRATIONS, tools_config(registered_functions())), *files]

    @contextmanager
    def skip_invalid_files(self) -> Iterator[None]:
        """Look at the layers that can be read, and pass over files that are wrong, meanwhile."""
        before, self._lenient = self._lenient, True
        try:
            yield
        finally:
            self._lenient = before

    # --- reading -----------------------------------------------------------------------------

    @property
    def config(self) -> AppConfig:
        """The configuration in force, with files, environment and tools as they are now."""
        self.projection.reload_layers()
        return self.projection.config()

    def readable_partial(self) -> Partial:
        """Return what is set, as far as that can be read."""
        with self.skip_invalid_files():
            self.projection.reload_layers()
        return self.projection.partial()

    @property
    def model(self) -> str:
        """The model in force, as `provider/name` or an alias."""
        found = get_path(self.projection.partial(), MODEL)
        if isinstance(found, dict):
            return f"{found.get('provider')}/{found.get('name')}"
        return str(found or DEFAULT_MODEL)

    def warnings(self, why_not: str | None = None) -> list[str]:
        """Say what of a stranger's record is not followed or not understood, and odd rules.

        Args:
            why_not: Why the record is taken for a stranger's.
        """
        self.projection.reload_layers()
        said = []
        if ignored := untrusted_changes(self.projection):
            said.append(
                "this notebook's record also has settings that only you can decide; "
                f"they are ignored until `%jp trust`: {format_paths(ignored)}"
                + (f" ({why_not})" if why_not else "")
            )
        if self.projection.problems:
            unknown = format_paths(self.projection.problems)
            said.append(
                "this notebook's record has settings that this version of jp_nb does not "
                f"know: {unknown}"
            )
        return said + odd_rules_in(self.projection.partial())

    def if_trusted(self) -> dict[str, JsonValue]:
        """Return what would be in force otherwise if the record was trusted, by path."""
        return changes_if_trusted(self.projection)

    def explain(self, paths: Iterable[str]) -> dict[str, list[Provenance]]:
        """Return who said something about each of `paths`, lowest first: the last one decides.

        Raises:
            ConfigError: If the configuration has no such path.
        """
        wanted = list(paths)
        for path in wanted:
            require_node(path)
        with self.skip_invalid_files():
            self.projection.reload_layers()
        return self.projection.explain(wanted)

    def set_paths(self) -> list[str]:
        """Return every path that a file, the environment or the conversation sets."""
        with self.skip_invalid_files():
            self.projection.reload_layers()
        layers = [x for x in self.projection.layers() if x.name != REGISTRATIONS]
        partials = [layer.partial for layer in layers]
        partials += [step.change.delta for step in self.projection.steps()]
        return sorted({path for partial in partials for path, _ in iter_leaf_paths(partial)})

    # --- changing ----------------------------------------------------------------------------

    def change(self, *directives: Directive, model: str | None = None) -> list[str]:
        """Record changes, left to right and the model last: all of them or none.

        Returns what the person should be told, such as that there was nothing to take back.

        Raises:
            ConfigError: If one is malformed, or the result is no valid configuration.
        """
        draft = self.draft(directives, model=model)
        draft.record()
        return draft.notices

    def snapshot(self, draft: Draft | Projection | None = None) -> ConfigSnapshot:
        """Return the configuration in force, or after `draft`, for a cycle of a turn.

        In place of a draft an earlier state of the conversation may stand (`Projection.until`).

        Raises:
            ConfigError: If it is not valid.
        """
        source = draft or self.projection
        config, now = source.config(), source.now()
        return ConfigSnapshot(now.after, now.defaults, config, self._files.is_inside)

    def find_carried_over(self, other: Projection) -> Change:
        """Return what lets this conversation go on with what that of `other` had set.

        What this conversation says itself is left out.
        """
        self.projection.reload_layers()
        other.reload_layers()
        said = ChangedPaths(self.projection.steps())
        change = inherited_changes(other, self.projection.partial())
        return select_changes(change, lambda path: path not in said)

    def record_change(self, change: Change) -> None:
        """Record `change`, which nobody owns.

        Raises:
            ConfigError: If the result is no valid configuration.
        """
        draft = Draft(self.projection)
        draft.add(change, claims_for(change, None))
        draft.config()
        draft.record()

    def inherit(self, other: Settings, paths: Collection[str]) -> Change:
        """Record the settings at `paths` as the user set them in the conversation of `other`.

        Configuration files that cannot be read are ignored, so that no setting is lost because
        of them. Returns the change that was recorded.
        """
        with self.skip_invalid_files(), other.skip_invalid_files():
            self.projection.reload_layers()
            other.projection.reload_layers()
            change = inherited_settings(other.projection, self.projection, paths)
            if change:
                draft = Draft(self.projection)
                draft.add(change, claims_for(change, None))
                draft.record()
        return change

    def draft(self, directives: Sequence[Directive], *, model: str | None = None) -> Draft:
        """Make the changes that `change` records, without recording them.

        Raises:
            ConfigError: As `change` does.
        """
        mends = model is None and all(x.kind == "unset" for x in directives)
        with self.skip_invalid_files() if mends else nullcontext():
            self.projection.reload_layers()
        drafting = Drafting(self.projection, self._files)
        draft = drafting.draft
        if {"NONE", "WORKSPACE"} <= {x.text for x in directives if x.kind == "cfg"}:
            raise UsageError("`-c NONE` and `-c WORKSPACE` cannot be combined: use one of them")
        names = [x.text for x in directives if x.kind in ("tool", "no_tool") and x.text]
        if names:
            require_tools(draft.config(), names)
        for directive in directives:
            drafting.make(directive)
        if model is not None:
            drafting.choose_model(model)
        try:
            config = draft.config()
            resolve_model(config.assistant.model.id, config.providers.llm.aliases)
        except ConfigError:
            if not (mends and self._is_wrong()):
                raise
        return draft

    def _is_wrong(self) -> bool:
        """True if what is in force is not a valid configuration."""
        try:
            config = self.projection.config()
            resolve_model(config.assistant.model.id, config.providers.llm.aliases)
        except ConfigError:
            return True
        return False


def write_config_file(
    where: Literal["user", "workspace"],
    directives: Sequence[Directive],
    projection: Projection,
    files: ConfigFiles,
) -> list[str]:
    """Write values into the user's file, or the workspace's, and let them count at once.

    What the conversation of `projection` says about them is taken back. Returns what the person
    should be told.

    Raises:
        ConfigError: If one is malformed, or the result is no valid configuration.
        StorageError: If the file cannot be read or written.
    """
    file = ConfigFile(files.file_of(where), USER_FILE if where == "user" else WORKSPACE_FILE)
    for directive in directives:
        file.change(directive)
    _check_with(file.layer(), projection.layers())
    waits = files.awaits_consent(where)
    file.save()
    if not waits:  # what else is in it counted already
        files.consent_to(where)
    return [f"written to {file.path}: {', '.join(file.paths)}", *_let_count(file, projection)]


def _check_with(layer: Layer, layers: list[Layer]) -> None:
    """Raise what would be wrong with the configuration if `layer` were its file's."""
    old = next((n for n, other in enumerate(layers) if other.file == layer.file), None)
    if old is not None:
        layers[old] = layer
    else:  # above the weaker kinds
        kinds = [REGISTRATIONS, USER_FILE, *([WORKSPACE_FILE] * (layer.name != USER_FILE))]
        layers.insert(sum(other.name in kinds for other in layers), layer)
    aliases = validate(
        merge_layers(layers), layer=layer.name, file=layer.file
    ).providers.llm.aliases
    resolve_model(validate(layer.partial).assistant.model.id, aliases)


def _let_count(file: ConfigFile, projection: Projection) -> Iterator[str]:
    """Take back what the conversation says of what was written, and say what there is to say."""
    projection.reload_layers()
    draft = Draft(projection)
    for path in file.paths:
        if is_secret_path(parse_path(path)):
            yield f"{path} looks like a secret: the file now contains it as plain text"
        change = Change(unsets=(path,), uncovers=frozenset({path}))
        draft.add(change, claims_for(change, None))
    draft.config()
    draft.record()
    for path, said in projection.explain(file.paths).items():
        below = [x for x in said if x.source not in (BASE, CONVERSATION)]
        if below and below[-1].file != str(file.path):
            stronger = ", ".join(filter(None, (below[-1].source, below[-1].file)))
            yield f"{path} has another value here, from {stronger}, which overrides that file"
