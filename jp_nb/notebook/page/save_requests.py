"""The requests of the kernel that a page saves the notebook file, and the answers of pages.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SaveAnswer:
    """A page's answer to the request to save; `failure` is None if it has saved the file."""

    failure: str | None


class SaveRequests:
    """Open requests to save, by their `seq`, and the first answer to each. Not thread-safe.

    One save may take several requests: first to the page in which the kernel keeps the record, and
    if it does not answer, to all pages (`file_saver.py`).
    """

    def __init__(self) -> None:
        self._unanswered: set[int] = set()
        self._answers: dict[int, SaveAnswer] = {}

    def expect_answer(self, seq: int) -> None:
        """Expect an answer to the request with the number `seq`."""
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
