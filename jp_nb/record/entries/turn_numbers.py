"""The numbers of turns. Records and code count turns from 0, and people count them from 1.

Source: `docs/record.md`, `docs/decisions.md` D186.
"""

from __future__ import annotations


def to_shown_turn(number: int) -> int:
    """Return the number that the user sees for the turn with this stored `number`."""
    return number + 1


def to_stored_turn(shown: int) -> int:
    """Return the stored number of the turn that the user sees as turn `shown`."""
    return shown - 1
