"""Messages between kernel and page, and the known pages of a notebook.

`live_store.py` and the lab extension exchange these messages as the data of comm messages. Any
thread may send: ipykernel passes iopub messages to one thread, in the order of the calls. Each
message has a parent, and nbclient drops messages of other cells. ipykernel 7 keeps the parent in a
context variable. In another thread, this variable is missing (an error in 7.0), or names the cell
that started the thread. So `CellContext` keeps it.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any, Final, ParamSpec, TypeVar, cast

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import MAX_INTEGER, make_storable, make_storable_with_size
from jp_nb.notebook.cells import read_name
from jp_nb.record.document import get_conversation_id

PROTOCOL = 1
TARGET = "jp_nb.document"
MAX_BATCH_BYTES = 256 * 1024
MAX_DOCUMENT_BYTES = 512 * 1024 * 1024
"""Limit of a document that a page sends in pieces."""


MAX_CHUNKS: Final = 65_536
"""Limit of the pieces of a document."""
MAX_FIELD_CHARS: Final = 10_000
"""Limit of ids, paths, and reasons in a message of a page."""
_TEXTS: Final = ("type", "page", "path", "stream", "session", "client", "why", "request")
_COUNTS: Final = ("seq", "n", "i", "of", "chunks")
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "hello": ("page", "path"),
    "chunk": ("page", "i", "text"),
    "ack": ("seq", "stream", "n"),
    "nack": ("seq",),
    "saved": (),
    "save_failed": ("seq",),
    "cells": ("seq", "i", "of", "text"),
    "bye": ("page",),
    "want": ("page", "request"),
    "seen": ("page", "request"),
    "input": ("seq", "can"),
}


def read_page_message(data: Any) -> dict[str, Any] | None:
    """Return the fields of `data` if it is a message of a page, with the right types; else None.

    Other code in a page can send comm messages, too: a script in an output, or another notebook.
    """
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        return None
    if data["type"] not in _REQUIRED:
        return None
    if any(data.get(name) is None for name in _REQUIRED[data["type"]]):
        return None
    if not all(_is_name(data[name]) for name in _TEXTS if data.get(name) is not None):
        return None
    if not all(_is_count(data[name]) for name in _COUNTS if data.get(name) is not None):
        return None

    return {name: value for name, value in data.items() if value is not None or name == "doc"}


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_FIELD_CHARS


def _is_count(value: Any) -> bool:
    # A boolean is an integer of Python.
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INTEGER


class Numbering:
    """Builder of the kernel's messages; `last` is the `seq` of the last one."""

    def __init__(self) -> None:
        self.last = 0
        self.path = ""

    def message(self, kind: str, **fields: JsonValue) -> dict[str, JsonValue]:
        """Return the next message."""
        self.last += 1
        # `ctl` and `path` are in every message, because a reloaded page did not receive the first.
        head: dict[str, JsonValue] = {"type": kind, "v": PROTOCOL, "ctl": True}
        return {**head, "seq": self.last, "path": self.path, **fields}


@dataclass(frozen=True, slots=True)
class Hello:
    """State of a page: its message `hello`. Several pages may show the same notebook.

    Attributes:
        path: The server's path of the notebook.
        has_document: True if the notebook's metadata has the key `jp` or a carrier.
        document: The `jp` object, not validated.
        session: Jupyter session in the header of all messages of the page, if it shares a
            document.
        client: The same, for each page.
        user: Name of the page's user if the document is shared, cleaned by `read_name`.
    """

    page: str
    path: str
    read_only: bool = False
    collaborative: bool = False
    has_document: bool = False
    document: JsonValue = None
    supports_cells: bool = False
    supports_exchange: bool = False
    supports_input: bool = False
    supports_ended: bool = False
    supports_printed: bool = False
    session: str = ""
    client: str = ""
    user: str | None = None
    protocol: JsonValue = PROTOCOL

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Hello:
        """Parse `data`. A document that follows in pieces is added later."""
        supported = data.get("tells")
        supported = supported if isinstance(supported, list) else []
        return cls(
            page=str(data.get("page", "")),
            path=str(data.get("path", "")),
            read_only=bool(data.get("readOnly")),
            collaborative=bool(data.get("collaborative")),
            has_document="doc" in data,
            document=data.get("doc"),
            supports_cells="cells" in supported,
            supports_exchange="exchange" in supported,
            supports_input="input" in supported,
            supports_ended="ended" in supported,
            supports_printed="printed" in supported,
            session=str(data.get("session", "")),
            client=str(data.get("client", "")),
            user=read_name(data.get("user")),
            protocol=data.get("v"),
        )


