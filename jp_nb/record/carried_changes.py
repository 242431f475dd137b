"""What the configuration of a conversation leaves to the one that follows it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import takewhile

from pydantic import JsonValue

from jp_nb.config.partial import Change, Partial, diff, is_wrapper
from jp_nb.config.paths import Keys, format_path
from jp_nb.config.schema import JSON, ROOT, SchemaNode
from jp_nb.record.events import ConfigDelta, TurnStart
from jp_nb.record.own_paths import OwnPaths
from jp_nb.record.projection import Projection
from jp_nb.record.stream import ConversationStream
from jp_nb.record.unanswered import counting_deltas


def set_before_first_request(stream: ConversationStream) -> tuple[ConfigDelta, ...]:
    """Return the changes of `stream` that count and were made before its first turn."""
    start = next((n for n, x in enumerate(stream.entries) if isinstance(x, TurnStart)), None)
    before = sum(isinstance(entry, ConfigDelta) for entry in stream.entries[:start])
    return tuple(delta for number, delta in counting_deltas(stream.deltas) if number < before)


def set_since_last_turn(stream: ConversationStream) -> tuple[ConfigDelta, ...]:
    """Return the configuration changes that were made for the turn to come, and count."""
    return tuple(delta for _, delta in _since_last_turn(stream))


def _since_last_turn(stream: ConversationStream) -> list[tuple[int, ConfigDelta]]:
    made = sum(isinstance(entry, ConfigDelta) for turn in stream.turns() for entry in turn.entries)
    return [(number, delta) for number, delta in counting_deltas(stream.deltas) if number >= made]


def set_for_turn_again(
    stream: ConversationStream, number: int, *, options: int = 0
) -> list[tuple[int, ConfigDelta]]:
    """Return the changes of `stream`, numbered, that a fork before turn `number` takes along.

    Those are the ones that were made for it, ahead of its request, but for the last `options` of
    them; and those that were made since the last turn. What its tools changed, and what was set for
    the turns behind it, stays with these turns. What is ahead of the first turn a fork has anyway.
    """
    ahead = _ahead_of(stream, number) if number else []
    return [*ahead[: max(len(ahead) - options, 0)], *_since_last_turn(stream)]


def _ahead_of(stream: ConversationStream, number: int) -> list[tuple[int, ConfigDelta]]:
    start = 0
    for turn in stream.turns():
        ahead = list(takewhile(lambda entry: isinstance(entry, ConfigDelta), turn.entries))
        if turn.number == number:
            end = start + len(ahead)
            return [x for x in counting_deltas(stream.deltas) if start <= x[0] < end]
        start += sum(isinstance(entry, ConfigDelta) for entry in turn.entries)
    return []


def carried_over(projection: Projection, begins: Partial) -> Change:
    """Return the change that lets what `begins` so go on as the conversation of `projection` ended.

    What its own changes came to counts, not what it began with.

    Args:
        projection: The conversation that is left.
        begins: What is set where the next one begins, without strategies.
    """
    said = OwnPaths(projection.steps())
    change = diff(begins, projection.partial())
    return changes_at(change, lambda path: path in said)


def changes_at(change: Change, wanted: Callable[[str], bool]) -> Change:
    """Return what of `change` is at paths that are `wanted`."""
    delta = _at(change.delta, wanted, ROOT, ())
    return Change(delta, tuple(path for path in change.unsets if wanted(path)))


def _at(
    partial: Mapping[str, JsonValue], wanted: Callable[[str], bool], node: SchemaNode, above: Keys
) -> Partial:
    kept: Partial = {}
    for key, value in partial.items():
        keys, below = (*above, key), node.child(key) or JSON
        is_group = below.kind in ("table", "map") and not is_wrapper(value, below)
        if isinstance(value, dict) and is_group:
            if inner := _at(value, wanted, below, keys):
                kept[key] = inner
        elif wanted(format_path(keys)):
            kept[key] = value
    return kept
