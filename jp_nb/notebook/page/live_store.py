"""Storage backend for a notebook that is open in a page.

While a page is open, only the page may write the notebook file. So this backend sends the record to
the page over a comm (`page_link.py`). An entry takes this way: the agent's thread appends it and
calls `changed`, the sending thread (`page_sender.py`) sends the write that `delivery.py` composes,
and the control thread receives the acknowledgement (`page_receiver.py`). `flush` waits for it.

Each page says in `hello` which record it has. Several pages may show the notebook. The *followed*
one counts: its answers are awaited. A *refusal* is a reason to write nothing, such as a read-only
notebook. The record is *settled* when the followed page has everything.

Source: `docs/protocol.md`, `docs/decisions.md` D33.
"""

from __future__ import annotations

import time
from threading import Thread
from typing import Any

from jp_nb.notebook.cell_watch import find_watched_cells, watch_cells
from jp_nb.notebook.kernel_pages import KernelPages
from jp_nb.notebook.page.control_channel import find_unsupported_reason
from jp_nb.notebook.page.delivery import PageDelivery
from jp_nb.notebook.page.file_saver import FileSaver
from jp_nb.notebook.page.hello import Hello
from jp_nb.notebook.page.input_box_question import InputBoxQuestion
from jp_nb.notebook.page.output_sender import OutputSender
from jp_nb.notebook.page.page_deliveries import PageDeliveries
from jp_nb.notebook.page.page_link import PageLink
from jp_nb.notebook.page.page_receiver import PageReceiver
from jp_nb.notebook.page.page_refusal import PageRefusal
from jp_nb.notebook.page.page_requests import PageRequests
from jp_nb.notebook.page.page_sender import PageSender
from jp_nb.notebook.page.record_comparison import RecordComparison
from jp_nb.notebook.page.record_location import (
    IN_NOTEBOOK,
    NO_PAGE,
    format_memory_location,
    make_not_saved_error,
)
from jp_nb.notebook.page.save_requests import SaveRequests
from jp_nb.notebook.page.saved_entries import SavedEntries
from jp_nb.record.documents.document import Document

RESEND_S = 1.0
"""Time after which a message that no page has answered is repeated."""
END_OF_CELL_S = 1.0
"""Longest time that the end of a cell waits for the page."""


