"""Storage backend for a notebook that is open in a page.

`protocol.py` knows the pages and selects the one to follow, and `delivery.py` knows which events
it lacks. So a page that is reloaded, restored or opened twice gets them. This module has the
threads, their lock, and the port that the session uses. Nothing is written while the page holds
entries that this kernel could not read or does not know.

Source: `docs/protocol.md`, `docs/decisions.md` D33.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject
from jp_nb.notebook.cells import CellOutputs, Collaborators, RunningCells
from jp_nb.notebook.page import protocol
from jp_nb.notebook.page.delivery import PageDelivery
from jp_nb.notebook.page.protocol import PROTOCOL, TARGET, CellContext, Hello, Numbering, Pages
from jp_nb.notebook.page.stores import IN_NOTEBOOK, in_memory, not_saved
from jp_nb.record.clock import utc_now
from jp_nb.record.document import (
    Document,
    NewerVersionError,
    all_conversations,
    apart,
    conversation_id,
    events_of,
    shape_of,
    shelved,
)
from jp_nb.record.merge import unknown_to

if TYPE_CHECKING:
    from jp_nb.notebook.page.cells import PageCells

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
    """A reason to write nothing. `aside` is what the page holds and must keep.

    With `conversation` the refusal ends when another conversation becomes the active one.
    """

    reason: str
    conversation: str | None = None
    aside: JsonValue = None


def refusal_of(hello: Hello, document: Document) -> PageRefusal | None:
    """Return why `document` may not be written to the page that says `hello`; None if it may."""
    if hello.protocol != PROTOCOL:
        return PageRefusal(OTHER_PROTOCOL)
    if hello.read_only:
        return PageRefusal(READ_ONLY)
    stored = hello.document
    if not hello.has_document or stored in document.others:
        return None
    if shape_of(stored) == "readable" and conversation_id(stored) == document.conversation.id:
        return None  # it was read once
    try:
        Document.load(stored, clock=utc_now)
    except NewerVersionError as exc:
        return PageRefusal(str(exc))
    except StorageError as exc:
        reason = f"the record in this notebook is damaged ({exc}); `%jp new` keeps it aside"
        return PageRefusal(reason, document.conversation.id, stored)
    return None


RESEND_S = 1.0
END_OF_CELL_S = 1.0


class LiveStore:
    """Keeps the record in the notebook that an open page shows.

    Use: `connect`, then `attach` the document that was made of the page's answer (or a new one),
    then `changed` and `replaced` as `RecordStore` says. Until a page answered, and while
    `where` names a reason, the record is in memory; it is sent as soon as that ends.
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
        self._refusal: PageRefusal | None = PageRefusal(
            no_page if no_page != NO_PAGE else protocol.why_not(kernel) or NO_PAGE
        )
        self._at_once: deque[JsonObject] = deque()
        self._page_cells: PageCells | None = None
        self._saving = PageSaving(self._state, self._numbering, self._send)
        self._notices: list[str] = []

    # --- opening -----------------------------------------------------------------------------

    def connect(self, timeout: float) -> Hello | None:
        """Ask the page that runs this cell what it has, and return that; None if none answers.

        Blocks the calling thread, also the cell's: the answer comes on the control channel.
        """
        if protocol.why_not(self._kernel):
            return None
        from comm import create_comm

        protocol.receive_on_control(self._kernel, self._comm_id, self._receive)
        RunningCells.of(self._kernel)
        with self._state:
            opening = self._numbering.message("open", stream="", n=0)
        self._cell = CellContext()
        self._comm = create_comm(target_name=TARGET, comm_id=self._comm_id, data=opening)
        # A page that has no control channel for comms answers on shell, after the cell.
        self._comm.on_msg(lambda message: self._receive(message["content"].get("data")))
        Thread(target=self._pump, name="jp-nb record", daemon=True).start()
        with self._state:
            self._state.wait_for(lambda: self._pages.hello is not None, timeout)
            return self._pages.hello

    def attach(self, document: Document) -> None:
        """Keep `document` from now on. It is not written before it changes."""
        with self._state:
            self._document = document
            self._delivery.keep(document)
            if self._pages.hello is not None:
                self._reconcile(self._pages.hello)
            self._state.notify_all()

    # --- the port ----------------------------------------------------------------------------

    def changed(self) -> None:
        """Send what was appended, and the head of the conversation if that is another one."""
        with self._state:
            if self._document is None:
                return
            awaited = self._delivery.next_due
            self._delivery.changed(self._document)
            if self._delivery.next_due != awaited:  # or else the pump wakes in time by itself
                self._state.notify_all()

    def replaced(self) -> None:
        """Send the whole: the active conversation is another one, or was repaired.

        If the notebook held something that must not be overwritten, a new conversation puts that
        among the document's others, unchanged, and ends the refusal.
        """
        with self._state:
            document, refusal = self._document, self._refusal
            if document is None:
                return
            self._saving.in_file = "", 0  # of entries that may be others now
            if refusal and refusal.conversation not in (None, document.conversation.id):
                document.others += apart(refusal.aside)
                self._delivery.page_holds_other(conversation_id(refusal.aside))
                self._refusal = None
            self._delivery.replaced(document)
            self._state.notify_all()

    @property
    def where(self) -> str:
        """The place of the record: this notebook, or memory only and why."""
        with self._state:
            return in_memory(self._refusal.reason) if self._refusal else IN_NOTEBOOK

    @property
    def why_not_kept(self) -> str | None:
        """Why this notebook does not keep the record; None if it does."""
        with self._state:
            return self._refusal.reason if self._refusal else None

    @property
    def path(self) -> str:
        """Where the notebook is, as the server names it; "" before a page answered."""
        with self._state:
            return self._pages.hello.path if self._pages.hello else ""

    @property
    def latency(self) -> float | None:
        """Seconds from the last message to its acknowledgement; None before the first."""
        return self._delivery.latency

    def flush(self, timeout: float) -> bool:
        """Wait until the page has every entry; False at once if it takes none."""
        with self._state:
            self._hurry()
            self._state.wait_for(lambda: self._refusal or self._delivery.is_settled, timeout)
            return not self._refusal and self._delivery.is_settled

    def cell_ends(self) -> None:
        """Wait until the page has every entry, for as long as it answers; a second at most."""
        with self._state:
            delivery = self._delivery
            self._hurry()
            self._state.wait_for(
                lambda: self._refusal or delivery.silent or delivery.is_settled, END_OF_CELL_S
            )

    def save(self, timeout: float = 10.0) -> str:
        """Have the page save the notebook.

        Raises:
            StorageError: If the page did not take the record, or could not save.
        """
        ends = time.monotonic() + timeout
        if not self.flush(timeout):
            with self._state:
                reason = self._refusal.reason if self._refusal else "the page does not answer"
            raise not_saved(reason)
        with self._state:
            hello = self._pages.hello
            page, path = (hello.page, hello.path) if hello else ("", "")
        has = self._delivery.delivered
        self._saving.save(page, ends)
        with self._state:
            self._saving.in_file = has
        return f"{IN_NOTEBOOK}, saved as {path}"

    def saved_entries(self, conversation: str) -> int:
        """Return how many entries of `conversation` are in the file, as a page has told."""
        with self._state:
            stream, count = self._saving.in_file
            return count if stream == conversation and not self._refusal else 0

    def pull(self, timeout: float) -> Hello | None:
        """Ask the page again what it has, and return that; None if it does not answer in time.

        Where pages share a document, the one that writes has half of the time, and then each.
        """
        ends = time.monotonic() + timeout
        shared = bool(self._delivery.writer)
        hello = self._pull(timeout / 2 if shared else timeout)
        if hello is not None or not shared:
            return hello
        with self._state:
            self._pages.writer_is_silent()
        return self._pull(ends - time.monotonic())

    def _pull(self, timeout: float) -> Hello | None:
        with self._state:
            if self._comm is None or self._closed:
                return None
            before = self._pages.hellos
            message = self._numbering.message("pull")
        self._send(message)
        with self._state:
            answered = self._state.wait_for(lambda: self._pages.hellos > before, timeout)
            return self._pages.hello if answered else None

    def can_be_read_again(self, timeout: float) -> bool:
        """Return whether a page answers with what it holds now, once it has every entry."""
        self.flush(timeout)
        return self.pull(timeout) is not None

    def ask_cells(self, whole: int | str | None) -> Future[str]:
        """Ask the page for its cells; the JSON of its answer comes from the control thread.

        Args:
            whole: Number or id of the one cell that is looked at closely.

        Raises:
            StorageError: If no page is there that would answer.
        """
        with self._state:
            hello = self._pages.hello
            if hello is None or self._comm is None or self._closed:
                raise StorageError(NO_OPEN_PAGE)
            if not hello.tells_cells:
                raise StorageError(
                    "the open page runs an older jp-nb extension, which cannot report cells: "
                    "reload the page"
                )
            message = self._numbering.message("cells", to=hello.page, whole=whole)
            if self._page_cells is None:
                from jp_nb.notebook.page.cells import PageCells  # few look at cells

                self._page_cells = PageCells()
            answer = self._page_cells.expect(self._numbering.last, hello.page)
        self._send(message)
        return answer

    def running_cells(self) -> frozenset[str]:
        """Return the ids of the cells that this kernel runs now."""
        publish = getattr(self._kernel, "_publish_status", None)
        return publish.cell_ids() if isinstance(publish, RunningCells) else frozenset()

    def take_notices(self) -> list[str]:
        """Return what the person should be told since the last call."""
        with self._state:
            notices, self._notices = self._notices, []
            return notices

    def close(self) -> None:
        """Stop. What was not sent stays in memory."""
        with self._state:
            if self._closed:
                return
            self._closed = True
            self._state.notify_all()
        if self._comm is not None:
            protocol.stop_receiving(self._kernel, self._comm_id)
            self._cell.run(self._comm.close)

    # --- sending -----------------------------------------------------------------------------

    def _hurry(self) -> None:
        """Send what there is without waiting for more, with the state held."""
        self._delivery.hurry()
        self._state.notify_all()

    def _pump(self) -> None:
        """Send what is due until the store is closed; on a thread of its own."""
        pages = self._pages
        while True:
            with self._state:
                if self._closed:
                    return
                now = time.monotonic()
                newcomer = pages.newcomers.popleft() if pages.newcomers else ""
                message = None if newcomer else self._due(now)
                if not newcomer and message is None:
                    next_due = None if self._refusal else self._delivery.next_due
                    due = [x for x in (next_due, pages.suitor_due) if x is not None]
                    self._state.wait(min(due) - now if due else None)
                    continue
            if message:
                self._send(message)
            else:
                self._show_again(newcomer)

    def _due(self, now: float) -> JsonObject | None:
        """Return the message to send now, if there is one."""
        if suitor := self._pages.take_suitor(now):
            self._follow(suitor)  # the page that was there first does not answer
        if self._at_once:
            return self._at_once.popleft()
        if self._refusal:
            return None
        message = self._delivery.due(now)
        if self._delivery.silent:
            self._pages.writer_is_silent()
            self._state.notify_all()
        return message

    def _show_again(self, page: str) -> None:
        """Have `page`, which was not there when cells began, show what they show."""
        if (cells := RunningCells.of(self._kernel)) is not None:
            cells.show_again(lambda shown: self._send(self._show(page, shown)))

    def _show(self, page: str, shown: CellOutputs) -> JsonObject:
        outputs: list[JsonValue] = [
            {"display_id": name, "data": data, "metadata": metadata}
            for name, data, metadata in shown.outputs
        ]
        fields: JsonObject = {"request": shown.request, "cell": shown.cell, "code": shown.code}
        with self._state:
            if self._pages.puts_outputs(page, shown.session):
                fields["puts"] = True
            return self._numbering.message("show", to=page, outputs=outputs, **fields)

    def _send(self, message: JsonObject) -> None:
        self._cell.run(self._comm.send, message)

    # --- receiving, in the control thread ----------------------------------------------------

    def _receive(self, data: Any) -> None:
        if not isinstance(data, dict):
            return
        with self._state:
            if self._closed:
                return
            if self._pages.heard(str(data.get("page", ""))):
                self._delivery.silent = False
            match data.get("type"):
                case "hello" | "chunk":
                    self._consider(self._pages.read(data))
                case "ack":
                    self._delivery.acknowledged(data, time.monotonic())
                case "nack":
                    self._delivery.rejected(data)
                case "bye":
                    self._say_goodbye(str(data.get("page", "")))
                case "cells" if self._page_cells is not None:
                    self._page_cells.hear(data)
                case "saved" | "save_failed":
                    self._saving.hear(data)
                    self._saving.note(data, None if self._delivery.replaces else self._pages.hello)
            self._state.notify_all()

    def _say_goodbye(self, page: str) -> None:
        if self._pages.leave(page):
            self._at_once.append(self._numbering.message("pull"))

    def _consider(self, hello: Hello | None) -> None:
        if hello is None:
            return  # pieces of it are to come
        Collaborators.of(self._kernel).greet(hello.session, hello.user)
        if self._pages.only_reads(hello):
            self._pages.join(hello)
        elif self._pages.are_of_the_notebook(hello):
            self._saving.page_has(hello.document)
            self._follow(hello)
        elif self._pages.court(hello, self._delivery.stream, time.monotonic()):
            self._at_once.append(self._numbering.message("pull"))

    def _follow(self, hello: Hello) -> None:
        self._pages.follow(hello)
        self._numbering.path = hello.path
        self._delivery.writer = hello.page if hello.collaborative else ""
        self._delivery.keeps = hello.keeps
        self._delivery.start_over()
        if self._document is not None:
            self._reconcile(hello)

    def _reconcile(self, hello: Hello) -> None:
        """Bring together what the page has and what we have."""
        document = self._document
        assert document is not None
        self._refusal = refusal_of(hello, document)
        if self._refusal:
            return
        stored = hello.document if isinstance(hello.document, dict) else {}
        stream, ours = conversation_id(stored), self._delivery.stream
        if stream != ours:
            self._adopt(stored, document)
            self._delivery.page_holds_other(stream, stored)
        elif not self._delivery.page_holds(stored):
            self._refusal = PageRefusal(DIVERGED, ours, shelved(stored))

    def _adopt(self, stored: JsonObject, document: Document) -> None:
        """Take over conversations that only the page has: they become others of ours."""
        missing = unknown_to(document.to_json(), all_conversations(stored))
        if not missing:
            return
        document.others += missing
        self._delivery.keep(document)
        self._notices.append(
            "The notebook contains a conversation that this kernel did not have. "
            "It is kept: `%jp log` lists it."
        )
