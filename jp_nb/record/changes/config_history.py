"""`Projection`: fold the configuration changes of a conversation into the effective configuration.

The layers below the conversation are folded first. The base configuration is merged over them, and
each delta is applied in order, which gives one `Step` each. A path that a delta unsets stays unset,
whatever files and variables set. A path in its `uncovers` has the value of the layers below again.
Invalid settings of the result are a `ConfigError`.

*Stored* changes are those that were read from the notebook file. They do not apply in full, above
all those of an *untrusted* record, which someone else may have written. `ChangeFilter` gives the
parts that apply, and notes the others in `ignored` and `problems` (`stored_changes.py`). It allows
no untrusted change to select a local model, and has a budget for the work of untrusted changes, so
that a record cannot occupy the kernel.

Source: `docs/record.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue

from jp_nb.config.aliases import MODEL_PATH, get_aliases, resolve_model
from jp_nb.config.layers import REGISTRATIONS_LAYER, Layer, merge_and_strip, merge_layers
from jp_nb.config.partials.partial import Partial, get_path
from jp_nb.config.partials.partial_change import Change, apply_change
from jp_nb.config.partials.partial_strategies import strip_strategies
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.validation import validate_plain_config
from jp_nb.errors import ConfigError, ConfigProblem, StorageError
from jp_nb.record.changes.base_change import read_base_change
from jp_nb.record.changes.config_step import Step, select_steps_since_reset
from jp_nb.record.changes.provenance import Provenance, find_sources
from jp_nb.record.changes.stored_changes import BASE_NUMBER, ChangeFilter, StoredChanges
from jp_nb.record.entries.events import ConfigDelta
from jp_nb.record.entries.unanswered_turns import RevertedChanges
from jp_nb.record.request_context.context_builder import UntrustedProviders
from jp_nb.record.stream import ConversationStream


class Projection:
    """The configuration of one conversation, folded from its changes.

    `_fold` keeps a `Step` for each change, and applies only new changes. All other results are
    queries on these steps. The fold begins again if the layers below change, or if a mark in the
    record reverts an applied change. A *partial* has settings as a plain JSON object, without
    those that are not set.

    Args:
        stream: The conversation with its changes.
        below: Returns the layers below it, lowest first. It is called again after `reload_layers`.
        trusted: True if the user has signed the record. Nothing in it is `ignored` then.
        is_local: True if this process made the whole conversation, so that no change is stored.
        untrusted_count: Number of the first changes that are stored ones, and untrusted if the
            record is; None for all that `stream` has now.
    """

    def __init__(
        self,
        stream: ConversationStream,
        below: Callable[[], Iterable[Layer]],
        *,
        trusted: bool = False,
        is_local: bool = False,
        untrusted_count: int | None = None,
    ) -> None:
        self._stream = stream
        self._below = below

        count = len(stream.deltas) if untrusted_count is None else untrusted_count
        self._stored = StoredChanges.of(count, trusted=trusted, is_local=is_local)

        # The layers below, and the fold of the changes over them.
        self._layers: list[Layer] | None = None  # None until they are first read
        self._steps: list[Step] = []  # that of the base configuration, then one for each change
        self._reverted = RevertedChanges()
        # It has the notes and the spent budget of this fold.
        self._filter = ChangeFilter(self._stored, stream)

        # Caches of `strip` and `validate`: the last argument, and its result.
        self._stripped: tuple[Partial, Partial] = ({}, {})
        self._validated: tuple[Partial, AppConfig] | None = None

    def if_trusted(self) -> Projection:
        """Return a projection as if the record were trusted, for what `%jp trust` would change.

        The budget still limits its work, and changes beyond it are `ignored` there too.
        """
        return self._make_variant(self._stream, self._stored.as_trusted())

    def until(self, stream: ConversationStream) -> Projection:
        """Return the projection of `stream`, an earlier state of this conversation.

        The same changes are untrusted. The layers below are the current ones.
        """
        return self._make_variant(stream, self._stored.first(len(stream.deltas)))

    def _make_variant(self, stream: ConversationStream, stored: StoredChanges) -> Projection:
        variant = Projection(stream, self.layers)
        variant._stored = stored  # used from the first fold on, which has not begun
        return variant

    @property
    def untrusted_count(self) -> int:
        """Number of the first changes that are untrusted; 0 if the record is trusted."""
        return 0 if self._stored.are_trusted else self._stored.count

    @property
    def deltas(self) -> Sequence[ConfigDelta]:
        """All changes of the conversation, as they are recorded."""
        return self._stream.deltas

    def reload_layers(self) -> None:
        """Read the layers below the conversation again."""
        layers = list(self._below())
        if layers != self._layers:
            self._layers = layers
            self._steps = []

    def replace_lowest(self, layer: Layer) -> None:
        """Use another lowest layer. The others are not read again."""
        layers = [layer, *self.layers()[1:]]
        if layers != self._layers:
            self._layers = layers
            self._steps = []

    def layers(self) -> list[Layer]:
        """Return the layers below the conversation, lowest first."""
        if self._layers is None:
            self.reload_layers()
        return list(self._layers or ())

    def _fold(self) -> list[Step]:
        """Return the steps, with those of the changes that were appended since the last call."""
        deltas = self._stream.deltas
        newly_reverted = self._reverted.follow(deltas)
        if newly_reverted or not self._steps:
            self._steps = [self._begin()]
        # Changes are known by their number among the changes. A repair of the record may move
        # entries, and an untrusted change must stay untrusted.
        for number in range(len(self._steps) - 1, len(deltas)):
            self._steps.append(self.make_step(self._steps[-1], deltas[number]))
        return self._steps

    def _begin(self) -> Step:
        """Begin the fold again, and return the step of the base configuration."""
        # A new one, because the notes and the budget are those of all changes that are folded.
        self._filter = ChangeFilter(self._stored, self._stream)

        layers = self.layers()
        # The merged layers, and the same without merge strategies.
        self._stripped = merge_and_strip(tuple(layers))
        below = self._stripped[0]
        # The settings of registered tools. They stay after a reset, and where a path is unset.
        defaults = merge_layers(layer for layer in layers if layer.name == REGISTRATIONS_LAYER)

        # The base configuration is the first change, so it uncovers no value of a lower layer.
        base = read_base_change(self._stream.base_config, self._filter.problems)
        if self._stored.has_base:
            base = self._filter.filter_change(BASE_NUMBER, base)
            after = apply_change(below, base, defaults)
            if not self._filter.allows_model(BASE_NUMBER, below, after):
                base = self._filter.remove_model(base)

        after = apply_change(below, base, defaults)
        return Step(BASE_NUMBER, None, base, below, defaults, after)

    def make_step(self, last: Step, delta: ConfigDelta) -> Step:
        """Return the step of `delta` after `last`. It notes the parts without effect in `ignored`.

        A draft of changes calls it too, before they are recorded (`record`).
        """
        number = last.number + 1
        unchanged = Step(number, delta, Change(), last.below, last.defaults, last.after)

        # It was made for a turn that got no answer.
        if number in self._reverted.numbers:
            return replace(unchanged, is_reverted=True)

        # The budget for untrusted changes is spent.
        if not self._filter.allows_work(number, delta, last.after):
            return unchanged

        if delta.op == "reset":
            # A reset also discards the settings in the files of the user, except for registered
            # tools. One of an untrusted record only discards the settings of the conversation.
            below = last.below
            if self._filter.allows_reset(number):
                below = last.defaults
            return replace(unchanged, below=below, after=below)

        recorded = Change(delta.delta, delta.unsets, frozenset(delta.uncovers))
        change = self._filter.filter_change(number, recorded)

        after = apply_change(last.after, change, last.defaults, last.below)
        if not self._filter.allows_model(number, last.after, after):
            change = self._filter.remove_model(change)
            after = apply_change(last.after, change, last.defaults, last.below)

        return replace(unchanged, change=change, after=after)

    def record(self, last: Step, made: Sequence[Step]) -> None:
        """Append the changes of the steps `made`, which a draft has made after the step `last`.

        The steps are used as they are, unless other changes were recorded meanwhile. Then the next
        fold makes them again.

        Raises:
            StorageError: The record is damaged. Nothing was appended.
        """
        steps_before = self._fold()
        still_follow = steps_before[-1] is last

        # Before the append, because its `on_change` may read the configuration. If other changes
        # were recorded since the draft began, the steps of the draft have other states before them.
        if still_follow:
            self._steps = [*steps_before, *made]

        steps_with_made = self._steps
        try:
            self._stream.append(*(step.delta for step in made if step.delta is not None))
        except StorageError:
            self._steps = steps_before
            raise

        # The appended entries have timestamps, unlike those of the draft. If `on_change` has begun
        # the fold again, its steps already have them.
        if still_follow and self._steps is steps_with_made:
            first = len(steps_before)
            steps_with_made[first:] = [
                replace(step, delta=self._stream.deltas[step.number]) for step in made
            ]

    def now(self) -> Step:
        """Return the last step."""
        return self._fold()[-1]

    def steps(self) -> list[Step]:
        """Return the applied changes from the last reset on, or from the base configuration on."""
        return select_steps_since_reset(self._fold())

    def providers(self) -> tuple[str, ...]:
        """Return the provider at the beginning and after each delta; "" if none is configured."""
        providers = tuple(_read_provider(step.after) for step in self._fold())
        if self._stored.are_trusted:
            return providers
        # With this type, `build_context` does not send metadata of an untrusted record.
        return UntrustedProviders(providers)

    @property
    def ignored(self) -> Mapping[str, JsonValue]:
        """Settings of the record that only the user may set, by path; and notes (`is_note`)."""
        self._fold()
        return self._filter.ignored

    @property
    def problems(self) -> Mapping[str, ConfigProblem]:
        """Unknown or invalid settings of the record, by path."""
        self._fold()
        return self._filter.problems

    def partial(self) -> Partial:
        """Return the merged settings of all layers."""
        return self.strip(self.now().after)

    def strip(self, partial: Partial) -> Partial:
        """Return `partial` without merge strategies. Parts of the last call are reused."""
        if self._stripped[0] is not partial:
            self._stripped = partial, strip_strategies(partial, earlier=self._stripped)
        return self._stripped[1]

    def config(self) -> AppConfig:
        """Return the effective configuration: the same object until a change.

        Raises:
            ConfigError: A setting is invalid. The error has its layer, and its file or turn.
        """
        try:
            return self.validate(self.now().after)
        except ConfigError as exc:
            sources = self.explain([exc.path])[exc.path] if exc.path else []
            if sources:
                exc.layer = sources[-1].source
                exc.file = sources[-1].file or sources[-1].when
            raise

    def validate(self, after: Partial) -> AppConfig:
        """Return the configuration of the merged settings `after`, as the same object each time."""
        if self._validated is None or self._validated[0] is not after:
            self._validated = after, validate_plain_config(self.strip(after))
        return self._validated[1]

    def explain(self, paths: Iterable[str]) -> dict[str, list[Provenance]]:
        """Return the sources of each of `paths`, lowest first. The last one decides.

        Raises:
            ConfigError: A path is invalid.
        """
        # The turn of each change. The last ones are for a turn that has not begun.
        turns: list[int] = []
        for turn in self._stream.turns():
            turns += [turn.number for entry in turn.entries if isinstance(entry, ConfigDelta)]
        turns += [self._stream.turn_count] * (len(self._stream.deltas) - len(turns))

        layers = self.layers()
        steps = self.steps()
        return {path: list(find_sources(path, layers, steps, turns)) for path in paths}


def _read_provider(partial: Partial) -> str:
    """Return the provider of the configured model; "" for an invalid one, or none."""
    model = get_path(partial, MODEL_PATH)
    if isinstance(model, str):
        try:
            return resolve_model(model, get_aliases(partial)).provider
        except ConfigError:
            return ""

    provider = model.get("provider") if isinstance(model, dict) else None
    return provider if isinstance(provider, str) else ""
