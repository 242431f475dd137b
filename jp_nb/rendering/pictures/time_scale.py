"""Map the times of a turn to positions of a picture, with ticks and shortened waits.

A turn may wait an hour for the user, and then use a tool for a second. So a long time without a
request or a tool is drawn shorter, and marked as such.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86_400
_TICK_STEPS: Final = (
    *(digit * 10.0**power for power in range(-3, 1) for digit in (1, 2, 5)),
    *(10.0, 15.0, 30.0),
    *(_MINUTE * count for count in (1.0, 2.0, 5.0, 10.0, 15.0, 30.0)),
    *(_HOUR * count for count in (1.0, 2.0, 6.0, 12.0)),
    *(_DAY * digit * 10.0**power for power in range(7) for digit in (1, 2, 5)),
)
_MIN_CUT_S: Final = 5.0
"""A wait that is not longer is never shortened."""
_CUT_SHARE: Final = 0.12
"""Shown length of a shortened wait, as a part of the time with requests and tools."""
_TICK_COUNT: Final = 6


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
        self.parts = _make_parts(max(seconds, 0.001), _merge(busy), width)
        self._starts = [part.start for part in self.parts]

    @property
    def cuts(self) -> list[ScalePart]:
        """The shortened waits."""
        return [part for part in self.parts if part.is_cut]

    def find_x(self, second: float) -> float:
        """Return the position of a time."""
        place = max(bisect_right(self._starts, second) - 1, 0)
        part = self.parts[place]
        share = (second - part.start) / (part.end - part.start)
        return part.x + part.width * min(max(share, 0.0), 1.0)

    def list_ticks(self, min_gap: float) -> list[tuple[float, float]]:
        """Return the times of ticks with their positions, at least `min_gap` apart."""
        shown = [part for part in self.parts if not part.is_cut]
        whole = sum(part.end - part.start for part in shown)
        step = next((each for each in _TICK_STEPS if each * _TICK_COUNT >= whole), _TICK_STEPS[-1])

        ticks: list[tuple[float, float]] = []
        for part in shown:
            count = -(-part.start // step)  # the first multiple in this part
            while count * step <= part.end and len(ticks) <= 10 * _TICK_COUNT:
                x = self.find_x(count * step)
                if not ticks or x - ticks[-1][1] >= min_gap:
                    ticks.append((count * step, x))
                count += 1
        return ticks


def _merge(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            before = merged[-1]
            merged[-1] = (before[0], max(before[1], end))
        else:
            merged.append((start, end))
    return merged


def _make_parts(
    seconds: float, busy: Sequence[tuple[float, float]], width: float
) -> list[ScalePart]:
    busy_s = sum(end - start for start, end in busy)
    longest = max(busy_s, _MIN_CUT_S)

    # Times with their shown lengths.
    lengths: list[tuple[float, float, float]] = []
    before = 0.0
    for start, end in [*busy, (seconds, seconds)]:
        quiet = start - before
        is_cut = quiet > longest and busy_s > 0
        if is_cut:
            lengths.append((before, start, max(busy_s * _CUT_SHARE, 0.001)))
        elif quiet > 0:
            lengths.append((before, start, quiet))
        if end > start:
            lengths.append((start, end, end - start))
        before = max(before, end)

    whole = sum(length for _, _, length in lengths)
    parts: list[ScalePart] = []
    x = 0.0
    for start, end, length in lengths:
        shown = width * length / whole
        is_cut = length < (end - start) * 0.999
        parts.append(ScalePart(start, end, x, shown, is_cut))
        x += shown
    return parts


def format_time(seconds: float) -> str:
    """Return a duration for the user, such as `840 ms`, `5.2 s`, or `3 min 20 s`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms" if seconds > 0 else "0 s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"

    whole = round(seconds)
    if whole < _HOUR:
        return _join_units(whole, _MINUTE, "min", 1, "s")
    if whole < _DAY:
        return _join_units(whole, _HOUR, "h", _MINUTE, "min")
    return _join_units(whole, _DAY, "d", _HOUR, "h")


def _join_units(seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
    count, rest = divmod(seconds, large)
    more = rest // small
    text = f"{count:,} {large_name}"
    return f"{text} {more} {small_name}" if more else text