@dataclass(slots=True)
class Pieces:
    """Text that arrives in several messages, in any order and possibly repeated."""

    count: int
    _parts: dict[int, str] = field(default_factory=dict)
    _chars: int = 0

    def add(self, index: Any, text: Any) -> bool:
        """Add one piece; return True if the text is complete.

        Raises:
            StorageError: If the text exceeds `MAX_DOCUMENT_BYTES`.
        """
        if _is_count(index) and isinstance(text, str) and index < self.count:
            self._chars += len(text) - len(self._parts.get(index, ""))
            self._parts[index] = text

        if self._chars > MAX_DOCUMENT_BYTES:
            raise StorageError("the record of the notebook is too large to read", place="jp")

        return len(self._parts) == self.count

    def text(self) -> str:
        """Return the complete text."""
        return "".join(self._parts[i] for i in range(self.count))

    def document(self) -> JsonValue:
        """Return the complete text as JSON.

        Raises:
            StorageError: If it is not valid JSON.
        """
        try:
            return json.loads(self.text())  # type: ignore[no-any-return]
        except (ValueError, RecursionError) as exc:
            raise StorageError(f"the page sent invalid JSON: {exc}", place="jp") from exc


def is_batchable(kind: str, content: Mapping[str, Any]) -> bool:
    """Return True for an `append`, which may wait for the next batch of iopub messages."""
    data = content.get("data")
    of_record = kind == "comm_msg" and str(content.get("comm_id", "")).startswith(f"{TARGET}.")
    return of_record and isinstance(data, dict) and data.get("type") == "append"


def split_text(text: str, size: int = MAX_BATCH_BYTES) -> list[str]:
    """Cut ASCII `text` into pieces of at most `size` bytes, at least one."""
    return [text[i : i + size] for i in range(0, len(text), size)] or [""]


def to_ascii_json(value: JsonValue) -> str:
    """Return `value` as JSON text in ASCII, which can be split anywhere."""
    return json.dumps(make_storable(value), allow_nan=False, separators=(",", ":"))


def take_batch(entries: Iterable[Any], limit: int = MAX_BATCH_BYTES) -> tuple[list[JsonValue], int]:
    """Return the first `entries` within `limit` bytes of JSON, at least one, and their size."""
    batch: list[JsonValue] = []
    total = 0

    for entry in entries:
        clean, size = make_storable_with_size(entry)
        if batch and total + size > limit:
            break
        batch.append(clean)
        total += size

    return batch, total


Receive = Callable[[Any], None]


class _CommRouter:
    """Handler of `comm_msg` on the control channel."""

    def __init__(self, previous: Any) -> None:
        self.receivers: dict[str, Receive] = {}
        self._previous = previous

    def __call__(self, stream: Any, ident: Any, message: dict[str, Any]) -> Any:
        content = message.get("content", {})
        if receive := self.receivers.get(content.get("comm_id", "")):
            receive(content.get("data"))
            return None
        return self._previous(stream, ident, message) if self._previous else None


def unsupported_reason(kernel: Any) -> str | None:
    """Return the reason why `kernel` receives no comm messages while a cell runs, or None."""
    if not isinstance(getattr(kernel, "control_handlers", None), dict):
        return "this kernel receives no messages from the page while a cell runs"
    if getattr(kernel, "control_thread", None) is None:
        return "this kernel has no control thread"
    return None


