"""Turns whose request got no answer: they stay in the record and are not sent again.

Such a turn holds nothing that a model said. Where it failed or was interrupted, its last entry is
a change of the configuration that changes nothing and says so in its `metadata`:
    {"no_answer": {"ended": "failed", "takes_back": 1}}
`ended` is `failed` or `interrupted`; the `takes_back` changes before it were made for that turn
alone and do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from jp_nb.record.events import (
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    Entry,
    ToolCallRequest,
    is_usage_mark,
)

NO_ANSWER = "no_answer"
"""The key in the metadata of a delta."""

Ended = Literal["failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The end of a turn without an answer, and how many changes before its mark do not count."""

    ended: Ended
    takes_back: int = 0


def no_answer_mark(found: NoAnswer) -> ConfigDelta:
    """Return the entry that says how a turn without an answer ended."""
    said = {"ended": found.ended, "takes_back": found.takes_back}
    return ConfigDelta(metadata={NO_ANSWER: said})


def no_answer(entry: Entry) -> NoAnswer | None:
    """Return what `entry` says about the turn it ends; None if it is not such a mark."""
    match entry.metadata.get(NO_ANSWER) if isinstance(entry, ConfigDelta) else None:
        case {"ended": ("failed" | "interrupted") as ended, "takes_back": int(count)}:
            return NoAnswer(ended, max(int(count), 0))
    return None


def is_unanswered(turn: Iterable[Entry]) -> bool:
    """True if something was asked in `turn` and the model neither answered nor called a tool.

    Reasoning alone is not an answer: nobody can go on from it.
    """
    asked = False
    for entry in turn:
        if isinstance(entry, ToolCallRequest):
            return False
        if isinstance(entry, ChatResponse) and entry.kind != "reasoning":
            return False
        asked = asked or isinstance(entry, ChatRequest)
    return asked


class TakenBack:
    """The numbers of the changes that a mark takes back, found as the record grows."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self._seen = 0
        self._after_mark = 0

    def follow(self, deltas: Sequence[ConfigDelta]) -> set[int]:
        """Look at what was appended to `deltas`; the numbers that are new."""
        found: set[int] = set()
        for number in range(self._seen, len(deltas)):
            mark = no_answer(deltas[number])
            if mark is not None:  # none reaches behind the mark before it: the work stays linear
                found.update(range(max(self._after_mark, number - mark.takes_back), number))
                self._after_mark = number + 1
        self._seen = len(deltas)
        self.numbers |= found
        return found


def counting_deltas(deltas: Sequence[ConfigDelta]) -> list[tuple[int, ConfigDelta]]:
    """Return the `deltas` that count, numbered: no marks, and none that a mark takes back."""
    gone = TakenBack().follow(deltas)
    return [
        (number, delta)
        for number, delta in enumerate(deltas)
        if number not in gone and no_answer(delta) is None and not is_usage_mark(delta)
    ]
