"""A console that keeps what is read at it, and the snapshots of such readings."""

from __future__ import annotations

import re


def parts_of(text: str) -> dict[str, str]:
    """The parts of a snapshot by their headings."""
    parts = re.split(r"^=== (.*) ===\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


class Scribe:
    """A console at which `lines` are typed, and all that is then to be read there."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = list(lines)
        self.read_so_far: list[str] = []

    def write(self, text: str) -> None:
        self.read_so_far += text.split("\n")

    def read(self, prompt: str, *, secret: bool) -> str:
        if not self.lines:
            self.read_so_far.append(f"{prompt}⌃D")
            raise EOFError
        line = self.lines.pop(0)
        self.read_so_far.append(f"{prompt}{'•' * len(line) if secret else line}⏎")
        return line
