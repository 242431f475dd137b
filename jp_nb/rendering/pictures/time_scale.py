"""Map the times of a turn to positions of a picture, with ticks and shortened waits.

A turn may wait an hour for the user, and then use a tool for a second. So a long time without a
request or a tool is drawn shorter, and marked as such.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from jp_nb.record.reading.timeline_steps import TurnTimeline
from jp_nb.rendering.pictures.time_words import DAY_S, HOUR_S, MINUTE_S

_TICK_STEPS: Final = (
    *(digit * 10.0**power for power in range(-3, 1) for digit in (1, 2, 5)),
    10.0,
    15.0,
    30.0,
    *(MINUTE_S * count for count in (1.0, 2.0, 5.0, 10.0, 15.0, 30.0)),
    *(HOUR_S * count for count in (1.0, 2.0, 6.0, 12.0)),
    *(DAY_S * digit * 10.0**power for power in range(7) for digit in (1, 2, 5)),
)
_MIN_CUT_S: Final = 5.0
"""A wait that is not longer is never shortened."""
_CUT_SHARE: Final = 0.12
"""Shown length of a shortened wait, as a part of the time with requests and tools."""
_TICK_COUNT: Final = 6
"""Number of ticks to aim at."""


@dataclass(frozen=True, slots=True)
class ScalePart:
    """A part of the time: seconds from `start` to `end`, shown at `x` with a `width`."""

    start: float
    end: float
    x: float
    width: float
    is_cut: bool = False


class TimeScale:
    """Maps seconds of a turn to positions from 0 to `width`.

    `busy` are the intervals with requests and tools, in any order.
    """

    def __init__(self, seconds: float, busy: Iterable[tuple[float, float]], width: float) -> None:
        self.width = width
        self.parts = _make_parts(max(seconds, 0.001), _merge_intervals(busy), width)
        self._starts = [part.start for part in self.parts]

    @property
    def cuts(self) -> list[ScalePart]:
        """The shortened waits."""
        return [part for part in self.parts if part.is_cut]

    def find_x(self, second: float) -> float:
        """Return the position of a time."""
        index = max(bisect_right(self._starts, second) - 1, 0)
        part = self.parts[index]
        share = (second - part.start) / (part.end - part.start)
        return part.x + part.width * min(max(share, 0.0), 1.0)

    def list_ticks(self, min_gap: float) -> list[tuple[float, float]]:
        """Return the times of ticks with their positions, at least `min_gap` apart.

        The step is the smallest one of `_TICK_STEPS` with about `_TICK_COUNT` ticks. Shortened
        waits have none.
        """
        shown = [part for part in self.parts if not part.is_cut]
        shown_s = sum(part.end - part.start for part in shown)
        fitting = (step for step in _TICK_STEPS if step * _TICK_COUNT >= shown_s)
        step = next(fitting, _TICK_STEPS[-1])

        ticks: list[tuple[float, float]] = []
        for part in shown:
            count = -(-part.start // step)  # the first multiple in this part
            # The second condition is for a turn that is too long for the largest step.
            while count * step <= part.end and len(ticks) <= 10 * _TICK_COUNT:
                x = self.find_x(count * step)
                if not ticks or x - ticks[-1][1] >= min_gap:
                    ticks.append((count * step, x))
                count += 1
        return ticks


def make_scale(timeline: TurnTimeline, width: float) -> TimeScale:
    """Return the scale of `timeline` for a picture of this width."""
    # `TimeScale` shortens long times without a busy step, so waits for the user do not count.
    busy = [(step.start, step.end) for step in timeline.steps if step.kind != "user"]
    return TimeScale(timeline.seconds, busy, width)


def _merge_intervals(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the intervals in order, with overlapping ones joined."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            last_start, last_end = merged[-1]
            merged[-1] = (last_start, max(last_end, end))
        else:
            merged.append((start, end))
    return merged


def _make_parts(
    seconds: float, busy: Sequence[tuple[float, float]], width: float
) -> list[ScalePart]:
    """Return the parts of the time with their positions from 0 to `width`."""
    intervals = _measure_intervals(seconds, busy)
    total_length = sum(interval.length for interval in intervals)

    parts: list[ScalePart] = []
    x = 0.0
    for interval in intervals:
        part_width = width * interval.length / total_length
        is_cut = interval.length < interval.end - interval.start
        parts.append(ScalePart(interval.start, interval.end, x, part_width, is_cut))
        x += part_width
    return parts


class _Interval(NamedTuple):
    """Seconds from `start` to `end`, drawn as long as `length` seconds."""

    start: float
    end: float
    length: float


def _measure_intervals(seconds: float, busy: Sequence[tuple[float, float]]) -> list[_Interval]:
    """Return the busy intervals and the waits between them, of which long ones are shortened.

    A wait is long if it is longer than all busy intervals together.
    """
    busy_s = sum(end - start for start, end in busy)
    longest_wait = max(busy_s, _MIN_CUT_S)

    intervals: list[_Interval] = []
    previous_end = 0.0
    for start, end in [*busy, (seconds, seconds)]:
        wait = start - previous_end
        if wait > longest_wait and busy_s > 0:
            shortened = max(busy_s * _CUT_SHARE, 0.001)
            intervals.append(_Interval(previous_end, start, shortened))
        elif wait > 0:
            intervals.append(_Interval(previous_end, start, wait))

        if end > start:
            intervals.append(_Interval(start, end, end - start))
        previous_end = max(previous_end, end)

    return intervals
