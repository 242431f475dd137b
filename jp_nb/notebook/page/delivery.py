"""Deliver the newest snapshot of the document to a page: one write after the other.

One message is sent at a time, and repeated until the page acknowledges it (`transfer.py`).
`known_content.py` has the content that the page is known to hold, and `write_composer.py` makes the
writes that change it. This module has no threads: `page_sender.py` sends, `page_receiver.py`
receives, and `page_deliveries.py` has the deliveries to several pages. The messages:

    hello: the page says its content, and names it with a *state*
    write: the page changes its content from the state `expect` to `state`
    ack, nack: the page has applied a write, or has not
    pull: the page is asked for another `hello`

The *head* of a document is all of it except its entries and other conversations.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jp_nb.json_values import JsonObject
from jp_nb.notebook.page.document_snapshot import DocumentSnapshot
from jp_nb.notebook.page.known_content import KnownContent
from jp_nb.notebook.page.page_copy import PageCopy
from jp_nb.notebook.page.pieces import select_batch
from jp_nb.notebook.page.protocol import MessageNumbering
from jp_nb.notebook.page.transfer import Transfer
from jp_nb.notebook.page.write_composer import MAX_BATCH_BYTES, WriteComposer
from jp_nb.record.documents.document import Document

MIN_BATCH_INTERVAL_S = 0.1
"""Shortest time between two messages with appended entries."""


class PageDelivery:
    """Selects the messages that update a page to the newest snapshot of the document.

    The *target* is the newest snapshot. A *transfer* is the write that is under way, in one message
    or several. Once the last one is acknowledged, its result is the new content of the page.

    If a message is not acknowledged within `resend` seconds, `next_message` returns it or a `pull`
    again. Not thread-safe: hold the lock of the link in all methods.

    Attributes:
        page: Id of the page, which alone acts on the writes.
        is_shared: True if pages share the document: then earlier entries are put into segments.
        content: The content that the page is known to hold.
        is_silent: True if the last message was not answered in time.
        latency: Seconds from the last message to its acknowledgement; None before the first.
    """

    def __init__(
        self, numbering: MessageNumbering, *, resend: float, page: str = "", is_shared: bool = False
    ) -> None:
        self._numbering = numbering
        self._resend = resend
        self._target: DocumentSnapshot | None = None
        self._has_changes = False  # False until the document changes for the first time
        self._transfer: Transfer | None = None
        self._next_batch_at = 0.0  # monotonic time of the next append, at the earliest
        self._skips_interval = False  # True to append earlier, because a thread waits for it
        self.page = page
        self.is_shared = is_shared
        self.content = KnownContent()
        self.is_silent = False
        self.latency: float | None = None

    def continue_from(self, other: PageDelivery) -> None:
        """Deliver the same document as `other`."""
        self._target = other._target
        self._has_changes = other._has_changes
        self.content.is_outdated = other.content.is_outdated
        self.latency = other.latency

    # --- the document ------------------------------------------------------------------------

    @property
    def stream(self) -> str | None:
        """The id of the active conversation; None without a document."""
        return self._target.stream if self._target else None

    def set_document(self, document: Document) -> None:
        """Set the document. Nothing is sent before `send_changes` or `send_all` is called."""
        self._target = DocumentSnapshot(document)

    def send_changes(self, document: Document) -> None:
        """Send the entries appended to `document`, and its head if that changed."""
        self._target = DocumentSnapshot(document)
        self._has_changes = True

    def send_all(self, document: Document) -> None:
        """Send all of `document`, except conversations that the page holds.

        Another conversation is active, or the record was *repaired*: entries have changed, so it is
        not enough to append the new ones.
        """
        self._target = DocumentSnapshot(document)
        self._has_changes = True
        self.content.mark_outdated(self._target)
        self.discard_transfer()

    # --- the content of the page -------------------------------------------------------------

    def set_content(self, copy: PageCopy) -> None:
        """Set the content of the page. Call `match_record` or `set_other_record` next."""
        self.content.report(copy)
        self.discard_transfer()

    def set_other_record(self, stream: str, stored: JsonObject | None = None) -> None:
        """Compare the page with the document, if another conversation, `stream`, is active there.

        `stored` is the whole record of the page; None if it is unknown or unreadable.
        """
        assert self._target is not None  # a page is compared once there is a document
        self.content.set_other_conversation(stream, stored, self._target)

    def match_record(self, stored: JsonObject) -> bool:
        """Compare `stored`, the record of a page with the same active conversation.

        Return False, and write nothing, if its entries are not the beginning of ours.
        """
        assert self._target is not None  # as above
        # Before the first change, another head is no reason to write: loading may have completed
        # it, and the user has only opened the notebook.
        return self.content.compare_same_conversation(
            stored, self._target, head_counts=self._has_changes
        )

    # --- sending -----------------------------------------------------------------------------

    def skip_interval(self) -> None:
        """Send the pending entries now, without the interval between messages.

        If nothing is pending, the interval before later entries stays.
        """
        self._skips_interval = not self.is_settled

    @property
    def is_settled(self) -> bool:
        """True if the page has everything."""
        return self._transfer is None and not self._lacks_something()

    @property
    def next_due(self) -> float | None:
        """The monotonic time of the next message or repetition; None if there is none."""
        if self._transfer is not None and self._transfer.is_sent:
            return self._transfer.due_at
        return self._next_batch_at if self._lacks_something() else None

    def next_message(self, now: float) -> JsonObject | None:
        """Return the message to send at the monotonic time `now`, if there is one."""
        if self._transfer is None:
            self._transfer = self._compose(now)

        transfer = self._transfer
        if transfer is None:
            return None
        if not transfer.is_sent:
            transfer.note_sent(now, self._resend)
            return transfer.messages[0]
        if now < transfer.due_at:
            return None

        self.is_silent = True
        transfer.note_repeated(now, self._resend)
        # If no page is open, the server queues messages: only the short `pull` is repeated.
        # If the writing page does not answer, the first page that answers `pull` takes over.
        if self.is_shared or transfer.needs_pull:
            return self._numbering.make_message("pull")

        return transfer.messages[0]

    def handle_ack(self, answer: Mapping[str, Any], now: float) -> None:
        """Handle an `ack` of the page, received at the monotonic time `now`."""
        transfer = self._transfer
        if transfer is None or not transfer.is_awaiting(answer.get("seq")):
            return  # for a message that was sent twice
        if answer.get("page") != self.page:
            return

        is_last = len(transfer.messages) == 1
        if is_last and answer.get("state") != transfer.result.state:
            transfer.ask_again()  # the page holds something else than the write
            return

        transfer.note_acknowledged()
        self.latency = now - transfer.sent_at
        if is_last:
            self._finish_transfer(transfer)

    def _finish_transfer(self, transfer: Transfer) -> None:
        """Note that the page has acknowledged all messages, and holds the result."""
        self.content.set_written(transfer.result, is_whole=transfer.is_whole)
        self._transfer = None
        if self.is_settled:
            self._skips_interval = False

    def handle_nack(self, answer: Mapping[str, Any]) -> None:
        """Handle a `nack`: the page has not written anything."""
        if answer.get("page") != self.page or answer.get("why") == "stale":
            return  # after `stale`, the page sends a `hello` with its state
        if self._transfer is not None and self._transfer.is_awaiting(answer.get("seq")):
            self._transfer.ask_again()

    def discard_transfer(self) -> None:
        """Discard the current write: the next one is composed for the present content."""
        self._transfer = None

    def _lacks_something(self) -> bool:
        """Return True if the page may be written, and its content differs from the target."""
        if self._target is None or self.content.copy is None or not self._has_changes:
            return False
        return self.content.lacks(self._target)

    def _compose(self, now: float) -> Transfer | None:
        """Return the next write; None if the page has everything, or the interval is not over."""
        target = self._target
        copy = self.content.copy
        if target is None or copy is None or not self._lacks_something():
            return None

        composer = WriteComposer(self._numbering, self.page, is_shared=self.is_shared)
        if self.content.is_outdated or copy.stream != target.stream:
            return composer.compose_whole(target, copy)
        if now < self._next_batch_at and not self._skips_interval:
            return None

        batch, _ = select_batch(target.entries[copy.length : target.length], MAX_BATCH_BYTES)
        more_remain = copy.length + len(batch) < target.length
        if not more_remain:  # otherwise the next batch is sent at once
            self._next_batch_at = now + MIN_BATCH_INTERVAL_S

        return composer.compose_entries(target, copy, batch)
