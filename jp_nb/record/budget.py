"""The work that a change of the configuration takes, told before it is done. Pure.

The unit is about one value that is looked at or copied. A change costs what it says and what it
meets: a list is compared item by item, an object that something is set in is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jp_nb.config.paths import parse_path
from jp_nb.errors import ConfigError

CHANGE = 20
"""Units of any change, however small."""
UNSET = 5
CHARS = 100
"""Characters of a text in one unit."""


class Budget:
    """Work that may be done, spent change by change; once it is exceeded, nothing fits any more."""

    def __init__(self, units: int) -> None:
        self.left = units

    def allows(self, now: Mapping[str, Any], delta: Any, unsets: Iterable[object] = ()) -> bool:
        """Spend what applying `delta` and `unsets` to `now` takes; False if there is too little."""
        self._spend(CHANGE)
        for path in unsets:
            if self.left < 0:
                break
            self._spend(UNSET + len(str(path)) // CHARS)
            self._meet(now, _keys(path))
        self._lay_over(now, delta)
        return self.left >= 0

    def _spend(self, units: int) -> None:
        self.left -= units

    def _weigh(self, value: Any) -> None:
        """Spend the whole of `value`."""
        pending = [value]
        while pending and self.left >= 0:
            value = pending.pop()
            self._spend(1)
            if isinstance(value, str):
                self._spend(len(value) // CHARS)
            elif isinstance(value, Mapping):
                self._spend(sum(map(len, value)) // CHARS)
                pending += value.values()
            elif isinstance(value, list):
                pending += value

    def _meet(self, now: Any, keys: Iterable[str]) -> None:
        """Spend what has to be copied to change something at `keys`."""
        for key in keys:
            if not isinstance(now, Mapping):
                break
            self._spend(len(now))
            now = now.get(key)
        if isinstance(now, list) or _is_list(now):
            self._weigh(now)

    def _lay_over(self, now: Any, delta: Any) -> None:
        self._weigh(delta)
        pending = [(now, delta)]
        while pending and self.left >= 0:
            now, over = pending.pop()
            if isinstance(now, Mapping) and isinstance(over, Mapping) and not _is_list(now):
                self._spend(len(now))
                pending += [(now[key], value) for key, value in over.items() if key in now]
            else:
                self._weigh(now)


def _keys(path: object) -> tuple[str, ...]:
    try:
        return parse_path(str(path))
    except ConfigError:
        return ()


def _is_list(value: Any) -> bool:
    """True if it may be a list that is written with its strategy."""
    return isinstance(value, Mapping) and isinstance(value.get("value"), list)
