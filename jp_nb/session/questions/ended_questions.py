"""Find the entries in which questions ended, since the question log was last written.

Source: `docs/record.md`.
"""

from __future__ import annotations

from jp_nb.record.stream import ConversationStream


class EndedQuestions:
    """Follows the active conversation for its question log, entry by entry."""

    def __init__(self, stream: ConversationStream) -> None:
        self._seen_raw = stream.raw
        self._seen_count = len(stream)

    def find_new(self, stream: ConversationStream) -> int | None:
        """Return the index from which on entries are new; None if no question ended in them.

        After a repair, all entries of the current turn count as new.
        """
        raw = stream.raw
        start = self._seen_count
        is_repaired = raw is not self._seen_raw  # a repair replaces the list
        if is_repaired:
            start = len(raw) - len(stream.current_turn())

        self._seen_raw = raw
        self._seen_count = len(raw)

        has_ended = any(entry.get("type") == "inquiry_response" for entry in raw[start:])
        return start if has_ended else None
