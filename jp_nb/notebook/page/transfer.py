"""A write to a page that is under way: its messages, and when they are repeated.

`write_composer.py` makes the messages. `PageDelivery` (`delivery.py`) sends the first of them until
the page acknowledges it, then the next one. The intervals between repetitions double. After a
repetition in vain, it sends `pull` in place of the message: a short message that asks the page for
its content.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from jp_nb.json_values import JsonObject
from jp_nb.notebook.page.page_copy import PageCopy

MAX_RESEND_S = 60.0
"""Longest time between two repetitions of a message."""


@dataclass(slots=True)
class Transfer:
    """Messages for the page, sent one after the other, and its content after the last one.

    Attributes:
        messages: The messages that were not acknowledged. The others describe the first of them.
        result: The content of the page once it has acknowledged all messages.
        is_whole: True if the page replaces its document.
        is_sent: True from the first sending to the acknowledgement.
        sent_at: Monotonic time of the last sending.
        due_at: Monotonic time of the next repetition.
        repetitions: Number of repetitions so far; 1 after `ask_again`.
    """

    messages: deque[JsonObject]
    result: PageCopy
    is_whole: bool = False
    is_sent: bool = False
    sent_at: float = 0.0
    due_at: float = 0.0
    repetitions: int = 0

    def note_sent(self, now: float, resend: float) -> None:
        """Note that the message is sent; it is repeated `resend` seconds later."""
        self.is_sent = True
        self.sent_at = now
        self.due_at = now + resend
        self.repetitions = 0

    def note_repeated(self, now: float, resend: float) -> None:
        """Note that the message, or `pull` in its place, is about to be sent again.

        The wait for the next repetition is twice the last one, which was `resend` at first.
        """
        self.repetitions += 1
        self.sent_at = now
        self.due_at = now + min(resend * 2**self.repetitions, MAX_RESEND_S)

    @property
    def needs_pull(self) -> bool:
        """True if the repetition that was noted last is a `pull`; the first is the message."""
        return self.repetitions > 1

    def ask_again(self) -> None:
        """Let `pull` be sent next, at once: the page has answered that it holds something else."""
        self.due_at = 0.0
        self.repetitions = 1  # `note_repeated` makes it 2: that repetition is a `pull`

    def is_awaiting(self, seq: object) -> bool:
        """Return True if the message with the number `seq` waits for its acknowledgement."""
        return self.is_sent and seq == self.messages[0]["seq"]

    def note_acknowledged(self) -> None:
        """Remove the first message. The next one was not sent yet."""
        self.messages.popleft()
        self.is_sent = False
