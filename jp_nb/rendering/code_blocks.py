"""Find the fenced code blocks of Markdown.

Source: https://spec.commonmark.org/0.31.2/, sections 4.5, 5.1 and 5.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# Indentation, and marks of lists and quotations, such as `> - `. The possessive `*+` and `++` keep
# the time linear for any text of a model.
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
    """Yield the blocks. A block without a closing fence ends with its list or with the text."""
    index = 0
    while index < len(lines):
        prefix_match = _MARKS.match(lines[index])
        prefix = prefix_match[0] if prefix_match else ""
        opening = _CODE_FENCE.fullmatch(lines[index][len(prefix) :])
        index += 1
        if opening is None:
            continue

        fence, info = (opening[1], opening[2]) if opening[1] else (opening[3], opening[4])
        rules = _BlockRules(prefix, fence)
        block: list[str] = []

        while index < len(lines) and not rules.is_left_by(lines[index]):
            line = rules.remove_prefix(lines[index])
            index += 1
            if rules.is_closed_by(line):
                break
            block.append(line)

        yield CodeBlock(_read_language(info), "\n".join(block))


def _read_language(info: str) -> str:
    """Return the language in the text after a fence, such as `{.python}`."""
    match = _LANGUAGE.match(info.strip())
    return match[1].lower() if match else ""


class _BlockRules:
    """Tells which lines belong to a block whose `fence` follows a `prefix`, such as `> - `.

    A block in a quotation ends with the quotation, and a block in a list with the list item, whose
    lines are indented. A tab has up to four columns.
    """

    def __init__(self, prefix: str, fence: str) -> None:
        self._fence = fence
        self._quote_count = prefix.count(">")
        self._is_in_list = any(char not in " \t>" for char in prefix)
        # The indentation of the lines of the block, inside of the quotation.
        self._columns = len(prefix.rpartition(">")[2].expandtabs(4))

    def is_left_by(self, line: str) -> bool:
        """Return True if `line` is outside of the quotation or the list."""
        if self._quote_count:  # it alone counts, also if there is a list inside of it
            return not line.lstrip(" \t").startswith(">")
        if not self._is_in_list or not line.strip():
            return False
        return _count_columns(line) < self._columns

    def remove_prefix(self, line: str) -> str:
        """Return a line of the block without its quotation marks, and without its indentation."""
        for _ in range(self._quote_count):
            stripped = line.lstrip(" \t")
            if not stripped.startswith(">"):
                break
            line = stripped[1:]

        removed_columns = min(self._columns, _count_columns(line))
        if not removed_columns:
            return line
        if "\t" not in line[:removed_columns]:
            return line[removed_columns:]

        # A tab has several columns, of which some may stay.
        kept_columns = _count_columns(line) - removed_columns
        return " " * kept_columns + line.lstrip(" \t")

    def is_closed_by(self, line: str) -> bool:
        """Return True if `line`, without its prefix, is the fence that closes the block."""
        text = line.strip(" \t")
        return text.startswith(self._fence) and not text.strip(self._fence[0])


def _count_columns(line: str) -> int:
    """Return the columns of the indentation of a line."""
    return len(line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4))
