"""The configuration of a session: what is in force, and how it is changed.

Source: `docs/guide.md`, `docs/decisions.md` D8, D13, D20, D34,
`docs/configuration.md`, `docs/record.md`.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

from pydantic import JsonValue

from jp_nb.config.assignments import is_assignment, parse_assignment
from jp_nb.config.authority import strip_untrusted
from jp_nb.config.defaults import DEFAULT_MODEL
from jp_nb.config.directives import Directive
from jp_nb.config.grants import rule_warnings, rules_in
from jp_nb.config.layers import (
    ENVIRONMENT,
    FILE_ONLY,
    REGISTRATIONS,
    USER_FILE,
    WORKSPACE_FILE,
    Layer,
    fold,
)
from jp_nb.config.masking import is_secret, masked
from jp_nb.config.model_aliases import aliases_in, parse, resolve, resolve_partial
from jp_nb.config.partial import (
    Change,
    Partial,
    apply,
    as_replacement,
    build,
    diff,
    get_path,
    leaves,
    merge,
    strip_strategies,
)
from jp_nb.config.paths import Element, format_path, parse_path
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.schema import node_of, require
from jp_nb.config.toggles import require_tools, toggled
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.tree.attachment_url import attachment_argument
from jp_nb.config.validation import validate
from jp_nb.errors import ConfigError, UsageError
from jp_nb.record.carried import carried_over, where
from jp_nb.record.claims import Source, claims_for, revert_source, revert_value
from jp_nb.record.draft import Draft
from jp_nb.record.projection import BASE, CONVERSATION, Projection, Provenance
from jp_nb.record.say import Say
from jp_nb.record.stream import ConversationStream
from jp_nb.tooling.builtin import BUILTINS
from jp_nb.tooling.python import REGISTRY
from jp_nb.workspace import variables
from jp_nb.workspace.config_files import ConfigFiles, listed, workspace_root

if TYPE_CHECKING:
    from jp_nb.workspace.config_writing import ConfigFile

MODEL = "assistant.model.id"


def base_config(files: ConfigFiles) -> Partial:
    """What a new conversation starts from: what somebody set, and the model (D8).

    What only an owner may decide stays in the owner's files and variables: there it counts for
    them, tightened later too, and nowhere else is it anybody's.

    Raises:
        ConfigError: If a file or a variable is wrong.
    """
    partial = _with_model(fold(files.layers()))
    validate(partial)
    return strip_untrusted(_to_store(partial))[0]


def continues_headless(files: ConfigFiles) -> bool:
    """Return whether `record.headless` says that a headless run continues a conversation (D18)."""
    return bool(get_path(fold(files.readable()[0]), "record.headless") == "continue")


def _to_store(partial: Partial) -> Partial:
    return {key: value for key, value in as_replacement(partial).items() if key not in FILE_ONLY}


def _with_model(partial: Partial) -> Partial:
    """`partial` with its model resolved, or the default one."""
    return merge(partial, _model(get_path(partial, MODEL) or DEFAULT_MODEL, partial))


def overrides() -> list[Directive]:
    """`-c` arguments of the run, if a runner gave some."""
    value = json.loads(os.environ.get(variables.OVERRIDES) or "[]")
    return [Directive("cfg", str(item)) for item in value]


def with_overrides(base: Partial, files: ConfigFiles) -> Partial:
    """`base` with the arguments of the run in it (D34)."""
    given = overrides()
    if not given:
        return base
    below = fold(files.layers())
    for directive in given:
        for change, _ in _read(directive.text, merge(below, base), files):
            base = apply(base, change)
    validate(merge(below, base))
    return base


class Settings:
    """The configuration of one conversation, in one notebook.

    Args:
        stream: The conversation.
        files: Files and environment.
        trusted: Whether what the conversation holds already counts in full.
        made_here: Whether this process made all of it.
    """

    def __init__(
        self,
        stream: ConversationStream,
        files: ConfigFiles,
        *,
        trusted: bool,
        made_here: bool = False,
    ) -> None:
        self._stream = stream
        self._files = files
        self._lenient = False
        self.projection = Projection(
            stream, self._layers_below, trusted=trusted, made_here=made_here
        )

    def _layers_below(self) -> list[Layer]:
        tools: Partial = {name: dict(tool.registration) for name, tool in BUILTINS.items()}
        tools |= {name: dict(tool.registration) for name, tool in REGISTRY.all().items()}
        registrations = Layer(REGISTRATIONS, {"conversation": {"tools": tools}})
        files = self._files.readable()[0] if self._lenient else self._files.layers()
        return [registrations, *files]

    @contextmanager
    def lenient(self) -> Iterator[None]:
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
        self.projection.below_changed()
        return self.projection.config()

    def readable_partial(self) -> Partial:
        """What is set, as far as that can be read."""
        with self.lenient():
            self.projection.below_changed()
        return self.projection.partial()

    @property
    def model(self) -> str:
        """The model in force, as `provider/name` or an alias."""
        found = get_path(self.projection.partial(), MODEL)
        if isinstance(found, dict):
            return f"{found.get('provider')}/{found.get('name')}"
        return str(found or DEFAULT_MODEL)

    def warnings(self, why_not: str | None = None) -> list[str]:
        """What is not followed in a stranger's record, what nobody understands, odd rules.

        Args:
            why_not: Why the record is taken for a stranger's.
        """
        self.projection.below_changed()
        below = fold(self.projection.layers())
        self.projection.partial()
        said = []
        if foreign := self.ignored(below):
            said.append(
                "this notebook's record also sets what only you may decide; ignored until "
                f"`%jp trust`: {listed(foreign)}" + (f" ({why_not})" if why_not else "")
            )
        if self.projection.not_understood:
            unknown = listed(self.projection.not_understood)
            said.append(f"this notebook's record sets what jp_nb does not know: {unknown}")
        return said + self.rule_warnings()

    def rule_warnings(self) -> list[str]:
        """What rules about the configuration hardly mean."""
        self.projection.below_changed()
        found = rules_in(self.projection.partial())
        return [text for tool, rules in found for text in rule_warnings(tool, rules)]

    def ignored(self, below: Partial | None = None) -> dict[str, JsonValue]:
        """What the record sets otherwise than the user's own files, and may not, by path."""
        below = fold(self.projection.layers()) if below is None else below
        self.projection.partial()
        plain = strip_strategies(below)
        return {
            path: value
            for path, value in self.projection.ignored.items()
            if value is None
            or path.startswith("(")
            or strip_strategies(build(path, value)) != build(path, get_path(plain, path))
        }

    def if_trusted(self) -> dict[str, JsonValue]:
        """What would be in force otherwise if the record was trusted, by path; None: nothing.

        Also what the record sets and something later outdoes. It is found out by doing it: of
        several changes of one thing none can pass for all of them.
        """
        found = self.ignored()
        if not self.projection.ignored:
            return found
        trusted = self.projection.if_trusted()
        after = trusted.partial()
        change = diff(self.projection.partial(), after)
        found |= dict.fromkeys(change.unsets)
        found |= {path: get_path(after, path) for path, _ in leaves(change.delta)}
        return found | trusted.ignored

    def explain(self, paths: Iterable[str]) -> dict[str, list[Provenance]]:
        """Who said something about each of `paths`, lowest first: the last one decides.

        Raises:
            ConfigError: If the configuration has no such path.
        """
        wanted = list(paths)
        for path in wanted:
            require(path)
        with self.lenient():
            self.projection.below_changed()
        return self.projection.explain(wanted)

    def set_paths(self) -> list[str]:
        """Every path that a file, the environment or the conversation sets."""
        with self.lenient():
            self.projection.below_changed()
        layers = [x for x in self.projection.layers() if x.name != REGISTRATIONS]
        partials = [layer.partial for layer in layers]
        partials += [step.change.delta for step in self.projection.steps()]
        return sorted({path for partial in partials for path, _ in leaves(partial)})

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

    def snapshot(self, draft: Draft | None = None) -> ConfigSnapshot:
        """The configuration in force, or what would be after `draft`, for a cycle of a turn.

        Raises:
            ConfigError: If it is not valid.
        """
        source = draft or self.projection
        config, now = source.config(), source.now()
        return ConfigSnapshot(now.after, now.defaults, config, self._files.is_inside)

    def carried_over(self, other: Projection) -> Change:
        """What would have this conversation go on with what that of `other` had set.

        What this conversation says itself is left out.
        """
        self.projection.below_changed()
        other.below_changed()
        said = Say(self.projection.steps())
        change = carried_over(other, self.projection.partial())
        return where(change, lambda path: path not in said)

    def carry_over(self, change: Change) -> None:
        """Record `change`, which nobody owns.

        Raises:
            ConfigError: If the result is no valid configuration.
        """
        draft = Draft(self.projection)
        draft.add(change, claims_for(change, None))
        draft.config()
        draft.record()

    def write(
        self, where: Literal["user", "workspace"], directives: Sequence[Directive]
    ) -> list[str]:
        """Write values into the user's file, or the workspace's, and let them count at once.

        What the conversation says about them is taken back. Returns what the person should be told.

        Raises:
            ConfigError: If one is malformed, or the result is no valid configuration.
            StorageError: If the file cannot be read or written.
        """
        from jp_nb.workspace.config_writing import ConfigFile

        file = ConfigFile(
            self._files.file_of(where), USER_FILE if where == "user" else WORKSPACE_FILE
        )
        for directive in directives:
            file.change(directive)
        self._check_with(file.layer())
        waits = self._files.awaits_consent(where)
        file.save()
        if not waits:  # what else is in it counted already
            self._files.agree_to(where)
        return [f"written to {file.path}: {', '.join(file.paths)}", *self._let_count(file)]

    def _check_with(self, layer: Layer) -> None:
        """Raise what would be wrong with the configuration if `layer` were its file's."""
        layers = self.projection.layers()
        old = next((n for n, other in enumerate(layers) if other.file == layer.file), None)
        if old is not None:
            layers[old] = layer
        else:  # above the weaker kinds
            kinds = [REGISTRATIONS, USER_FILE, *([WORKSPACE_FILE] * (layer.name != USER_FILE))]
            layers.insert(sum(other.name in kinds for other in layers), layer)
        aliases = validate(fold(layers), layer=layer.name, file=layer.file).providers.llm.aliases
        resolve(validate(layer.partial).assistant.model.id, aliases)

    def _let_count(self, file: ConfigFile) -> Iterator[str]:
        """Take back what the conversation says of what was written; what there is to say of it."""
        self.projection.below_changed()
        draft = Draft(self.projection)
        for path in file.paths:
            if is_secret(parse_path(path)):
                yield f"{path} looks like a secret: it is in that file as plain text now"
            change = Change(unsets=(path,), uncovers=frozenset({path}))
            draft.add(change, claims_for(change, None))
        draft.config()
        draft.record()
        for path, said in self.projection.explain(file.paths).items():
            below = [x for x in said if x.source not in (BASE, CONVERSATION)]
            if below and below[-1].file != str(file.path):
                where = ", ".join(filter(None, (below[-1].source, below[-1].file)))
                yield f"{path} is from {where} here, which is stronger than that file"

    def draft(self, directives: Sequence[Directive], *, model: str | None = None) -> Draft:
        """Make the changes that `change` records, without recording them.

        Raises:
            ConfigError: As `change` does.
        """
        mends = model is None and all(x.kind == "unset" for x in directives)
        with self.lenient() if mends else nullcontext():
            self.projection.below_changed()
        draft = Draft(self.projection)
        if {"NONE", "WORKSPACE"} <= {x.text for x in directives if x.kind == "cfg"}:
            raise UsageError("-c takes NONE or WORKSPACE, not both")
        names = [x.text for x in directives if x.kind in ("tool", "no_tool") and x.text]
        if names:
            require_tools(draft.config(), names)
        for directive in directives:
            draft.notices += self._apply(draft, directive)
        if model is not None:
            change = Change(_model(parse(model), draft.partial()))
            draft.add(change, claims_for(change, Source.assignment(change)))
        try:
            config = draft.config()
            resolve(config.assistant.model.id, config.providers.llm.aliases)
        except ConfigError:
            if not (mends and self._is_wrong()):
                raise
        return draft

    def _is_wrong(self) -> bool:
        """Whether what is in force is no valid configuration."""
        try:
            config = self.projection.config()
            resolve(config.assistant.model.id, config.providers.llm.aliases)
        except ConfigError:
            return True
        return False

    def _apply(self, draft: Draft, directive: Directive) -> list[str]:
        """Make the change of `directive`; what there is to say of it."""
        match directive.kind:
            case "cfg":
                self._set(draft, directive.text)
            case "no_cfg":
                return self._take_back(draft, directive.text)
            case "tool" | "no_tool":
                on = directive.kind == "tool"
                change = toggled(draft.config(), directive.text, on=on)
                if change:
                    draft.add(change, claims_for(change, Source.assignment(change)))
            case "attach":
                change = Change({"conversation": {"attachments": [self._attached(directive.text)]}})
                draft.add(change, claims_for(change, Source.assignment(change)))
            case "unset":
                return self._uncover(draft, directive.text)
        return []

    def _uncover(self, draft: Draft, path: str) -> list[str]:
        """Take back what the conversation says at `path`; what to say if that is nothing."""
        require(path)
        change = Change(unsets=(path,), uncovers=frozenset({path}))
        if draft.add(change, claims_for(change, None)):
            return []
        shown = format_path(parse_path(path))
        said = [x for x in self.projection.explain([path])[path] if x.source != BASE]
        if not said or said[-1].value is None:
            return [f"nothing is set at {shown}: nothing is taken back"]
        where = ", ".join(filter(None, (said[-1].source, said[-1].file)))
        return [
            f"this conversation set nothing at {shown}, it is from {where}: "
            f"`%jp config {shlex.quote(f'{shown}:=null')}` leaves it unset in this conversation"
        ]

    def _attached(self, text: str) -> str:
        """The URL that `-a TEXT` attaches, once it could be read."""
        from jp_nb.workspace.attachment_files import AttachmentError, Attachments

        root = workspace_root(self._files.folder)
        within = self._files.folder.relative_to(root).as_posix()
        try:
            url = attachment_argument(text, within=within)
        except ValueError as exc:
            raise UsageError(f"-a: {exc}") from exc
        try:
            Attachments().read([url], root)
        except AttachmentError as exc:
            raise UsageError(f"-a {text}: {exc}") from exc
        return url

    def _set(self, draft: Draft, text: str) -> None:
        if text in ("NONE", "WORKSPACE"):
            draft.reset()
            if text == "WORKSPACE":
                change = Change(_to_store(_with_model(fold(self._files.layers()))))
                draft.add(change, claims_for(change, None))
            return
        for change, source in _read(text, draft.partial(), self._files):
            draft.add(change, claims_for(change, source))

    def _take_back(self, draft: Draft, text: str) -> list[str]:
        """Take back what `-C` names: a file's changes, or values wherever they are from."""
        if not is_assignment(text):
            load_paths = _load_paths(draft.partial())
            hashes: frozenset[str] = frozenset()
            for layer in self._files.named(text, load_paths):
                names, label = self._files.claim_names(layer)
                hashes |= Source.named(*names, label=label).hashes
            revert = revert_source(draft.steps(), hashes, unclaimed=self._in_environment())
            if not revert.claims:
                return [f"nothing that {text!r} set is in force: nothing is taken back"]
            draft.add(revert.change, revert.claims)
            return []
        change = parse_assignment(text, draft.partial())
        if change.unsets and not change.delta:
            raise UsageError(
                "-C takes back a value, or what a file set: "
                f"`%jp config --unset {change.unsets[0]}` takes back what this conversation says"
            )
        said = []
        for path, value in leaves(change.delta):
            if not self._take_value_back(draft, path, value):
                shown = json.dumps(masked(value, parse_path(path)), ensure_ascii=False)
                said.append(f"{path} is not {shown} now: nothing is taken back")
        return said

    @staticmethod
    def _take_value_back(draft: Draft, path: str, value: JsonValue) -> bool:
        node = node_of(path)
        now = get_path(draft.partial(), path)
        if node is not None and node.kind == "list" and isinstance(value, list) and value != now:
            present = [item for item in value if isinstance(now, list) and item in now]
            keys = parse_path(path)
            items = Change(unsets=tuple(format_path((*keys, Element(item))) for item in present))
            return bool(present) and draft.add(items, claims_for(items, None))
        revert = revert_value(draft.steps(), path, value)
        if revert is None:
            return False
        draft.add(revert.change, revert.claims)
        return True

    def _in_environment(self) -> list[str]:
        return [
            path
            for layer in self._files.readable()[0]
            if layer.name == ENVIRONMENT
            for path, _ in leaves(layer.partial)
        ]


