"""Queue of prompts for the screen, which shows one at a time.

Source: `docs/turns.md`, `docs/architecture.md`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class PromptQueue(Generic[ItemT]):
    """Queue with at most one item on screen, for one thread.

    Args:
        show: Displays an item. It may remove the item at once, if there is nothing to display.

    Attributes:
        shown: The item on screen; None if there is none.
        is_held: While it is True, items are added, but none is displayed.
    """

    def __init__(self, show: Callable[[ItemT], None]) -> None:
        self._show = show
        self._waiting: deque[ItemT] = deque()
        self.shown: ItemT | None = None
        self.is_held = False

    def add(self, item: ItemT, *, before: Callable[[ItemT], bool] = lambda other: False) -> None:
        """Add `item` at the end, or in front of the first item for which `before` returns True."""
        indexes = (index for index, other in enumerate(self._waiting) if before(other))
        self._waiting.insert(next(indexes, len(self._waiting)), item)
        self.show_next()

    def remove(self, item: ItemT) -> bool:
        """Remove `item`; return True if it was on screen. Does not display the next one."""
        if item is self.shown:
            self.shown = None
            return True
        if item in self._waiting:
            self._waiting.remove(item)
        return False

    def show_next(self) -> None:
        """Display the next item, unless one is on screen."""
        while self.shown is None and self._waiting and not self.is_held:
            self.shown = self._waiting.popleft()
            self._show(self.shown)

    def clear_waiting(self) -> None:
        """Remove all waiting items, but not the one on screen."""
        self._waiting.clear()
