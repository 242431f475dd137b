"""Timestamps and ids of events, from the clock or reproducible.

Source: `docs/record.md`, `docs/decisions.md` D119,
https://reproducible-builds.org/docs/source-date-epoch/.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from typing import Final

from pydantic import JsonValue

from jp_nb.errors import UsageError

Clock = Callable[[], datetime]
"""Returns the current time, aware of its zone."""

_STORED = re.compile(
    r"(\d{4}-\d\d-\d\d)[ Tt](\d\d:\d\d:\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))?", re.ASCII
)


def utc_now() -> datetime:
    """Return the system's clock: what the edges hand to the core."""
    return datetime.now(UTC)


def format_timestamp(moment: datetime) -> str:
    """Return `2026-03-18 13:19:06.841464`: UTC, trailing zeros trimmed, at least `.0`."""
    whole = moment.astimezone(UTC).isoformat(" ", "microseconds")
    text = whole[: len("2026-03-18 13:19:06.841464")].rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def parse_timestamp(text: str) -> datetime | None:
    """Return the moment that a stored `text` names, in UTC; None if it names none.

    Reads JP's form, which has no zone and means UTC, and RFC 3339. Digits below a microsecond are
    cut off, so what is stored again is the text and never this value.
    """
    match = _STORED.fullmatch(text)
    if match is None:
        return None
    day, time, fraction, sign, hours, minutes = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day} {time}").replace(tzinfo=UTC)
        moment += timedelta(microseconds=int((fraction or "0")[:6].ljust(6, "0")))
        if sign is None:
            return moment
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        return moment - offset if sign == "+" else moment + offset
    except (ValueError, OverflowError):
        return None


def conversation_id(moment: datetime) -> str:
    """Return `jp-c` and the tenths of a second since 1970, as JP names a conversation."""
    return f"jp-c{int(moment.timestamp() * 10)}"


def new_conversation_id(moment: datetime, taken_ids: Iterable[str]) -> str:
    """Return the first such id from `moment` on that is not taken."""
    taken = set(taken_ids)
    found = conversation_id(moment)
    while found in taken:
        found = f"jp-c{int(found.removeprefix('jp-c')) + 1}"
    return found


IdFactory = Callable[[], str]
"""Returns a new id at random."""

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_LENGTH = 7


def random_id() -> str:
    """Seven lowercase letters and digits, as good as the system's randomness."""
    return encode_id(secrets.randbits(64))


def encode_id(number: int) -> str:
    """Return the id that the last digits of `number` spell."""
    digits = []
    for _ in range(_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)


def stored_id(raw: JsonValue, key: str = "event_id") -> str | None:
    """Return the id at `key` of a stored entry; None if there is none. Any text but "" is one."""
    found = raw.get(key) if isinstance(raw, dict) else None
    return found if isinstance(found, str) and found else None


class EventIds:
    """The ids of a stream's entries, index by index; no two are equal.

    An entry without an id gets one when somebody asks for it: loading draws none.

    Attributes:
        ambiguous: Values that several entries had when they were loaded. The first kept it.
    """

    __slots__ = ("_draw", "_ids", "_places", "ambiguous")

    def __init__(self, draw: IdFactory) -> None:
        self._draw = draw
        self._ids: list[str | None] = []
        self._places: dict[str, int] = {}
        self.ambiguous: set[str] = set()

    def add(self, stored: str | None) -> None:
        """Go on to the next entry, which is stored with the id `stored`."""
        if stored is not None:
            if stored in self._places:
                self.ambiguous.add(stored)
                stored = None
            else:
                self._places[stored] = len(self._ids)
        self._ids.append(stored)

    def of(self, index: int) -> str:
        """Return the id of entry number `index`."""
        found = self._ids[index]
        while found is None:
            drawn = self._draw()  # may be one that a record already holds
            if drawn not in self._places:
                found = self._ids[index] = drawn
                self._places[drawn] = index if index >= 0 else index + len(self._ids)
        return found

    def place(self, identifier: str) -> int | None:
        """Return the index of the one entry with this id; None if there is none, or several."""
        return None if identifier in self.ambiguous else self._places.get(identifier)

    def assigned(self) -> list[str | None]:
        """Return the ids index by index; None where nobody asked yet."""
        return list(self._ids)

    def replace_all(self, ids: Iterable[str | None]) -> None:
        """Take over `assigned` ids in another order; None is a new entry."""
        self._ids = list(ids)
        self._places = {assigned: i for i, assigned in enumerate(self._ids) if assigned is not None}


STEP: Final = timedelta(seconds=1)
"""Between an entry and the next one."""
MAX_EPOCH_S: Final = 253_370_764_800
"""The first second of the year 9999: entries behind it have a year for their times."""
_LATEST: Final = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReproducibleClock:
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

    def ids(self, conversation: str) -> IdFactory:
        """Return what draws the ids of entries of `conversation`, always the same ones."""
        numbers = count()
        return lambda: encode_id(self._number(f"{conversation} {next(numbers)}"))

    def widget_id(self, number: int) -> str:
        """Return the id of carrier `number` of a run, as ipywidgets writes ids; they sort so."""
        return f"{self._number('carrier') % 16**28:028x}{number:04x}"

    def _number(self, of: str) -> int:
        text = f"{self.epoch:%Y-%m-%d %H:%M:%S} {of}"
        return int.from_bytes(sha256(text.encode("ascii", "backslashreplace")).digest())


DEFAULT_EPOCH: Final = ReproducibleClock(datetime(1980, 1, 1, tzinfo=UTC))
"""Of records for which nobody set an epoch: the first day that ZIP archives can name."""


def clock_from_epoch(seconds: str) -> ReproducibleClock:
    """Return the clock that begins `seconds` after 1970.

    Raises:
        UsageError: If that is no such number; the message says what is wanted.
    """
    # Not `int` alone: it takes `1_0`, and digits of other scripts, which others refuse.
    if not (seconds.isascii() and seconds.isdigit() and int(seconds[:20]) <= MAX_EPOCH_S):
        raise UsageError(
            f"SOURCE_DATE_EPOCH is {seconds[:40]!r}, but must be a whole number of seconds since "
            f"1970, at most {MAX_EPOCH_S}. `git log -1 --format=%ct` prints the number of the last "
            "commit. Unset the variable to record real times"
        )
    return ReproducibleClock(datetime.fromtimestamp(int(seconds), UTC))


def id_factory(clock: Clock, conversation: str) -> IdFactory:
    """Return what draws ids of entries where `clock` tells the time."""
    return clock.ids(conversation) if isinstance(clock, ReproducibleClock) else random_id
