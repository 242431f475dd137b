"""`Budget`: limit of the work for the configuration changes of an untrusted record.

A merge copies the objects on the way to a changed value, so a hostile record with many small
changes of a large value would take minutes to read.

Its unit is one value that is read or copied: lists are compared item by item, and an object with a
changed member is copied.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jp_nb.config.setting_paths import try_parse_path

MAX_UNTRUSTED_WORK = 250_000
"""In units, which allows thousands of changes. A trusted record has no limit."""
TOO_MANY_CHANGES = "(too many changes for an untrusted record, ignored from {place} on)"
"""Reason in place of the changes that exceed the budget."""

CHANGE_UNITS = 20
"""Cost of each change, besides its content."""
UNSET_UNITS = 5
"""Cost of each path that is unset, besides the copies."""
CHARS_PER_UNIT = 100
"""Characters with the cost of one unit."""


class Budget:
    """Limit of work. Once it is exceeded, no further change is allowed.

    Attributes:
        left: The units that are left; negative once the budget is exceeded.
    """

    def __init__(self, units: int) -> None:
        self.left = units

    def allows(self, now: Mapping[str, Any], delta: Any, unsets: Iterable[object] = ()) -> bool:
        """Spend the cost of a change to `now`. Return False if it exceeds the budget."""
        self.left -= CHANGE_UNITS

        for path in unsets:
            if self.left < 0:
                break
            self._spend_unset(now, path)

        self._spend_value(delta)
        self._spend_merge(now, delta)
        return self.left >= 0

    def _spend_unset(self, now: Mapping[str, Any], path: object) -> None:
        """Spend the cost of an unset of `path`: all that contains it is copied."""
        self.left -= UNSET_UNITS + len(str(path)) // CHARS_PER_UNIT

        value: Any = now
        for key in try_parse_path(path) or ():
            if not isinstance(value, Mapping):
                break
            self.left -= len(value)
            value = value.get(key)

        if isinstance(value, list) or _is_list(value):
            self._spend_value(value)

    def _spend_merge(self, now: Mapping[str, Any], delta: Any) -> None:
        """Spend the cost of the copies of objects of `now` with a changed member."""
        pending: list[tuple[Any, Any]] = [(now, delta)]

        while pending and self.left >= 0:
            value, over = pending.pop()
            if isinstance(value, Mapping) and isinstance(over, Mapping) and not _is_list(value):
                self.left -= len(value)
                pending += [(value[key], inner) for key, inner in over.items() if key in value]
            else:
                self._spend_value(value)

    def _spend_value(self, value: Any) -> None:
        """Spend the cost of reading all of `value`."""
        pending = [value]
        while pending and self.left >= 0:
            value = pending.pop()
            self.left -= 1
            if isinstance(value, str):
                self.left -= len(value) // CHARS_PER_UNIT
            elif isinstance(value, Mapping):
                self.left -= sum(map(len, value)) // CHARS_PER_UNIT
                pending += value.values()
            elif isinstance(value, list):
                pending += value


def _is_list(value: Any) -> bool:
    """Return True if `value` is a list that is stored with its merge strategy."""
    return isinstance(value, Mapping) and isinstance(value.get("value"), list)
