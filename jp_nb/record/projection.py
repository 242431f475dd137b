"""From the record to the configuration in force.

The layers below the conversation are folded first; the base configuration is merged over them,
then every delta is applied in order. What a delta unsets is what the program and its tools bring
along, whatever files and variables say; what it uncovers is what lies below the conversation.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue

from jp_nb.config.authority import stranger_may_unset, strip_untrusted
from jp_nb.config.layers import REGISTRATIONS, Layer, fold
from jp_nb.config.model_aliases import aliases_in, resolve_model
from jp_nb.config.partial import Change, Partial, apply, get_path, merge, strip_strategies, unset
from jp_nb.config.paths import parse_path
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.validation import split_unknown, validate
from jp_nb.errors import ConfigError, ConfigProblem, StorageError
from jp_nb.record.budget import Budget
from jp_nb.record.events import ConfigDelta
from jp_nb.record.provenance import Provenance, provenance
from jp_nb.record.steps import Step
from jp_nb.record.stream import ConversationStream
from jp_nb.record.unanswered import TakenBack

RESET = "(reset)"
"""Stands in `ignored` for a stranger's reset of everything below the conversation."""

MORE = "(too many changes for an untrusted record, ignored from {place} on)"
NOT_FOLLOWED, *_ = MORE.partition(",")
"""Stands in `ignored` for what was not even looked at."""

MAX_FOREIGN_WORK = 250_000
"""In units of `Budget`: more than thousands of changes. Who trusts a record gets all of it."""


def _step(last: Step, number: int, delta: ConfigDelta, change: Change, after: Partial) -> Step:
    """The step after `last`."""
    return Step(number, delta, change, last.below, last.defaults, last.after, after)


