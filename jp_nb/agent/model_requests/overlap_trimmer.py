"""Remove the words that a continued response repeats from the end of the response before it."""

from __future__ import annotations


class OverlapTrimmer:
    """Removes text from a continued response that repeats the end of the text `before` it."""

    LOOKBACK_CHARS = 500
    MIN_OVERLAP_CHARS = 5

    def __init__(self, before: str) -> None:
        self._before = before[-self.LOOKBACK_CHARS :]
        self._held = ""
        self._open = True

    def feed(self, text: str) -> str:
        """Add the next `text`; return the new text, or "" while it may still be a repetition."""
        if not self._open:
            return text

        self._held += text
        position = self._before.find(self._held)
        may_repeat_more = 0 <= position < len(self._before) - len(self._held)
        return "" if may_repeat_more else self.rest()

    def rest(self) -> str:
        """Return the new part of the withheld text. Later text is returned unchanged."""
        self._open = False
        held = self._held
        self._held = ""

        longest = min(len(held), len(self._before))
        for size in range(longest, self.MIN_OVERLAP_CHARS - 1, -1):
            repeated = held[:size]
            if self._before.endswith(repeated) and not repeated.isspace():
                return held[size:]
        return held
