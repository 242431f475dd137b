"""Split the entries of a conversation into turns.

A turn begins with a `turn_start` and ends before the next one. Events before the first `turn_start`
are a turn too. A configuration change between two turns belongs to the later one, unless it belongs
to the end of the earlier one (`_belongs_to_turn_end`): tools of that turn made it, or it marks that
the turn has no answer.

Entries of `CONVERSATION_KINDS` are the events of a conversation: requests, answers, tool calls, and
questions. Compactions and images belong to no turn, and are omitted here.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import JsonValue

from jp_nb.record.entries.entry_kinds import CONVERSATION_KINDS
from jp_nb.record.entries.events import (
    ChatRequest,
    ConfigDelta,
    Entry,
    TurnStart,
    is_usage_mark,
)
from jp_nb.record.entries.proposed_by import is_tool_change
from jp_nb.record.entries.unanswered_turns import read_no_answer


@dataclass(frozen=True, slots=True)
class TurnEntries:
    """The entries of one turn, with its configuration changes. `number` is counted from 0."""

    number: int
    entries: tuple[Entry, ...]

    @property
    def schema(self) -> Mapping[str, JsonValue] | None:
        """JSON schema of the answer, if the request has one."""
        request = next((e for e in self.entries if isinstance(e, ChatRequest)), None)
        return request.response_schema if request is not None else None


class TurnEvent(NamedTuple):
    """An event, the number of its turn counted from 0, and its index among all entries."""

    turn: int
    position: int
    entry: Entry


def split_turns(entries: Iterable[Entry]) -> Iterator[tuple[Entry, ...]]:
    """Yield the entries of each turn, oldest first. Changes for a turn to come are omitted."""
    current: list[Entry] = []
    # Changes after the last event of the turn: they are of the next turn if this one has ended.
    between: list[Entry] = []

    for entry in entries:
        if isinstance(entry, ConfigDelta):
            # Only directly after the turn. After a change for the next turn, this one is for the
            # next turn too, so that changes keep their order.
            ends_turn = bool(current) and not between and _belongs_to_turn_end(entry)
            group = current if ends_turn else between
            group.append(entry)
        elif isinstance(entry, TurnStart):
            if current:
                yield tuple(current)
            current = [*between, entry]
            between = []
        elif entry.type in CONVERSATION_KINDS:  # the turn continues after these changes
            current += between
            current.append(entry)
            between = []

    if current:
        yield tuple(current)


def iter_events(entries: Iterable[Entry]) -> Iterator[TurnEvent]:
    """Yield the events of all turns, oldest first, without configuration changes."""
    turn = -1
    for index, entry in enumerate(entries):
        if entry.type not in CONVERSATION_KINDS:
            continue

        if isinstance(entry, TurnStart):
            turn += 1
        turn = max(turn, 0)  # before the first `turn_start`
        yield TurnEvent(turn, index, entry)


def find_end_of_turn(entries: Sequence[Entry], end: int) -> int:
    """Return the index after the changes at the end of a turn.

    `end` is the index after the last event of the turn.
    """
    while end < len(entries) and _belongs_to_turn_end(entries[end]):
        end += 1
    return end


def _belongs_to_turn_end(entry: Entry) -> bool:
    """Return True for a change of the turn before it: by its tools, or a mark of its end.

    The mark of usage has the tokens of a response that has no entry.
    """
    return is_tool_change(entry) or read_no_answer(entry) is not None or is_usage_mark(entry)
