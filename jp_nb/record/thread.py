"""The view of a conversation that a provider is sent.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice

from jp_nb.record.compacted import stand_ins
from jp_nb.record.events import (
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    Entry,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.pairing import match_pairs
from jp_nb.record.stream import ConversationStream
from jp_nb.record.unanswered import is_unanswered

VISIBLE = (ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse)
ThreadEntry = ChatRequest | ChatResponse | ToolCallRequest | ToolCallResponse


@dataclass(frozen=True, slots=True)
class ThreadItem:
    """A visible entry and the provider in force when it was made.

    `provider` tells whose signatures the entry carries; reasoning of another one is replayed as
    text.
    """

    entry: ThreadEntry
    provider: str


@dataclass(slots=True, eq=False)
class Thread:
    """The visible entries of one conversation, oldest first. Only ever appended to.

    A provider may keep what it rendered of the first `n` items and go on from there: the items
    never change. Whatever changes them (repair, fork) makes another `Thread`.
    """

    items: list[ThreadItem] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[ThreadItem]:
        return iter(self.items)

    def since(self, index: int) -> Iterator[ThreadItem]:
        """Yield the items from number `index` on."""
        return islice(self.items, index, None)

    def add(self, entry: Entry, provider: str) -> None:
        """Append `entry` if a provider may see it; kinds are invisible unless listed."""
        if isinstance(entry, VISIBLE):
            self.items.append(ThreadItem(entry, provider))


def thread_of(stream: ConversationStream, providers: Sequence[str] = ("",)) -> Thread:
    """Return the whole of `stream` as a provider sees it, each entry with the provider of its time.

    `providers` are those in force at the beginning and after each configuration change
    (`Projection.providers`); the last one goes on.

    An entry that names a request which cannot be told is left out, with the other half of its
    tool call; so are turns that got no answer. Turns that were compacted are as short as that
    says.
    """
    thread = Thread()
    hidden = _hidden(stream) | _unanswered(stream)
    instead = stand_ins(stream, hidden)
    changes = 0
    for index, entry in enumerate(stream.entries):
        if isinstance(entry, ConfigDelta):
            changes += 1
        elif index not in hidden:
            for seen in instead.get(index, (entry,)):
                thread.add(seen, providers[min(changes, len(providers) - 1)])
    return thread


def _unanswered(stream: ConversationStream) -> set[int]:
    """Return the events of turns that got no answer: sent again, they would be asked once more."""
    hidden: set[int] = set()
    for _, grouped in groupby(stream.events(), key=lambda event: event.turn):
        events = list(grouped)
        if is_unanswered(event.entry for event in events):
            hidden.update(event.position for event in events)
    return hidden


def _hidden(stream: ConversationStream) -> set[int]:
    hidden = set(stream.unresolved())
    if not hidden:
        return hidden
    # A provider refuses half a pair: where one half is hidden, the other is too.
    for _, events in groupby(stream.events(), key=lambda event: event.turn):
        for pair in match_pairs((event.position, event.entry) for event in events)[0].items():
            if not hidden.isdisjoint(pair):
                hidden.update(pair)
    return hidden
