"""Find the fenced code blocks of Markdown.

Source: https://spec.commonmark.org/0.31.2/, sections 4.5, 5.1 and 5.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_MARKS: Final = re.compile(r"(?:[ \t>]|[-+*](?=[ \t])|\d{1,9}[.)](?=[ \t]))*+")
_CODE_FENCE: Final = re.compile(r"(?:(`{3,}+)([^`]*+)|(~{3,}+)(.*+))")
_LANGUAGE: Final = re.compile(r"\{?\.?([A-Za-z0-9_+#.-]*)")
PYTHON_LANGUAGES: Final = frozenset(
    ("", "python", "py", "python3", "ipython", "ipython3", "pycon", "jupyter", "sage")
)
"""Languages of blocks that a cell can run."""


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced block of code.

    Attributes:
        language: The first word after its fence, in lower case; "" without one.
        text: Its content, without the line break at the end.
    """

    language: str
    text: str

    @property
    def is_python(self) -> bool:
        """True if its language is Python, or it has none."""
        return self.language in PYTHON_LANGUAGES

    @property
    def first_line(self) -> str:
        """Return the first line that is not blank."""
        return next((line.strip() for line in self.text.split("\n") if line.strip()), "")


def find_code_blocks(text: str) -> list[CodeBlock]:
    """Return the fenced blocks of the Markdown `text`, in order, including an unclosed one.

    A fence may be indented, or be in a list or a quotation. Its prefix is removed from the lines of
    the block.
    """
    return list(_find_blocks(text.replace("\r\n", "\n").split("\n")))


def _find_blocks(lines: list[str]) -> Iterator[CodeBlock]:
    at = 0
    while at < len(lines):
        marks = _MARKS.match(lines[at])
        before = marks[0] if marks else ""
        found = _CODE_FENCE.fullmatch(lines[at][len(before) :])
        at += 1
        if found is None:
            continue

        fence, info = (found[1], found[2]) if found[1] else (found[3], found[4])
        inside = _BlockLines(before, fence)
        block: list[str] = []

        while at < len(lines) and not inside.is_left_by(lines[at]):
            line = inside.without_marks(lines[at])
            at += 1
            if inside.is_closed_by(line):
                break
            block.append(line)

        language = ""
        if matched := _LANGUAGE.match(info.strip()):
            language = matched[1].lower()
        yield CodeBlock(language, "\n".join(block))


class _BlockLines:
    """Finds the lines of a block whose `fence` follows the prefix `before`."""

    def __init__(self, before: str, fence: str) -> None:
        self._fence = fence
        self._quotes = before.count(">")
        self._in_list = any(char not in " \t>" for char in before)
        self._columns = len(before.rpartition(">")[2].expandtabs(4))

    def is_left_by(self, line: str) -> bool:
        if self._quotes:
            return not line.lstrip(" \t").startswith(">")
        return self._in_list and bool(line.strip()) and _indentation(line) < self._columns

    def without_marks(self, line: str) -> str:
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
        text = line.strip(" \t")
        return text.startswith(self._fence) and not text.strip(self._fence[0])


def _indentation(line: str) -> int:
    return len(line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4))