def receive_on_control(kernel: Any, comm_id: str, receive: Receive) -> None:
    """Register `receive`: the control thread calls it with the data of each message."""
    router = kernel.control_handlers.get("comm_msg")
    if not isinstance(router, _CommRouter):
        router = kernel.control_handlers["comm_msg"] = _CommRouter(router)
    router.receivers[comm_id] = receive


def stop_receiving(kernel: Any, comm_id: str) -> None:
    """Undo `receive_on_control`."""
    router = getattr(kernel, "control_handlers", {}).get("comm_msg")
    if isinstance(router, _CommRouter):
        router.receivers.pop(comm_id, None)


P = ParamSpec("P")
T = TypeVar("T")


class CellContext:
    """Context variables of the running cell, for other threads. Create it in the cell's thread.

    With a `shell`, it follows each later cell.
    """

    def __init__(self, shell: Any = None) -> None:
        self._context = copy_context()
        self._shell = shell
        if shell is not None:
            shell.events.register("pre_run_cell", self._update)

    def _update(self, info: Any) -> None:
        self._context = copy_context()

    def run(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call `function` in the context of the running cell. Thread-safe."""
        # Two threads cannot enter one context at once; a copy is cheap.
        return self._context.copy().run(function, *args, **options)

    def close(self) -> None:
        """Stop following the cells."""
        if self._shell is not None:
            self._shell.events.unregister("pre_run_cell", self._update)
            self._shell = None


MAX_CLIENTS: Final = 64
"""Limit of known sessions. Each reload of a page counts; the oldest is removed."""
MAX_LACKING: Final = 32
"""Limit of requests of pages for outputs. A page repeats a request that is dropped."""
MAX_SENDING_PAGES = 8
"""Limit of pages that send a long record at the same time."""
MAX_KNOWN_PAGES: Final = 64
"""Limit of the pages of a notebook. The oldest one is forgotten: its next `hello` adds it again."""


class Pages:
    """Known pages of a notebook, and the page that is followed. Not thread-safe.

    The kernel follows one page: it delivers the record to it, and reads its record. A candidate
    replaces it if it does not answer within `patience` seconds.

    Attributes:
        hello: The last `hello` of the followed page; None before the first.
        lacking: Pages that may lack outputs of running cells: the id of the page, and that of the
            request that runs the cell ("" for all cells).
        silent: True if the followed page does not answer.
    """

    def __init__(self, *, patience: float) -> None:
        self._patience = patience
        self.hello: Hello | None = None
        self.hello_count = 0
        self.lacking: deque[tuple[str, str]] = deque(maxlen=MAX_KNOWN_PAGES)
        # Known pages in the order of their first message. True: the page supports printed text.
        self._pages: dict[str, bool] = {}
        self._clients: deque[str] = deque(maxlen=MAX_CLIENTS)  # sessions of the followed notebook
        self._other_clients: deque[str] = deque(maxlen=MAX_CLIENTS)
        self._pieces: dict[str, tuple[Hello, Pieces]] = {}
        self._candidate: tuple[Hello, float] | None = None  # page, and time to follow it
        self.silent = False
        self._sessions: dict[str, str] = {}  # session by page, if pages share a document
        self._checked: dict[str, float] = {}  # since when a page must show that it is open
        self._departed: deque[str] = deque(maxlen=64)  # the latest ended sessions
        self._output_writers: dict[str, str] = {}  # page that writes outputs, by departed session

    def read(self, data: Mapping[str, Any]) -> Hello | None:
        """Parse a `hello` or `chunk`; return None until the last piece has arrived."""
        page = str(data.get("page", ""))
        if data.get("type") == "chunk":
            if page not in self._pieces:
                return None

            hello, pieces = self._pieces[page]
            try:
                is_complete = pieces.add(data.get("i"), data.get("text"))
            except StorageError:
                del self._pieces[page]
                raise

            if not is_complete:
                return None

            del self._pieces[page]
            return replace(hello, has_document=True, document=pieces.document())

        hello = Hello.read(data)
        count = data.get("chunks")
        if count is None:
            return hello
        if not 0 < count <= MAX_CHUNKS:
            raise StorageError("the page sent its record in too many pieces", place="jp")

        self._pieces.pop(page, None)
        self._pieces[page] = (hello, Pieces(count))

        while len(self._pieces) > MAX_SENDING_PAGES:
            del self._pieces[next(iter(self._pieces))]

        return None

    def should_follow(self, hello: Hello) -> bool:
        """Return True if the page shows the followed notebook; two notebooks may share a kernel.

        The first notebook is followed. It may be reloaded. After a rename, it is a candidate.
        """
        first = self.hello
        return first is None or hello.path == first.path

    def is_reader(self, hello: Hello) -> bool:
        """Return True if the page shares a document with the followed page, which writes it.

        If the followed page is silent, the next page that answers is followed.
        """
        first = self.hello
        if first is None or first.page == hello.page or self.silent:
            return False
        if first.read_only and not hello.read_only:
            return False

        return first.collaborative and hello.collaborative and first.path == hello.path

    def join(self, hello: Hello) -> None:
        """Add a page of the notebook."""
        if hello.page not in self._pages:
            self.lacking.append((hello.page, ""))

        self._pages[hello.page] = hello.supports_printed
        if len(self._pages) > MAX_KNOWN_PAGES:
            self._forget_oldest(hello.page)

        if hello.client and hello.client not in self._clients:
            self._clients.append(hello.client)

        if hello.session:
            self._sessions[hello.page] = hello.session
            if hello.session in self._departed:  # the user canceled the closing of the tab
                self._departed.remove(hello.session)

    def _forget_oldest(self, newest: str) -> None:
        followed = self.hello.page if self.hello is not None else ""
        oldest = next(page for page in self._pages if page not in (followed, newest))
        del self._pages[oldest]
        self._sessions.pop(oldest, None)

    def leave(self, page: str) -> bool:
        """Remove `page`; return True if other pages remain, which should send `hello`.

        One of them takes over writing the record and the outputs of the page's cells.
        """
        session = self._sessions.pop(page, "")
        self._checked.pop(page, None)
        if not session:
            return False

        self._pages.pop(page, None)
        self._departed.append(session)
        self._output_writers = {
            k: v for k, v in self._output_writers.items() if k in self._departed
        }
        if self.hello is not None and page == self.hello.page:
            self.silent = True

        self.lacking.extend((other, "") for other in list(self._sessions)[:1])
        return bool(self._sessions)

    def note_lack(self, page: str, request: str) -> None:
        """Note that nothing in `page` shows the outputs of the cell that `request` runs."""
        lack = page, request
        if not request or page not in self._pages:
            return
        if lack not in self.lacking and len(self.lacking) < MAX_LACKING:
            self.lacking.append(lack)

    def note_other(self, hello: Hello) -> None:
        """Note a page of another notebook on the same kernel."""
        if hello.client and hello.client not in (*self._clients, *self._other_clients):
            self._other_clients.append(hello.client)

    def is_of_other_notebook(self, session: str) -> bool:
        """Return True if `session` runs the cells of another notebook than the followed one."""
        return session in self._other_clients and session not in self._clients

    def has_session(self, page: str, session: str) -> bool:
        """Return True if `page`, which shares a document, has this session."""
        return self._sessions.get(page) == session

    def writes_outputs(self, page: str, session: str) -> bool:
        """Return True if `page` must write the outputs of cells that `session` ran."""
        if session not in self._departed:
            return False
        if self._output_writers.get(session) not in self._sessions:
            self._output_writers[session] = page
        return self._output_writers[session] == page

    def supports_printed(self, page: str) -> bool:
        """Return True if `page` can show the outputs of user code in a running cell."""
        return self._pages.get(page, False)

    def check_presence(self, session: str, now: float) -> bool:
        """Return True if a `pull` must tell whether the page with `session` is still open.

        Another page lacks outputs that this page should have written. If it sends no message within
        `patience` seconds after the first call, it has left without `bye`.
        """
        page = next((key for key, value in self._sessions.items() if value == session), None)
        if page is None:
            return False

        since = self._checked.setdefault(page, now)
        if now - since >= self._patience:
            self.leave(page)

        return since == now

    def __contains__(self, page: object) -> bool:
        """Return True if `page` shows the notebook."""
        return page in self._pages

    def note_candidate(self, hello: Hello, stream: str | None, now: float) -> bool:
        """Note a page with another path that may be followed; return True if it is a candidate.

        If it is a known page, or has the conversation `stream`, it is the notebook after a rename,
        or a copy of it, or a script pretends to be it. It is followed if no page of the followed
        notebook answers.
        """
        has_conversation = stream is not None and stream == get_conversation_id(hello.document)
        if not has_conversation and hello.page not in self._pages:
            return False

        self._candidate = (hello, now + self._patience)
        return True

    @property
    def candidate_due(self) -> float | None:
        """The monotonic time at which the candidate is followed, if there is one."""
        return self._candidate[1] if self._candidate else None

    def take_candidate(self, now: float) -> Hello | None:
        """Return the candidate if the followed page did not answer in time."""
        return self._candidate[0] if self._candidate and now >= self._candidate[1] else None

    def note_message(self, page: str) -> bool:
        """Note a message of `page`; return True if it shows the followed notebook."""
        if page not in self._pages:
            return False

        self._checked.pop(page, None)
        self._candidate = None
        if self.hello is not None and page == self.hello.page:
            self.silent = False

        return True

    def follow(self, hello: Hello) -> None:
        """Follow the page that says `hello`."""
        before = self.hello.page if self.hello is not None and self.silent else hello.page
        self.hello = hello
        self.hello_count += 1
        self._candidate = None
        self.silent = False
        self.join(hello)

        if before != hello.page:
            self.leave(before)  # it sent no `bye`


MAX_PIECES: Final = 32
MAX_PIECE_CHARS: Final = 2 * 1024 * 1024
MAX_OPEN_REQUESTS: Final = 8
"""If a page leaves more requests unanswered, the oldest are dropped."""
MALFORMED_CELLS: Final = "the open page reported its cells in an unknown format"


class PageCells:
    """Collects the answers of pages to `cells` requests. Not thread-safe, as `Pages`."""

    def __init__(self) -> None:
        self._requests: dict[int, tuple[str, Future[str]]] = {}
        self._pieces: dict[int, Pieces] = {}

    def expect(self, seq: int, page: str) -> Future[str]:
        """Return a future for the answer of `page` to the request `seq`, a JSON text."""
        answer: Future[str] = Future()
        self._requests[seq] = (page, answer)
        while len(self._requests) > MAX_OPEN_REQUESTS:
            self._discard(next(iter(self._requests)))
        return answer

    def add_piece(self, data: Mapping[str, Any]) -> None:
        """Add one piece of an answer. Ignore repeated pieces, and answers without a request."""
        seq = data.get("seq")
        of = data.get("of")
        text = data.get("text")
        page, answer = self._requests.get(seq, ("", None)) if isinstance(seq, int) else ("", None)
        if answer is None or data.get("page") != page or not isinstance(seq, int):
            return

        is_valid = isinstance(of, int) and 0 < of <= MAX_PIECES and isinstance(text, str)
        if not is_valid or len(str(text)) > MAX_PIECE_CHARS:
            self._resolve(seq, StorageError(MALFORMED_CELLS))
            return

        pieces = self._pieces.setdefault(seq, Pieces(cast(int, of)))
        if pieces.add(data.get("i"), text):
            self._resolve(seq, pieces.text())

    def _resolve(self, seq: int, answer: str | StorageError) -> None:
        future = self._requests[seq][1]
        self._discard(seq)
        if not future.set_running_or_notify_cancel():
            return  # canceled: the tool stopped waiting

        if isinstance(answer, str):
            future.set_result(answer)
        else:
            future.set_exception(answer)

    def _discard(self, seq: int) -> None:
        self._requests.pop(seq, None)
        self._pieces.pop(seq, None)
