"""Receive the messages of all pages of a notebook, on ipykernel's control thread.

Several pages can send messages: windows of the notebook, pages of collaborators, and pages of other
notebooks on the same kernel. The kernel writes the record to one of them, the *followed* page
(`followed_page.py` has the rules). The others are:

- *Readers* share the document with the followed page, and write nothing into it.
- *Other notebooks* have another path. One of them may be this notebook after a rename: then it is
  the *candidate*, which is followed if no page answers with the old path.

A page is *known* once its `hello` says that it shows this notebook.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jp_nb.errors import StorageError
from jp_nb.notebook.cell_watch import watch_cells
from jp_nb.notebook.kernel_pages import KernelPages
from jp_nb.notebook.page.hello import Hello
from jp_nb.notebook.page.hello_reader import HelloReader
from jp_nb.notebook.page.input_box_question import InputBoxQuestion
from jp_nb.notebook.page.page_deliveries import PageDeliveries
from jp_nb.notebook.page.page_link import PageLink
from jp_nb.notebook.page.page_requests import PageRequests
from jp_nb.notebook.page.protocol import read_page_message
from jp_nb.notebook.page.record_comparison import RecordComparison
from jp_nb.notebook.page.save_requests import SaveAnswer, SaveRequests
from jp_nb.notebook.page.saved_entries import SavedEntries
from jp_nb.record.documents.record_shape import get_conversation_id, get_events

NOT_SAVED = "the page could not save the notebook"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReceiver:
    """Handles each message of a page, and wakes up the threads that wait for its effect.

    The lock of the link guards all attributes. The private methods are called with the lock held,
    except `_mark_seen`.

    Attributes:
        kernel: The kernel, which has the running cells and the names of users.
        link: The comm, its lock, and the known pages.
        deliveries: The writes to each page, which `ack` and `nack` answer.
        comparison: The document, and the reason not to write it, which each `hello` may change.
        saved: The entries that the notebook file is known to have.
        save_requests: The requests to save the file, which `saved` and `save_failed` answer.
        requests: The requests about cells, which `cells` answers.
        input_box: The question to the pages that `input` answers.
    """

    kernel: Any
    link: PageLink
    deliveries: PageDeliveries
    comparison: RecordComparison
    saved: SavedEntries
    save_requests: SaveRequests
    requests: PageRequests
    input_box: InputBoxQuestion
    _hellos: HelloReader = field(default_factory=HelloReader, init=False)

    def receive(self, data: Any) -> None:
        """Handle a message of any page, which may be forged."""
        message = read_page_message(data)
        if message is None:
            return

        kind = message["type"]
        page = message["page"]
        path = message["path"] if kind == "hello" else None
        if kind == "seen":
            self._mark_seen(message)

        with self.link.lock:
            if self.link.is_closed:
                return

            is_known = self.link.pages.record_message(page, path)
            delivery = self.deliveries.find(page)
            if delivery is not None:
                delivery.is_silent = False

            if kind in ("hello", "chunk"):
                self._handle_hello_message(message)
            elif is_known:
                self._handle_answer(message)

            self.link.lock.notify_all()

    def _mark_seen(self, data: Mapping[str, Any]) -> None:
        """Forget the outputs of a cell that has ended: the page shows them.

        The lock of the link is not held while that of the cells is taken, because the sending
        thread takes both in the opposite order.
        """
        with self.link.lock:
            is_known = self.link.pages.is_known(data["page"])

        cells = watch_cells(self.kernel)
        if cells is not None and is_known:
            cells.mark_seen(data["request"])

    def _handle_answer(self, data: Mapping[str, Any]) -> None:
        """Handle a message of a page that shows the notebook."""
        match data["type"]:
            case "ack" | "nack":
                self._handle_write_answer(data)
            case "bye":
                others_remain = self.link.pages.leave(data["page"])
                if others_remain:
                    self.link.ask_for_hello()
            case "cells":
                self.requests.receive_cells(data)
            case "want":  # the page lacks the outputs of a running cell
                self.link.pages.add_lacking_page(data["page"], data["request"])
            case "input":
                self.input_box.receive_answer(data)
            case "saved" if "seq" not in data:
                self._handle_save_by_user(data)
            case "saved" | "save_failed":  # `seq` is the number of the kernel's request to save
                self._handle_save_answer(data)

    def _handle_write_answer(self, data: Mapping[str, Any]) -> None:
        """Pass `ack` or `nack` to the delivery to this page, if the page gets writes."""
        delivery = self.deliveries.find(data["page"])
        if delivery is not None:
            if data["type"] == "ack":
                delivery.handle_ack(data, time.monotonic())
            else:
                delivery.handle_nack(data)
            return

        # The page gets no writes any more. If it has its own copy of the document, it is a second
        # window that was silent for a while, and its content is unknown by now.
        if not self.deliveries.followed.is_shared:
            self.link.ask_for_hello(data["page"])

    def _handle_save_answer(self, data: Mapping[str, Any]) -> None:
        failure = None
        if data["type"] == "save_failed":
            failure = data.get("why") or NOT_SAVED

        self.save_requests.add_answer(data["seq"], SaveAnswer(failure))

    def _handle_save_by_user(self, data: Mapping[str, Any]) -> None:
        """Note the entries in the file, if the kernel knows which ones the saved state has."""
        is_followed = data["page"] == self.link.pages.followed.page
        saved = self.deliveries.followed.content.find_state(data.get("state", ""))

        if is_followed and saved is not None:
            conversation, entry_count = saved
            self.saved.set_saved(conversation, entry_count)

    def _handle_hello_message(self, data: Mapping[str, Any]) -> None:
        try:
            hello = self._hellos.read(data)
            if hello is not None:  # otherwise the rest follows in pieces
                self._handle_hello(hello)
        except StorageError as exc:
            self.comparison.add_notice_once(f"the record of an open page is not read: {exc}")

    def _handle_hello(self, hello: Hello) -> None:
        """Follow the page, or note that it is another page of this or of another notebook."""
        KernelPages.of(self.kernel).add_page(hello.shared_session, hello.user)
        pages = self.link.pages
        if pages.followed.is_reader(hello):
            pages.join(hello)  # it is known, and gets the outputs that it does not show
        elif pages.followed.has_path(hello.path):
            self.follow(hello)
        else:
            pages.add_other_notebook(hello)
            stream = self.deliveries.followed.stream
            # It may be this notebook with a new name. Then no page answers with the old name.
            if pages.consider_candidate(hello, stream, time.monotonic()):
                self.link.ask_for_hello()

    def follow(self, hello: Hello) -> None:
        """Follow the page that says `hello`, and compare its record. Hold the lock of the link."""
        # The file may have been reverted to an older version, which has fewer entries.
        self.saved.lower_count(get_conversation_id(hello.document), len(get_events(hello.document)))

        numbering = self.link.numbering
        is_renamed = numbering.path not in ("", hello.path)
        self.link.pages.follow(hello)
        numbering.path = hello.path
        self.deliveries.follow(hello)
        if is_renamed:
            self.link.ask_for_hello()  # other windows also have the new path

        self.comparison.compare(hello)
