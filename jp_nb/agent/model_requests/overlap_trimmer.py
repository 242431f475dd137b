"""Remove the words that a continued response repeats from the end of the response before it."""

from __future__ import annotations


class OverlapTrimmer:
    """Removes text from a continued response that repeats the end of the `previous_text`.

    The first text is withheld while it may still be a repetition, such as `once upon` after a
    response that ended with `It was once upon a`.
    """

    LOOKBACK_CHARS = 500
    MIN_OVERLAP_CHARS = 5

    def __init__(self, previous_text: str) -> None:
        self._previous_end = previous_text[-self.LOOKBACK_CHARS :]
        self._withheld = ""
        self._is_open = True  # the text so far may be a repetition

    def feed(self, text: str) -> str:
        """Add the next `text`; return the new text, or "" while it may still be a repetition."""
        if not self._is_open:
            return text

        self._withheld += text
        position = self._previous_end.find(self._withheld)
        occurs = position >= 0
        # Text that occurs before the end may be the beginning of a longer repetition.
        is_before_end = position < len(self._previous_end) - len(self._withheld)
        return "" if occurs and is_before_end else self.finish()

    def finish(self) -> str:
        """Return the new part of the withheld text. Later text is returned unchanged."""
        self._is_open = False
        withheld = self._withheld
        self._withheld = ""

        longest = min(len(withheld), len(self._previous_end))
        for size in range(longest, self.MIN_OVERLAP_CHARS - 1, -1):
            repeated = withheld[:size]
            if self._previous_end.endswith(repeated) and not repeated.isspace():
                return withheld[size:]
        return withheld
