"""Storage backend for a notebook that is open in a page.

`known_pages.py` selects the page to follow, and `delivery.py` composes the messages that update it.
This module has the threads, their lock, and the port that the session uses. Conversations that only
the page has are added to the document. Nothing is written to a page that is read-only or uses
another protocol, nor while its record is unreadable or has other entries of the same conversation.

Source: `docs/protocol.md`, `docs/decisions.md` D33.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject
from jp_nb.notebook.collaborators import Collaborators
from jp_nb.notebook.page.control_channel import (
    CellContext,
    find_unsupported_reason,
    receive_on_control,
    stop_receiving,
)
from jp_nb.notebook.page.delivery import PageDelivery
from jp_nb.notebook.page.known_pages import Pages
from jp_nb.notebook.page.page_cells import PageCells
from jp_nb.notebook.page.protocol import PROTOCOL, TARGET, Hello, Numbering, read_page_message
from jp_nb.notebook.running_cells import RunningCell, RunningCells, get_message_id
from jp_nb.record.clock import utc_now
from jp_nb.record.document import (
    Document,
    NewerVersionError,
    as_other,
    find_shape,
    get_conversation_id,
    get_conversations,
    get_events,
    split_damaged,
)
from jp_nb.record.merge import find_uncovered

if TYPE_CHECKING:
    from jp_nb.rendering.status import TurnCounts

IN_NOTEBOOK = "kept in this notebook"
NOT_SAVED = "the page could not save the notebook"
TEXT_FILE = "{} is a text notebook, which does not store conversations. Pair it with an .ipynb file"


def format_memory_location(reason: str) -> str:
    """Return the `location` of a record that no notebook keeps."""
    return f"kept in memory only: {reason}"


def make_not_saved_error(reason: str) -> StorageError:
    """Return the error for a record that could not be saved."""
    return StorageError(f"The record is not saved: {reason}")


NO_PAGE = "no page answered (in JupyterLab or Notebook, enable the jp-nb extension)"
NO_OPEN_PAGE = "no page is open that shows this notebook"
READ_ONLY = "this notebook is read-only"
OTHER_PROTOCOL = "the page uses another protocol: reload it, or update jp_nb"
DIVERGED = (
    "this notebook contains different entries of the same conversation: "
    "`%reload_ext jp_nb` continues with them"
)


@dataclass(frozen=True, slots=True)
class PageRefusal:
    """A reason to write nothing to the page.

    If `conversation` is set, the refusal ends when another conversation becomes active. The new
    document must then contain the page's record `preserved` unchanged.
    """

    reason: str
    conversation: str | None = None
    preserved: JsonValue = None


def is_text_notebook(hello: Hello) -> bool:
    """Return True if the file of the page's notebook is text, and keeps no metadata (Jupytext).

    An `.ipynb` file of the same name is paired with it, and keeps them. Call it in the folder of
    the notebook.

    Source: https://jupytext.readthedocs.io/en/latest/formats-scripts.html
    """
    file = PurePosixPath(hello.path)
    if hello.has_document or file.suffix.lower() in ("", ".ipynb"):
        return False

    return not Path(f"{file.stem}.ipynb").is_file()


def find_refusal(hello: Hello, document: Document) -> PageRefusal | None:
    """Return the reason not to write `document` to the page that sent `hello`, if there is one."""
    if hello.protocol != PROTOCOL:
        return PageRefusal(OTHER_PROTOCOL)
    if hello.read_only:
        return PageRefusal(READ_ONLY)
    if is_text_notebook(hello):
        return PageRefusal(TEXT_FILE.format(PurePosixPath(hello.path).name))

    stored = hello.document
    if not hello.has_document or stored in document.others:
        return None
    if find_shape(stored) == "readable" and get_conversation_id(stored) == document.conversation.id:
        return None  # `_reconcile` compares the entries

    try:
        Document.load(stored, clock=utc_now)
    except NewerVersionError as exc:
        return PageRefusal(str(exc))
    except StorageError as exc:
        reason = (
            f"the record in this notebook is damaged ({exc}); `%jp new` keeps it, and starts a new "
            "conversation"
        )
        return PageRefusal(reason, document.conversation.id, stored)

    return None


RESEND_S = 1.0
END_OF_CELL_S = 1.0
INPUT_S: Final = 2.0
"""Time for a page to tell that it can show an input box."""
SECOND_PAGE_S: Final = 0.3
"""Time for other pages, after the first one has answered that it cannot."""


class LiveStore:
    """Storage backend that keeps the record in an open page; implements `RecordStore`.

    Call `connect`, then `attach` the document that was loaded from the page's answer, or a new
    one. The record is in memory only until a page answers, and while there is a refusal.

    Any thread may call it: `_state` guards the document, the known pages, and the delivery.
    """

    def __init__(self, kernel: Any, *, resend: float = RESEND_S, no_page: str = NO_PAGE) -> None:
        self._kernel = kernel
        self._state = Condition()
        self._comm: Any = None
        self._cell = CellContext()
        self._comm_id = f"{TARGET}.{uuid.uuid4().hex}"
        self._closed = False
        self._numbering = Numbering()
        self._pages = Pages(patience=resend)
        self._delivery = PageDelivery(self._numbering, resend=resend)
        self._document: Document | None = None
        if no_page == NO_PAGE:
            no_page = find_unsupported_reason(kernel) or NO_PAGE
        self._refusal: PageRefusal | None = PageRefusal(no_page)
        self._urgent: deque[JsonObject] = deque()
        self._page_cells = PageCells()
        self._save_requests: set[int] = set()  # the `seq` of those without an answer
        self._input_asked = 0  # `seq` of the last question about an input box
        self._input_answers = 0
        self._input_found = False
        self._save_answers: dict[int, str | None] = {}  # reasons of failures, by `seq`
        self._in_file = "", 0  # the id of a conversation, and its number of entries in the file
        self._notices: list[str] = []

    def connect(self, timeout: float) -> Hello | None:
        """Open the comm; return the `hello` of the page, or None after `timeout` seconds.

        This may block the cell's thread, because the answer comes on the control channel.
        """
        if find_unsupported_reason(self._kernel):
            return None

        from comm import create_comm

        receive_on_control(self._kernel, self._comm_id, self._receive)
        RunningCells.of(self._kernel)
        Collaborators.of(self._kernel).find_input = self._find_input
        Collaborators.of(self._kernel).show_end = self._show_end

        with self._state:
            opening = self._numbering.message("open", stream="", n=0)

        self._cell = CellContext()
        self._comm = create_comm(target_name=TARGET, comm_id=self._comm_id, data=opening)
        # A page without a control channel answers on the shell channel, after the cell.
        self._comm.on_msg(lambda message: self._receive(message["content"].get("data")))
        Thread(target=self._pump, name="jp-nb record", daemon=True).start()

        with self._state:
            self._state.wait_for(lambda: self._pages.hello is not None, timeout)
            return self._pages.hello

    def attach(self, document: Document) -> None:
        """Store `document` from now on. It is written when it changes."""
        with self._state:
            self._document = document
            self._delivery.keep(document)
            if self._pages.hello is not None:
                self._reconcile(self._pages.hello)
            self._state.notify_all()

    def changed(self) -> None:
        """Send the appended entries, and the head of the conversation if it changed."""
        with self._state:
            if self._document is None:
                return

            awaited = self._delivery.next_due
            self._delivery.changed(self._document)
            if self._delivery.next_due != awaited:  # otherwise the pump wakes up in time
                self._state.notify_all()

    def replaced(self) -> None:
        """Send the whole document: another conversation is active, or the record was repaired.

        If a damaged record was the reason not to write, a new conversation ends that: the damaged
        record is kept unchanged among the document's other conversations.
        """
        with self._state:
            document = self._document
            refusal = self._refusal
            if document is None:
                return

            self._in_file = "", 0  # the entries may have changed
            if refusal and refusal.conversation not in (None, document.conversation.id):
                document.others += split_damaged(refusal.preserved)
                self._delivery.note_other_record(get_conversation_id(refusal.preserved))
                self._refusal = None

            self._delivery.replaced(document)
            self._state.notify_all()

    @property
    def location(self) -> str:
        """The place of the record, for messages."""
        with self._state:
            return format_memory_location(self._refusal.reason) if self._refusal else IN_NOTEBOOK

    @property
    def unsaved_reason(self) -> str | None:
        """The reason why this notebook does not keep the record; None if it does."""
        with self._state:
            return self._refusal.reason if self._refusal else None

    @property
    def path(self) -> str:
        """The server's path of the notebook; "" before a page answered."""
        with self._state:
            return self._pages.hello.path if self._pages.hello else ""

    @property
    def latency(self) -> float | None:
        """Seconds from the last message to its acknowledgement; None before the first."""
        return self._delivery.latency

    def flush(self, timeout: float) -> bool:
        """Wait until the page has every entry; return False after `timeout` seconds.

        If nothing may be written, return False at once.
        """
        with self._state:
            self._send_all()
            self._state.wait_for(lambda: self._refusal or self._delivery.is_settled, timeout)
            return not self._refusal and self._delivery.is_settled

    def flush_after_cell(self) -> None:
        """Wait until an answering page has every entry, for at most one second."""
        with self._state:
            delivery = self._delivery
            self._send_all()
            self._state.wait_for(
                lambda: self._refusal or delivery.silent or delivery.is_settled, END_OF_CELL_S
            )

    def save(self, timeout: float = 10.0) -> str:
        """Ask the page to save the notebook; return the place of the record, for messages.

        Raises:
            StorageError: If the page did not store the record, or could not save.
        """
        ends = time.monotonic() + timeout
        if not self.flush(timeout):
            with self._state:
                reason = self._refusal.reason if self._refusal else "the page does not answer"
            raise make_not_saved_error(reason)

        with self._state:
            hello = self._pages.hello
            page = hello.page if hello else ""
            path = hello.path if hello else ""

        has = self._delivery.delivered
        asked: list[int] = []

        def find_answered() -> int | None:
            return next((seq for seq in asked if seq in self._save_answers), None)

        now = time.monotonic()
        # One page first: two pages that write the file at once can corrupt it.
        for to, until in ((page, now + (ends - now) / 2), ("", ends)):
            with self._state:
                message = self._numbering.message("save", to=to)
                asked.append(self._numbering.last)
                self._save_requests.add(self._numbering.last)

            self._send(message)
            with self._state:
                self._state.wait_for(find_answered, until - time.monotonic())
                if seq := find_answered():
                    if why_not := self._save_answers.pop(seq):
                        raise make_not_saved_error(why_not)
                    self._in_file = has
                    return f"{IN_NOTEBOOK}, saved as {path}"

        raise make_not_saved_error("the page did not answer in time")

    def saved_entries(self, conversation: str) -> int:
        """Return the number of entries of `conversation` in the file; 0 if no page reported it."""
        with self._state:
            stream, count = self._in_file
            return count if stream == conversation and not self._refusal else 0

    def pull(self, timeout: float) -> Hello | None:
        """Ask for another `hello`, and return it; None if no page answers in time.

        If pages share the document, the writing page has half of the time, then all pages.
        """
        ends = time.monotonic() + timeout
        shared = bool(self._delivery.writer)
        first_timeout = timeout / 2 if shared else timeout
        hello = self._pull(first_timeout)
        if hello is not None or not shared:
            return hello

        with self._state:
            self._pages.silent = True

        return self._pull(ends - time.monotonic())

    def _pull(self, timeout: float) -> Hello | None:
        with self._state:
            if self._comm is None or self._closed:
                return None
            before = self._pages.hello_count
            message = self._numbering.message("pull")

        self._send(message)
        with self._state:
            answered = self._state.wait_for(lambda: self._pages.hello_count > before, timeout)
            return self._pages.hello if answered else None

    def can_reload(self, timeout: float) -> bool:
        """Return True if the page, once it has every entry, sends another `hello`."""
        self.flush(timeout)
        return self.pull(timeout) is not None

    def ask_cells(self, whole: int | str | None) -> Future[str]:
        """Ask the page for the short form of its cells, and the long form of the cell `whole`.

        The future gets the JSON text, in the control thread.

        Raises:
            StorageError: If no open page can answer.
        """
        with self._state:
            hello = self._pages.hello
            if hello is None or self._comm is None or self._closed:
                raise StorageError(NO_OPEN_PAGE)
            if not hello.supports_cells:
                raise StorageError(
                    "the open page runs an older jp-nb extension, which cannot report cells: "
                    "reload the page"
                )

            message = self._numbering.message("cells", to=hello.page, whole=whole)
            answer = self._page_cells.expect(self._numbering.last, hello.page)

        self._send(message)
        return answer

    def _find_input(self, request: Mapping[str, Any]) -> bool | None:
        """Return True if an open page can show an input box for the `request` of a running cell.

        JupyterLab shows none if the page was reloaded, or has run the cell again. None means that
        no page can tell.
        """
        session = str((request.get("header") or {}).get("session", ""))
        with self._state:
            hello = self._pages.hello
            closed = self._comm is None or self._closed
            if closed or hello is None or not hello.supports_input:
                return None
            if self._pages.is_of_other_notebook(session):
                return None

            message = self._numbering.message("input", request=get_message_id(request))
            self._input_asked = self._numbering.last
            self._input_answers = 0
            self._input_found = False

        self._send(message)
        with self._state:
            self._state.wait_for(lambda: self._input_answers, INPUT_S)
            # A second window may have run the cell.
            self._state.wait_for(lambda: self._input_found, SECOND_PAGE_S)
            return self._input_found

    def _show_end(self, request: Mapping[str, Any], end: TurnCounts) -> None:
        """Let the page that runs `request` show the end of a turn. It is not in the document."""
        cell = RunningCell(request)
        with self._state:
            hello = self._pages.hello
            closed = self._comm is None or self._closed
            if closed or hello is None or not hello.supports_ended or not cell.cell_id:
                return
            if self._pages.is_of_other_notebook(cell.session):
                return

            fields: JsonObject = {"request": get_message_id(request), "cell": cell.cell_id}
            fields |= {"seconds": end.seconds, "sent": end.sent, "received": end.received}
            message = self._numbering.message("ended", **fields)

        self._send(message)

    def running_cells(self) -> frozenset[str]:
        """Return the ids of the cells that this kernel runs now."""
        publish = getattr(self._kernel, "_publish_status", None)
        return publish.cell_ids() if isinstance(publish, RunningCells) else frozenset()

    def take_notices(self) -> list[str]:
        """Return the new notices for the user since the last call."""
        with self._state:
            notices = self._notices
            self._notices = []
            return notices

    def close(self) -> None:
        """Close the comm. Entries that were not sent stay in memory."""
        with self._state:
            if self._closed:
                return
            self._closed = True
            self._state.notify_all()

        collaborators = Collaborators.of(self._kernel)
        if collaborators.find_input == self._find_input:
            collaborators.find_input = lambda request: None

        if collaborators.show_end == self._show_end:
            collaborators.show_end = lambda request, end: None

        if self._comm is not None:
            stop_receiving(self._kernel, self._comm_id)
            self._cell.run(self._comm.close)

    # --- sending -----------------------------------------------------------------------------

    def _send_all(self) -> None:
        self._delivery.skip_interval()
        self._state.notify_all()

    def _pump(self) -> None:
        """Send messages until the store is closed. Runs in the record thread."""
        pages = self._pages
        while True:
            with self._state:
                if self._closed:
                    return

                now = time.monotonic()
                lacking = pages.lacking.popleft() if pages.lacking else None
                message = None if lacking else self._next_message(now)
                if not lacking and message is None:
                    next_due = None if self._refusal else self._delivery.next_due
                    due = [x for x in (next_due, pages.candidate_due) if x is not None]
                    timeout = min(due) - now if due else None
                    self._state.wait(timeout)
                    continue

            if lacking:
                self._send_outputs(*lacking)
            elif message:
                self._send(message)

    def _next_message(self, now: float) -> JsonObject | None:
        if candidate := self._pages.take_candidate(now):
            self._follow(candidate)  # the followed page did not answer

        if self._urgent:
            return self._urgent.popleft()
        if self._refusal:
            return None

        message = self._delivery.next_message(now)
        if self._delivery.silent:
            self._pages.silent = True
            self._state.notify_all()

        return message

    def _send_outputs(self, page: str, request: str = "") -> None:
        """Send the outputs of running cells to `page`, which does not show them.

        It opened after the cells started, or lacks those of one `request`.
        """
        if (cells := RunningCells.of(self._kernel)) is not None:
            send = partial(self._send_outputs_of, page, lacks=bool(request))
            if not request:
                cells.for_each_unseen(partial(send, over=True))
            cells.for_each_cell(send, request)

    def _send_outputs_of(
        self, page: str, cell: RunningCell, *, lacks: bool, over: bool = False
    ) -> None:
        request = get_message_id(cell.request)
        fields: JsonObject = {"request": request, "cell": cell.cell_id, "code": cell.code}
        if over:
            fields["over"] = True

        with self._state:
            if self._pages.is_of_other_notebook(cell.session):
                return

            # A page that ran the cell lacks its outputs if the user has run the cell again.
            dropped = lacks and self._pages.has_session(page, cell.session)
            if lacks and not dropped:
                self._check_presence(cell.session)

            if dropped or self._pages.writes_outputs(page, cell.session):
                fields["puts"] = True

            with_printed = self._pages.supports_printed(page)
            message = self._numbering.message("show", to=page, **fields)

        with cell.outputs.lock:
            message["outputs"] = cell.outputs.to_json(with_printed=with_printed)
            self._send(message)

    def _check_presence(self, session: str) -> None:
        if self._pages.check_presence(session, time.monotonic()):
            self._urgent.append(self._numbering.message("pull"))

    def _send(self, message: JsonObject) -> None:
        self._cell.run(self._comm.send, message)

    # --- receiving, in the control thread ----------------------------------------------------

    def _receive(self, data: Any) -> None:
        message = read_page_message(data)
        if message is None:
            return

        if message["type"] == "seen":
            self._note_seen(message)

        with self._state:
            if self._closed:
                return

            is_known = self._pages.note_message(message.get("page", ""))
            if is_known:
                self._delivery.silent = False

            if message["type"] in ("hello", "chunk"):
                self._receive_hello(message)
            elif is_known:
                self._receive_answer(message)

            self._state.notify_all()

    def _note_seen(self, data: Mapping[str, Any]) -> None:
        with self._state:
            is_known = data["page"] in self._pages

        # Without `_state`: the record thread takes it while it holds the lock of the cells.
        cells = RunningCells.of(self._kernel)
        if cells is not None and is_known:
            cells.note_seen(data["request"])

    def _receive_hello(self, data: Mapping[str, Any]) -> None:
        try:
            self._handle_hello(self._pages.read(data))
        except StorageError as exc:
            notice = f"the record of an open page is not read: {exc}"
            if notice not in self._notices:
                self._notices.append(notice)

    def _receive_answer(self, data: Mapping[str, Any]) -> None:
        """Handle a message of a page that shows the notebook."""
        match data["type"]:
            case "ack":
                self._delivery.handle_ack(data, time.monotonic())
            case "nack":
                self._delivery.handle_nack(data)
            case "bye":
                if self._pages.leave(data["page"]):
                    self._urgent.append(self._numbering.message("pull"))
            case "cells":
                self._page_cells.add_piece(data)
            case "want":
                self._pages.note_lack(data["page"], data["request"])
            case "input" if data["seq"] == self._input_asked:
                self._input_found = self._input_found or data["can"] is True
                self._input_answers += 1
            case "saved" | "save_failed":
                self._handle_save_answer(data)

    def _handle_save_answer(self, data: Mapping[str, Any]) -> None:
        failed = data["type"] == "save_failed"
        seq = data.get("seq")
        if seq in self._save_requests:
            self._save_requests.discard(seq)
            why = data.get("why") or NOT_SAVED
            self._save_answers[seq] = why if failed else None

        if failed or seq is not None:
            return

        # The user saved the file. It has no more entries than the page was known to have.
        hello = self._pages.hello
        stream, most = self._delivery.delivered
        is_followed = hello is not None and data.get("page") == hello.page
        count: int = data.get("n", most + 1)
        is_possible = count <= most and data.get("stream") == stream

        if is_followed and is_possible and not self._delivery.replaces:
            self._in_file = stream, count

    def _handle_hello(self, hello: Hello | None) -> None:
        if hello is None:
            return  # the rest follows in pieces

        Collaborators.of(self._kernel).add_page(hello.session, hello.user)
        if self._pages.is_reader(hello):
            self._pages.join(hello)
        elif self._pages.should_follow(hello):
            self._follow(hello)
        else:
            self._pages.note_other(hello)
            if self._pages.note_candidate(hello, self._delivery.stream, time.monotonic()):
                self._urgent.append(self._numbering.message("pull"))

    def _follow(self, hello: Hello) -> None:
        stream, count = self._in_file
        if get_conversation_id(hello.document) == stream:  # reverted to an older file?
            self._in_file = stream, min(count, len(get_events(hello.document)))

        self._pages.follow(hello)
        self._numbering.path = hello.path
        self._delivery.writer = hello.page if hello.collaborative else ""
        self._delivery.supports_exchange = hello.supports_exchange
        self._delivery.discard_transfer()

        if self._document is not None:
            self._reconcile(hello)

    def _reconcile(self, hello: Hello) -> None:
        """Compare the page's record with the document, and add conversations that only it has."""
        document = self._document
        assert document is not None
        self._refusal = find_refusal(hello, document)
        if self._refusal:
            return

        stored = hello.document if isinstance(hello.document, dict) else {}
        stream = get_conversation_id(stored)
        ours = self._delivery.stream
        if stream != ours:
            if missing := find_uncovered(document.to_json(), get_conversations(stored)):
                document.others += missing
                self._delivery.keep(document)
                self._notices.append(
                    "The notebook contains a conversation that this kernel did not have. "
                    "It is kept: `%jp log` lists it."
                )

            self._delivery.note_other_record(stream, stored)
        elif not self._delivery.note_record(stored):
            self._refusal = PageRefusal(DIVERGED, ours, as_other(stored))
