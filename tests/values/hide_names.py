"""Privacy rules for tests that hide parts with certain names."""

from __future__ import annotations

from jp_nb.values.base import Privacy


class HideNames(Privacy):
    """Hide the parts with one of `names`."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def name(self, name: str, value: object) -> str | None:
        """Return `(hidden)` for a hidden name."""
        return "(hidden)" if name in self._names else None