class Projection:
    """The configuration of one conversation, folded as the record grows.

    Unless it is `trusted`, what was in the record when it was read is a stranger's: leaves that
    could run code, reach a host, name a key or widen access are left out of it and listed in
    `ignored`. What this process appends counts in full.

    Args:
        stream: The conversation.
        below: The layers under it, lowest first; asked again only after `below_changed`.
        trusted: True if what is stored already counts in full.
        made_here: True if this process made all of it, and so need not look at it again.
        foreign: So many of the first changes were in the record when it was read; None: all.

    Attributes:
        ignored: What the record sets and a stranger may not decide, by path.
        not_understood: What this release does not know, or what is wrong, in the record.
    """

    def __init__(
        self,
        stream: ConversationStream,
        below: Callable[[], Iterable[Layer]],
        *,
        trusted: bool = False,
        made_here: bool = False,
        foreign: int | None = None,
    ) -> None:
        self._stream = stream
        self._below = below
        stored = len(stream.deltas) if foreign is None else foreign
        self._stored = -1 if made_here else stored
        self._trusted = trusted or made_here
        self._bounded = False
        self._layers: list[Layer] | None = None
        self._last: Step | None = None
        self._taken_back = TakenBack()
        self._config: AppConfig | None = None
        self._budget = Budget(MAX_FOREIGN_WORK)
        self._weighed = 0  # so many of a stranger's changes are followed
        self.ignored: dict[str, JsonValue] = {}
        self.not_understood: dict[str, ConfigProblem] = {}

    def if_trusted(self) -> Projection:
        """Return the same conversation as if trusted, followed no further than a stranger's."""
        other = Projection(self._stream, self.layers, trusted=True)
        other._stored, other._bounded = self._stored, True
        return other

    def until(self, stream: ConversationStream) -> Projection:
        """Return the projection of `stream`, an earlier state of this conversation.

        As much of it is a stranger's as is here. The layers below are those of now.
        """
        other = Projection(stream, self.layers, trusted=self._trusted)
        other._stored = min(self._stored, len(stream.deltas))
        return other

    @property
    def foreign(self) -> int:
        """How many changes, the first ones, are a stranger's."""
        return 0 if self._trusted else self._stored

    @property
    def deltas(self) -> Sequence[ConfigDelta]:
        """The changes of the conversation, as they are stored."""
        return self._stream.deltas

    # --- folding -----------------------------------------------------------------------------

    def below_changed(self) -> None:
        """Look at the layers under the conversation again: they may be other ones now."""
        layers = list(self._below())
        if layers != self._layers:
            self._layers, self._last = layers, None

    def layers(self) -> list[Layer]:
        """Return the layers under the conversation, lowest first."""
        if self._layers is None:
            self.below_changed()
        return list(self._layers or ())

    def now(self) -> Step:
        """Return the last step; only what was appended since is applied."""
        self._follow_marks()
        number = -1 if self._last is None else self._last.number + 1
        if self._last is None or number < len(self._stream.deltas):
            for step in self._steps(self._last):
                self._last = step
            self._config = None
        assert self._last is not None
        return self._last

    def record(
        self, deltas: Sequence[ConfigDelta], began: Step, now: Step, config: AppConfig | None
    ) -> None:
        """Append `deltas`, which lead from the step `began` to `now`.

        They are not followed again, nor is `config` validated again, which they come to: unless
        something else was appended since.
        """
        known = self._last is began and now.number == len(self._stream.deltas) + len(deltas) - 1
        before = self._last, self._config
        if known:  # whoever hears of the entries may ask for the configuration
            self._last, self._config = now, config
        try:
            self._stream.append(*deltas)
        except StorageError:
            self._last, self._config = before
            raise
        if known and self._last is now:
            self._last = replace(now, delta=self._stream.deltas[now.number])

    def _steps(self, last: Step | None = None) -> Iterator[Step]:
        self._follow_marks()
        if last is None:
            below = fold(self.layers())
            defaults = fold(layer for layer in self.layers() if layer.name == REGISTRATIONS)
            base = self._base_change()
            after = apply(below, base, defaults)
            last = Step(-1, None, base, below, defaults, below, after)
            yield last
        # By the place among the deltas: a repair moves entries, and a stranger's must stay one.
        for number in range(last.number + 1, len(self._stream.deltas)):
            last = self.step(last, number, self._stream.deltas[number])
            yield last

    def _base_change(self) -> Change:
        """Return what of the base configuration counts."""
        base = base_change(self._stream.base_config, self.not_understood)
        if self._stored < 0:
            return base
        foreign = self._is_foreign(-1)
        unsets = (path for path in base.unsets if self._may_unset(path, foreign=foreign))
        return Change(self._admit(base.delta, foreign=foreign), tuple(unsets))

    def _follow_marks(self) -> None:
        if self._taken_back.follow(self._stream.deltas):
            self._last = None  # what was applied may count no more

    def _too_much(self, number: int, delta: ConfigDelta, now: Partial) -> bool:
        """Return whether a stranger asks for more than is followed, from this delta on."""
        if number == self._weighed and self._budget.allows(now, delta.delta, delta.unsets):
            self._weighed += 1
        if number < self._weighed:
            return False
        if number == self._weighed:
            place = next(i for i, each in enumerate(self._stream.entries) if each is delta)
            self.ignored[MORE.format(place=f"events[{place}]")] = None
        return True

    def step(self, last: Step, number: int, delta: ConfigDelta) -> Step:
        """Return what delta `number` comes to after `last`."""
        if number in self._taken_back.numbers:
            self._weighed += number == self._weighed  # there is nothing to follow
            return replace(_step(last, number, delta, Change(), last.after), taken_back=True)
        read, foreign = number < self._stored, self._is_foreign(number)
        bounded = foreign or (self._bounded and read)
        if bounded and self._too_much(number, delta, last.after):
            return _step(last, number, delta, Change(), last.after)
        if delta.op == "reset":
            below = last.below
            if foreign:
                self.ignored[RESET] = True  # what the user's own files say is not theirs to drop
            else:
                below = last.defaults
            return replace(_step(last, number, delta, Change(), below), below=below)
        change = Change(
            self._admit(delta.delta, foreign=foreign) if read else delta.delta,
            tuple(path for path in delta.unsets if self._may_unset(path, foreign=foreign)),
            frozenset(delta.uncovers),
        )
        after = apply(last.after, change, last.defaults, last.below)
        return _step(last, number, delta, change, after)

    def _is_foreign(self, number: int) -> bool:
        return not self._trusted and number < self._stored

    def _admit(self, partial: Partial, *, foreign: bool) -> Partial:
        partial, unknown = split_unknown(partial)
        self.not_understood |= {problem.path: problem for problem in unknown}
        if foreign:
            partial, ignored = strip_untrusted(partial)
            self.ignored |= ignored
        return partial

    def _may_unset(self, path: str, *, foreign: bool) -> bool:
        try:
            keys = parse_path(path)
        except ConfigError as exc:
            self.not_understood[path] = ConfigProblem(path, "malformed", str(exc))
            return False
        if foreign and not stranger_may_unset(keys):
            self.ignored[path] = None
            return False
        return True

    # --- reading -----------------------------------------------------------------------------

    def partial(self) -> Partial:
        """Return what all layers together set."""
        return strip_strategies(self.now().after)

    def config(self) -> AppConfig:
        """Return the configuration in force; the same object until something changes.

        Raises:
            ConfigError: If the layers do not make a valid configuration.
        """
        now = self.now()
        if self._config is None:
            try:
                self._config = validate(now.after)
            except ConfigError as exc:
                self._blame(exc)
                raise
        return self._config

    def _blame(self, exc: ConfigError) -> None:
        """Name who set what is wrong."""
        said = self.explain([exc.path])[exc.path] if exc.path else []
        if said:
            exc.layer = said[-1].source
            exc.file = said[-1].file or said[-1].when

    def providers(self) -> list[str]:
        """Return whose models answered at first, and after each delta; "" where none was set."""
        return [_provider(step.after) for step in self._steps()]

    def steps(self) -> list[Step]:
        """Return all changes that count since the last reset, the state they begin from first."""
        found: list[Step] = []
        for step in self._steps():
            if step.is_reset:
                found = []
            if not step.taken_back:
                found.append(step)
        return found

    def explain(self, paths: Iterable[str]) -> dict[str, list[Provenance]]:
        """Return who said something about each of `paths`, lowest first: the last one decides.

        Raises:
            ConfigError: If one is not a path.
        """
        return provenance(paths, self.layers(), self.steps(), self._stream)


