"""Who said what about a path of the configuration: layers, files, turns, tools. Pure.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from jp_nb.config.layers import REGISTRATIONS, Layer
from jp_nb.config.partial import Change, get_path
from jp_nb.config.paths import parse_path
from jp_nb.config.schema import node_of
from jp_nb.errors import ConfigError
from jp_nb.record.events import ConfigDelta
from jp_nb.record.proposals import ProposedBy, proposed_by
from jp_nb.record.steps import Step, related
from jp_nb.record.stream import ConversationStream

BASE = "conversation's beginning"
CONVERSATION = "conversation"
BEGUN_AGAIN = "configuration reset"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Which layer set a value, or unset it, and where.

    Attributes:
        source: The layer.
        value: What it came to there; None if it was unset.
        taken_back: True if what the conversation had said is taken back: what is below shows.
        file: The file or variable.
        turn: For which turn it was said, or in which a tool did, 0-based.
        delta: The entry that says so.
    """

    source: str
    value: JsonValue
    file: str | None = None
    turn: int | None = None
    delta: ConfigDelta | None = None
    taken_back: bool = False

    @property
    def when(self) -> str | None:
        """The turn in words, if there is one."""
        if self.turn is None:
            return None
        by_tool = self.delta is not None and proposed_by(self.delta)
        return f"{'in' if by_tool else 'for'} turn {self.turn}"

    def tools(self, path: str) -> list[ProposedBy]:
        """Return the calls among those which led to this that had to do with `path`."""
        keys = parse_path(path)
        calls = proposed_by(self.delta) if self.delta is not None else ()
        return [call for call in calls if any(_is_related(other, keys) for other in call.paths)]


def provenance(
    paths: Iterable[str],
    layers: Sequence[Layer],
    steps: Sequence[Step],
    stream: ConversationStream,
) -> dict[str, list[Provenance]]:
    """Return who said something about each of `paths`, lowest first: the last one decides.

    Args:
        paths: Of the configuration.
        layers: Those under the conversation, lowest first.
        steps: The changes that count since the last reset.
        stream: The conversation.

    Raises:
        ConfigError: If one is not a path.
    """
    turns = _turns_of_deltas(stream)
    return {path: list(_said(path, layers, steps, turns)) for path in paths}


def _said(
    path: str, layers: Sequence[Layer], steps: Sequence[Step], turns: Sequence[int]
) -> Iterator[Provenance]:
    began = steps[0]
    for layer in layers:
        value = get_path(layer.partial, path)
        if value is not None and (began.delta is None or layer.name == REGISTRATIONS):
            yield Provenance(layer.name, value, layer.file)
    for step in steps:
        if step.delta is None:
            if _touches(step.change, path):
                yield Provenance(BASE, get_path(step.after, path))
        elif step.is_reset:
            yield Provenance(BEGUN_AGAIN, None, None, turns[step.number], step.delta)
        elif _touches(step.change, path):
            gone = _unset_by(step.change, path)
            value = None if gone else get_path(step.after, path)
            back = gone in step.change.uncovers
            yield Provenance(CONVERSATION, value, None, turns[step.number], step.delta, back)


def _turns_of_deltas(stream: ConversationStream) -> list[int]:
    """Return for which turn each delta was made, by its number."""
    turns: list[int] = []
    for turn in stream.turns():
        turns += [turn.number for entry in turn.entries if isinstance(entry, ConfigDelta)]
    to_come = len(stream.deltas) - len(turns)
    return turns + [stream.turn_count] * to_come


def _touches(change: Change, path: str) -> bool:
    if get_path(change.delta, path) is not None:
        return True
    keys = parse_path(path)
    return any(related(parse_path(unset), keys) for unset in change.unsets)


def _unset_by(change: Change, path: str) -> str | None:
    """Return the last of `change`'s unsets that `path` lies in, if it sets nothing there."""
    if get_path(change.delta, path) is not None or node_of(path) is None:
        return None
    keys = parse_path(path)
    lie_in = (x for x in reversed(change.unsets) if parse_path(x) == keys[: len(parse_path(x))])
    return next(lie_in, None)


def _is_related(path: str, keys: tuple[str, ...]) -> bool:
    """Return as `related` does; what is not a path, in somebody's record, is not."""
    try:
        return related(parse_path(path), keys)
    except ConfigError:
        return False
