"""The settings of a conversation: its changes over configuration files, owners, and reverts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jp_nb.config.assignments import parse_assignment
from jp_nb.config.authority import ALLOWANCE_TABLE, Allowance, find_value_test
from jp_nb.config.layers import Layer
from jp_nb.config.partials.partial import get_path
from jp_nb.config.partials.partial_change import Change
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.partials.setting_leaves import iter_settings
from jp_nb.config.setting_paths import Element, format_path, parse_path
from jp_nb.config.tree.ignored_settings import overlaps_keys
from jp_nb.config.validation import validate_layer
from jp_nb.record.changes.changed_paths import ChangedPaths
from jp_nb.record.changes.claims import (
    ChangeSource,
    Claims,
    make_claims,
)
from jp_nb.record.changes.config_draft import Draft
from jp_nb.record.changes.config_history import Projection
from jp_nb.record.changes.inherited_changes import make_own_result
from jp_nb.record.changes.reverts import revert_source, revert_value


class RecordedSettings:
    """The effective settings of a conversation, and the changes that the user makes in it.

    Args:
        stream: The conversation: `new_stream(*entries)`, or that of a session.
        below: The settings of files, lowest first. Each is a table, or a tuple of the name of its
            source, the table, and the path of the file.
        trusted: True if the stored changes of the record apply in full.
        is_local: True if this process made the whole conversation.
    """

    def __init__(
        self, stream: Any, *below: Any, trusted: bool = True, is_local: bool = False
    ) -> None:
        self.stream = stream
        self._below = below
        self._projection = Projection(stream, self._read_layers, trusted=trusted, is_local=is_local)

    def _read_layers(self) -> list[Layer]:
        layers = []
        for each in self._below:
            name, table, *file = each if isinstance(each, tuple) else ("file", each)
            layers.append(Layer(name, merge_partials({}, table), *file))
        return layers

    # --- results -----------------------------------------------------------------------------

    def at(self, path: str) -> Any:
        """Return the value at `path`, or None. For an item of a list, it is its name or None."""
        partial = self._projection.partial()
        *above, last = parse_path(path)
        if not isinstance(last, Element) or "tools" in above:
            return get_path(partial, path)
        items = get_path(partial, format_path(above)) or []
        return str(last) if last in items else None

    def table(self) -> dict[str, Any]:
        """Return the settings that files and changes set."""
        return dict(self._projection.partial())

    def with_authority(self) -> dict[str, Any]:
        """Return the settings that an untrusted record may not set, by path."""
        leaves = iter_settings(self._projection.partial())
        return {path: value for path, value in leaves if _has_authority(parse_path(path))}

    def stored_table(self) -> dict[str, Any]:
        """Return `table` in the form in which a file stores it."""
        return dict(validate_layer(self._projection.partial(), layer=""))

    def config(self) -> Any:
        """Return the effective configuration, as `jp.conversation().config` has it."""
        return self._projection.config()

    @property
    def ignored(self) -> dict[str, Any]:
        """The settings of an untrusted record that do not apply, by path."""
        return dict(self._projection.ignored)

    @property
    def problems(self) -> list[str]:
        """The paths of unknown and invalid settings."""
        return list(self._projection.problems)

    def providers(self) -> Any:
        """Return the provider at the beginning and after each change, for `RecordView.sent`."""
        return self._projection.providers()

    def count_steps(self) -> int:
        """Return the number of applied changes since the last reset, with the beginning."""
        return len(self._projection.steps())

    def until(self, count: int) -> RecordedSettings:
        """Return the settings after the first `count` entries of the conversation."""
        earlier = RecordedSettings(self.stream.until(count), *self._below)
        earlier._projection = self._projection.until(earlier.stream)
        return earlier

    def replace_files(self, *below: Any) -> None:
        """Write other files. The settings have them after `reload`."""
        self._below = below

    def reload(self) -> None:
        """Read the files again."""
        self._projection.reload_layers()

    # --- sources -----------------------------------------------------------------------------

    def sources(self, path: str) -> list[tuple[str, str | None, int | None, Any]]:
        """Return source, file, turn, and value of each setting of `path`, lowest first."""
        found = self._projection.explain([path])[path]
        return [(each.source, each.file, each.turn, each.value) for each in found]

    def times(self, path: str) -> list[tuple[str | None, list[str]]]:
        """Return the time of each change of `path`, such as `for turn 2`, with the tools."""
        found = self._projection.explain([path])[path]
        return [
            (each.when, [call.tool for call in each.list_proposing_calls(path)])
            for each in found
            if each.delta is not None
        ]

    def is_set_here(self, path: str) -> bool:
        """Return True if a change of the conversation sets or unsets `path`."""
        return path in ChangedPaths(self._projection.steps())

    def inherited(self, begins: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the values and the unset paths that the next conversation, which begins with the
        settings `begins`, gets from this one.
        """
        change = make_own_result(self._projection, dict(begins))
        return dict(change.delta), change.unsets

    # --- owners ------------------------------------------------------------------------------

    def owned_by(self, *names: str) -> list[str]:
        """Return the paths that the source with one of `names` owns."""
        claims = Claims(self._projection.steps())
        return [format_path(keys) for keys in claims.list_owned(_make_source(names).hashes)]

    def owned_by_hash(self, name: str) -> list[str]:
        """Return the paths that the source with the stored hash `name` owns."""
        claims = Claims(self._projection.steps())
        return [format_path(keys) for keys in claims.list_owned(frozenset([name]))]

    def owner(self, path: str) -> Any:
        """Return the stored claim that owns `path`, or None."""
        return Claims(self._projection.steps()).find_owner(parse_path(path))

    # --- changes -----------------------------------------------------------------------------

    def assign(self, text: str, *names: str) -> None:
        """Set `text`, such as `user.name=Ada`, as the source with `names`, or without a source."""
        draft = Draft(self._projection)
        change = parse_assignment(text, draft.partial())
        source = _make_source(names) if names else None
        draft.add(change, make_claims(change, source))
        draft.record()

    def change(
        self,
        delta: Mapping[str, Any] | None = None,
        *,
        unsets: Sequence[str] = (),
        uncovers: Iterable[str] = (),
        claims: Mapping[str, Any] | None = None,
        before_recording: Any = None,
    ) -> bool:
        """Make a change, and return True if it was needed. Only what is needed is recorded.

        `before_recording` is called between the draft of the change and its entry.
        """
        draft = Draft(self._projection)
        change = Change(dict(delta or {}), tuple(unsets), frozenset(uncovers))
        is_needed = draft.add(change, dict(claims or {}))
        if before_recording is not None:
            before_recording()
        draft.record()
        return is_needed

    def revert(self, *names: str, unclaimed: Sequence[str] = ()) -> None:
        """Revert the settings that the source with one of `names` owns. The paths `unclaimed`,
        which the environment sets, have no owner.
        """
        draft = Draft(self._projection)
        revert = revert_source(draft.steps(), _make_source(names).hashes, unclaimed=unclaimed)
        draft.add(revert.change, revert.claims)
        draft.record()

    def revert_value(self, path: str, value: Any) -> bool:
        """Revert `value` at `path`, if `path` has it. Return False otherwise."""
        draft = Draft(self._projection)
        revert = revert_value(draft.steps(), path, value)
        if revert is None:
            return False

        draft.add(revert.change, revert.claims)
        draft.record()
        return True


def _make_source(names: Sequence[str]) -> ChangeSource:
    return ChangeSource.named(*names, label=names[0].rpartition(":")[2])


def _has_authority(keys: Sequence[str]) -> bool:
    """Return True if an untrusted record may set no value at `keys` or below."""
    accept_nothing = Allowance("").record
    if find_value_test(keys, "record") is not accept_nothing:
        return False

    below = [
        allowance
        for pattern, allowance in ALLOWANCE_TABLE
        if len(pattern) > len(keys) and overlaps_keys(pattern, keys)
    ]
    return all(allowance.record is accept_nothing for allowance in below)
