"""Messages for the user about files of the configuration, each only once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class FileNotices:
    """Messages for the user, such as about a missing included file.

    Attributes:
        texts: The messages that were not taken yet.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._seen: set[str] = set()

    def add(self, notice: str) -> None:
        """Add `notice`, unless it was added before."""
        if notice not in self._seen:
            self._seen.add(notice)
            self.texts.append(notice)

    def take(self) -> list[str]:
        """Return the notices since the last call, and clear them."""
        notices = self.texts
        self.texts = []
        return notices

    @contextmanager
    def discard(self) -> Iterator[None]:
        """Discard the notices that the `with` block adds, so that they can be added again later.

        A command reads files in such a block if it shows the same facts itself.
        """
        notices = list(self.texts)
        seen = set(self._seen)

        try:
            yield
        finally:
            self.texts = notices
            self._seen = seen
