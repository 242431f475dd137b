"""Find the smallest ranges of a source that an edit replaces.

In a shared document, an edit of another user beside these ranges is merged without loss.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jp_nb.toolkit.editing.line_matching import LineMatch, match_source_lines, split_source_lines


class SourceRange(NamedTuple):
    """The replacement of the characters from `start` to before `end` by `text`.

    Positions count UTF-16 code units, as those of a page do.
    """

    start: int
    end: int
    text: str


class _Replacement(NamedTuple):
    """A text, and the text that replaces it. Each is one or several whole lines, or empty."""

    removed: str
    added: str


@dataclass(frozen=True, slots=True)
class SourceChange:
    r"""The change of a source.

    Example:
        >>> SourceChange("a = 1\nb = 2\n", "a = 10\nb = 3\n").list_ranges()
        [SourceRange(start=5, end=5, text='0'), SourceRange(start=10, end=11, text='3')]
    """

    before: str
    after: str

    def list_ranges(self) -> list[SourceRange]:
        """Return the ranges of the source before that differ from the one after, in order."""
        old = split_source_lines(self.before)
        new = split_source_lines(self.after)
        ranges: list[SourceRange] = []
        position = 0  # in UTF-16 code units
        old_start = 0
        new_start = 0

        # The end of both sources counts as a line that is the same, so that the loop also handles
        # the lines after the last such line.
        end = LineMatch(len(old), len(new))
        for same in [*match_source_lines(old, new), end]:
            for replacement in _pair_lines(old[old_start : same.old], new[new_start : same.new]):
                ranges += _trim(replacement, position)
                position += _count_units(replacement.removed)
            position += _count_units("".join(old[same.old : same.old + 1]))
            old_start = same.old + 1
            new_start = same.new + 1
        return ranges


def _pair_lines(removed: Sequence[str], added: Sequence[str]) -> Iterator[_Replacement]:
    """Yield the replacements of lines: one for each line if there are as many, else one for all."""
    if len(removed) == len(added):
        yield from map(_Replacement, removed, added)
    else:
        yield _Replacement("".join(removed), "".join(added))


def _trim(replacement: _Replacement, at: int) -> Iterator[SourceRange]:
    """Yield the range at `at` without the characters that both texts begin and end with."""
    removed, added = replacement
    if removed == added:
        return

    shortest = min(len(removed), len(added))
    start = 0  # number of equal characters at the beginning
    while start < shortest and removed[start] == added[start]:
        start += 1
    tail = 0  # number of equal characters at the end
    while tail < shortest - start and removed[-1 - tail] == added[-1 - tail]:
        tail += 1

    begin = at + _count_units(removed[:start])
    replaced = removed[start : len(removed) - tail]
    yield SourceRange(begin, begin + _count_units(replaced), added[start : len(added) - tail])


def _count_units(text: str) -> int:
    """Return the length of `text` in UTF-16 code units."""
    if text.isascii():
        return len(text)
    return len(text) + sum(char > "\uffff" for char in text)
