"""Fork a conversation: a new one that begins with turns of another.

Source: `docs/guide.md`, `docs/decisions.md` D18, D33.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain

from jp_nb.errors import UsageError
from jp_nb.json_values import JsonObject, copy_nested_json
from jp_nb.record.compactions.compaction import WITH_PREVIOUS, continues_step
from jp_nb.record.entries.clock import Clock
from jp_nb.record.entries.entry_images import read_image_digests
from jp_nb.record.entries.events import (
    Compaction,
    ConfigDelta,
    Entry,
    ImageEntry,
)
from jp_nb.record.entries.new_ids import IdFactory
from jp_nb.record.entries.repair import Item
from jp_nb.record.entries.turn_entries import find_end_of_turn
from jp_nb.record.entries.unanswered_turns import select_effective_deltas
from jp_nb.record.stream import ConversationStream, Made


def fork_conversation(
    stream: ConversationStream,
    *,
    keep_turns: int | None,
    clock: Clock,
    made: Made,
    taken_ids: Iterable[str],
    new_id: IdFactory | None = None,
) -> ConversationStream:
    """Return a new conversation with the first `keep_turns` turns of `stream` (None: all).

    It has copies of the base configuration and the stored entries, including compactions and
    unknown kinds, and is repaired. Configuration changes for later turns are omitted. Without any
    turn, the changes before the first turn are kept. Its `parent` has the id of `stream` and the
    last kept turn.

    Raises:
        UsageError: `stream` has no such turn.
        StorageError: `stream` is damaged.
    """
    count = stream.turn_count
    keep = count if keep_turns is None else keep_turns
    if not 0 <= keep <= count:
        turns = f"its turns are 1 to {count}" if count else "it has no turn yet"
        raise UsageError(f"there is no turn {keep} in this conversation: {turns}")
    parent: JsonObject = {"id": stream.id, "turn": keep - 1} if keep else {"id": stream.id}

    # `origin` is not copied: it describes the files of the other conversation.
    empty = ConversationStream.new(clock=clock, made=made, parent=parent, taken_ids=taken_ids)
    properties = empty.properties
    if stream.title is not None:
        properties["title"] = stream.title

    forked = ConversationStream(
        properties,
        clock=clock,
        base_config=copy_nested_json(stream.base_config),
        raw=copy_nested_json(stream.raw),
        new_id=new_id,
    )

    if keep < count:
        _keep_turns(forked, keep)

    forked.repair()
    return forked


def _keep_turns(stream: ConversationStream, keep: int) -> None:
    """Remove all turns of `stream` but the first `keep`, and the entries that belong to them."""
    events = list(stream.events())
    kept = [event.position for event in events if event.turn < keep]
    removed = {event.position for event in events if event.turn >= keep}

    # Configuration changes for later turns: they come after the last kept event, and after the
    # changes by tools that end its turn.
    changes = [
        index for index, entry in enumerate(stream.entries) if isinstance(entry, ConfigDelta)
    ]
    if kept:
        end = find_end_of_turn(stream.entries, kept[-1] + 1)
    else:
        end = events[0].position
        # Reverted changes are removed with their turn.
        effective = {changes[number] for number, _ in select_effective_deltas(stream.deltas)}
        removed.update(set(changes) - effective)
    removed.update(index for index in changes if index >= end)

    # Compactions of later turns: their numbers would mean other turns.
    removed.update(
        index
        for index, entry in enumerate(stream.entries)
        if isinstance(entry, Compaction) and entry.to_turn >= keep
    )

    # Images that only removed entries show.
    items = _select_kept(stream.list_items(), removed)
    digests = set(chain.from_iterable(read_image_digests(item.entry) for item in items))
    stream.rewrite([item for item in items if not _is_unused_image(item.entry, digests)])


def _select_kept(items: Iterable[Item], removed: Collection[int]) -> list[Item]:
    """Return the items whose index is not in `removed`.

    Compactions of one step are reverted together. If the first one is removed, the next one begins
    the step. Otherwise, it would belong to the compaction before the step.
    """
    kept: list[Item] = []
    has_begun = False  # True if an earlier compaction of the step is kept

    for index, item in enumerate(items):
        has_begun = has_begun and continues_step(item.entry)
        if index in removed:
            continue

        if continues_step(item.entry) and not has_begun:
            kept.append(_without_step_mark(item))
        else:
            kept.append(item)
        has_begun = True

    return kept


def _without_step_mark(item: Item) -> Item:
    """Return a compaction that does not belong to the entry before it."""
    metadata = {key: value for key, value in item.entry.metadata.items() if key != WITH_PREVIOUS}
    entry = item.entry.model_copy(update={"metadata": metadata})

    raw = dict(item.raw or {})
    raw["metadata"] = metadata
    if not metadata:
        del raw["metadata"]
    return Item(entry, raw, item.event_id)


def _is_unused_image(entry: Entry, digests: Collection[str]) -> bool:
    return isinstance(entry, ImageEntry) and entry.digest not in digests
