"""Select the configuration changes of some turns, for a fork and for a cell that runs again.

Changes are numbered by their position in `ConversationStream.deltas`. A change is *effective*
unless it was made for a turn that got no answer: then a mark reverts it (`unanswered_turns.py`).

Source: `docs/record.md`, `docs/decisions.md` D13.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, takewhile

from jp_nb.record.entries.events import ConfigDelta, TurnStart
from jp_nb.record.entries.unanswered_turns import select_effective_deltas
from jp_nb.record.stream import ConversationStream

NumberedChange = tuple[int, ConfigDelta]
"""The number of a change, and its entry."""


def select_changes_before_first_turn(stream: ConversationStream) -> tuple[ConfigDelta, ...]:
    """Return the effective changes before the first turn."""
    beginning = takewhile(lambda entry: not isinstance(entry, TurnStart), stream.entries)
    count = sum(isinstance(entry, ConfigDelta) for entry in beginning)
    effective = select_effective_deltas(stream.deltas)
    return tuple(delta for number, delta in effective if number < count)


def select_changes_since_last_turn(stream: ConversationStream) -> tuple[ConfigDelta, ...]:
    """Return the effective changes for the next turn."""
    return tuple(delta for _, delta in _list_since_last_turn(stream))


def _list_since_last_turn(stream: ConversationStream) -> list[NumberedChange]:
    entries = chain.from_iterable(turn.entries for turn in stream.turns())
    count = sum(isinstance(entry, ConfigDelta) for entry in entries)
    effective = select_effective_deltas(stream.deltas)
    return [(number, delta) for number, delta in effective if number >= count]


def select_changes_for_rerun(
    stream: ConversationStream,
    turn_number: int,
    *,
    option_count: int = 0,
    skipped_turns: Iterable[int] = (),
) -> list[NumberedChange]:
    """Return the changes that a fork which ends before the turn `turn_number` copies.

    A cell runs again in this fork. The fork has the changes before the first turn anyway. These
    changes of the user are added:

    - those for the turn of the cell, except its last `option_count` ones: they come from the
      options of the cell, which make them again;
    - those for the `skipped_turns`;
    - those since the last turn.

    Changes by tools, and changes for other later turns, are not copied.
    """
    # Those for the first turn are the changes before it, which the fork has.
    for_turn = _list_for_turn(stream, turn_number) if turn_number else []
    kept_count = max(len(for_turn) - option_count, 0)
    for_skipped = chain.from_iterable(_list_for_turn(stream, turn) for turn in skipped_turns)
    return [*for_turn[:kept_count], *for_skipped, *_list_since_last_turn(stream)]


def _list_for_turn(stream: ConversationStream, turn_number: int) -> list[NumberedChange]:
    """Return the changes at the beginning of a turn, before its request."""
    start = 0
    for turn in stream.turns():
        at_begin = list(takewhile(lambda entry: isinstance(entry, ConfigDelta), turn.entries))
        if turn.number == turn_number:
            end = start + len(at_begin)
            effective = select_effective_deltas(stream.deltas)
            return [(number, delta) for number, delta in effective if start <= number < end]

        start += sum(isinstance(entry, ConfigDelta) for entry in turn.entries)

    return []
