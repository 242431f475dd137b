"""`Budget`: limit of the work for the configuration changes of an untrusted record.

A merge copies the objects on the way to a changed value, so a hostile record with many small
changes of a large value would take minutes to read. The reader of such a record asks the budget
before each change (`allows`), and ignores the rest of the changes once it is exceeded.

Its unit is one value that is read or copied: lists are compared item by item, and an object with a
changed member is copied. The costs are estimates. They may be too high for a change, but not too
low for a series of them.

A change can set values (`delta`) and unset paths (`unsets`). A value may be stored with its merge
strategy, which is then around it, in a *wrapper*:

    {"value": ["a", "b"], "strategy": "append"}

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
        """Spend the cost of a change to the settings `now`. Return False if it exceeds the budget.

        The change unsets the paths `unsets`, and then merges `delta` into the result.
        """
        self.left -= CHANGE_UNITS

        for path in unsets:
            if self.left < 0:
                break
            self._spend_unset(now, path)

        self._spend_value(delta)
        self._spend_merge(now, delta)
        return self.left >= 0

    def _spend_unset(self, now: Mapping[str, Any], path: object) -> None:
        """Spend the cost of an unset of `path`: all that contains it is copied.

        The path may name an item of a list, as in `stop_words["a"]`. A list is read as a whole.
        """
        self.left -= UNSET_UNITS + len(str(path)) // CHARS_PER_UNIT

        value: Any = now
        for key in try_parse_path(path) or ():
            if not isinstance(value, Mapping) or _is_wrapped_list(value):
                break

            tables = _list_tables(value)
            self.left -= sum(map(len, tables))
            value = next((table[key] for table in tables if key in table), None)

        if isinstance(value, list) or _is_wrapped_list(value):
            self._spend_value(value)

    def _spend_merge(self, now: Mapping[str, Any], delta: Any) -> None:
        """Spend the cost of the copies of objects of `now` with a changed member.

        A value that `delta` replaces or extends is read, because it is compared.
        """
        pending: list[tuple[Any, Any]] = [(now, delta)]

        while pending and self.left >= 0:
            value, over = pending.pop()
            is_table = isinstance(value, Mapping) and not _is_wrapped_list(value)
            if not is_table or not isinstance(over, Mapping):
                self._spend_value(value)
                continue

            for table in _list_tables(value):
                self.left -= len(table)
                for changes in _list_tables(over):
                    pending += [(table[key], changes[key]) for key in changes if key in table]

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


def _is_wrapped_list(value: Any) -> bool:
    """Return True if `value` is a list that is stored in a wrapper."""
    return isinstance(value, Mapping) and isinstance(value.get("value"), list)


def _list_tables(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the table in the wrapper `value`, if it may be one, and `value` itself.

    Only the schema tells a wrapper from a table with a member `value`. So both are counted.
    """
    wrapped = value.get("value")
    return [wrapped, value] if isinstance(wrapped, Mapping) else [value]
