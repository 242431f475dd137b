"""Taking entries away again: from the end, or all that a predicate does not keep.

What applies to a conversation as a whole (configuration, unknown kinds) stays. As after a repair,
whoever keeps a copy of the record needs the whole of it.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Callable

from jp_nb.record.events import ChatRequest, Compaction, Entry, TurnStart
from jp_nb.record.repair import Item
from jp_nb.record.stream import ConversationStream, TurnEvent


def pop(stream: ConversationStream) -> Entry | None:
    """Take the last event away and return it; None if there is none."""
    return pop_if(stream, lambda _: True)


def pop_if(stream: ConversationStream, predicate: Callable[[Entry], bool]) -> Entry | None:
    """Take the last event away and return it, if `predicate` holds for it."""
    items = stream.items()
    for index in range(len(items) - 1, -1, -1):
        if items[index].is_event:
            entry = items[index].entry
            if not predicate(entry):
                return None
            del items[index]
            stream.rewrite(items)
            return entry
    return None


def trim_last_request(stream: ConversationStream) -> ChatRequest | None:
    """Take the last request away with all that came of it, so that it can be asked again.

    The start of its turn goes too if nothing else is left of it. None if there is no request.
    """
    items = stream.items()
    places = [i for i, item in enumerate(items) if isinstance(item.entry, ChatRequest)]
    if not places:
        return None
    request = items[places[-1]].entry
    before, after = items[: places[-1]], items[places[-1] :]
    last = next((i for i in range(len(before) - 1, -1, -1) if before[i].is_event), None)
    if last is not None and isinstance(before[last].entry, TurnStart):
        del before[last]
    stream.rewrite(before + [item for item in after if not item.is_event])
    assert isinstance(request, ChatRequest)
    return request


def retain(stream: ConversationStream, predicate: Callable[[TurnEvent], bool]) -> bool:
    """Keep the events for which `predicate` holds; whether any was taken away.

    A compaction of a turn that loses an event, or of a later one, goes too: its numbers would
    mean other turns.
    """
    lost = [event for event in stream.events() if not predicate(event)]
    if lost:
        stream.rewrite(_retained(stream.items(), lost))
    return bool(lost)


def _retained(items: list[Item], lost: list[TurnEvent]) -> list[Item]:
    """`items` without the events in `lost`, and without compactions that count on them."""
    gone = {event.position for event in lost}
    earliest = min((event.turn for event in lost), default=None)
    return [
        item
        for index, item in enumerate(items)
        if index not in gone
        and not (
            earliest is not None
            and isinstance(item.entry, Compaction)
            and item.entry.to_turn >= earliest
        )
    ]


def retain_first(stream: ConversationStream, count: int) -> bool:
    """Keep the first `count` turns; whether anything was taken away."""
    return retain(stream, lambda event: event.turn < count)


def retain_last(stream: ConversationStream, count: int) -> bool:
    """Keep the last `count` turns; whether anything was taken away."""
    first = stream.turn_count - count
    return retain(stream, lambda event: event.turn >= first)
