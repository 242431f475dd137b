"""Sources of a setting's value: the layers and the changes of the conversation that set it.

`%jp config --explain PATH` shows them, lowest first. The last one decides.

A `Step` is the base configuration of the conversation, whose `delta` is None, or the `change` of an
entry, with the settings `after` it. `unsets` of a change are the paths that it unsets. At those
that it *uncovers*, the value of the layers applies again; at the others, the default does.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from jp_nb.config.layers import REGISTRATIONS_LAYER, Layer
from jp_nb.config.partials.partial import get_path
from jp_nb.config.partials.partial_change import Change
from jp_nb.config.setting_paths import PathKeys, parse_path, try_parse_path
from jp_nb.record.changes.config_step import Step
from jp_nb.record.entries.events import ConfigDelta
from jp_nb.record.entries.proposed_by import ProposedBy, read_proposed_by
from jp_nb.record.entries.turn_numbers import to_shown_turn

BASE = "conversation's beginning"
CONVERSATION = "conversation"
CONFIG_RESET = "configuration reset"


@dataclass(frozen=True, slots=True)
class Provenance:
    """A source that set or unset a value.

    Attributes:
        source: Name of the layer.
        value: The value after the change; None if it was unset.
        file: The file or variable of a layer below the conversation.
        turn: The turn of a change of the conversation, counted from 0.
        delta: The entry of this change.
        uncovers_layers: True if the change removed the conversation's value, so that the layers
            below apply.
    """

    source: str
    value: JsonValue
    file: str | None = None
    turn: int | None = None
    delta: ConfigDelta | None = None
    uncovers_layers: bool = False

    @property
    def place(self) -> str:
        """Name and file of the source."""
        return f"{self.source}, {self.file}" if self.file else self.source

    @property
    def when(self) -> str | None:
        """The turn as a text, or None."""
        if self.turn is None:
            return None
        # A tool changes settings in a turn, the user before one, for it.
        by_tool = self.delta is not None and read_proposed_by(self.delta)
        relation = "in" if by_tool else "for"
        return f"{relation} turn {to_shown_turn(self.turn)}"

    def list_proposing_calls(self, path: str) -> list[ProposedBy]:
        """Return the proposing calls that changed `path`."""
        keys = parse_path(path)
        calls = read_proposed_by(self.delta) if self.delta is not None else ()
        return [call for call in calls if _is_proposed_by(call, keys)]


def _is_proposed_by(call: ProposedBy, keys: Sequence[str]) -> bool:
    # An untrusted record may have invalid paths.
    paths = filter(None, map(try_parse_path, call.paths))
    return any(paths_overlap(path, keys) for path in paths)


def find_sources(
    path: str, layers: Sequence[Layer], steps: Sequence[Step], turns: Sequence[int]
) -> Iterator[Provenance]:
    """Yield the sources of the value at `path`, lowest first.

    `steps` begin with the initial state or a reset. `turns` has the turn of each change, by number.
    """
    keys = parse_path(path)

    # A reset by the user leaves only the defaults of the tools of the layers.
    layers_apply = not steps[0].discards_layers
    for layer in layers:
        value = get_path(layer.partial, keys)
        if value is not None and (layers_apply or layer.name == REGISTRATIONS_LAYER):
            yield Provenance(layer.name, value, layer.file)

    for step in steps:
        if step.delta is None:  # the base configuration
            if _changes(step, keys):
                yield Provenance(BASE, get_path(step.after, keys))
            continue

        turn = turns[step.number]
        if step.discards_layers:
            yield Provenance(CONFIG_RESET, None, turn=turn, delta=step.delta)
        elif _changes(step, keys):
            unset_path = _find_unset_above(step.change, keys)  # None if the change sets a value
            value = None if unset_path else get_path(step.after, keys)
            uncovers_layers = unset_path in step.change.uncovers
            yield Provenance(
                CONVERSATION, value, turn=turn, delta=step.delta, uncovers_layers=uncovers_layers
            )


def _changes(step: Step, keys: PathKeys) -> bool:
    """Return True if the step sets the value at `keys`, or unsets a path above or below it."""
    if get_path(step.change.delta, keys) is not None:
        return True
    return any(paths_overlap(parse_path(path), keys) for path in step.change.unsets)


def _find_unset_above(change: Change, keys: PathKeys) -> str | None:
    """Return the last path of `unsets` that contains the setting `keys`, or None.

    None also if the same change sets a value there, which then counts instead.
    """
    if get_path(change.delta, keys) is not None:
        return None

    last = None
    for path in change.unsets:
        unset = parse_path(path)
        if unset == keys[: len(unset)]:
            last = path
    return last


def paths_overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return True if one path contains the other."""
    length = min(len(one), len(other))
    return one[:length] == other[:length]
