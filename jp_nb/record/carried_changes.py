"""What the configuration of a conversation leaves to the one that follows it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import takewhile

from pydantic import JsonValue

from jp_nb.config.partial import Change, Partial, apply, diff, is_wrapper, strip_strategies
from jp_nb.config.paths import Keys, format_path, parse_path
from jp_nb.config.schema import JSON, ROOT, SchemaNode
from jp_nb.record.events import ConfigDelta, TurnStart
from jp_nb.record.own_paths import OwnPaths
from jp_nb.record.projection import Projection
from jp_nb.record.proposals import is_of_tools
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
    stream: ConversationStream, number: int, *, options: int = 0, skipped: Iterable[int] = ()
) -> list[tuple[int, ConfigDelta]]:
    """Return the numbered changes of `stream` that a fork before turn `number` takes over.

    A fork has the changes ahead of the first turn anyway. These are added:

    - the changes ahead of the request of the turn, without the last `options` of them;
    - the changes ahead of the `skipped` turns after it;
    - the changes since the last turn.

    Changes by tools, and changes for other later turns, are not taken over.
    """
    ahead = _ahead_of(stream, number) if number else []
    later = [change for turn in skipped for change in _ahead_of(stream, turn)]
    return [*ahead[: max(len(ahead) - options, 0)], *later, *_since_last_turn(stream)]


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


def kept_settings(left: Projection, begins: Projection, paths: Collection[str]) -> Change:
    """Return the change that sets `paths` in a new conversation as the user set them in the last.

    Changes by tools, and changes in an untrusted record, are not the user's. Changes that both
    conversations share, as a fork does, are not made again.

    Args:
        left: The conversation that was active.
        begins: The conversation that follows it.
        paths: The settings, with everything below them.
    """
    keys = [parse_path(path) for path in paths]
    shared = _shared_changes(left, begins)
    below, before = begins.now().below, begins.partial()
    after = before
    for step in left.steps():
        if step.is_reset or step.delta is None or is_of_tools(step.delta):
            continue
        if step.number < left.foreign or begins.foreign <= step.number < shared:
            continue
        change = changes_at(step.change, lambda path: _is_within(path, keys))
        if change:
            after = strip_strategies(apply(after, change, step.defaults, below))
    return diff(before, after)


def _shared_changes(left: Projection, begins: Projection) -> int:
    pairs = zip(left.deltas, begins.deltas, strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _is_within(path: str, places: Collection[Keys]) -> bool:
    keys = parse_path(path)
    return any(keys[: len(place)] == place for place in places)


def changes_at(change: Change, wanted: Callable[[str], bool]) -> Change:
    """Return the part of `change` at the `wanted` paths."""
    delta = _at(change.delta, wanted, ROOT, ())
    unsets = tuple(path for path in change.unsets if wanted(path))
    return Change(delta, unsets, change.uncovers.intersection(unsets))


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
