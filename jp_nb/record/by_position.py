"""Times and ids of a record that comes out the same each time: made of an epoch and positions.

Source: `docs/record.md`, `docs/decisions.md` D119, https://reproducible-builds.org/docs/source-date-epoch/.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from typing import Final

from jp_nb.errors import UsageError
from jp_nb.record.ids import Draw, random_id, spelled_id
from jp_nb.record.timestamps import Clock, parse_timestamp

STEP: Final = timedelta(seconds=1)
"""Between an entry and the next one."""
LAST_EPOCH: Final = 253_370_764_800
"""The first second of the year 9999: entries behind it have a year for their times."""
_LATEST: Final = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PositionClock:
    """The clock of a record whose times and ids depend on nothing but `epoch` and position."""

    epoch: datetime

    def __call__(self) -> datetime:
        """Return the moment at which everything begins."""
        return self.epoch

    def at(self, position: int, last: str) -> datetime:
        """Return the time of entry number `position`, later than `last`, the one before has."""
        moment = self.epoch + min(position * STEP, _LATEST - self.epoch)
        before = parse_timestamp(last)
        if before is None or before < moment:
            return moment
        return min(before, _LATEST) + STEP

    def ids(self, conversation: str) -> Draw:
        """Return what draws the ids of entries of `conversation`, always the same ones."""
        numbers = count()
        return lambda: spelled_id(self._number(f"{conversation} {next(numbers)}"))

    def widget_id(self, number: int) -> str:
        """Return the id of carrier `number` of a run, as ipywidgets writes ids; they sort so."""
        return f"{self._number('carrier') % 16**28:028x}{number:04x}"

    def _number(self, of: str) -> int:
        text = f"{self.epoch:%Y-%m-%d %H:%M:%S} {of}"
        return int.from_bytes(sha256(text.encode("ascii", "backslashreplace")).digest())


EARLIEST: Final = PositionClock(datetime(1980, 1, 1, tzinfo=UTC))
"""Of records for which nobody set an epoch: the first day that ZIP archives can name."""


def position_clock(seconds: str) -> PositionClock:
    """Return the clock that begins `seconds` after 1970.

    Raises:
        UsageError: If that is no such number; the message says what is wanted.
    """
    # Not `int` alone: it takes `1_0`, and digits of other scripts, which others refuse.
    if not (seconds.isascii() and seconds.isdigit() and int(seconds[:20]) <= LAST_EPOCH):
        raise UsageError(
            f"SOURCE_DATE_EPOCH is {seconds[:40]!r}, but must be a whole number of seconds since "
            f"1970, at most {LAST_EPOCH}. `git log -1 --format=%ct` prints the number of the last "
            "commit. Unset the variable to record real times"
        )
    return PositionClock(datetime.fromtimestamp(int(seconds), UTC))


def draw_of(clock: Clock, conversation: str) -> Draw:
    """Return what draws ids of entries where `clock` tells the time."""
    return clock.ids(conversation) if isinstance(clock, PositionClock) else random_id
