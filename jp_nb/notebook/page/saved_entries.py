"""Requests to save the notebook file, and the entries that the file is known to have.

The journal of a conversation may forget the entries that are in the file. So a page's claim counts
only up to the number of entries that the page is known to hold.

Source: `docs/protocol.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SaveAnswer:
    """A page's answer to the request to save; `failure` is None if it has saved the file."""

    failure: str | None


class SavedEntries:
    """Open requests to save, and the entries in the file. Not thread-safe.

    Attributes:
        conversation: The id of the conversation that is active in the file; "" if unknown.
        count: The number of its entries in the file.
    """

    def __init__(self) -> None:
        self.conversation = ""
        self.count = 0
        self._unanswered: set[int] = set()  # requests, by their `seq`
        self._answers: dict[int, SaveAnswer] = {}

    def expect(self, seq: int) -> None:
        """Expect an answer to the request `seq`."""
        self._unanswered.add(seq)

    def add_answer(self, seq: int, answer: SaveAnswer) -> None:
        """Keep the first answer to the request `seq`. Ignore others, and unknown requests."""
        if seq in self._unanswered:
            self._unanswered.discard(seq)
            self._answers[seq] = answer

    def find_answer(self, requests: Sequence[int]) -> SaveAnswer | None:
        """Return the answer to the first answered one of `requests`; None if there is none."""
        return next((self._answers[seq] for seq in requests if seq in self._answers), None)

    def drop_answers(self, requests: Sequence[int]) -> None:
        """Forget the answers to `requests`. Later ones are ignored."""
        for seq in requests:
            self._unanswered.discard(seq)
            self._answers.pop(seq, None)

    def set_saved(self, conversation: str, count: int) -> None:
        """Set the entries in the file."""
        self.conversation = conversation
        self.count = count

    def limit(self, conversation: str, count: int) -> None:
        """Lower the count to that of a file that a page has loaded, which may be an older one."""
        if conversation == self.conversation:
            self.count = min(self.count, count)

    def forget(self) -> None:
        """Assume that the file has no entry: the entries may have changed."""
        self.set_saved("", 0)
