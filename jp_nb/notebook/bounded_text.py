"""The beginning and the end of a long text that arrives in pieces, such as a printed one."""

from __future__ import annotations

from typing import Final

MAX_OUTPUT_TEXT_CHARS: Final = 25_000
"""Limit at the beginning of one output, and at its end."""


class BoundedText:
    """The beginning and the end of a text that arrives in pieces.

    As in a terminal, a carriage return overwrites the line, such as a progress bar.
    """

    def __init__(self) -> None:
        # The text is the head, then perhaps a gap, the tail, and the last line. Later text may
        # overwrite only this line.
        self._head = ""
        self._tail: list[str] = []  # in pieces; longer than what is shown, until it is cut
        self._line = ""
        self._tail_chars = 0
        self._total_chars = 0  # of the head, the gap, and the tail

    def add(self, text: str) -> None:
        """Append `text`."""
        lines, newline, last_line = (self._line + text).rpartition("\n")
        if "\r" in lines:
            lines = "\n".join(map(_get_visible_part, lines.split("\n")))
        self._append(lines + newline)

        # A final carriage return stays: it takes effect when more text arrives.
        start = last_line.rstrip("\r").rfind("\r") + 1
        self._line = last_line[start:]

        # A longer line would not be bounded. Its beginning can then not be overwritten any more.
        if len(self._line) > MAX_OUTPUT_TEXT_CHARS:
            self._append(self._line)
            self._line = ""

    def __str__(self) -> str:
        """Return the text, with a note in place of omitted characters."""
        line = _get_visible_part(self._line)
        tail = "".join(self._tail)[-MAX_OUTPUT_TEXT_CHARS:]
        omitted = self._total_chars - len(self._head) - len(tail)
        gap = f"\n[… {omitted} characters omitted …]\n" if omitted else ""
        return f"{self._head}{gap}{tail}{line}"

    def to_continue(self) -> str:
        """Return the text as `str` does, ready for more text to be appended.

        It ends with a carriage return if the next text overwrites the last line.
        """
        return f"{self}\r" if self._line.endswith("\r") else str(self)

    @property
    def kept_chars(self) -> int:
        """The number of characters in memory."""
        return len(self._head) + self._tail_chars + len(self._line)

    def _append(self, text: str) -> None:
        """Append text that nothing overwrites: to the head while there is room, or to the tail."""
        self._total_chars += len(text)
        if room := MAX_OUTPUT_TEXT_CHARS - len(self._head):
            self._head += text[:room]
            text = text[room:]

        if text:
            self._tail.append(text)
            self._tail_chars += len(text)

        if self._tail_chars > 2 * MAX_OUTPUT_TEXT_CHARS:
            self._tail = ["".join(self._tail)[-MAX_OUTPUT_TEXT_CHARS:]]
            self._tail_chars = MAX_OUTPUT_TEXT_CHARS


def _get_visible_part(line: str) -> str:
    """Return the part of a line after its last carriage return, except one at its end."""
    return line.rstrip("\r").rpartition("\r")[-1]
