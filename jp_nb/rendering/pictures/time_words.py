"""Format a duration in a timeline for the user, such as `840 ms`, `5.2 s`, or `3 min 20 s`."""

from __future__ import annotations

from typing import Final

MINUTE_S: Final = 60
HOUR_S: Final = 3600
DAY_S: Final = 86_400


def format_time(seconds: float) -> str:
    """Return a duration with its unit, or with two units from a minute on.

    The limits are those at which a rounded number would need the next unit.
    """
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms" if seconds > 0 else "0 s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"

    whole = round(seconds)
    if whole < HOUR_S:
        return _join_units(whole, MINUTE_S, "min", 1, "s")
    if whole < DAY_S:
        return _join_units(whole, HOUR_S, "h", MINUTE_S, "min")
    return _join_units(whole, DAY_S, "d", HOUR_S, "h")


def _join_units(seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
    large_count, remaining_s = divmod(seconds, large)
    small_count = remaining_s // small
    text = f"{large_count:,} {large_name}"
    return f"{text} {small_count} {small_name}" if small_count else text
