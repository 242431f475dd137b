"""The configuration of a conversation: what is in force, and how it is changed.

Source: `docs/guide.md`, `docs/decisions.md` D13, D20, `docs/configuration.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from pydantic import JsonValue

from jp_nb.config.defaults import DEFAULT_MODEL
from jp_nb.config.directives import Directive
from jp_nb.config.layers import REGISTRATIONS, Layer
from jp_nb.config.model_aliases import resolve_model
from jp_nb.config.partial import Change, Partial, get_path, leaves
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.schema import require
from jp_nb.config.toggles import require_tools
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.errors import ConfigError, UsageError
from jp_nb.record.carried_changes import carried_over, changes_at, kept_settings
from jp_nb.record.claims import claims_for
from jp_nb.record.draft import Draft
from jp_nb.record.ignored_changes import changes_if_trusted, ignored_changes
from jp_nb.record.own_paths import OwnPaths
from jp_nb.record.projection import Projection
from jp_nb.record.provenance import Provenance
from jp_nb.record.stream import ConversationStream
from jp_nb.session.drafting import Drafting
from jp_nb.session.requested_changes import MODEL
from jp_nb.session.starting_config import odd_rules_in, registered_functions
from jp_nb.tooling.builtin import registered
from jp_nb.workspace.config_files import ConfigFiles, listed


class Settings:
    """The configuration of one conversation, in one notebook.

    Args:
        stream: The conversation.
        files: Files and environment.
        trusted: True if what the conversation holds already counts in full.
        made_here: True if this process made all of it.
        foreign: So many of its first changes are not this process's; None: all that it holds.
    """

    def __init__(
        self,
        stream: ConversationStream,
        files: ConfigFiles,
        *,
        trusted: bool,
        made_here: bool = False,
        foreign: int | None = None,
    ) -> None:
        self._stream = stream
        self._files = files
        self._lenient = False
        self.projection = Projection(
            stream, self._layers_below, trusted=trusted, made_here=made_here, foreign=foreign
        )

    def _layers_below(self) -> list[Layer]:
        files = self._files.readable()[0] if self._lenient else self._files.layers()
        return [Layer(REGISTRATIONS, registered(registered_functions())), *files]

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
        """Return what is set, as far as that can be read."""
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
        """Say what of a stranger's record is not followed or not understood, and odd rules.

        Args:
            why_not: Why the record is taken for a stranger's.
        """
        self.projection.below_changed()
        said = []
        if foreign := ignored_changes(self.projection):
            said.append(
                "this notebook's record also has settings that only you can decide; "
                f"they are ignored until `%jp trust`: {listed(foreign)}"
                + (f" ({why_not})" if why_not else "")
            )
        if self.projection.not_understood:
            unknown = listed(self.projection.not_understood)
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
            require(path)
        with self.lenient():
            self.projection.below_changed()
        return self.projection.explain(wanted)

    def set_paths(self) -> list[str]:
        """Return every path that a file, the environment or the conversation sets."""
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

    def snapshot(self, draft: Draft | Projection | None = None) -> ConfigSnapshot:
        """Return the configuration in force, or after `draft`, for a cycle of a turn.

        In place of a draft an earlier state of the conversation may stand (`Projection.until`).

        Raises:
            ConfigError: If it is not valid.
        """
        source = draft or self.projection
        config, now = source.config(), source.now()
        return ConfigSnapshot(now.after, now.defaults, config, self._files.is_inside)

    def carried_over(self, other: Projection) -> Change:
        """Return what lets this conversation go on with what that of `other` had set.

        What this conversation says itself is left out.
        """
        self.projection.below_changed()
        other.below_changed()
        said = OwnPaths(self.projection.steps())
        change = carried_over(other, self.projection.partial())
        return changes_at(change, lambda path: path not in said)

    def carry_over(self, change: Change) -> None:
        """Record `change`, which nobody owns.

        Raises:
            ConfigError: If the result is no valid configuration.
        """
        draft = Draft(self.projection)
        draft.add(change, claims_for(change, None))
        draft.config()
        draft.record()

    def keep(self, other: Settings, paths: Collection[str]) -> Change:
        """Record the settings at `paths` as the user set them in the conversation of `other`.

        Configuration files that cannot be read are ignored, so that no setting is lost because
        of them. Returns the change that was recorded.
        """
        with self.lenient(), other.lenient():
            self.projection.below_changed()
            other.projection.below_changed()
            change = kept_settings(other.projection, self.projection, paths)
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
        with self.lenient() if mends else nullcontext():
            self.projection.below_changed()
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
