"""The live page keeps the record: entries travel to our lab extension as comm messages.

The kernel sends one message at a time and waits for its acknowledgement, so that a page that is
reloaded, restored from disk or opened a second time gets what it lacks: what a page has is known
from its `hello` and its answers, never assumed. Nothing is written while the page holds something
that this kernel could not read or does not know.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Condition, Thread
from typing import Any

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject, storable
from jp_nb.notebook.document import control
from jp_nb.notebook.document.cell_context import CellContext
from jp_nb.notebook.document.stores import IN_NOTEBOOK, in_memory
from jp_nb.notebook.document.wire import (
    PROTOCOL,
    TARGET,
    Hello,
    Pieces,
    as_ascii,
    split,
    take_batch,
)
from jp_nb.notebook.running_cells import CellOutputs, RunningCells
from jp_nb.record.document import Document, NewerVersionError
from jp_nb.record.jp_object import (
    VERSION,
    all_conversations,
    apart,
    conversation_id,
    events_of,
    shape_of,
    shelved,
)
from jp_nb.record.merge import starts_with, unknown_to
from jp_nb.record.timestamps import utc_now

RESEND_S = 1.0
END_OF_CELL_S = 1.0
SLOWEST_PING_S = 60.0
MAX_PAGES = 8
"""That send a long record at the same time."""

NO_PAGE = "no page answered (is the lab extension jp-nb enabled?)"
READ_ONLY = "this notebook is read-only"
OTHER_PROTOCOL = "the page speaks another protocol: reload it, or update jp_nb"
DIVERGED = (
    "this notebook holds other entries of the same conversation: "
    "`%reload_ext jp_nb` goes on with those"
)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The document at one moment, taken in the thread that changes it.

    `entries` is the list that grows; only its first `length` entries belong to the snapshot.
    """

    stream: str
    entries: Sequence[JsonObject]
    length: int
    head: JsonObject
    head_text: str
    others: list[JsonValue]
    made_of: tuple[object, JsonObject, JsonObject]
    """The base configuration itself, and copies of what else the head is made of."""

    @classmethod
    def of(cls, document: Document, before: _Snapshot | None = None) -> _Snapshot:
        """The document now; the head of `before` is kept while it is the same."""
        stream = document.conversation
        base, small = stream.base_config, (dict(stream.head), dict(document.extra))
        if before is not None and before.made_of[0] is base and before.made_of[1:] == small:
            head, text = before.head, before.head_text
        else:
            text = _head_text(document.to_json())
            head = json.loads(text)
        others = list(document.others)
        return cls(stream.id, stream.raw, len(stream.raw), head, text, others, (base, *small))

    @property
    def is_empty(self) -> bool:
        return not self.length and not self.others

    def whole(self) -> JsonObject:
        document: JsonObject = {"version": VERSION, **self.head}
        document["events"] = [dict(entry) for entry in self.entries[: self.length]]
        if self.others:
            document["others"] = self.others
        return document


def _head_text(document: JsonObject) -> str:
    head = {k: v for k, v in document.items() if k not in ("version", "events", "others")}
    head.setdefault("base_config", {})
    return json.dumps(storable(head), sort_keys=True)


@dataclass(slots=True)
class _Page:
    """What the page is known to hold."""

    stream: str
    length: int
    head_text: str


@dataclass(slots=True)
class _Transfer:
    """One batch: its messages, and what the page holds once it took the last of them."""

    messages: deque[JsonObject]
    then: _Page
    whole: bool = False


