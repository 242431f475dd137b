"""Find the equal parts of two sequences, such as lines or words, in O(n log n) time.

This is a *patience diff*: it pairs the parts that occur once in both sequences, then repeats that
between the pairs, in at most `DIFF_PASSES` passes.

Source: https://bramcohen.livejournal.com/73318.html, `docs/guide.md`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

DIFF_PASSES = 12
"""Limit of passes over both values. Parts that are still unpaired count as different."""


class SameRun(NamedTuple):
    """A run of equal parts: indices of its start on both sides, and the number of parts."""

    before_start: int
    after_start: int
    length: int

    @property
    def before_end(self) -> int:
        """Index after the last part, in `before`."""
        return self.before_start + self.length

    @property
    def after_end(self) -> int:
        """Index after the last part, in `after`."""
        return self.after_start + self.length


def find_same_runs(before: Sequence[str], after: Sequence[str]) -> list[SameRun]:
    """Return the runs of equal parts, in order, and an empty run at the end.

    The empty run lets a caller treat the parts after the last equal ones like those before a run.
    """
    pairs: list[int | None] = [None] * len(before)  # by index in `before`: index in `after`
    gaps = [_Gap(0, len(before), 0, len(after))]

    for _ in range(DIFF_PASSES):
        gaps = list(chain.from_iterable(_split_gap(before, after, pairs, gap) for gap in gaps))

    runs: list[SameRun] = []
    for index, after_index in enumerate(pairs):
        if after_index is None:
            continue

        last = runs[-1] if runs else None
        if last is not None and (last.before_end, last.after_end) == (index, after_index):
            runs[-1] = last._replace(length=last.length + 1)
        else:
            runs.append(SameRun(index, after_index, 1))

    return [*runs, SameRun(len(before), len(after), 0)]


def count_equal(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the number of equal characters or items at the beginning of both."""
    for index, (item, other_item) in enumerate(zip(one, other, strict=False)):
        if item != other_item:
            return index
    return min(len(one), len(other))


class _Gap(NamedTuple):
    """Parts that are not paired yet: indices in `before`, and in `after`. The ends are excluded."""

    start: int
    end: int
    after_start: int
    after_end: int

    @property
    def is_empty(self) -> bool:
        return self.start >= self.end or self.after_start >= self.after_end


def _split_gap(
    before: Sequence[str], after: Sequence[str], pairs: list[int | None], gap: _Gap
) -> Iterator[_Gap]:
    """Pair the equal start, the equal end, and the parts that occur once on both sides.

    The pairs are added to `pairs`. Yield the gaps between them.
    """
    start, end, after_start, after_end = gap

    while start < end and after_start < after_end and before[start] == after[after_start]:
        pairs[start] = after_start
        start += 1
        after_start += 1

    while start < end and after_start < after_end and before[end - 1] == after[after_end - 1]:
        end -= 1
        after_end -= 1
        pairs[end] = after_end

    rest = _Gap(start, end, after_start, after_end)
    if rest.is_empty:
        return

    anchors = _find_longest_increasing(_find_unique_pairs(before, after, rest))
    if not anchors:
        return

    for index, after_index in anchors:
        pairs[index] = after_index

    borders = [(start - 1, after_start - 1), *anchors, (end, after_end)]
    for (left, after_left), (right, after_right) in pairwise(borders):
        between = _Gap(left + 1, right, after_left + 1, after_right)
        if not between.is_empty:
            yield between


def _find_unique_pairs(
    before: Sequence[str], after: Sequence[str], gap: _Gap
) -> list[tuple[int, int]]:
    """Return the pairs of indices of the parts that occur once on both sides."""
    counts = Counter(before[gap.start : gap.end])
    after_counts = Counter(after[gap.after_start : gap.after_end])

    unique_after: dict[str, int] = {}
    for index in range(gap.after_start, gap.after_end):
        if after_counts[after[index]] == 1:
            unique_after[after[index]] = index

    pairs: list[tuple[int, int]] = []
    for index in range(gap.start, gap.end):
        part = before[index]
        if counts[part] == 1 and part in unique_after:
            pairs.append((index, unique_after[part]))

    return pairs


def _find_longest_increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of pairs in which the second numbers also increase.

    The first numbers of `pairs` increase already.
    """
    ends: list[int] = []  # by length: the smallest second number that ends such a subsequence
    end_indices: list[int] = []  # by length: index of that pair
    previous: list[int] = []  # by pair: index of the pair before it in its subsequence; -1: none

    for index, (_, second) in enumerate(pairs):
        # The longest subsequence that the pair can extend has this length.
        length = bisect_left(ends, second)
        before = end_indices[length - 1] if length else -1
        previous.append(before)

        if length == len(ends):
            ends.append(second)
            end_indices.append(index)
        else:
            ends[length] = second
            end_indices[length] = index

    # From the end of the longest subsequence back to its start.
    reverse: list[tuple[int, int]] = []
    index = end_indices[-1] if end_indices else -1
    while index >= 0:
        reverse.append(pairs[index])
        index = previous[index]

    return reverse[::-1]
