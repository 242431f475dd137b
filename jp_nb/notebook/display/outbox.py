"""Send the output of a running cell in batches, because a page redraws after each message.

Source: `docs/protocol.md`, https://jupyter-client.readthedocs.io/en/stable/messaging.html.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import monotonic
from typing import Any, Final

from jp_nb.notebook.cell_watch import CellWatch
from jp_nb.notebook.display.queued_messages import QueuedMessage, reduce_batch
from jp_nb.notebook.page.protocol import appends_entries
from jp_nb.notebook.published import OUTPUT_CHANGES, Published

BATCH_INTERVAL_S: Final = 0.1
"""Longest time between two batches."""


class Outbox:
    """Replacement of `Session.send` while a turn runs.

    Any thread may send. The queue needs no lock, because appending to a deque and removing from it
    are atomic, and only ipykernel's publishing thread removes.

    - Messages that change the outputs of the cell, and entries of the record, wait for the next
      batch. Consecutive text of one stream becomes one message. Only the newest update of a
      display is sent. Outputs that were cleared meanwhile are not sent.
    - Other messages of the cell, such as those of widgets, end the batch, which is sent at once:
      the widgets of a form must exist before the page shows the form.
    - Messages of other requests, and the kernel's status, are sent directly.
    - The publishing thread sends all messages of the cell in the order of the calls.

    `request` is the id of the request that runs the cell.
    """

    def __init__(self, kernel: Any, request: str | None, interval: float) -> None:
        watch = CellWatch.of(kernel)
        self._send: Callable[..., Any] = kernel.session.send
        self._recording: Callable[[Published], AbstractContextManager[None]]
        self._recording = lambda published: nullcontext()

        if watch is not None and watch.send is not None and self._send == watch.record_and_send:
            # `CellWatch` has replaced `Session.send` before, to record the outputs of cells when
            # they are sent. Outputs are recorded here instead, in the order of the calls, before
            # they wait for a batch; so the original method sends them.
            self._send = watch.send
            self._recording = watch.cells.recording

        self._thread = kernel.iopub_thread
        self._iopub_streams = (self._thread, getattr(kernel, "iopub_socket", None))
        self._request = request
        self._interval = min(interval, BATCH_INTERVAL_S)
        self._queue: deque[QueuedMessage] = deque()
        self._scheduled_until = 0.0  # until then, a scheduled release sends the queue
        self._next_batch_at = 0.0

    @classmethod
    def of(cls, kernel: Any, request: str | None, interval: float) -> Outbox | None:
        """Return an outbox for `kernel`, or None if it does not publish as ipykernel does."""
        thread = getattr(kernel, "iopub_thread", None)
        is_supported = all(
            hasattr(thread, name) for name in ("schedule", "io_loop", "socket", "thread")
        )
        return cls(kernel, request, interval) if is_supported else None

    def send(self, stream: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        """Send a message as `Session.send` does, or add it to the next batch."""
        published = Published.read(message, *args, **kwargs)
        with self._recording(published):
            return self._send_or_queue(published, stream, message, *args, **kwargs)

    def _send_or_queue(
        self, published: Published, stream: Any, message: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Send a message or queue it, by the rules of the class; return the sent message."""
        if not self._thread.thread.is_alive():  # no thread of a forked process publishes
            return self._send(stream, message, *args, **kwargs)

        of_cell = published.is_about(self._request)
        changes_outputs = of_cell and published.kind in OUTPUT_CHANGES
        is_record_entry = appends_entries(published.kind, published.content)
        waits = changes_outputs or is_record_entry

        # A status is sent at once, although it may name the request of the cell: `CellWatch`
        # repeats that the cell is busy after each request of a page.
        if not waits and (not of_cell or published.kind == "status"):
            return self._send(stream, message, *args, **kwargs)

        # A question on stdin, for example, is sent on another socket, by this thread.
        bypasses_thread = all(stream is not known for known in self._iopub_streams)
        if not waits and bypasses_thread:
            self.release()  # the earlier messages must be sent first
            return self._send(stream, message, *args, **kwargs)

        if published.kind == "stream":
            sent = message
            queued = self._make_queued_text(published)
        else:
            # `_send` serializes and signs the message now, as it is, and gives it to the recorder.
            recorder = _SocketRecorder()
            sent = self._send(recorder, message, *args, **kwargs)
            queued = QueuedMessage(published, recorder.replay, ends_batch=not waits)

        self._queue.append(queued)
        if waits:
            self._schedule_batch()
        else:
            self.release()
        return sent

    def _schedule_batch(self) -> None:
        """Let the publishing thread send the queue when the next batch is due.

        That is at `_next_batch_at`, or now. `_release` notes the time of the batch after it.
        """
        # A time, not a flag: an interrupt here would leave a flag set, and nothing would be sent.
        # After one more interval, a later message schedules the batch again.
        if (now := monotonic()) >= self._scheduled_until:
            self._scheduled_until = max(now, self._next_batch_at) + self._interval
            self._thread.schedule(self._release_in_time)

    def release(self) -> None:
        """Let the publishing thread send the queue, before later messages of this thread."""
        if self._queue:
            self._thread.schedule(self._release)

    def _make_queued_text(self, published: Published) -> QueuedMessage:
        """Return the entry of the queue for printed text, to which `reduce_batch` may add more.

        So it is serialized when it is sent.
        """

        def send(socket: Any) -> None:
            content = {**published.content, "text": "".join(queued.texts)}
            parent = dict(published.parent)
            metadata = dict(published.metadata)
            self._send(socket, "stream", content, parent, published.ident, metadata=metadata)

        queued = QueuedMessage(published, send, [str(published.content.get("text", ""))])
        return queued

    def _release_in_time(self) -> None:
        """Send the queue now, or when the interval is over; in the publishing thread."""
        wait = self._next_batch_at - monotonic()
        if wait > 0:
            self._thread.io_loop.call_later(wait, self._release)
        else:
            self._release()

    def _release(self) -> None:
        """Send the queue in batches; in the publishing thread."""
        self._scheduled_until = 0.0  # before the queue is read: later messages need a new batch
        messages = [self._queue.popleft() for _ in range(len(self._queue))]
        if not messages or self._thread.socket is None:
            return

        self._next_batch_at = monotonic() + self._interval
        batch: list[QueuedMessage] = []

        for queued in messages:
            batch.append(queued)
            if queued.ends_batch or queued is messages[-1]:
                for kept in reduce_batch(batch):
                    kept.send(self._thread.socket)
                batch = []


class _SocketRecorder:
    """Replacement of a socket that keeps the serialized message; `replay` sends it to a socket."""

    def __init__(self) -> None:
        self.replay: Callable[[Any], object] = lambda socket: None

    def send_multipart(self, parts: list[Any], **options: Any) -> None:
        self.replay = lambda socket: socket.send_multipart(parts, **options)
