"""Select the configuration changes of some turns, for a fork and for a cell that runs again.

A cell can run again in a *fork*: a copy of the conversation that ends before the cell's turn. Or it
begins a new conversation. In both cases, the user's settings for it must not be lost.

The settings of the user for a turn, such as those of the options of its cell, are changes before
the first event of the turn (`turn_start`). They are entries of this turn, and so are the changes
that its tools make. Changes after the last turn are for the next one, and belong to no turn:

    change, change, turn_start, request, change by a tool, answer, change, turn_start, …
    [ turn 0                                                     ] [ turn 1           ]

Changes are numbered by their position in `ConversationStream.deltas`. A change is *effective*
unless it was made for a turn that got no answer: then a later entry, a mark, reverts it.
`select_effective_deltas` (`unanswered_turns.py`) returns the effective ones with their numbers.

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
    """Return the effective changes before the first turn, which are also those for it."""
    beginning = takewhile(lambda entry: not isinstance(entry, TurnStart), stream.entries)
    count = sum(isinstance(entry, ConfigDelta) for entry in beginning)
    effective = select_effective_deltas(stream.deltas)
    return tuple(delta for number, delta in effective if number < count)


def select_changes_since_last_turn(stream: ConversationStream) -> tuple[ConfigDelta, ...]:
    """Return the effective changes for the next turn."""
    return tuple(delta for _, delta in _list_since_last_turn(stream))


def _list_since_last_turn(stream: ConversationStream) -> list[NumberedChange]:
    """Return the effective changes that belong to no turn: all that follow those of the turns."""
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
    """Return the changes of the user that a fork before the turn `turn_number` must get.

    A cell runs again in this fork, which has the entries of the earlier turns. To be added are

    - those for the turn of the cell, except its last `option_count` ones: they come from the
      options of the cell, which make them again;
    - those for the `skipped_turns`;
    - those since the last turn.

    Changes by tools, and changes for other later turns, are not copied.
    """
    # A fork before turn 0 has no turns, but has the changes before it.
    for_turn = _list_for_turn(stream, turn_number) if turn_number else []
    kept_count = max(len(for_turn) - option_count, 0)
    for_skipped = chain.from_iterable(_list_for_turn(stream, turn) for turn in skipped_turns)
    return [*for_turn[:kept_count], *for_skipped, *_list_since_last_turn(stream)]


def _list_for_turn(stream: ConversationStream, turn_number: int) -> list[NumberedChange]:
    """Return the effective changes at the beginning of a turn, before its `turn_start`."""
    start = 0  # the number of the turn's first change
    for turn in stream.turns():
        at_begin = list(takewhile(lambda entry: isinstance(entry, ConfigDelta), turn.entries))
        if turn.number == turn_number:
            end = start + len(at_begin)
            effective = select_effective_deltas(stream.deltas)
            return [(number, delta) for number, delta in effective if start <= number < end]

        start += sum(isinstance(entry, ConfigDelta) for entry in turn.entries)

    return []
