"""Collect iopub messages, and send them in batches.

A page draws after each message. A turn with many messages would make it draw thousands of times.

Source: `docs/protocol.md`, https://jupyter-client.readthedocs.io/en/stable/messaging.html.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, Final, Self

from jp_nb.notebook.page.protocol import is_batchable

_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Published:
    """What a message says.

    Attributes:
        parent: The header of the request that it is about.
        ident: The topic under which it is published.
    """

    kind: str
    content: Mapping[str, Any]
    parent: Mapping[str, Any]
    metadata: Mapping[str, Any]
    ident: Any

    @classmethod
    def read(
        cls, message: Any, content: Any = None, parent: Any = None, ident: Any = None, *_: Any,
        metadata: Any = None, **__: Any,
    ) -> Self:  # fmt: skip
        """Return what the arguments of `Session.send` behind its socket say."""
        kind = message
        if isinstance(message, dict):
            kind, content = message.get("msg_type"), message.get("content")
            parent, metadata = message.get("parent_header"), message.get("metadata")
        about = _mapping(parent)
        header = _mapping(about.get("header", about))
        return cls(str(kind), _mapping(content), header, _mapping(metadata), ident)

    @property
    def display_id(self) -> str | None:
        """By what a display is updated; None if it is no display, or has no such name."""
        name = _mapping(self.content.get("transient")).get("display_id")
        return name if isinstance(name, str) else None

    def is_about(self, request: str | None) -> bool:
        """Return whether it is about the request with this id."""
        return request is not None and self.parent.get("msg_id") == request


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else _NOTHING


OUTPUTS: Final = frozenset(("stream", "display_data", "execute_result", "error"))
"""What adds to the outputs of a cell."""
KINDS: Final = OUTPUTS | {"update_display_data", "clear_output"}
"""What changes the outputs of a cell."""
INTERVAL_S: Final = 0.1
_PARTS: Final = ("schedule", "io_loop", "socket", "thread")


@dataclass(slots=True)
class _InBatch:
    """A message that waits.

    Attributes:
        send: Sends it through a socket.
        texts: Of a stream, what was printed.
        ends_batch: It does not wait for others, and none is dropped or joined across it.
    """

    published: Published
    send: Callable[[Any], object]
    texts: list[str] = field(default_factory=list)
    ends_batch: bool = False

    @property
    def adds(self) -> bool:
        return self.published.kind in OUTPUTS

    def takes(self, later: _InBatch) -> bool:
        """Take what was printed `later`, if that goes on where this one ends."""
        mine, other = self.published, later.published
        if mine.kind != "stream" or other.kind != "stream":
            return False
        if (mine.content.get("name"), mine.parent) != (other.content.get("name"), other.parent):
            return False
        self.texts += later.texts
        return True


class Outbox:
    """Stands in for `Session.send` while a turn runs; for any thread, and takes no lock.

    What changes the outputs of the cell, and entries of the record, wait for the next batch. Prints
    become one message, of updates of one display the newest goes, and what was cleared meanwhile
    does not. Other messages of the cell, such as those of widgets, end the batch and are sent with
    it at once: a page must not be told to show a form before it knows the form's widgets. The
    thread that publishes for the kernel sends all of them in the order of the calls.

    Args:
        kernel: The kernel, in a cell.
        request: The id of the request that runs the cell.
        interval: Shortest time between two batches, in seconds.
    """

    def __init__(self, kernel: Any, request: str | None, interval: float) -> None:
        self._session = kernel.session
        self._send: Callable[..., Any] = kernel.session.send
        self._thread = kernel.iopub_thread
        self._published_through = (self._thread, getattr(kernel, "iopub_socket", None))
        self._request = request
        self._interval = min(interval, INTERVAL_S)
        self._held: deque[_InBatch] = deque()
        self._due = self._next = 0.0

    @classmethod
    def of(cls, kernel: Any, request: str | None, interval: float) -> Outbox | None:
        """Return one for `kernel`; None if it publishes in another way than ipykernel."""
        thread = getattr(kernel, "iopub_thread", None)
        return cls(kernel, request, interval) if all(hasattr(thread, x) for x in _PARTS) else None

    def send(self, stream: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        """Send a message as `Session.send` does, or have it wait for the next batch."""
        published = Published.read(message, *args, **kwargs)
        of_cell = published.is_about(self._request)
        waits = (of_cell and published.kind in KINDS) or is_batchable(
            published.kind, published.content
        )
        if not self._thread.thread.is_alive():  # as in a process that was forked
            return self._send(stream, message, *args, **kwargs)
        if not waits:
            if not of_cell or published.kind == "status":  # sent with each acknowledgement
                return self._send(stream, message, *args, **kwargs)
            if not any(stream is each for each in self._published_through):
                self.release()
                return self._send(stream, message, *args, **kwargs)
        if published.kind == "stream":
            sent, held = message, self._printed(published)
        else:
            parts = _Parts()
            sent = self._send(parts, message, *args, **kwargs)
            held = _InBatch(published, parts.send, ends_batch=not waits)
        self._held.append(held)
        if not waits:
            self.release()
            return sent
        # Not a flag: an interrupt in here must not leave one behind, and everything waiting.
        if (now := monotonic()) >= self._due:
            self._due = max(now, self._next) + self._interval
            self._thread.schedule(self._release_in_time)
        return sent

    def release(self) -> None:
        """Have what waits sent before anything that this thread sends next."""
        if self._held:
            self._thread.schedule(self._release)

    def _printed(self, published: Published) -> _InBatch:
        def send(socket: Any) -> None:
            content = {**published.content, "text": "".join(held.texts)}
            about, metadata = dict(published.parent), dict(published.metadata)
            ident = published.ident
            self._send(socket, "stream", content, about, ident, metadata=metadata)

        held = _InBatch(published, send, [str(published.content.get("text", ""))])
        return held

    # --- in the thread that publishes --------------------------------------------------------

    def _release_in_time(self) -> None:
        wait = self._next - monotonic()
        if wait > 0:
            self._thread.io_loop.call_later(wait, self._release)
        else:
            self._release()

    def _release(self) -> None:
        self._due = 0.0  # first: what comes from now on may miss this batch
        waiting = [self._held.popleft() for _ in range(len(self._held))]
        if not waiting or self._thread.socket is None:
            return
        self._next = monotonic() + self._interval
        for batch in _batches(waiting):
            for held in _joined(_newest(_not_cleared(batch))):
                held.send(self._thread.socket)


class _Parts:
    """Takes the place of a socket: a message is written as it is now, and kept."""

    def __init__(self) -> None:
        self.send: Callable[[Any], object] = bool

    def send_multipart(self, parts: list[Any], **options: Any) -> None:
        """Keep the parts of a message."""
        self.send = partial(_send_parts, parts=parts, **options)


def _send_parts(socket: Any, *, parts: list[Any], **options: Any) -> None:
    socket.send_multipart(parts, **options)


def _batches(waiting: list[_InBatch]) -> Iterator[list[_InBatch]]:
    """Yield `waiting` in pieces, each up to a message that ends its batch."""
    batch: list[_InBatch] = []
    for held in waiting:
        batch.append(held)
        if held.ends_batch:
            yield batch
            batch = []
    yield batch


def _not_cleared(batch: list[_InBatch]) -> list[_InBatch]:
    """Return `batch` without outputs that a later message of it clears."""
    added, last = False, -1
    for number in reversed(range(len(batch))):
        held = batch[number]
        if held.published.kind == "clear_output" and (
            added or not held.published.content.get("wait")
        ):
            last = number
            break
        added = added or held.adds
    return [
        held
        for number, held in enumerate(batch)
        if number >= last or not (held.adds or held.published.kind == "clear_output")
    ]


def _newest(batch: list[_InBatch]) -> list[_InBatch]:
    """Return `batch` without updates of displays that are updated again behind them."""
    newest: dict[str, _InBatch] = {}
    for held in batch:
        name = held.published.display_id
        if held.published.kind == "update_display_data" and name is not None:
            newest[name] = held
    return [
        held
        for held in batch
        if held.published.kind != "update_display_data"
        or held is newest.get(held.published.display_id or "", held)
    ]


def _joined(batch: Iterable[_InBatch]) -> Iterator[_InBatch]:
    """Yield `batch`, with prints that follow one another as one."""
    last: _InBatch | None = None
    for held in batch:
        if last is not None and last.takes(held):
            continue
        if last is not None:
            yield last
        last = held
    if last is not None:
        yield last
