"""Storage backend for a notebook that is open in a page.

While a page is open, only the page may write the notebook file. So this backend sends the record to
the page over a comm (`page_link.py`). An entry takes this way: the agent's thread appends it and
calls `changed`, the sending thread sends the write that `delivery.py` composes, and the control
thread receives the acknowledgement (`_receive`). `flush` waits for it.

`page_refusal.py` has the reasons to write nothing, `known_pages.py` selects the page to follow, and
`page_requests.py`, `input_box_question.py`, and `output_sender.py` have the messages that do not
concern the record.

Source: `docs/protocol.md`, `docs/decisions.md` D33.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from threading import Thread
from typing import Any

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject
from jp_nb.notebook.kernel_pages import KernelPages
from jp_nb.notebook.page.control_channel import find_unsupported_reason
from jp_nb.notebook.page.delivery import PageDelivery
from jp_nb.notebook.page.hello import Hello, HelloReader
from jp_nb.notebook.page.input_box_question import InputBoxQuestion
from jp_nb.notebook.page.output_sender import OutputSender
from jp_nb.notebook.page.page_deliveries import PageDeliveries
from jp_nb.notebook.page.page_link import PageLink
from jp_nb.notebook.page.page_refusal import DIVERGED, PageRefusal, find_refusal
from jp_nb.notebook.page.page_requests import PageRequests
from jp_nb.notebook.page.protocol import read_page_message
from jp_nb.notebook.page.record_location import (
    IN_NOTEBOOK,
    NO_PAGE,
    format_memory_location,
    make_not_saved_error,
)
from jp_nb.notebook.page.save_requests import SaveAnswer, SaveRequests
from jp_nb.notebook.page.saved_entries import SavedEntries
from jp_nb.notebook.running_cells import RunningCells
from jp_nb.record.documents.document import (
    Document,
    as_other,
    get_conversation_id,
    get_conversations,
    get_events,
    split_damaged,
)
from jp_nb.record.documents.merge import find_uncovered

NOT_SAVED = "the page could not save the notebook"

RESEND_S = 1.0
END_OF_CELL_S = 1.0


class LiveStore:
    """Storage backend that keeps the record in an open page; implements `RecordStore`.

    Call `connect`, then `attach` the document that was loaded from the page's answer, or a new
    one. The record is in memory only until a page answers, and while there is a refusal.

    Any thread may call it: the lock of the link guards the document, the known pages, and the
    delivery.

    Attributes:
        requests: Requests to the page that do not concern the record, such as its cells.
    """

    def __init__(self, kernel: Any, *, resend: float = RESEND_S, no_page: str = NO_PAGE) -> None:
        self._kernel = kernel
        self._link = PageLink(kernel, patience=resend)
        self._lock = self._link.lock
        self._pages = self._link.pages
        self._numbering = self._link.numbering
        self._deliveries = PageDeliveries(self._numbering, resend=resend)
        self.input_box = InputBoxQuestion(self._link)
        self.requests = PageRequests(self._link, KernelPages.of(kernel))
        self._outputs = OutputSender(kernel, self._link)
        self._hellos = HelloReader()
        self._document: Document | None = None  # until `attach`
        self._saved = SavedEntries()
        self._save_requests = SaveRequests()
        self._notices: list[str] = []

        if no_page == NO_PAGE:
            no_page = find_unsupported_reason(kernel) or NO_PAGE
        self._refusal: PageRefusal | None = PageRefusal(no_page)  # until a page answers

    def connect(self, timeout: float) -> Hello | None:
        """Open the comm; return the `hello` of the page, or None after `timeout` seconds.

        This may block the cell's thread, because the answer comes on the control channel.
        """
        if find_unsupported_reason(self._kernel):
            return None

        RunningCells.of(self._kernel)  # watches the cells from now on
        KernelPages.of(self._kernel).set_requests(
            self.input_box.can_show_input, self.requests.show_turn_end
        )
        self._link.connect(self._receive)
        Thread(target=self._send_until_closed, name="jp-nb record", daemon=True).start()

        with self._lock:
            followed = self._pages.followed
            self._lock.wait_for(lambda: followed.hello is not None, timeout)
            return followed.hello

    def attach(self, document: Document) -> None:
        """Store `document` from now on. It is written when it changes."""
        with self._lock:
            self._document = document
            self._deliveries.set_document(document)
            if (hello := self._pages.followed.hello) is not None:
                self._reconcile(hello, document)
            for page in self._deliveries.list_uncompared():
                self._link.ask_for_hello(page)
            self._lock.notify_all()

    # --- the port `RecordStore` --------------------------------------------------------------

    def changed(self) -> None:
        """Send the appended entries, and the head of the conversation if it changed."""
        with self._lock:
            if self._document is None:
                return

            previous_due = self._deliveries.next_due
            self._deliveries.send_changes(self._document)
            if self._deliveries.next_due != previous_due:  # otherwise the thread wakes up in time
                self._lock.notify_all()

    def replaced(self) -> None:
        """Send the whole document: another conversation is active, or the record was repaired.

        If a damaged record was the reason not to write, a new conversation ends that: the damaged
        record is kept unchanged among the document's other conversations.
        """
        with self._lock:
            document = self._document
            refusal = self._refusal
            if document is None:
                return

            self._saved.forget_entries()  # the entries may have changed
            if refusal and refusal.conversation not in (None, document.conversation.id):
                document.others += split_damaged(refusal.preserved)
                self._delivery.set_other_record(get_conversation_id(refusal.preserved))
                self._refusal = None

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
            return self._refusal.reason if self._refusal else None

    def flush(self, timeout: float) -> bool:
        """Wait until the page has every entry; return False after `timeout` seconds.

        If nothing may be written, return False at once.
        """
        with self._lock:
            self._send_without_interval()
            self._lock.wait_for(lambda: self._refusal or self._delivery.is_settled, timeout)
            return not self._refusal and self._delivery.is_settled

    def flush_after_cell(self) -> None:
        """Wait until an answering page has every entry, for at most one second."""
        with self._lock:
            self._send_without_interval()
            self._lock.wait_for(
                lambda: self._refusal or self._delivery.is_silent or self._delivery.is_settled,
                END_OF_CELL_S,
            )

    def _send_without_interval(self) -> None:
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
            hello = self._pages.followed.hello
            delivered = self._delivery.delivered

        page = hello.page if hello else ""
        path = hello.path if hello else ""
        requests: list[int] = []

        # One page first: two pages that write the file at once can corrupt it. Then all pages.
        now = time.monotonic()
        half_time = now + (ends_at - now) / 2
        answer = self._request_save(page, requests, half_time)
        if answer is None:
            answer = self._request_save("", requests, ends_at)

        with self._lock:
            self._save_requests.drop_answers(requests)
            if answer is None:
                raise make_not_saved_error("the page did not answer in time")
            if answer.failure is not None:
                raise make_not_saved_error(answer.failure)

            self._saved.set_saved(*delivered)

        return f"{IN_NOTEBOOK}, saved as {path}"

    def _request_save(self, page: str, requests: list[int], wait_until: float) -> SaveAnswer | None:
        """Ask `page` (all pages if "") to save; return the first answer to one of `requests`."""
        with self._lock:
            message = self._numbering.make_message("save", to=page)
            requests.append(self._numbering.last)
            self._save_requests.expect_answer(self._numbering.last)

        self._link.send(message)
        with self._lock:
            timeout = wait_until - time.monotonic()
            self._lock.wait_for(lambda: self._save_requests.find_answer(requests), timeout)
            return self._save_requests.find_answer(requests)

    def count_saved_entries(self, conversation: str) -> int:
        """Return the number of entries of `conversation` in the file; 0 if no page reported it."""
        with self._lock:
            if self._refusal or self._saved.conversation != conversation:
                return 0
            return self._saved.count

    def can_reload(self, timeout: float) -> bool:
        """Return True if the page, once it has every entry, sends another `hello`."""
        self.flush(timeout)
        return self.pull(timeout) is not None

    def take_notices(self) -> list[str]:
        """Return the new notices for the user since the last call."""
        with self._lock:
            notices = self._notices
            self._notices = []
            return notices

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
            hello = self._pages.followed.hello
            return hello.path if hello else ""

    @property
    def latency(self) -> float | None:
        """Seconds from the last message to its acknowledgement; None before the first."""
        return self._delivery.latency

    def pull(self, timeout: float) -> Hello | None:
        """Ask for another `hello`, and return it; None if no page answers in time.

        If pages share the document, the writing page has half of the time, then all pages.
        """
        ends_at = time.monotonic() + timeout
        if not self._delivery.is_shared:
            return self._pull_once(timeout)

        hello = self._pull_once(timeout / 2)
        if hello is not None:
            return hello

        with self._lock:
            self._pages.followed.is_silent = True

        return self._pull_once(ends_at - time.monotonic())

    def _pull_once(self, timeout: float) -> Hello | None:
        with self._lock:
            if not self._link.is_open:
                return None
            followed = self._pages.followed
            previous_count = followed.hello_count
            message = self._numbering.make_message("pull")

        self._link.send(message)
        with self._lock:
            answered = self._lock.wait_for(lambda: followed.hello_count > previous_count, timeout)
            return followed.hello if answered else None

    @property
    def has_met_page(self) -> bool:
        """True once a page has shown the notebook: other front ends lack the page part."""
        with self._lock:
            return self._pages.has_met_page

    def running_cells(self) -> frozenset[str]:
        """Return the ids of the cells that this kernel runs now."""
        publish = getattr(self._kernel, "_publish_status", None)
        return publish.cell_ids() if isinstance(publish, RunningCells) else frozenset()

    @property
    def _delivery(self) -> PageDelivery:
        """The delivery to the followed page."""
        return self._deliveries.followed

    # --- sending, in a thread of its own -----------------------------------------------------

    def _send_until_closed(self) -> None:
        """Send messages until the comm is closed."""
        lacking_pages = self._pages.lacking
        while True:
            with self._lock:
                if self._link.is_closed:
                    return

                now = time.monotonic()
                lacking = lacking_pages.popleft() if lacking_pages else None
                message = None if lacking else self._next_message(now)
                if lacking is None and message is None:
                    self._lock.wait(self._find_idle_time(now))
                    continue

            if lacking is not None:
                self._outputs.send_outputs(lacking)
            elif message is not None:
                self._link.send(message)

    def _next_message(self, now: float) -> JsonObject | None:
        if candidate := self._pages.followed.find_due_candidate(now):
            self._follow(candidate)  # the followed page did not answer

        if self._link.urgent:
            return self._link.urgent.popleft()
        if self._refusal:
            return None

        message = self._deliveries.next_message(now)
        if self._delivery.is_silent:
            self._pages.followed.is_silent = True
            self._lock.notify_all()

        return message

    def _find_idle_time(self, now: float) -> float | None:
        """Return the seconds until there is something to do; None if nothing is planned."""
        due_times = [self._pages.followed.candidate_due]
        if not self._refusal:
            due_times.append(self._deliveries.next_due)

        planned = [due for due in due_times if due is not None]
        return min(planned) - now if planned else None

    # --- receiving, in the control thread ----------------------------------------------------

    def _receive(self, data: Any) -> None:
        """Handle a message of any page, which may be forged."""
        message = read_page_message(data)
        if message is None:
            return

        kind = message["type"]
        page = message.get("page", "")
        path = message["path"] if kind == "hello" else None
        if kind == "seen":
            self._handle_seen(message)

        with self._lock:
            if self._link.is_closed:
                return

            is_known = self._pages.record_message(page, path)
            delivery = self._deliveries.find(page)
            if delivery is not None:
                delivery.is_silent = False

            if kind in ("hello", "chunk"):
                self._handle_hello_message(message)
            elif is_known:
                self._handle_answer(message)

            self._lock.notify_all()

    def _handle_seen(self, data: Mapping[str, Any]) -> None:
        with self._lock:
            is_known = self._pages.is_known(data["page"])

        # Without `_lock`: the sending thread takes it while it holds the lock of the cells.
        cells = RunningCells.of(self._kernel)
        if cells is not None and is_known:
            cells.mark_seen(data["request"])

    def _handle_answer(self, data: Mapping[str, Any]) -> None:
        """Handle a message of a page that shows the notebook."""
        match data["type"]:
            case "ack" | "nack":
                self._handle_write_answer(data)
            case "bye":
                others_remain = self._pages.leave(data["page"])
                if others_remain:
                    self._link.ask_for_hello()
            case "cells":
                self.requests.receive_cells(data)
            case "want":
                self._pages.add_lacking(data["page"], data["request"])
            case "input":
                self.input_box.receive_answer(data)
            case "saved" if "seq" not in data:
                self._handle_save_by_user(data)
            case "saved" | "save_failed":
                self._handle_save_answer(data)

    def _handle_write_answer(self, data: Mapping[str, Any]) -> None:
        delivery = self._deliveries.find(data["page"])
        if delivery is None:
            # A second window that was silent for a while: its content is unknown by now.
            if not self._delivery.is_shared:
                self._link.ask_for_hello(data["page"])
        elif data["type"] == "ack":
            delivery.handle_ack(data, time.monotonic())
        else:
            delivery.handle_nack(data)

    def _handle_save_answer(self, data: Mapping[str, Any]) -> None:
        failure = None
        if data["type"] == "save_failed":
            failure = data.get("why") or NOT_SAVED

        self._save_requests.add_answer(data["seq"], SaveAnswer(failure))

    def _handle_save_by_user(self, data: Mapping[str, Any]) -> None:
        # The file has the entries of a state that the page was known to have.
        is_followed = data.get("page") == self._pages.followed.page
        saved = self._delivery.find_state(data.get("state", ""))

        if is_followed and saved is not None:
            self._saved.set_saved(*saved)

    def _handle_hello_message(self, data: Mapping[str, Any]) -> None:
        try:
            hello = self._hellos.read(data)
            if hello is not None:  # otherwise the rest follows in pieces
                self._handle_hello(hello)
        except StorageError as exc:
            notice = f"the record of an open page is not read: {exc}"
            if notice not in self._notices:
                self._notices.append(notice)

    def _handle_hello(self, hello: Hello) -> None:
        KernelPages.of(self._kernel).add_page(hello.session, hello.user)
        pages = self._pages
        if pages.followed.is_reader(hello):
            pages.join(hello)
        elif pages.followed.has_path(hello.path):
            self._follow(hello)
        else:
            pages.add_other_notebook(hello)
            if pages.consider_candidate(hello, self._delivery.stream, time.monotonic()):
                self._link.ask_for_hello()

    def _follow(self, hello: Hello) -> None:
        # The file may have been reverted to an older version.
        self._saved.lower_count(
            get_conversation_id(hello.document), len(get_events(hello.document))
        )

        self._pages.follow(hello)
        is_renamed = self._numbering.path not in ("", hello.path)
        self._numbering.path = hello.path
        self._deliveries.follow(hello)
        if is_renamed:
            self._link.ask_for_hello()  # other windows also have the new path

        if self._document is not None:
            self._reconcile(hello, self._document)

    def _reconcile(self, hello: Hello, document: Document) -> None:
        """Compare the page's record with the document, and add conversations that only it has."""
        self._refusal = find_refusal(hello, document)
        if self._refusal:
            return

        stored = hello.document if isinstance(hello.document, dict) else {}
        page_stream = get_conversation_id(stored)
        active_stream = self._delivery.stream
        if page_stream != active_stream:
            self._add_missing_conversations(document, stored)
            self._delivery.set_other_record(page_stream, stored)
        elif not self._delivery.match_record(stored):
            self._refusal = PageRefusal(DIVERGED, active_stream, as_other(stored))

    def _add_missing_conversations(self, document: Document, stored: JsonObject) -> None:
        missing = find_uncovered(document.to_json(), get_conversations(stored))
        if not missing:
            return

        document.others += missing
        self._deliveries.set_document(document)
        self._notices.append(
            "The notebook contains a conversation that this kernel did not have. "
            "It is kept: `%jp log` lists it."
        )
