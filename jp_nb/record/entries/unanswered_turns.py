"""Marks of turns that ended without an answer, and the changes that they revert.

A turn that failed or was interrupted ends with an entry that marks it. The configuration changes
that were made for this turn then do not apply:

    {"type": "config_delta", "metadata": {"no_answer": {"ended": "failed", "takes_back": 1}}}

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from jp_nb.record.entries.events import (
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    Entry,
    ToolCallRequest,
    is_reasoning,
    is_usage_mark,
)

NO_ANSWER = "no_answer"
"""Key in the metadata of a configuration change."""

Ended = Literal["failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Mark of a turn that failed or was interrupted before the model answered.

    The `takes_back` configuration changes before it were made for this turn and do not apply.
    """

    ended: Ended
    takes_back: int = 0


def make_no_answer(no_answer: NoAnswer) -> ConfigDelta:
    """Return the entry that marks the end of a turn without an answer."""
    mark = {"ended": no_answer.ended, "takes_back": no_answer.takes_back}
    return ConfigDelta(metadata={NO_ANSWER: mark})


def read_no_answer(entry: Entry) -> NoAnswer | None:
    """Return the mark in `entry`, or None."""
    if not isinstance(entry, ConfigDelta):
        return None

    match entry.metadata.get(NO_ANSWER):
        case {"ended": ("failed" | "interrupted") as ended, "takes_back": int(count)}:
            return NoAnswer(ended, max(int(count), 0))
    return None


def is_unanswered(turn: Iterable[Entry]) -> bool:
    """Return True if `turn` has a request, and no text or tool call of the model.

    Reasoning alone is not an answer, because a conversation cannot continue from it.
    """
    asked = False
    for entry in turn:
        if isinstance(entry, ToolCallRequest | ChatResponse) and not is_reasoning(entry):
            return False
        asked = asked or isinstance(entry, ChatRequest)
    return asked


class RevertedChanges:
    """The configuration changes that `NoAnswer` marks revert. `follow` reads new ones.

    Attributes:
        numbers: The indexes of the reverted changes among all changes of the conversation.
    """

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self._read_count = 0
        self._after_last_mark = 0  # index of the change after the last mark

    def follow(self, deltas: Sequence[ConfigDelta]) -> set[int]:
        """Read the marks that were appended to `deltas`, and return newly reverted numbers."""
        reverted: set[int] = set()

        for number in range(self._read_count, len(deltas)):
            mark = read_no_answer(deltas[number])
            if mark is not None:
                # Not past the previous mark, so that the work is linear.
                first = max(self._after_last_mark, number - mark.takes_back)
                reverted.update(range(first, number))
                self._after_last_mark = number + 1

        self._read_count = len(deltas)
        self.numbers |= reverted
        return reverted


def select_effective_deltas(deltas: Sequence[ConfigDelta]) -> list[tuple[int, ConfigDelta]]:
    """Return the changes that apply with their indexes, without marks and reverted changes."""
    reverted = RevertedChanges().follow(deltas)
    return [
        (number, delta)
        for number, delta in enumerate(deltas)
        if number not in reverted and read_no_answer(delta) is None and not is_usage_mark(delta)
    ]
