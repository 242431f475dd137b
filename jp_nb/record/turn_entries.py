"""The entries of a conversation, read by turns.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import JsonValue

from jp_nb.record.events import CONVERSATION_KINDS, ChatRequest, ConfigDelta, Entry, TurnStart
from jp_nb.record.proposals import end_of_turn, ends_turn


@dataclass(frozen=True, slots=True)
class TurnEntries:
    """The entries of one turn, configuration changes included; `number` is 0-based."""

    number: int
    entries: tuple[Entry, ...]

    @property
    def schema(self) -> Mapping[str, JsonValue] | None:
        """The JSON schema of the answer, if the request that opened the turn has one."""
        request = next((e for e in self.entries if isinstance(e, ChatRequest)), None)
        return request.response_schema if request is not None else None


class TurnEvent(NamedTuple):
    """An event, the 0-based number of its turn, and its index among all entries."""

    turn: int
    position: int
    entry: Entry


class EntriesByTurn:
    """Entries, oldest first. An event is one that belongs to a turn.

    Attributes:
        entries: All of them; those of other kinds apply to the conversation as a whole.
        turn_count: How many turns they make. Events before the first `turn_start` are one too.
        requests: What the person said, of `entries`.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.turn_count = 0
        self.requests: list[ChatRequest] = []

    def events(self) -> Iterator[TurnEvent]:
        """Yield the events, oldest first."""
        turn = -1
        for index, entry in enumerate(self.entries):
            if entry.type in CONVERSATION_KINDS:
                turn = max(turn, 0) if not isinstance(entry, TurnStart) else turn + 1
                yield TurnEvent(turn, index, entry)

    def turns(self) -> Iterator[TurnEntries]:
        """Yield the turns, oldest first.

        Changes of the configuration belong to the turn they lie in; those that lie between two
        turns were made for the later one, but for what the earlier one's tools changed at its end,
        and for the mark of one that got no answer.
        """
        number, current = 0, list[Entry]()
        between: list[Entry] = []
        for entry in self.entries:
            if isinstance(entry, ConfigDelta):
                belongs_before = current and not between and ends_turn(entry)
                (current if belongs_before else between).append(entry)
            elif isinstance(entry, TurnStart):
                if current:
                    yield TurnEntries(number, tuple(current))
                    number += 1
                current, between = [*between, entry], []
            elif entry.type in CONVERSATION_KINDS:  # the turn goes on: they lie in it
                current += between
                current.append(entry)
                between = []
        if current:
            yield TurnEntries(number, tuple(current))

    def last_turn(self) -> TurnEntries | None:
        """Return the last turn as `turns` gives it, without walking through the others."""
        if not self.turn_count:
            return None
        start = len(self.entries) - len(self.current_turn())
        while start and self.entries[start - 1].type not in CONVERSATION_KINDS:
            start -= 1
        if start:
            start = end_of_turn(self.entries, start)
        tail = [
            entry
            for entry in self.entries[start:]
            if entry.type in CONVERSATION_KINDS or isinstance(entry, ConfigDelta)
        ]
        end = len(tail)
        while end and isinstance(tail[end - 1], ConfigDelta):
            end -= 1
        del tail[end_of_turn(tail, end) :]  # made for the turn to come
        return TurnEntries(self.turn_count - 1, tuple(tail))

    def opened_at(self, turn: int) -> int | None:
        """Return the index of the request that opened `turn`; looks no further back than that."""
        number, found = self.turn_count - 1, None
        for index in reversed(range(len(self.entries))):
            entry = self.entries[index]
            if number == turn and isinstance(entry, ChatRequest):
                found = index  # the first of it counts: the others were said in its course
            if isinstance(entry, TurnStart):
                number -= 1
                if number < turn:
                    break
        return found

    def last_event(self) -> Entry | None:
        """Return the last event; None if there is none."""
        return next((e for e in reversed(self.entries) if e.type in CONVERSATION_KINDS), None)

    def current_turn(self) -> list[Entry]:
        """Return all entries from the last `turn_start` on; all there are if there is none."""
        start = len(self.entries)
        while start and not isinstance(self.entries[start - 1], TurnStart):
            start -= 1
        return self.entries[max(start - 1, 0) :]
