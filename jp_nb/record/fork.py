"""Another conversation that begins as this one did.

Source: `docs/record.md`, `docs/decisions.md` D19.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_values import json_copy
from jp_nb.record.events import Compaction, ConfigDelta, ImageEntry
from jp_nb.record.ids import Draw
from jp_nb.record.proposals import end_of_turn
from jp_nb.record.recorded_images import digests_in
from jp_nb.record.stream import ConversationStream, Made
from jp_nb.record.timestamps import Clock
from jp_nb.record.unanswered import counting_deltas


def fork(
    stream: ConversationStream,
    *,
    keep_turns: int | None,
    clock: Clock,
    made: Made,
    not_ids: Iterable[str],
    draw: Draw | None = None,
) -> ConversationStream:
    """Return a conversation of its own with the first `keep_turns` turns of `stream` (None: all).

    It has the base configuration and the entries as they are stored, compactions and unknown
    kinds included, and shares nothing with `stream`; it is repaired. Configuration changes
    behind the last turn that is kept go with the turns they were made for; without any turn,
    those from before the first one stay. Its `parent` names `stream` and the last turn kept.

    Raises:
        UsageError: If `stream` has no such turn.
        StorageError: If `stream` is damaged.
    """
    count = stream.turn_count
    keep = count if keep_turns is None else keep_turns
    if not 0 <= keep <= count:
        turns = f"its turns are 0 to {count - 1}" if count else "it has no turn yet"
        raise UsageError(f"there is no turn {keep - 1} in this conversation: {turns}")
    parent: dict[str, JsonValue] = {"id": stream.id}
    if keep:
        parent["turn"] = keep - 1
    # Its `origin` stays behind: it says how the files of another conversation are spelled.
    head = ConversationStream.new(clock=clock, made=made, parent=parent, not_ids=not_ids).head
    if stream.title is not None:
        head["title"] = stream.title
    made_of = ConversationStream(
        head,
        clock=clock,
        base_config=json_copy(stream.base_config),
        raw=json_copy(stream.raw),
        draw=draw,
    )
    if keep < count:
        _cut(made_of, keep)
    made_of.repair()
    return made_of


def undo(
    stream: ConversationStream,
    *,
    clock: Clock,
    made: Made,
    not_ids: Iterable[str],
    draw: Draw | None = None,
) -> ConversationStream:
    """Return a fork of `stream` without its last turn.

    Raises:
        UsageError: If it has none.
        StorageError: If it is damaged.
    """
    if not stream.turn_count:
        raise UsageError("there is no turn to undo: this conversation has none yet")
    keep = stream.turn_count - 1
    return fork(stream, keep_turns=keep, clock=clock, made=made, not_ids=not_ids, draw=draw)


def _cut(stream: ConversationStream, keep: int) -> None:
    """Keep `keep` turns, and the configuration changes that were made until their end.

    What applies to the conversation as a whole stays, but for compactions of turns that go: their
    numbers would mean other turns.
    """
    events = list(stream.events())
    kept = [event.position for event in events if event.turn < keep]
    gone = {event.position for event in events if event.turn >= keep}
    end = end_of_turn(stream.entries, kept[-1] + 1) if kept else events[0].position
    places = [i for i, entry in enumerate(stream.entries) if isinstance(entry, ConfigDelta)]
    gone.update(place for place in places if place >= end)
    if not kept:  # what is taken back goes with the turn it was made for, as the mark does
        gone.update(set(places) - {places[number] for number, _ in counting_deltas(stream.deltas)})
    gone.update(
        index
        for index, entry in enumerate(stream.entries)
        if isinstance(entry, Compaction) and entry.to_turn >= keep
    )
    gone.update(_unshown(stream, gone))
    stream.rewrite([item for index, item in enumerate(stream.items()) if index not in gone])


def _unshown(stream: ConversationStream, gone: Collection[int]) -> list[int]:
    """Return the images that no entry shows once those at the places in `gone` have left."""
    stays = ((n, entry) for n, entry in enumerate(stream.entries) if n not in gone)
    shown = {digest for _, entry in stays for digest in digests_in(entry)}
    return [
        index
        for index, entry in enumerate(stream.entries)
        if isinstance(entry, ImageEntry) and entry.digest not in shown
    ]