def _read(text: str, current: Partial, files: ConfigFiles) -> list[tuple[Change, Source]]:
    """The changes that `-c TEXT` asks for under `current`, and who makes them.

    Raises:
        ConfigError: If it is no assignment, no JSON object and no configuration file's name.
        UsageError: If it is empty.
    """
    if not text.strip():
        raise UsageError("-c takes path=value, a JSON object, or the name of a configuration file")
    if is_assignment(text):
        change = parse_assignment(text, current)
        change = Change(_resolved(change.delta, apply(current, change)), change.unsets)
        return [(change, Source.assignment(change))]
    found = []
    for layer in files.named(text, _load_paths(current)):
        delta = {key: value for key, value in layer.partial.items() if key not in FILE_ONLY}
        names, label = files.claim_names(layer)
        change = Change(_resolved(delta, merge(current, delta)))
        current = apply(current, change)
        found.append((change, Source.named(*names, label=label)))
    return found


def _resolved(delta: Partial, current: Partial) -> Partial:
    """`delta` with its models resolved: an alias may mean another one later."""
    return resolve_partial(delta, aliases_in(current))


def _load_paths(current: Partial) -> list[str]:
    """The folders in which configuration files are looked for by name."""
    found: list[str] = get_path(current, "config_load_paths") or []
    return found


def _model(reference: Any, current: Partial) -> Partial:
    """A partial that sets the model which `reference` names under `current`'s aliases."""
    model = resolve(reference, aliases_in(current))
    return build(MODEL, {"provider": model.provider, "name": model.name})
