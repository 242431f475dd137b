"""Collect iopub messages, and send them in batches.

A page redraws after each message, and a turn may have thousands of messages.

Source: `docs/protocol.md`, https://jupyter-client.readthedocs.io/en/stable/messaging.html.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, Self

from jp_nb.notebook.page.protocol import is_batchable


@dataclass(frozen=True, slots=True)
class Published:
    """The parts of a message that is published on iopub.

    Attributes:
        parent: Header of the request.
        ident: Topic of the message.
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
        """Create the object from the arguments of `Session.send`, without the socket."""
        kind = message
        if isinstance(message, dict):
            kind, content = message.get("msg_type"), message.get("content")
            parent, metadata = message.get("parent_header"), message.get("metadata")
        about = _mapping(parent)
        header = _mapping(about.get("header", about))
        return cls(str(kind), _mapping(content), header, _mapping(metadata), ident)

    @property
    def display_id(self) -> str | None:
        """The display id of the output, if it has one."""
        display_id = _mapping(self.content.get("transient")).get("display_id")
        return display_id if isinstance(display_id, str) else None

    def is_about(self, request: str | None) -> bool:
        """Return True if the message belongs to the request with this id."""
        return request is not None and self.parent.get("msg_id") == request


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


OUTPUTS: Final = frozenset(("stream", "display_data", "execute_result", "error"))
"""Types of messages that add an output to a cell."""
KINDS: Final = OUTPUTS | {"update_display_data", "clear_output"}
"""Types of messages that change the outputs of a cell."""
INTERVAL_S: Final = 0.1
_THREAD_ATTRIBUTES: Final = ("schedule", "io_loop", "socket", "thread")


@dataclass(slots=True)
class _QueuedMessage:
    """A message in the queue.

    Attributes:
        send: Sends the message through a socket.
        texts: Texts of a `stream` message.
        ends_batch: The batch is sent at once. No messages are dropped or joined across this one.
    """

    published: Published
    send: Callable[[Any], object]
    texts: list[str] = field(default_factory=list)
    ends_batch: bool = False

    @property
    def adds_output(self) -> bool:
        return self.published.kind in OUTPUTS

    @property
    def stream(self) -> tuple[Any, Mapping[str, Any]] | None:
        if self.published.kind != "stream":
            return None
        return self.published.content.get("name"), self.published.parent