@dataclass(slots=True)
class _Flight:
    """The message under way."""

    message: JsonObject
    due: float
    tries: int = 0


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why nothing may be written. `aside` is what the page holds and must keep.

    With `conversation` the refusal ends when another conversation becomes the active one.
    """

    reason: str
    conversation: str | None = None
    aside: JsonValue = None


class LiveStore:
    """Keeps the record in the notebook that an open page shows.

    Use: `connect`, then `attach` the document that was made of the page's answer (or a new one),
    then `changed` and `replaced` as the `Store` port says. Until a page answered, and while
    `where` names a reason, the record is in memory; it is sent as soon as that ends.
    """

    def __init__(self, kernel: Any, *, resend: float = RESEND_S) -> None:
        self._kernel = kernel
        self._resend = resend
        self._state = Condition()
        self._comm: Any = None
        self._cell = CellContext()
        self._comm_id = f"{TARGET}.{uuid.uuid4().hex}"
        self._seq = 0
        self._closed = False
        # The page.
        self._hello: Hello | None = None
        self._hellos = 0
        self._pages: set[str] = set()
        self._pieces: dict[str, tuple[Hello, Pieces]] = {}
        self._page: _Page | None = None
        self._refusal: _Refusal | None = _Refusal(control.why_not(kernel) or NO_PAGE)
        # The document.
        self._document: Document | None = None
        self._target: _Snapshot | None = None
        self._whole = False
        self._stirred = False
        # Under way.
        self._flight: _Flight | None = None
        self._transfer: _Transfer | None = None
        self._silent = False  # the last message was not answered in time
        self._newcomers: deque[str] = deque()  # pages that may lack what running cells show
        self._suitor: tuple[Hello, float] | None = None  # and when it is followed
        self._at_once: deque[JsonObject] = deque()
        self._saves: dict[int, str | None] = {}
        self._notices: list[str] = []
        self._latency: float | None = None
        self._sent_at = 0.0

    # --- opening -----------------------------------------------------------------------------

    def connect(self, timeout: float) -> Hello | None:
        """Ask the page that runs this cell what it has; None if none answers in time.

        Blocks the calling thread, also the cell's: the answer comes on the control channel.
        """
        if control.why_not(self._kernel):
            return None
        from comm import create_comm

        control.receive_on_control(self._kernel, self._comm_id, self._receive)
        RunningCells.of(self._kernel)
        with self._state:
            opening = self._message("open", stream="", n=0)
        self._cell = CellContext()
        self._comm = create_comm(target_name=TARGET, comm_id=self._comm_id, data=opening)
        # A page that has no control channel for comms answers on shell, after the cell.
        self._comm.on_msg(lambda message: self._receive(message["content"].get("data")))
        Thread(target=self._pump, name="jp-nb record", daemon=True).start()
        with self._state:
            self._state.wait_for(lambda: self._hello is not None, timeout)
            return self._hello

    def attach(self, document: Document) -> None:
        """Keep `document` from now on. It is not written before it changes."""
        with self._state:
            self._document = document
            self._target = _Snapshot.of(document)
            if self._hello is not None:
                self._reconcile(self._hello)
            self._state.notify_all()

    # --- the port ----------------------------------------------------------------------------

    def changed(self) -> None:
        """Entries were appended, or the head of the conversation is another one."""
        with self._state:
            if self._document is not None:
                self._target = _Snapshot.of(self._document, self._target)
                self._stirred = True
                self._state.notify_all()

    def replaced(self) -> None:
        """The active conversation is another one, or was repaired.

        If the notebook held something that must not be overwritten, a new conversation puts that
        among the document's others, unchanged, and ends the refusal.
        """
        with self._state:
            document, refusal = self._document, self._refusal
            if document is None:
                return
            if refusal and refusal.conversation not in (None, document.conversation.id):
                document.others += apart(refusal.aside)
                self._page = _Page(conversation_id(refusal.aside), 0, "")
                self._refusal = None
            self._target = _Snapshot.of(document)
            self._stirred = self._whole = True
            self._drop_transfer()
            self._state.notify_all()

    @property
    def where(self) -> str:
        """Where the record is kept, in one phrase."""
        with self._state:
            return in_memory(self._refusal.reason) if self._refusal else IN_NOTEBOOK

    @property
    def latency(self) -> float | None:
        """Seconds from the last message to its acknowledgement; None before the first."""
        return self._latency

    def flush(self, timeout: float) -> bool:
        """Wait until the page has every entry; False at once if it takes none."""
        with self._state:
            self._state.wait_for(lambda: self._refusal or self._is_settled(), timeout)
            return not self._refusal and self._is_settled()

    def cell_ends(self) -> None:
        """Wait until the page has every entry, for as long as it answers; a second at most."""
        with self._state:
            self._state.wait_for(
                lambda: self._refusal or self._silent or self._is_settled(), END_OF_CELL_S
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
            raise StorageError(f"the record is not saved: {reason}")
        with self._state:
            page, path = (self._hello.page, self._hello.path) if self._hello else ("", "")
        # One page: two that write the file at once may leave a mixture. Any page if that is gone.
        now = time.monotonic()
        asked: list[int] = []
        for to, until in ((page, now + (ends - now) / 2), ("", ends)):
            asked.append(self._ask_to_save(to))
            with self._state:
                self._state.wait_for(lambda: self._saved(asked), until - time.monotonic())
                if seq := self._saved(asked):
                    if why := self._saves.pop(seq):
                        raise StorageError(f"the record is not saved: {why}")
                    return f"{IN_NOTEBOOK}, saved as {path}"
        raise StorageError("the record is not saved: the page did not answer in time")

    def _ask_to_save(self, to: str) -> int:
        """Have the page `to`, or whichever there are, save; the number of the message."""
        with self._state:
            message = self._message("save", to=to)
            seq = self._seq
        self._send(message)
        return seq

    def _saved(self, asked: Sequence[int]) -> int | None:
        """Which of the messages `asked` was answered."""
        return next((seq for seq in asked if seq in self._saves), None)

    def pull(self, timeout: float) -> Hello | None:
        """Ask the page again what it has; None if it does not answer in time."""
        with self._state:
            if self._comm is None or self._closed:
                return None
            before = self._hellos
            message = self._message("pull")
        self._send(message)
        with self._state:
            answered = self._state.wait_for(lambda: self._hellos > before, timeout)
            return self._hello if answered else None

    def can_be_read_again(self, timeout: float) -> bool:
        """Return whether a page answers with what it holds now, once it has every entry."""
        self.flush(timeout)
        return self.pull(timeout) is not None

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
            control.stop_receiving(self._kernel, self._comm_id)
            self._cell.run(self._comm.close)

    # --- sending -----------------------------------------------------------------------------

    def _pump(self) -> None:
        while True:
            with self._state:
                if self._closed:
                    return
                now = time.monotonic()
                newcomer = self._newcomers.popleft() if self._newcomers else ""
                message = None if newcomer else self._due(now)
                if not newcomer and message is None:
                    self._state.wait(self._patience(now))
                    continue
                self._sent_at = now if message else self._sent_at
            if message:
                self._send(message)
            else:
                self._show_again(newcomer)

    def _patience(self, now: float) -> float | None:
        """Seconds until something is due; None if nothing is."""
        due = [self._flight.due] if self._flight else []
        due += [self._suitor[1]] if self._suitor else []
        return min(due) - now if due else None

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
            return self._message("show", to=page, outputs=outputs, **fields)

    def _send(self, message: JsonObject) -> None:
        self._cell.run(self._comm.send, message)

    def _message(self, what: str, **fields: JsonValue) -> JsonObject:
        self._seq += 1
        path = self._hello.path if self._hello else ""
        # `ctl` and `path` are in every message: a page that was reloaded did not see the first.
        head: JsonObject = {
            "type": what,
            "v": PROTOCOL,
            "ctl": True,
            "seq": self._seq,
            "path": path,
        }
        return {**head, **fields}

    def _due(self, now: float) -> JsonObject | None:
        """The message to send now, if there is one."""
        if self._suitor and now >= self._suitor[1]:
            self._accept(self._suitor[0])  # the page that was there first does not answer
        if self._at_once:
            return self._at_once.popleft()
        if self._refusal:
            return None
        flight = self._flight
        if flight is None:
            self._transfer = self._transfer or self._compose()
            if self._transfer is None:
                return None
            message = self._transfer.messages.popleft()
            self._flight = _Flight(message, now + self._resend)
            return message
        if now < flight.due:
            return None
        flight.tries += 1
        self._silent = True
        self._state.notify_all()
        flight.due = now + min(self._resend * 2**flight.tries, SLOWEST_PING_S)
        # Lost on the way, or no page is there. In that case the server keeps what is sent, so
        # only a short question is repeated; a page that comes back says hello by itself, too.
        return flight.message if flight.tries == 1 else self._message("pull")

    def _is_settled(self) -> bool:
        return self._transfer is None and not self._lacks_something()

    def _lacks_something(self) -> bool:
        target, page = self._target, self._page
        if target is None or page is None or not self._stirred:
            return False
        if page.stream != target.stream:
            return bool(page.stream) or not target.is_empty
        return self._whole or page.length < target.length or page.head_text != target.head_text

    def _compose(self) -> _Transfer | None:
        """The next batch that the page lacks."""
        target, page = self._target, self._page
        if target is None or page is None or not self._lacks_something():
            return None
        if self._whole or page.stream != target.stream:
            then = _Page(target.stream, target.length, target.head_text)
            return _Transfer(deque(self._switch(target.whole())), then, whole=True)
        batch, _ = take_batch(target.entries[page.length : target.length])
        fields: JsonObject = {"stream": target.stream, "base": page.length, "events": batch}
        if page.head_text != target.head_text:
            # A signature that is gone is named, so that the page drops it.
            fields["head"] = {"signature": None, **target.head}
        then = _Page(target.stream, page.length + len(batch), target.head_text)
        return _Transfer(deque([self._message("append", **fields)]), then)

    def _switch(self, document: JsonObject) -> list[JsonObject]:
        pieces = split(as_ascii(document))
        if len(pieces) == 1:
            return [self._message("switch", doc=storable(document))]
        part_of = self._seq + 1
        return [
            self._message("chunk", id=part_of, i=i, of=len(pieces), text=piece)
            for i, piece in enumerate(pieces)
        ]

    def _drop_transfer(self) -> None:
        self._flight = self._transfer = None

    # --- receiving, in the control thread ----------------------------------------------------

    def _receive(self, data: Any) -> None:
        if not isinstance(data, dict):
            return
        with self._state:
            if self._closed:
                return
            if str(data.get("page", "")) in self._pages:
                self._silent, self._suitor = False, None
            match data.get("type"):
                case "hello":
                    self._on_hello(data)
                case "chunk":
                    self._on_chunk(data)
                case "ack":
                    self._on_ack(data)
                case "nack":
                    self._on_nack(data)
                case "saved":
                    self._on_saved(data, None)
                case "save_failed":
                    self._on_saved(data, str(data.get("why") or "the page could not save"))
            self._state.notify_all()

    def _on_hello(self, data: Mapping[str, Any]) -> None:
        hello = Hello.read(data)
        count = data.get("chunks")
        if isinstance(count, int) and count > 0:
            self._pieces.pop(hello.page, None)
            self._pieces[hello.page] = (hello, Pieces(count))
            while len(self._pieces) > MAX_PAGES:
                del self._pieces[next(iter(self._pieces))]
        else:
            self._consider(hello)

    def _consider(self, hello: Hello) -> None:
        """Follow the notebook that was there first: two may share a kernel.

        It may be renamed (same page), or reloaded or opened again (same path). One that has the
        same conversation under another path may be it, renamed and reloaded, or a copy of it: it
        is followed if no page of the first one answers.
        """
        if self._hello is None or hello.page in self._pages or hello.path == self._hello.path:
            self._accept(hello)
        elif self._target and self._target.stream == conversation_id(hello.document):
            self._suitor = (hello, time.monotonic() + self._resend)
            self._at_once.append(self._message("pull"))

    def _on_chunk(self, data: Mapping[str, Any]) -> None:
        page = str(data.get("page", ""))
        if page not in self._pieces:
            return
        hello, pieces = self._pieces[page]
        if pieces.add(data.get("i"), data.get("text")):
            del self._pieces[page]
            document = pieces.document()
            self._consider(replace(hello, has_document=True, document=document))

    def _accept(self, hello: Hello) -> None:
        self._hello = hello
        self._hellos += 1
        self._suitor = None
        if hello.page not in self._pages:
            self._newcomers.append(hello.page)
        self._pages.add(hello.page)
        self._drop_transfer()
        if self._document is not None:
            self._reconcile(hello)

    def _on_ack(self, data: Mapping[str, Any]) -> None:
        flight, transfer = self._flight, self._transfer
        if flight is None or transfer is None or data.get("seq") != flight.message["seq"]:
            return  # of a second page, or of a message that was sent twice
        self._flight = None
        self._latency = time.monotonic() - self._sent_at
        if not transfer.messages:
            self._page, self._transfer = transfer.then, None
            self._whole = self._whole and not transfer.whole

    def _on_nack(self, data: Mapping[str, Any]) -> None:
        length, page = data.get("n"), self._page
        same = page is not None and data.get("stream") == page.stream
        if page and same and isinstance(length, int) and 0 <= length < page.length:
            page.length = length  # a second page lacks more than the first one
            self._drop_transfer()
            return
        if self._flight and data.get("seq") == self._flight.message["seq"]:
            # It holds something else than we thought: look at it before anything is sent.
            self._flight.due, self._flight.tries = 0.0, 1

    def _on_saved(self, data: Mapping[str, Any], why: str | None) -> None:
        seq = data.get("seq")
        if isinstance(seq, int) and seq <= self._seq:
            self._saves[seq] = why

    # --- what the page has, and what we have -------------------------------------------------

    def _reconcile(self, hello: Hello) -> None:
        document, target = self._document, self._target
        assert document is not None
        assert target is not None
        self._refusal = self._refuse(hello, document)
        if self._refusal:
            return
        stored = hello.document if isinstance(hello.document, dict) else {}
        stream, events = conversation_id(stored), events_of(stored)
        if stream != target.stream:
            self._adopt(stored, document)
            self._page = _Page(stream, len(events), "")
        elif starts_with(target.entries[: target.length], events):
            # Pages store what they lack of a batch, so the least that one of them has is right.
            same = self._page is not None and self._page.stream == stream
            length = min(len(events), self._page.length) if same and self._page else len(events)
            head_text = _head_text(stored) if self._stirred else target.head_text
            self._page = _Page(stream, length, head_text)
        elif self._whole:  # it was repaired, and the page does not know yet
            self._page = _Page(stream, 0, "")
        else:
            self._refusal = _Refusal(DIVERGED, target.stream, shelved(stored))

    def _refuse(self, hello: Hello, document: Document) -> _Refusal | None:
        if hello.protocol != PROTOCOL:
            return _Refusal(OTHER_PROTOCOL)
        if hello.read_only:
            return _Refusal(READ_ONLY)
        stored = hello.document
        if not hello.has_document or stored in document.others:
            return None
        if shape_of(stored) == "readable" and conversation_id(stored) == document.conversation.id:
            return None  # it was read once
        try:
            Document.load(stored, clock=utc_now)
        except NewerVersionError as exc:
            return _Refusal(str(exc))
        except StorageError as exc:
            reason = f"the record in this notebook is damaged ({exc}); `%jp new` sets it aside"
            return _Refusal(reason, document.conversation.id, stored)
        return None

    def _adopt(self, stored: JsonObject, document: Document) -> None:
        """Take over conversations that only the page has: they become others of ours."""
        ours = document.to_json()
        missing = unknown_to(ours, all_conversations(stored))
        if not missing:
            return
        document.others += missing
        self._target = _Snapshot.of(document)
        self._notices.append(
            "this notebook came with a conversation that this kernel did not know; "
            "it is kept, see `%jp log`"
        )
