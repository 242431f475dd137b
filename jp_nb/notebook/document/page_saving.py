"""Has a page save the notebook, hears what came of it, and knows what the file holds.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Condition
from typing import Any

from pydantic import JsonValue

from jp_nb.json_values import JsonObject
from jp_nb.notebook.document.stores import not_saved
from jp_nb.notebook.document.wire import Hello, Numbering
from jp_nb.record.jp_object import conversation_id, events_of

NOT_SAVED = "the page could not save the notebook"


class PageSaving:
    """Asks pages to save.

    Args:
        state: Guards the numbering and the answers; is notified when one came.
        numbering: Numbers the messages.
        send: Sends a message to the pages.

    Attributes:
        in_file: A conversation, and how many entries of it the file is known to hold.
    """

    def __init__(
        self, state: Condition, numbering: Numbering, send: Callable[[JsonObject], None]
    ) -> None:
        self._state = state
        self._numbering = numbering
        self._send = send
        self.in_file = "", 0
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
                        raise not_saved(why_not)
                    return
        raise not_saved("the page did not answer in time")

    def hear(self, data: Mapping[str, Any]) -> None:
        """Take a page's answer, `saved` or `save_failed`, with the state held."""
        seq = data.get("seq")
        if isinstance(seq, int) and seq <= self._numbering.last:
            failed = data.get("type") == "save_failed"
            self._answers[seq] = str(data.get("why") or NOT_SAVED) if failed else None

    def note(self, data: Mapping[str, Any], followed: Hello | None) -> None:
        """Note what is in the file, if `data` tells it and the page that is `followed` says it.

        None: no page has what the kernel has now.
        """
        match data:
            case {"type": "saved", "page": page, "stream": str(stream), "n": int(count)}:
                if followed is not None and page == followed.page:
                    self.in_file = stream, count

    def page_has(self, document: JsonValue) -> None:
        """Note that a page holds `document`: it may have gone back to an older file."""
        stream, count = self.in_file
        if conversation_id(document) == stream:
            self.in_file = stream, min(count, len(events_of(document)))

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
