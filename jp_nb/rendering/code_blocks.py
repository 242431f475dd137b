"""The blocks of code in what a model wrote, as they are.

Source: https://spec.commonmark.org/0.31.2/, sections 4.5, 5.1 and 5.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_MARKS: Final = re.compile(r"(?:[ \t>]|[-+*](?=[ \t])|\d{1,9}[.)](?=[ \t]))*+")
_FENCE: Final = re.compile(r"(?:(`{3,}+)([^`]*+)|(~{3,}+)(.*+))")
_LANGUAGE: Final = re.compile(r"\{?\.?([A-Za-z0-9_+#.-]*)")
PYTHON: Final = frozenset(
    ("", "python", "py", "python3", "ipython", "ipython3", "pycon", "jupyter", "sage")
)
"""Languages whose blocks a cell runs, as they are called behind a fence."""


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """One block.

    Attributes:
        language: The first word behind its fence, in small letters; "" if there is none.
        text: What is in it, without the line break at its end.
    """

    language: str
    text: str

    @property
    def is_python(self) -> bool:
        """True if it says that it is Python, or nothing."""
        return self.language in PYTHON

    @property
    def first_line(self) -> str:
        """Return the first line that is not blank."""
        return next((line.strip() for line in self.text.split("\n") if line.strip()), "")


def code_blocks(text: str) -> list[CodeBlock]:
    """Return the fenced blocks of the Markdown `text`, in order; one that never ends counts, too.

    A fence may stand in a list or in a quotation, or be indented: what stands before it is taken
    off the lines of its block.
    """
    return list(_blocks(text.replace("\r\n", "\n").split("\n")))


def _blocks(lines: list[str]) -> Iterator[CodeBlock]:
    at = 0
    while at < len(lines):
        marks = _MARKS.match(lines[at])
        before = marks[0] if marks else ""
        found = _FENCE.fullmatch(lines[at][len(before) :])
        at += 1
        if found is None:
            continue
        fence, info = (found[1], found[2]) if found[1] else (found[3], found[4])
        inside = _Inside(before, fence)
        block: list[str] = []
        while at < len(lines) and not inside.is_left_by(lines[at]):
            line = inside.without_marks(lines[at])
            at += 1
            if inside.is_closed_by(line):
                break
            block.append(line)
        language = _LANGUAGE.match(info.strip())
        yield CodeBlock(language[1].lower() if language else "", "\n".join(block))


class _Inside:
    """What belongs to the block of a `fence` that stands behind `before`."""

    def __init__(self, before: str, fence: str) -> None:
        self._fence = fence
        self._quotes = before.count(">")
        self._in_list = any(char not in " \t>" for char in before)
        self._columns = len(before.rpartition(">")[2].expandtabs(4))

    def is_left_by(self, line: str) -> bool:
        """Return True if `line` is outside of the list or the quotation that holds the block."""
        if self._quotes:
            return not line.lstrip(" \t").startswith(">")
        return self._in_list and bool(line.strip()) and _indentation(line) < self._columns

    def without_marks(self, line: str) -> str:
        """Return `line` without what belongs to the list or the quotation, or indents the fence."""
        for _ in range(self._quotes):
            stripped = line.lstrip(" \t")
            if not stripped.startswith(">"):
                break
            line = stripped[1:]
        taken = min(self._columns, _indentation(line))
        if not taken:
            return line
        text = line.lstrip(" \t")
        return " " * (_indentation(line) - taken) + text if "\t" in line[:taken] else line[taken:]

    def is_closed_by(self, line: str) -> bool:
        """Return True if `line` ends the block."""
        text = line.strip(" \t")
        return text.startswith(self._fence) and not text.strip(self._fence[0])


def _indentation(line: str) -> int:
    expanded = line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4)
    return len(expanded)
