"""Parse the bounds of a range of turns, such as `3`, `@3`, `-3`, and `5h`.

Settings and commands of the compaction have them.

Source: `docs/configuration.md`, `docs/record.md` (RFD 064).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from jp_nb.config.tree.value_errors import describe_found

BoundKind = Literal["count", "turn", "from_end", "duration", "last"]

_SECONDS: Final = {
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hr": 3600.0, "hrs": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
    "w": 604800.0, "week": 604800.0, "weeks": 604800.0,
}  # fmt: skip
_WHOLE: Final = re.compile(r"[0-9]{1,9}")
_DURATION: Final = re.compile(r"(?:[0-9]{1,9}\s*[a-z]+\s*)+")
_PART: Final = re.compile(r"([0-9]{1,9})\s*([a-z]+)")
LAST_COMPACTION: Final = "last-compaction"
_EXPECTED: Final = (
    "expected a number of turns, `@N` (turn N, counted from 1), `-N` (N turns before the last), "
    "or a duration such as `5h`"
)


@dataclass(frozen=True, slots=True)
class TurnBound:
    """One end of a range of turns.

    The meaning of `amount` depends on `kind`:

    | kind | written | amount |
    |---|---|---|
    | `count` | `3` | number of turns to keep |
    | `turn` | `@3` | number of the turn itself, counted from 0: here 2 |
    | `from_end` | `-3` | number of turns before the last |
    | `duration` | `5h` | seconds |
    | `last` | `last`, `last-compaction` | none: the turn after the newest compaction |
    """

    kind: BoundKind
    amount: float = 0


def parse_bound(text: str, *, allows_last_compaction: bool = True) -> TurnBound:
    """Return the bound for `text`.

    Raises:
        ValueError: It is none, or it is `last-compaction`, which is not allowed here.
    """
    word = text.strip().lower()

    if word in ("last", LAST_COMPACTION) and allows_last_compaction:
        return TurnBound("last")
    if _WHOLE.fullmatch(word):
        return TurnBound("count", int(word))
    if word[:1] == "-" and _WHOLE.fullmatch(word[1:]):
        return TurnBound("from_end", int(word[1:]))
    if word[:1] == "@" and _WHOLE.fullmatch(word[1:]) and int(word[1:]):
        return TurnBound("turn", int(word[1:]) - 1)

    parts = _PART.findall(word) if len(word) <= 80 and _DURATION.fullmatch(word) else []
    if not parts or not all(unit in _SECONDS for _, unit in parts):
        or_last = f", or `{LAST_COMPACTION}`" if allows_last_compaction else ""
        raise make_bound_error(text, or_last)
    return TurnBound("duration", sum(int(count) * _SECONDS[unit] for count, unit in parts))


def make_bound_error(value: object, or_last: str = "") -> ValueError:
    """Return the error for a `value` that is no bound, such as a list in a setting.

    `or_last` ends the list of expected values.
    """
    return ValueError(f"{_EXPECTED}{or_last}, {describe_found(value)}")
