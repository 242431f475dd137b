"""The parts that apply of configuration changes that were read from the notebook file.

Three kinds of changes differ in what they may set:

- Those by this process are not *stored* ones. They apply in full.
- Stored ones apply without settings that this release does not know (`problems`).
- Stored ones of an *untrusted* record, which someone else may have written, also apply without
  settings that could run code, contact a host, name a key, or widen access
  (`config/authority.py`). These are listed in `ignored`. `Budget` limits the work for them.

The user reads `ignored` and `problems`, for example with `%jp trust`.

Source: `docs/record.md`, `docs/security.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pydantic import JsonValue

from jp_nb.config.aliases import MODEL_PATH
from jp_nb.config.authority import may_untrusted_record_unset, names_remote_model
from jp_nb.config.known_settings import split_unknown
from jp_nb.config.partials.partial import Partial, get_path
from jp_nb.config.partials.partial_change import Change, unset_path
from jp_nb.config.setting_paths import parse_path
from jp_nb.config.stripped_settings import strip_untrusted
from jp_nb.errors import ConfigError, ConfigProblem
from jp_nb.record.changes.change_budget import MAX_UNTRUSTED_WORK, TOO_MANY_CHANGES, Budget
from jp_nb.record.changes.provenance import paths_overlap
from jp_nb.record.entries.events import ConfigDelta
from jp_nb.record.stream import ConversationStream

MODEL_KEYS = tuple(parse_path(MODEL_PATH))
BASE_NUMBER = -1
"""Number of the base configuration, which is before the changes with the numbers from 0."""

RESET_KEY = "(reset)"
"""Key in `ignored` for a reset by an untrusted record."""
NOT_FOLLOWED = TOO_MANY_CHANGES.partition(",")[0]
"""Beginning of a key in `ignored` for changes that were not read."""


def is_note(key: str) -> bool:
    """Return True if a key of `ignored` is no path of a setting, but a note such as `RESET_KEY`."""
    return key.startswith("(")


@dataclass(frozen=True, slots=True)
class StoredChanges:
    """The changes of a conversation that were read from the notebook file.

    Attributes:
        has_base: True if the base configuration is one of them.
        count: The number of others, which are the first changes of the conversation.
        are_trusted: True if no setting of them is ignored.
        have_budget: True if `Budget` limits the work to apply them: an untrusted record could have
            so many changes that it would take minutes to read.
    """

    has_base: bool
    count: int
    are_trusted: bool
    have_budget: bool

    @classmethod
    def of(cls, count: int, *, trusted: bool, is_local: bool) -> StoredChanges:
        """Return those of a conversation with `count` changes when it was read.

        If it `is_local`, this process made all changes, and none is stored.
        """
        are_trusted = trusted or is_local
        return cls(
            has_base=not is_local,
            count=0 if is_local else count,
            are_trusted=are_trusted,
            have_budget=not are_trusted,
        )

    def as_trusted(self) -> StoredChanges:
        """Return the changes as if the record were trusted, to show the effect of `%jp trust`.

        The record is not trusted yet, so the budget limits them.
        """
        return replace(self, are_trusted=True, have_budget=True)

    def first(self, count: int) -> StoredChanges:
        """Return those among the first `count` changes."""
        return replace(self, count=min(self.count, count))

    def has(self, number: int) -> bool:
        """Return True if the change with this number is one of them."""
        return self.has_base if number == BASE_NUMBER else number < self.count


class ChangeFilter:
    """Reduces changes to the parts that apply, in their order, and notes the others.

    `config_history.py` applies the changes one after the other. For each after the base
    configuration, it asks `allows_work`, then `allows_reset` for a reset, or `filter_change` for
    another change. If `allows_model` refuses the result, it applies `remove_model` first.

    To apply them from the first one again needs a new filter, because the budget and the notes are
    those of all changes so far. `number` is that of the change in the conversation.

    Attributes:
        ignored: Settings of the record that only the user may set: values by path, None for a path
            that was to be unset. The keys of notes are no paths (`is_note`), and their values have
            no meaning.
        problems: Unknown or invalid settings of the record, by path.
    """

    def __init__(self, stored: StoredChanges, stream: ConversationStream) -> None:
        self.ignored: dict[str, JsonValue] = {}
        self.problems: dict[str, ConfigProblem] = {}
        self._stored = stored
        self._stream = stream
        self._budget = Budget(MAX_UNTRUSTED_WORK)

    def is_untrusted(self, number: int) -> bool:
        """Return True for a stored change of an untrusted record."""
        return self._stored.has(number) and not self._stored.are_trusted

    def allows_work(self, number: int, delta: ConfigDelta, now: Partial) -> bool:
        """Spend the work of the change `delta` to the settings `now`; False beyond the budget."""
        if not self._stored.has(number) or not self._stored.have_budget:
            return True

        was_exceeded = self._budget.left < 0
        if self._budget.allows(now, delta.delta, delta.unsets):
            return True

        if not was_exceeded:
            entries = enumerate(self._stream.entries)
            position = next(index for index, entry in entries if entry is delta)
            self.ignored[TOO_MANY_CHANGES.format(place=f"events[{position}]")] = None
        return False

    def allows_reset(self, number: int) -> bool:
        """Return True if the change may discard the settings in the user's files; or note it."""
        if self.is_untrusted(number):
            self.ignored[RESET_KEY] = True
            return False
        return True

    def filter_change(self, number: int, change: Change) -> Change:
        """Return the parts of `change` that apply, apart from its model (`allows_model`)."""
        untrusted = self.is_untrusted(number)
        partial = change.delta
        if self._stored.has(number):
            partial = self._filter_settings(partial, untrusted=untrusted)

        unsets = (path for path in change.unsets if self._may_unset(path, untrusted=untrusted))
        return Change(partial, tuple(unsets), change.uncovers)

    def _filter_settings(self, partial: Partial, *, untrusted: bool) -> Partial:
        partial, unknown = split_unknown(partial)
        self.problems |= {problem.path: problem for problem in unknown}
        if untrusted:
            partial, ignored = strip_untrusted(partial, "record")
            self.ignored |= ignored
        return partial

    def _may_unset(self, path: str, *, untrusted: bool) -> bool:
        """Return True if a change may unset `path`; otherwise, note the path."""
        try:
            keys = parse_path(path)
        except ConfigError as exc:
            self.problems[path] = ConfigProblem(path, "malformed", str(exc))
            return False

        if untrusted and not may_untrusted_record_unset(keys):
            self.ignored[path] = None
            return False
        return True

    def allows_model(self, number: int, before: Partial, after: Partial) -> bool:
        """Return True if the change from `before` to `after` may select the model that it selects.

        An untrusted change may not select a local model. It is not enough to look at the change: a
        name alone, or a provider alone, selects one together with the settings before.
        """
        if not self.is_untrusted(number):
            return True
        model = get_path(after, MODEL_PATH)
        return model == get_path(before, MODEL_PATH) or names_remote_model(model)

    def remove_model(self, change: Change) -> Change:
        """Return `change` without the model that it selects, and note that as ignored."""
        self.ignored[MODEL_PATH] = get_path(change.delta, MODEL_PATH)
        unsets = (path for path in change.unsets if not paths_overlap(parse_path(path), MODEL_KEYS))
        return Change(unset_path(change.delta, MODEL_PATH), tuple(unsets), change.uncovers)
