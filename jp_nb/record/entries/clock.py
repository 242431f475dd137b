"""Times and ids of entries: real times and random ids, or reproducible ones.

A run that is repeated, for example in a build with `SOURCE_DATE_EPOCH`, makes the same record with
reproducible ones.

Source: `docs/record.md`, `docs/decisions.md` D119,
https://reproducible-builds.org/docs/source-date-epoch/.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from typing import Final

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.record.entries.timestamps import parse_timestamp

Clock = Callable[[], datetime]
"""Returns the current time with its time zone."""
IdFactory = Callable[[], str]
"""Returns a new id of an entry."""


def make_conversation_id(moment: datetime, taken_ids: Iterable[str] = ()) -> str:
    """Return an id in JP's form, `jp-c` and the tenths of a second from 1970 to `moment`.

    If it is one of `taken_ids`, return the next one that is not.
    """
    taken = set(taken_ids)
    tenths = int(moment.timestamp() * 10)
    candidates = (f"jp-c{number}" for number in count(tenths))
    return next(candidate for candidate in candidates if candidate not in taken)


_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_LENGTH = 7


def make_random_id() -> str:
    """Return seven random lowercase letters and digits."""
    return _encode_id(secrets.randbits(64))


def _encode_id(number: int) -> str:
    """Return the last seven digits of `number` in base 36, in reverse order."""
    digits = ""
    for _ in range(_LENGTH):
        number, digit = divmod(number, 36)
        digits += _ALPHABET[digit]
    return digits


def read_stored_id(raw: JsonValue, key: str = "event_id") -> str | None:
    """Return the id at `key` of a stored entry, or None. The empty string is not an id."""
    found = raw.get(key) if isinstance(raw, dict) else None
    return found if isinstance(found, str) and found else None


REPRODUCIBLE_STEP: Final = timedelta(seconds=1)
"""Time between two entries of a reproducible record."""
MAX_EPOCH_S: Final = 253_370_764_800
"""Start of the year 9999. It leaves a year for the times of entries."""
_LATEST: Final = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReproducibleClock:
    """Clock for records with times and ids that depend only on `epoch` and position."""

    epoch: datetime

    def __call__(self) -> datetime:
        """Return `epoch`."""
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

    def make_id_factory(self, conversation: str) -> IdFactory:
        """Return the factory of ids for the entries of the conversation with that id."""
        numbers = count()
        return lambda: _encode_id(self._derive_number(f"{conversation} {next(numbers)}"))

    def make_widget_id(self, number: int) -> str:
        """Return the id of carrier `number`, in the form of ipywidgets. The ids sort by number.

        A *carrier* is a widget whose state stores the record of a headless run (`carrier.py`).
        """
        return f"{self._derive_number('carrier') % 16**28:028x}{number:04x}"

    def _derive_number(self, of: str) -> int:
        text = f"{self.epoch:%Y-%m-%d %H:%M:%S} {of}"
        return int.from_bytes(sha256(text.encode("ascii", "backslashreplace")).digest())


REPRODUCIBLE_CLOCK: Final = ReproducibleClock(datetime(1980, 1, 1, tzinfo=UTC))
"""Clock of reproducible records if no epoch is set.

It starts on the first day that ZIP archives support.
"""


def make_epoch_clock(seconds: str) -> ReproducibleClock:
    """Return the clock that starts `seconds` after 1970.

    Raises:
        UsageError: The text is not a whole number from 0 to `MAX_EPOCH_S`.
    """
    # `int` alone would accept `1_0` and digits of other scripts.
    if not (seconds.isascii() and seconds.isdigit() and int(seconds[:20]) <= MAX_EPOCH_S):
        raise UsageError(
            f"SOURCE_DATE_EPOCH is {seconds[:40]!r}, but must be a whole number of seconds since "
            f"1970, at most {MAX_EPOCH_S}. `git log -1 --format=%ct` prints the number of the last "
            "commit. Unset the variable to record real times"
        )
    return ReproducibleClock(datetime.fromtimestamp(int(seconds), UTC))


def make_id_factory(clock: Clock, conversation: str) -> IdFactory:
    """Return the factory of a conversation's entry ids: reproducible if `clock` is."""
    if isinstance(clock, ReproducibleClock):
        return clock.make_id_factory(conversation)
    return make_random_id
