"""The deliveries of one document to the pages of its notebook.

Pages of a shared document hold the same content, so one of them writes. Otherwise each window has
its own copy, and gets its own writes. The delivery to the followed page is the one that counts: the
kernel waits for it. A second window that does not answer twice gets nothing more before its next
`hello`.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from typing import Final

from jp_nb.json_values import JsonObject
from jp_nb.notebook.page.delivery import PageDelivery
from jp_nb.notebook.page.hello import Hello
from jp_nb.notebook.page.protocol import MessageNumbering
from jp_nb.record.documents.document import Document

MAX_WINDOWS: Final = 8
"""Limit of windows of one notebook that get writes. The oldest one waits for its next `hello`."""


class PageDeliveries:
    """The deliveries to all windows of a notebook.

    Not thread-safe: hold the lock of the link in all methods.

    Attributes:
        followed: The delivery to the followed page; to no page before the first `hello`.
    """

    def __init__(self, numbering: MessageNumbering, *, resend: float) -> None:
        self._numbering = numbering
        self._resend = resend
        self._path = ""  # the server's path of the notebook
        self._by_page: dict[str, PageDelivery] = {}  # the oldest first
        self.followed = PageDelivery(numbering, resend=resend)

    def follow(self, hello: Hello) -> None:
        """Deliver to the page that says `hello`. This message replaces its known content."""
        # Pages of a shared document get one write, and those of another notebook get none.
        if hello.collaborative or hello.path != self._path:
            self._by_page.clear()

        delivery = PageDelivery(
            self._numbering, resend=self._resend, page=hello.page, is_shared=hello.collaborative
        )
        # A new window continues from the page that was followed before.
        earlier = self._by_page.pop(hello.page, self.followed)
        delivery.continue_from(earlier)
        delivery.set_content(hello.make_copy())

        self._path = hello.path
        self._by_page[hello.page] = delivery
        self.followed = delivery
        if len(self._by_page) > MAX_WINDOWS:
            del self._by_page[next(iter(self._by_page))]

    def find(self, page: str) -> PageDelivery | None:
        """Return the delivery to `page`, if it gets writes."""
        return self._by_page.get(page)

    def list_uncompared(self) -> list[str]:
        """Return the second windows whose content was not compared with the document."""
        others = [delivery for delivery in self._list_all() if delivery is not self.followed]
        return [delivery.page for delivery in others if delivery.content.copy is None]

    def set_document(self, document: Document) -> None:
        """Set the document, as `PageDelivery.set_document` does."""
        for delivery in self._list_all():
            delivery.set_document(document)

    def send_changes(self, document: Document) -> None:
        """Send the changes of `document` to all windows."""
        for delivery in self._list_all():
            delivery.send_changes(document)

    def send_all(self, document: Document) -> None:
        """Send all of `document` to all windows."""
        for delivery in self._list_all():
            delivery.send_all(document)

    def next_message(self, now: float) -> JsonObject | None:
        """Return the message to send at the monotonic time `now`, if there is one.

        A second window that has not answered a message twice is removed.
        """
        for delivery in self._list_all():
            message = delivery.next_message(now)
            if message is None:
                continue

            # `pull` is due when a repeated message was not answered either. The followed page gets
            # it. A second window gets nothing more before its next `hello`.
            if delivery is not self.followed and message["type"] == "pull":
                del self._by_page[delivery.page]
                continue

            return message

        return None

    @property
    def next_due(self) -> float | None:
        """The monotonic time of the next message; None if there is none."""
        due_times = [delivery.next_due for delivery in self._list_all()]
        return min((due for due in due_times if due is not None), default=None)

    def _list_all(self) -> list[PageDelivery]:
        """Return all deliveries, that to the followed page first."""
        others = [delivery for delivery in self._by_page.values() if delivery is not self.followed]
        return [self.followed, *others]