class Outbox:
    """Replacement of `Session.send` while a turn runs. Thread-safe, without a lock.

    - Messages that change the outputs of the cell, and entries of the record, wait for the next
      batch. Consecutive text of one stream becomes one message. Only the newest update of a
      display is sent. Outputs that were cleared meanwhile are not sent.
    - Other messages of the cell, such as those of widgets, end the batch, which is sent at once:
      the widgets of a form must exist before the page shows the form.
    - Messages of other requests, and the kernel's status, are sent directly.
    - ipykernel's publishing thread sends all messages of the cell in the order of the calls.

    Args:
        kernel: The kernel, in a cell.
        request: The id of the request that runs the cell.
        interval: Shortest time between two batches, in seconds.
    """

    def __init__(self, kernel: Any, request: str | None, interval: float) -> None:
        self._send: Callable[..., Any] = kernel.session.send
        self._thread = kernel.iopub_thread
        self._iopub_streams = (self._thread, getattr(kernel, "iopub_socket", None))
        self._request = request
        self._interval = min(interval, INTERVAL_S)
        self._queue: deque[_QueuedMessage] = deque()
        self._scheduled_until = self._next_batch_at = 0.0

    @classmethod
    def of(cls, kernel: Any, request: str | None, interval: float) -> Outbox | None:
        """Return an outbox for `kernel`, or None if it does not publish as ipykernel does."""
        thread = getattr(kernel, "iopub_thread", None)
        is_supported = all(hasattr(thread, name) for name in _THREAD_ATTRIBUTES)
        return cls(kernel, request, interval) if is_supported else None

    def send(self, stream: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        """Send a message as `Session.send` does, or add it to the next batch."""
        published = Published.read(message, *args, **kwargs)
        of_cell = published.is_about(self._request)
        waits = (of_cell and published.kind in KINDS) or is_batchable(
            published.kind, published.content
        )
        if not self._thread.thread.is_alive():  # for example in a forked process
            return self._send(stream, message, *args, **kwargs)
        if not waits:
            # `RunningCells` repeats the status of the cell after each request of a page.
            if not of_cell or published.kind == "status":
                return self._send(stream, message, *args, **kwargs)
            if not any(stream is each for each in self._iopub_streams):
                self.release()
                return self._send(stream, message, *args, **kwargs)
        if published.kind == "stream":
            sent, queued = message, self._queue_text(published)
        else:
            recorder = _SocketRecorder()
            sent = self._send(recorder, message, *args, **kwargs)
            queued = _QueuedMessage(published, recorder.send, ends_batch=not waits)
        self._queue.append(queued)
        if not waits:
            self.release()
            return sent
        # A time, not a flag: an interrupt here would leave a flag set, and nothing would be sent.
        if (now := monotonic()) >= self._scheduled_until:
            self._scheduled_until = max(now, self._next_batch_at) + self._interval
            self._thread.schedule(self._release_in_time)
        return sent

    def release(self) -> None:
        """Let the publishing thread send the queue, before later messages of this thread."""
        if self._queue:
            self._thread.schedule(self._release)

    def _queue_text(self, published: Published) -> _QueuedMessage:
        def send(socket: Any) -> None:
            content = {**published.content, "text": "".join(queued.texts)}
            parent, metadata = dict(published.parent), dict(published.metadata)
            self._send(socket, "stream", content, parent, published.ident, metadata=metadata)

        return (queued := _QueuedMessage(published, send, [str(published.content.get("text", ""))]))

    # --- in the publishing thread ------------------------------------------------------------

    def _release_in_time(self) -> None:
        wait = self._next_batch_at - monotonic()
        if wait > 0:
            self._thread.io_loop.call_later(wait, self._release)
        else:
            self._release()

    def _release(self) -> None:
        self._scheduled_until = 0.0  # before the queue is read: later messages need a new batch
        messages = [self._queue.popleft() for _ in range(len(self._queue))]
        if not messages or self._thread.socket is None:
            return
        self._next_batch_at = monotonic() + self._interval
        batch: list[_QueuedMessage] = []
        for queued in messages:
            batch.append(queued)
            if queued.ends_batch or queued is messages[-1]:
                for each in _join_texts(_drop_outdated(_drop_cleared(batch))):
                    each.send(self._thread.socket)
                batch = []


class _SocketRecorder:
    """Replacement of a socket that keeps the serialized message."""

    def __init__(self) -> None:
        self.send: Callable[[Any], object] = lambda socket: None

    def send_multipart(self, parts: list[Any], **options: Any) -> None:
        self.send = lambda socket: socket.send_multipart(parts, **options)


def _drop_cleared(batch: list[_QueuedMessage]) -> list[_QueuedMessage]:
    """Drop outputs that a later message of the batch clears."""
    added, last = False, -1
    for number in reversed(range(len(batch))):
        published = batch[number].published
        # `clear_output` with `wait` takes effect when the next output arrives.
        if published.kind == "clear_output" and (added or not published.content.get("wait")):
            last = number
            break
        added = added or batch[number].adds_output
    return [
        queued
        for number, queued in enumerate(batch)
        if number >= last or not (queued.adds_output or queued.published.kind == "clear_output")
    ]


def _drop_outdated(batch: list[_QueuedMessage]) -> list[_QueuedMessage]:
    """Drop updates of a display that a later message of the batch updates again."""
    updates = {
        queued.published.display_id: queued
        for queued in batch
        if queued.published.kind == "update_display_data"
    }
    return [
        queued
        for queued in batch
        if queued.published.kind != "update_display_data"
        or queued.published.display_id is None
        or queued is updates[queued.published.display_id]
    ]


def _join_texts(batch: Iterable[_QueuedMessage]) -> list[_QueuedMessage]:
    """Join consecutive texts of one stream into one message."""
    joined: list[_QueuedMessage] = []
    for queued in batch:
        if joined and queued.stream is not None and joined[-1].stream == queued.stream:
            joined[-1].texts += queued.texts
        else:
            joined.append(queued)
    return joined
