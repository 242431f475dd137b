"""Find the words that differ between removed and added lines.

The comparison takes linear time for lines of any length, because an edit may be hostile.

Source: `docs/cells.md`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from jp_nb.rendering.same_runs import find_same_runs

MAX_COMPARED_LINE_CHARS: Final = 2000
"""Longer lines are shown as changed as a whole."""
MAX_ALIGNED_LINES: Final = 50
"""Blocks of unequal length with more lines are shown without marks inside lines."""
MIN_SHARED_SHARE: Final = 0.5
"""Share of equal words from which two lines count as versions of one line."""

_PARTS: Final = re.compile(r"\w+|\s+|[^\w\s]")


class CharRange(NamedTuple):
    """The characters of a line from `start` to before `end`; empty if the other line has more."""

    start: int
    end: int


class ChangedLines(NamedTuple):
    """The changed ranges of a removed and of an added line."""

    removed: list[CharRange]
    added: list[CharRange]


def find_changed_words(removed: str, added: str) -> ChangedLines:
    """Return the ranges that differ.

    Both are empty if a line is too long, or if the lines have no word in common: then the whole
    lines differ, and a mark of all words would say nothing.
    """
    if max(len(removed), len(added)) > MAX_COMPARED_LINE_CHARS:
        return ChangedLines([], [])

    before = _PARTS.findall(removed)
    after = _PARTS.findall(added)
    runs = find_same_runs(before, after)  # the last one is empty, at the ends of both lines

    shared = "".join("".join(before[run.before_start : run.before_end]) for run in runs)
    if not re.search(r"\w", shared):
        return ChangedLines([], [])

    before_starts = _list_starts(before)
    after_starts = _list_starts(after)

    changed = ChangedLines([], [])
    before_end = 0  # of the last run of equal parts
    after_end = 0

    for run in runs:
        if before_end < run.before_start or after_end < run.after_start:
            removed_range = CharRange(before_starts[before_end], before_starts[run.before_start])
            added_range = CharRange(after_starts[after_end], after_starts[run.after_start])
            _add_range(changed.removed, removed_range)
            _add_range(changed.added, added_range)

        before_end = run.before_end
        after_end = run.after_end

    return changed


def _add_range(ranges: list[CharRange], new: CharRange) -> None:
    """Add a range, or extend the last one if they touch."""
    if ranges and ranges[-1].end == new.start:
        ranges[-1] = CharRange(ranges[-1].start, new.end)
    else:
        ranges.append(new)


def _list_starts(parts: Sequence[str]) -> list[int]:
    """Return the positions at which the parts of a line start, and the length of the line."""
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + len(part))
    return starts


def pair_changed_lines(removed: Sequence[str], added: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the indices of lines that are compared word by word, in order.

    Equal numbers of lines are paired one by one, others if most of their words are equal.
    """
    if len(removed) == len(added):
        yield from ((index, index) for index in range(len(removed)))
        return

    if max(len(removed), len(added)) > MAX_ALIGNED_LINES:
        return

    removed_counts = [_count_words(line) for line in removed]
    added_counts = [_count_words(line) for line in added]

    start = 0  # of the added lines that are not paired yet
    for removed_index, counts in enumerate(removed_counts):
        for added_index in range(start, len(added_counts)):
            if _is_similar(counts, added_counts[added_index]):
                yield removed_index, added_index
                start = added_index + 1
                break


def _count_words(line: str) -> Counter[str]:
    """Return the words of a line; none of a very long one, which is then not paired."""
    if len(line) > MAX_COMPARED_LINE_CHARS:
        return Counter()
    return Counter(re.findall(r"\w+", line))


def _is_similar(one: Counter[str], other: Counter[str]) -> bool:
    """Return True if most words of the longer line are also in the other one."""
    size = max(one.total(), other.total())
    return size > 0 and (one & other).total() >= MIN_SHARED_SHARE * size
