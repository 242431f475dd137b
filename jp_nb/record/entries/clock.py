"""Clocks of a record: the real time, or times that depend only on an epoch and a position.

A run that is repeated, for example in a build with `SOURCE_DATE_EPOCH`, makes the same record with
a `ReproducibleClock`. The ids of such a record are derived from the same epoch (`new_ids.py`).

Source: `docs/record.md`, `docs/decisions.md` D119,
https://reproducible-builds.org/docs/source-date-epoch/.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from jp_nb.errors import UsageError
from jp_nb.record.entries.timestamps import parse_timestamp

Clock = Callable[[], datetime]
"""Returns the current time with its time zone."""

REPRODUCIBLE_STEP: Final = timedelta(seconds=1)
"""Time between two entries of a reproducible record."""
MAX_EPOCH_S: Final = 253_370_764_800
"""Start of the year 9999. It leaves a year for the times of entries."""
_EPOCH_DIGITS: Final = 20
"""Digits of an epoch that are read. A valid one has 12, perhaps after zeros."""
_LATEST: Final = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReproducibleClock:
    """Clock for records whose times and ids depend only on `epoch` and position."""

    epoch: datetime

    def __call__(self) -> datetime:
        """Return `epoch`, for times without a position, such as that in a conversation's id."""
        return self.epoch

    def at(self, position: int, last: str) -> datetime:
        """Return the time of a new entry with index `position`.

        It is later than `last`, the timestamp of the entry before it, which may be from another
        run; "" for the first entry.
        """
        moment = self.epoch + min(position * REPRODUCIBLE_STEP, _LATEST - self.epoch)
        last_moment = parse_timestamp(last)
        if last_moment is None or last_moment < moment:
            return moment
        return min(last_moment, _LATEST) + REPRODUCIBLE_STEP


REPRODUCIBLE_CLOCK: Final = ReproducibleClock(datetime(1980, 1, 1, tzinfo=UTC))
"""Clock of reproducible records if no epoch is set.

It starts on the first day that ZIP archives support.
"""


def make_epoch_clock(seconds: str) -> ReproducibleClock:
    """Return the clock that starts `seconds` after 1970.

    Raises:
        UsageError: The text is not a whole number from 0 to `MAX_EPOCH_S`.
    """
    # `int` alone would accept `1_0` and digits of other scripts, and fail for very many digits.
    is_number = seconds.isascii() and seconds.isdigit() and len(seconds) <= _EPOCH_DIGITS
    if not is_number or int(seconds) > MAX_EPOCH_S:
        raise UsageError(
            f"SOURCE_DATE_EPOCH is {seconds[:40]!r}, but must be a whole number of seconds since "
            f"1970, at most {MAX_EPOCH_S}. `git log -1 --format=%ct` prints the number of the last "
            "commit. Unset the variable to record real times"
        )
    return ReproducibleClock(datetime.fromtimestamp(int(seconds), UTC))