class LiveStore:
    """Storage backend that keeps the record in an open page; implements `RecordStore`.

    Call `connect`, then `attach` the document that was loaded from the page's answer, or a new
    one. The record is in memory only until a page answers, and while there is a refusal.

    Any thread may call the public methods. `_lock`, which is the lock of the link, guards all
    attributes. It is a condition: `notify_all` wakes up the sending thread, and the threads that
    wait for an answer of a page.

    Args:
        resend: Seconds after which a message without an answer is repeated.
        no_page: Why no notebook keeps the record while no page has answered, for the user.

    Attributes:
        requests: Requests to the page that do not concern the record, such as its cells.
        input_box: The question to pages if they can show an input box for the running cell.
    """

    def __init__(self, kernel: Any, *, resend: float = RESEND_S, no_page: str = NO_PAGE) -> None:
        if no_page == NO_PAGE:
            no_page = find_unsupported_reason(kernel) or NO_PAGE

        # The comm, with the known pages, and the writes for each of them.
        self._kernel = kernel
        self._link = PageLink(kernel, patience=resend)
        self._lock = self._link.lock
        self._deliveries = PageDeliveries(self._link.numbering, resend=resend)

        # The document, and the refusal if the page's record does not allow to write it. Until a
        # page answers, the reason to write nothing is that there is no page.
        self._comparison = RecordComparison(self._deliveries, PageRefusal(no_page))

        # The notebook file: how many entries it has, and requests to save it.
        self._saved = SavedEntries()
        save_requests = SaveRequests()
        self._file_saver = FileSaver(self._link, save_requests)

        # Requests to the page that do not concern the record.
        self.input_box = InputBoxQuestion(self._link)
        self.requests = PageRequests(self._link, KernelPages.of(kernel))

        # The work of the control thread, and of the sending thread.
        self._receiver = PageReceiver(
            kernel=kernel,
            link=self._link,
            deliveries=self._deliveries,
            comparison=self._comparison,
            saved=self._saved,
            save_requests=save_requests,
            requests=self.requests,
            input_box=self.input_box,
        )
        self._outputs = OutputSender(kernel, self._link)
        self._sender = PageSender(
            link=self._link,
            deliveries=self._deliveries,
            comparison=self._comparison,
            outputs=self._outputs,
            follow=self._receiver.follow,
        )

    def connect(self, timeout: float) -> Hello | None:
        """Open the comm; return the `hello` of the page, or None after `timeout` seconds.

        This may block the cell's thread, because the answer comes on the control channel.
        """
        if find_unsupported_reason(self._kernel):
            return None

        watch_cells(self._kernel)  # from now on
        KernelPages.of(self._kernel).set_requests(
            self.input_box.can_show_input, self.requests.show_turn_end
        )
        self._link.connect(self._receiver.receive)
        Thread(target=self._sender.send_until_closed, name="jp-nb record", daemon=True).start()

        with self._lock:
            followed = self._link.pages.followed
            self._lock.wait_for(lambda: followed.hello is not None, timeout)
            return followed.hello

    def attach(self, document: Document) -> None:
        """Store `document` from now on. It is written when it changes."""
        with self._lock:
            self._comparison.document = document
            self._deliveries.set_document(document)
            hello = self._link.pages.followed.hello
            if hello is not None:
                self._comparison.compare(hello)

            # Windows said `hello` before there was a document to compare their records with.
            for page in self._deliveries.list_uncompared():
                self._link.ask_for_hello(page)
            self._lock.notify_all()

    # --- the port `RecordStore` --------------------------------------------------------------

    def changed(self) -> None:
        """Send the appended entries, and the head of the conversation if it changed."""
        with self._lock:
            document = self._comparison.document
            if document is None:
                return

            previous_due = self._deliveries.next_due
            self._deliveries.send_changes(document)
            if self._deliveries.next_due != previous_due:  # otherwise the thread wakes up in time
                self._lock.notify_all()

    def replaced(self) -> None:
        """Send the whole document: another conversation is active, or the record was repaired.

        If a damaged record was the reason not to write, a new conversation ends that: the damaged
        record is kept unchanged among the document's other conversations.
        """
        with self._lock:
            document = self._comparison.document
            if document is None:
                return

            self._saved.forget_entries()  # the entries may have changed
            self._comparison.end_refusal(document)
            self._deliveries.send_all(document)
            self._lock.notify_all()

    @property
    def location(self) -> str:
        """The place of the record, for messages."""
        reason = self.unsaved_reason
        return IN_NOTEBOOK if reason is None else format_memory_location(reason)

    @property
    def unsaved_reason(self) -> str | None:
        """The reason why this notebook does not keep the record; None if it does."""
        with self._lock:
            refusal = self._comparison.refusal
            return refusal.reason if refusal else None

    def flush(self, timeout: float) -> bool:
        """Wait until the page has every entry; return False after `timeout` seconds.

        If nothing may be written, return False at once.
        """
        with self._lock:
            self._send_without_interval()
            self._lock.wait_for(lambda: self._is_refused or self._delivery.is_settled, timeout)
            return not self._is_refused and self._delivery.is_settled

    def flush_after_cell(self) -> None:
        """Wait until an answering page has every entry, for at most one second."""
        with self._lock:
            self._send_without_interval()
            self._lock.wait_for(
                lambda: self._is_refused or self._delivery.is_silent or self._delivery.is_settled,
                END_OF_CELL_S,
            )

    def _send_without_interval(self) -> None:
        """Let the sending thread write the appended entries now. Hold the lock."""
        self._delivery.skip_interval()
        self._lock.notify_all()

    def save(self, timeout: float = 10.0) -> str:
        """Ask the page to save the notebook; return the place of the record, for messages.

        Raises:
            StorageError: If the page did not store the record, or could not save.
        """
        ends_at = time.monotonic() + timeout
        if not self.flush(timeout):
            raise make_not_saved_error(self.unsaved_reason or "the page does not answer")

        with self._lock:
            hello = self._link.pages.followed.hello
            delivered = self._delivery.content.delivered

        answer = self._file_saver.save(hello.page if hello else "", ends_at)
        if answer is None:
            raise make_not_saved_error("the page did not answer in time")
        if answer.failure is not None:
            raise make_not_saved_error(answer.failure)

        with self._lock:
            self._saved.set_saved(*delivered)

        path = hello.path if hello else ""
        return f"{IN_NOTEBOOK}, saved as {path}"

    def count_saved_entries(self, conversation: str) -> int:
        """Return the number of entries of `conversation` in the file; 0 if no page reported it."""
        with self._lock:
            if self._is_refused or self._saved.conversation != conversation:
                return 0
            return self._saved.count

    def can_reload(self, timeout: float) -> bool:
        """Return True if the page, once it has every entry, sends another `hello`."""
        self.flush(timeout)
        return self.pull(timeout) is not None

    def take_notices(self) -> list[str]:
        """Return the new notices for the user since the last call."""
        with self._lock:
            return self._comparison.take_notices()

    def close(self) -> None:
        """Close the comm. Entries that were not sent stay in memory."""
        if self._link.close():
            KernelPages.of(self._kernel).reset_requests(
                self.input_box.can_show_input, self.requests.show_turn_end
            )

    # --- for the notebook --------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The server's path of the notebook; "" before a page answered."""
        with self._lock:
            hello = self._link.pages.followed.hello
            return hello.path if hello else ""

    @property
    def latency(self) -> float | None:
        """Seconds from the last message to its acknowledgement; None before the first."""
        with self._lock:
            return self._delivery.latency

    def pull(self, timeout: float) -> Hello | None:
        """Ask for another `hello`, and return it; None if no page answers in time.

        If pages share the document, the writing page has half of the time, then all pages.
        """
        ends_at = time.monotonic() + timeout
        with self._lock:
            is_shared = self._delivery.is_shared
        if not is_shared:
            return self._pull_once(timeout)

        hello = self._pull_once(timeout / 2)
        if hello is not None:
            return hello

        with self._lock:
            # Now the first page that answers is followed, and becomes the writing one.
            self._link.pages.followed.is_silent = True

        return self._pull_once(ends_at - time.monotonic())

    def _pull_once(self, timeout: float) -> Hello | None:
        """Ask all pages for another `hello`; return that of the followed page, or None."""
        with self._lock:
            if not self._link.is_open:
                return None
            followed = self._link.pages.followed
            previous_count = followed.hello_count
            message = self._link.numbering.make_message("pull")

        self._link.send(message)
        with self._lock:
            answered = self._lock.wait_for(lambda: followed.hello_count > previous_count, timeout)
            return followed.hello if answered else None

    @property
    def has_met_page(self) -> bool:
        """True once a page has shown the notebook. Consoles and other front ends never do that."""
        with self._lock:
            return self._link.pages.has_met_page

    def list_running_cells(self) -> frozenset[str]:
        """Return the ids of the cells that this kernel runs now."""
        cells = find_watched_cells(self._kernel)
        return cells.list_cell_ids() if cells is not None else frozenset()

    # --- facts that the methods above share; hold the lock -------------------------------------

    @property
    def _delivery(self) -> PageDelivery:
        """The delivery to the followed page, which is the one that the kernel waits for."""
        return self._deliveries.followed

    @property
    def _is_refused(self) -> bool:
        return self._comparison.refusal is not None
