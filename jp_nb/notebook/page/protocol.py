"""Messages between kernel and page, and the known pages of a notebook.

`live_store.py` and the lab extension exchange these as the data of comm messages.

- A message on the shell channel waits until the running cell ends, and in Run All until all cells
  end. ipykernel serves the control channel in a thread of its own, but has no comm messages there.
  Its table of handlers is public, and gets one more.
- Any thread may send: ipykernel passes iopub messages to one thread, in the order of the calls.
  Each message has a parent, and nbclient drops messages of other cells. ipykernel 6 uses the
  newest cell. ipykernel 7 uses a context variable: in another thread it is missing (7.0: an
  error), or is the cell that started the thread.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any, ParamSpec, TypeVar

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import storable, storable_and_size
from jp_nb.notebook.cells import read_name
from jp_nb.record.document import conversation_id

PROTOCOL = 1
TARGET = "jp_nb.document"
MAX_BATCH_BYTES = 256 * 1024
MAX_DOCUMENT_BYTES = 512 * 1024 * 1024
"""Bound of a document that a page sends in pieces."""


class Numbering:
    """Makes the kernel's messages, numbered.

    Attributes:
        last: The number of the last one.
        path: Where the notebook is that they are for.
    """

    def __init__(self) -> None:
        self.last = 0
        self.path = ""

    def message(self, what: str, **fields: JsonValue) -> dict[str, JsonValue]:
        """Return the next message, of the kind `what`."""
        self.last += 1
        # `ctl` and `path` are in every message: a page that was reloaded did not see the first.
        head: dict[str, JsonValue] = {"type": what, "v": PROTOCOL, "ctl": True}
        return {**head, "seq": self.last, "path": self.path, **fields}


@dataclass(frozen=True, slots=True)
class Hello:
    """A page says what it has.

    Attributes:
        page: Names the page; another one may show the same notebook.
        path: Where the notebook is, as the server names it.
        has_document: Whether the notebook's metadata has the key `jp` (or a carrier) at all.
        document: What is there: unchecked.
        tells_cells: Whether the page answers when it is asked for cells.
        keeps: Whether it understands `exchange`.
        session: Stands in the header of what the page sends, through whatever comm.
        user: The name of its user, if the document is shared; made safe.
    """

    page: str
    path: str
    read_only: bool = False
    collaborative: bool = False
    has_document: bool = False
    document: JsonValue = None
    tells_cells: bool = False
    keeps: bool = False
    session: str = ""
    user: str | None = None
    protocol: JsonValue = PROTOCOL

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Hello:
        """Return the message, without a document that follows in pieces."""
        return cls(
            page=str(data.get("page", "")),
            path=str(data.get("path", "")),
            read_only=bool(data.get("readOnly")),
            collaborative=bool(data.get("collaborative")),
            has_document="doc" in data,
            document=data.get("doc"),
            tells_cells="cells" in _list(data.get("tells")),
            keeps="exchange" in _list(data.get("tells")),
            session=str(data.get("session", "")),
            user=read_name(data.get("user")),
            protocol=data.get("v"),
        )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


@dataclass(slots=True)
class Pieces:
    """Puts a document together that was too long for one message; any order, any repeats."""

    count: int
    _parts: dict[int, str] = field(default_factory=dict)

    def add(self, index: Any, text: Any) -> bool:
        """Take one piece; return whether all are there."""
        if isinstance(index, int) and isinstance(text, str) and 0 <= index < self.count:
            self._parts[index] = text
        if sum(map(len, self._parts.values())) > MAX_DOCUMENT_BYTES:
            raise StorageError("the record of the notebook is too large to read", place="jp")
        return len(self._parts) == self.count

    def text(self) -> str:
        """Return the pieces in their order, once all are there."""
        return "".join(self._parts[i] for i in range(self.count))

    def document(self) -> JsonValue:
        """Return what the pieces say.

        Raises:
            StorageError: If it is not JSON.
        """
        try:
            return json.loads(self.text())  # type: ignore[no-any-return]
        except ValueError as exc:
            raise StorageError(f"the page sent invalid JSON: {exc}", place="jp") from exc


def can_wait(kind: str, content: Mapping[str, Any]) -> bool:
    """Return whether a message of this `kind` may wait for a batch: one that has entries may."""
    data = content.get("data")
    of_record = kind == "comm_msg" and str(content.get("comm_id", "")).startswith(f"{TARGET}.")
    return of_record and isinstance(data, dict) and data.get("type") == "append"


def is_short(value: JsonValue) -> bool:
    """Return whether `value` goes in one message."""
    return len(as_ascii(value)) <= MAX_BATCH_BYTES


def split(text: str, size: int = MAX_BATCH_BYTES) -> list[str]:
    """Cut ASCII `text` into pieces of at most `size` bytes, at least one."""
    return [text[i : i + size] for i in range(0, len(text), size)] or [""]


def as_ascii(value: JsonValue) -> str:
    """Return `value` as JSON text in ASCII: no cut goes through a character."""
    return json.dumps(storable(value), allow_nan=False, separators=(",", ":"))


def take_batch(entries: Iterable[Any], limit: int = MAX_BATCH_BYTES) -> tuple[list[JsonValue], int]:
    """Return the first `entries` that fit into `limit` bytes of JSON, at least one; their size."""
    batch: list[JsonValue] = []
    total = 0
    for entry in entries:
        clean, size = storable_and_size(entry)
        if batch and total + size > limit:
            break
        batch.append(clean)
        total += size
    return batch, total


Receive = Callable[[Any], None]


class _CommRouter:
    """The kernel's handler of `comm_msg` on control: hands a message to who asked for its comm."""

    def __init__(self, previous: Any) -> None:
        self.receivers: dict[str, Receive] = {}
        self._previous = previous

    def __call__(self, stream: Any, ident: Any, message: dict[str, Any]) -> Any:
        content = message.get("content", {})
        if receive := self.receivers.get(content.get("comm_id", "")):
            receive(content.get("data"))
            return None
        return self._previous(stream, ident, message) if self._previous else None


