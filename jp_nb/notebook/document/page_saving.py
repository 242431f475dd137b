"""Has a page save the notebook, and hears what came of it.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Condition
from typing import Any

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject
from jp_nb.notebook.document.wire import Numbering

NOT_SAVED = "the page could not save"


class PageSaving:
    """Asks pages to save.

    Args:
        state: Guards the numbering and the answers; is notified when one came.
        numbering: Numbers the messages.
        send: Sends a message to the pages.
    """

    def __init__(
        self, state: Condition, numbering: Numbering, send: Callable[[JsonObject], None]
    ) -> None:
        self._state = state
        self._numbering = numbering
        self._send = send
        self._answers: dict[int, str | None] = {}

    def save(self, page: str, ends: float) -> None:
        """Have `page` save the notebook, or any page if that one does not answer, until `ends`.

        Raises:
            StorageError: If no page could save, or none answered.
        """
        # One page: two that write the file at once may leave a mixture. Any page if that is gone.
        now = time.monotonic()
        asked: list[int] = []
        for to, until in ((page, now + (ends - now) / 2), ("", ends)):
            asked.append(self._ask(to))
            with self._state:
                self._state.wait_for(lambda: self._answered(asked), until - time.monotonic())
                if seq := self._answered(asked):
                    if why_not := self._answers.pop(seq):
                        raise StorageError(f"the record is not saved: {why_not}")
                    return
        raise StorageError("the record is not saved: the page did not answer in time")

    def hear(self, data: Mapping[str, Any]) -> None:
        """Take a page's answer, `saved` or `save_failed`, with the state held."""
        seq = data.get("seq")
        if isinstance(seq, int) and seq <= self._numbering.last:
            failed = data.get("type") == "save_failed"
            self._answers[seq] = str(data.get("why") or NOT_SAVED) if failed else None

    def _ask(self, to: str) -> int:
        """Have the page `to`, or whichever there are, save; return the number of the message."""
        with self._state:
            message = self._numbering.message("save", to=to)
            seq = self._numbering.last
        self._send(message)
        return seq

    def _answered(self, asked: Sequence[int]) -> int | None:
        """Return which of the messages `asked` was answered; None if none was."""
        return next((seq for seq in asked if seq in self._answers), None)
