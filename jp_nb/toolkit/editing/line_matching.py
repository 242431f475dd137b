"""Find the lines that are the same in two sources.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final, NamedTuple

MAX_COMPARED_LINES: Final = 20_000
"""Sources with more lines are shown as changed as a whole."""
MAX_COMPARISON_COST: Final = 3_000_000
"""Limit of the comparisons by `difflib` in one pair of sources. Other lines count as changed."""


def split_source_lines(source: str) -> list[str]:
    """Return the lines of `source`, each with its line break."""
    if not source:
        return []
    lines = source.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + lines[-1:]


class LineMatch(NamedTuple):
    """The indexes of one line that is the same in the old and the new source."""

    old: int
    new: int


def match_source_lines(old: list[str], new: list[str]) -> list[LineMatch]:
    """Return the lines that are the same in both sources, in order.

    This is a "patience diff". The common start and end of both sources are the same. Between them,
    lines that occur once in each source are the anchors, so that the time grows with the number of
    lines. Between the anchors, `difflib` compares as many lines as `MAX_COMPARISON_COST` allows. Of
    more than `MAX_COMPARED_LINES`, no line counts as the same.
    """
    if len(old) + len(new) > MAX_COMPARED_LINES:
        return []

    start = _count_common_start(old, new)
    end_count = _count_common_end(old, new, start)
    end = LineMatch(len(old) - end_count, len(new) - end_count)

    matches = [LineMatch(index, index) for index in range(start)]
    cost = 0  # number of comparisons that `difflib` needs at most
    old_start = start
    new_start = start
    # The last part lies between the last anchor and the common end.
    for anchor in [*_find_unique_lines(old, new, start, end), end]:
        old_part = old[old_start : anchor.old]
        new_part = new[new_start : anchor.new]
        # `difflib` takes up to cubic time.
        cost += len(old_part) * len(new_part) * min(len(old_part), len(new_part))
        if old_part and new_part and cost <= MAX_COMPARISON_COST:
            for match in _compare(old_part, new_part):
                matches.append(LineMatch(old_start + match.old, new_start + match.new))

        if anchor != end:
            matches.append(anchor)
        old_start = anchor.old + 1
        new_start = anchor.new + 1

    matches += [LineMatch(end.old + index, end.new + index) for index in range(end_count)]
    return matches


def _count_common_start(old: list[str], new: list[str]) -> int:
    """Return how many lines at the start are the same."""
    limit = min(len(old), len(new))
    count = 0
    while count < limit and old[count] == new[count]:
        count += 1
    return count


def _count_common_end(old: list[str], new: list[str], start: int) -> int:
    """Return how many lines at the end are the same. The first `start` lines do not count."""
    limit = min(len(old), len(new)) - start
    count = 0
    while count < limit and old[-1 - count] == new[-1 - count]:
        count += 1
    return count


def _compare(old: list[str], new: list[str]) -> Iterator[LineMatch]:
    """Yield the lines that `difflib` finds in both lists."""
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            yield LineMatch(block.a + offset, block.b + offset)


def _find_unique_lines(
    old: list[str], new: list[str], start: int, end: LineMatch
) -> list[LineMatch]:
    """Return the longest list of lines that occur once in each source, in the same order in both.

    Only the lines between `start` and `end` are searched.
    """
    old_counts = Counter(old[start : end.old])
    new_counts = Counter(new[start : end.new])
    new_indexes = {
        line: index
        for index, line in enumerate(new[start : end.new], start)
        if new_counts[line] == 1
    }
    unique = [
        LineMatch(index, new_indexes[line])
        for index, line in enumerate(old[start : end.old], start)
        if old_counts[line] == 1 and line in new_indexes
    ]
    return _find_longest_increase(unique)


def _find_longest_increase(matches: list[LineMatch]) -> list[LineMatch]:
    """Return the longest part of `matches` whose indexes in the new source increase.

    Source: https://en.wikipedia.org/wiki/Longest_increasing_subsequence#Efficient_algorithms
    """
    # For each length: the end of the sequence that ends at the lowest index of the new source.
    end_indexes: list[int] = []
    end_positions: list[int] = []  # the positions in `matches`
    previous_positions: list[int] = []  # for each match, -1 for the first one of a sequence

    for position, match in enumerate(matches):
        length = bisect_left(end_indexes, match.new)
        previous_positions.append(end_positions[length - 1] if length else -1)
        # Replace the end of the sequences of this length, or begin a longer one.
        end_indexes[length : length + 1] = [match.new]
        end_positions[length : length + 1] = [position]

    increasing: list[LineMatch] = []
    position = end_positions[-1] if end_positions else -1
    while position >= 0:
        increasing.append(matches[position])
        position = previous_positions[position]
    return increasing[::-1]