def _provider(partial: Partial) -> str:
    found = get_path(partial, "assistant.model.id")
    if isinstance(found, str):
        try:
            return resolve_model(found, aliases_in(partial)).provider
        except ConfigError:
            return ""
    provider = found.get("provider") if isinstance(found, dict) else None
    return provider if isinstance(provider, str) else ""


def base_change(
    base_config: Mapping[str, JsonValue], not_understood: dict[str, ConfigProblem]
) -> Change:
    """Return what a stored base configuration does: itself, or what is in `{base, init}`.

    The deltas in `init` are folded in: they were there before anything was said. What in them is
    no path unsets nothing, and is put among what is `not_understood`.
    """
    base = base_config.get("base")
    if not isinstance(base, dict):
        return Change(dict(base_config))
    partial: Partial = dict(base)
    unsets: dict[str, None] = {}
    init = base_config.get("init")
    budget = Budget(MAX_FOREIGN_WORK)
    for number, delta in enumerate(init if isinstance(init, list) else ()):
        if not isinstance(delta, dict):
            continue
        if delta.get("op") == "reset":
            partial, unsets = {}, {}
            continue
        listed, values = delta.get("unsets"), delta.get("delta")
        listed = listed if isinstance(listed, list) else []
        if not budget.allows(partial, values, listed):
            place = f"base_config.init[{number}]"
            not_understood[place] = ConfigProblem(place, "value", MORE.format(place=place))
            break
        for path in listed:
            try:
                partial = unset(partial, str(path))
                unsets[str(path)] = None
            except ConfigError as exc:
                not_understood[str(path)] = ConfigProblem(str(path), "malformed", str(exc))
        partial = merge(partial, values if isinstance(values, dict) else {})
    return Change(partial, tuple(unsets))
