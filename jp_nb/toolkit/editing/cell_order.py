"""The order of the cells while edits are planned, with the places of inserted and moved cells.

A cell has a *key*: its id in the document, or a name such as `new:1` for a new cell. The *place* of
a cell is the key of the cell before it, or `start`. The *anchor* of an inserted or moved cell is
the key after which the model wants it, `start`, or `end`.

Several cells with one anchor come one below the other, in the order of their edits. So the place of
the second one is the first one, although both have the same anchor.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Iterable

from jp_nb.toolkit.editing.cell_edits import END, START


class CellOrder:
    """The keys of the cells from top to bottom, which edits change one by one."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = list(keys)
        self._anchors: dict[str, str] = {}  # by the key of the inserted or moved cell

    def list_keys(self) -> list[str]:
        """Return a copy of the keys, which later edits do not change."""
        return list(self._keys)

    def get_place(self, key: str) -> str:
        """Return the place of `key`: the key of the cell before it, or `start`."""
        index = self._keys.index(key)
        return self._keys[index - 1] if index else START

    def remove(self, key: str) -> None:
        """Take a cell out of the order, because it is deleted or is put elsewhere."""
        self._keys.remove(key)

    def put(self, key: str, anchor: str) -> str:
        """Put `key` after `anchor`, and return its place.

        `anchor` is a key in the order, `start`, `end`, or "" if the place is unknown. Then the cell
        comes at the end.
        """
        position = self._find_position(anchor)
        self._anchors[key] = anchor
        self._keys.insert(position, key)
        return self.get_place(key)

    def _find_position(self, anchor: str) -> int:
        """Return the index for a cell after `anchor`, and after the cells placed there before."""
        if anchor == END or not anchor:
            return len(self._keys)

        position = 0 if anchor == START else self._keys.index(anchor) + 1
        while position < len(self._keys) and self._is_placed_at(self._keys[position], anchor):
            position += 1
        return position

    def _is_placed_at(self, key: str, anchor: str) -> bool:
        """Return True if an edit put `key` after `anchor`, or after a cell that was put there."""
        seen: set[str] = set()  # moves can put two cells after each other
        while key in self._anchors and key not in seen:
            seen.add(key)
            key = self._anchors[key]
            if key == anchor:
                return True
        return False