def why_not(kernel: Any) -> str | None:
    """Return why `kernel` takes no comm messages while a cell runs; None if it does."""
    if not isinstance(getattr(kernel, "control_handlers", None), dict):
        return "this kernel receives no messages from the page while a cell runs"
    if getattr(kernel, "control_thread", None) is None:
        return "this kernel has no control thread"
    return None


def receive_on_control(kernel: Any, comm_id: str, receive: Receive) -> None:
    """Call `receive` in the control thread with the data of each message for `comm_id`."""
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
    """The context of the running cell, for other threads. Made in the cell's thread.

    Without `shell` it stays that of the cell that made it.
    """

    def __init__(self, shell: Any = None) -> None:
        self._context = copy_context()
        self._shell = shell
        if shell is not None:
            shell.events.register("pre_run_cell", self._cell_begins)

    def _cell_begins(self, info: Any) -> None:
        self._context = copy_context()

    def run(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call `function` as the running cell would. From any thread."""
        # A context can be entered once at a time, a copy is cheap.
        return self._context.copy().run(function, *args, **options)

    def close(self) -> None:
        """Follow the cells no longer."""
        if self._shell is not None:
            self._shell.events.unregister("pre_run_cell", self._cell_begins)
            self._shell = None


MAX_PAGES = 8
"""That send a long record at the same time."""
MAX_LEFT = 64
"""Pages that said goodbye and may have left cells that run."""


class Pages:
    """Pages that said hello. Not safe from several threads at once.

    Args:
        patience: Seconds that pages of the notebook have to answer before another one that holds
            the same conversation is followed.

    Attributes:
        hello: What the page said that is followed; None before the first.
        hellos: How often one was followed.
        newcomers: Pages that may lack what running cells show.
    """

    def __init__(self, *, patience: float) -> None:
        self._patience = patience
        self.hello: Hello | None = None
        self.hellos = 0
        self.newcomers: deque[str] = deque()
        self._names: set[str] = set()
        self._pieces: dict[str, tuple[Hello, Pieces]] = {}
        self._suitor: tuple[Hello, float] | None = None  # and when it is followed
        self._silent = False  # the page that is followed
        self._sessions: dict[str, str] = {}  # of pages that share a document
        self._left: deque[str] = deque(maxlen=MAX_LEFT)  # the sessions of those that are gone
        self._substitutes: dict[str, str] = {}  # the page that does it, by session

    def read(self, data: Mapping[str, Any]) -> Hello | None:
        """Return the hello that `data` is or completes; None while pieces of it are to come."""
        if data.get("type") == "chunk":
            return self._complete(data)
        hello, count = Hello.read(data), data.get("chunks")
        if not (isinstance(count, int) and count > 0):
            return hello
        self._pieces.pop(hello.page, None)
        self._pieces[hello.page] = (hello, Pieces(count))
        while len(self._pieces) > MAX_PAGES:
            del self._pieces[next(iter(self._pieces))]
        return None

    def _complete(self, data: Mapping[str, Any]) -> Hello | None:
        page = str(data.get("page", ""))
        if page not in self._pieces:
            return None
        hello, pieces = self._pieces[page]
        if not pieces.add(data.get("i"), data.get("text")):
            return None
        del self._pieces[page]
        return replace(hello, has_document=True, document=pieces.document())

    def are_of_the_notebook(self, hello: Hello) -> bool:
        """Return whether to follow the page that says `hello`: two notebooks may share a kernel.

        The one that was there first is followed. It may be renamed (same page), or reloaded or
        opened again (same path).
        """
        first = self.hello
        return first is None or hello.page in self._names or hello.path == first.path

    def only_reads(self, hello: Hello) -> bool:
        """Return whether the page shares its document with the one that is followed: that writes.

        If that one does not answer, the next one that does is followed.
        """
        first = self.hello
        if first is None or first.page == hello.page or self._silent:
            return False
        if first.read_only and not hello.read_only:
            return False
        return first.collaborative and hello.collaborative and first.path == hello.path

    def join(self, hello: Hello) -> None:
        """Note a page that only reads."""
        if hello.page not in self._names:
            self.newcomers.append(hello.page)
        self._names.add(hello.page)
        if hello.session:
            self._sessions[hello.page] = hello.session
            if hello.session in self._left:  # it stayed
                self._left.remove(hello.session)

    def leave(self, page: str) -> bool:
        """Note that `page` is gone; return whether another one is there to be asked for a sign.

        That one takes over: what the page wrote, and what the cells show that it asked for.
        """
        session = self._sessions.pop(page, "")
        if not session:
            return False
        self._names.discard(page)
        self._left.append(session)
        self._substitutes = {k: v for k, v in self._substitutes.items() if k in self._left}
        if self.hello is not None and page == self.hello.page:
            self._silent = True
        self.newcomers.extend(list(self._sessions)[:1])
        return bool(self._sessions)

    def puts_outputs(self, page: str, session: str) -> bool:
        """Return whether `page` puts in the outputs of what was asked in `session`.

        One page does it for all that share the document: it that asked, or once that is gone
        another one.
        """
        if session not in self._left:
            return False
        if self._substitutes.get(session) not in self._sessions:
            self._substitutes[session] = page
        return self._substitutes[session] == page

    def writer_is_silent(self) -> None:
        """Note that the page that is followed does not answer."""
        self._silent = True

    def court(self, hello: Hello, stream: str | None, now: float) -> bool:
        """Note a page under another path; return whether the others are to be asked for a sign.

        If it has the conversation `stream`, it may be the notebook, renamed and reloaded, or a copy
        of it: it is followed if no page of the first one answers.
        """
        if stream is None or stream != conversation_id(hello.document):
            return False
        self._suitor = (hello, now + self._patience)
        return True

    @property
    def suitor_due(self) -> float | None:
        """The time at which the page under another path is followed, if there is one."""
        return self._suitor[1] if self._suitor else None

    def take_suitor(self, now: float) -> Hello | None:
        """Return the page under another path if the first one did not answer in time."""
        return self._suitor[0] if self._suitor and now >= self._suitor[1] else None

    def heard(self, page: str) -> bool:
        """Note that something came from `page`; return whether the notebook's own answers."""
        if page not in self._names:
            return False
        self._suitor = None
        if self.hello is not None and page == self.hello.page:
            self._silent = False
        return True

    def follow(self, hello: Hello) -> None:
        """Follow the page that says `hello`."""
        before = self.hello.page if self.hello is not None and self._silent else hello.page
        self.hello = hello
        self.hellos += 1
        self._suitor = None
        self._silent = False
        self.join(hello)
        if before != hello.page:
            self.leave(before)  # without a goodbye
