"""Output of a cell: captured for the model, and sent in batches.

All output of a cell leaves the kernel through `Session.send`, from any thread. The captured text is
bounded: its beginning and its end are kept. A page redraws after each message, and a turn may have
thousands of messages, so they are sent in batches.

Source: `docs/notebook-tools.md`, `docs/protocol.md`,
https://jupyter-client.readthedocs.io/en/stable/messaging.html.
"""

from __future__ import annotations

import base64
import binascii
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from dataclasses import dataclass, field
from functools import partial
from threading import local
from time import monotonic
from typing import Any, Final, Literal, Protocol
from weakref import WeakKeyDictionary

from jp_nb.images import MEDIA_TYPES, Image, detect_media_type
from jp_nb.notebook.cells import RunningCells
from jp_nb.notebook.page.protocol import is_batchable
from jp_nb.notebook.published import (
    OUTPUT_CHANGES,
    OUTPUTS,
    BoundedText,
    Published,
    read_mapping,
)
from jp_nb.text import plain
from jp_nb.toolkit.base import CellOutput


def open_figures() -> frozenset[int]:
    """Return the numbers of matplotlib's open figures if the inline backend is active."""
    inline = sys.modules.get("matplotlib_inline.backend_inline")
    pyplot = sys.modules.get("matplotlib.pyplot")
    if inline is None or pyplot is None or "inline" not in str(pyplot.get_backend()):
        return frozenset()
    return frozenset(pyplot.get_fignums())


def show_figures() -> None:
    """Show the open figures now."""
    if open_figures():
        sys.modules["matplotlib_inline.backend_inline"].flush_figures()


_FLUSHED: WeakKeyDictionary[Any, object] = WeakKeyDictionary()
"""Buffers of each stream after the last flush."""


def flush_streams() -> None:
    """Send the printed text. Return at once if nothing was printed since the last call."""
    streams: tuple[Any, ...] = (sys.stdout, sys.stderr)
    for stream in streams:
        # New buffers are empty too, while the text of the previous ones is not yet sent.
        buffers = getattr(stream, "_buffers", None)
        if buffers is None or buffers or _FLUSHED.get(stream) is not buffers:
            with suppress(Exception):  # the user may have replaced the stream
                stream.flush()
                # The publishing thread replaces the buffers when it has sent their text.
                stream.pub_thread.schedule(partial(_set_flushed, stream))


def _set_flushed(stream: Any) -> None:
    _FLUSHED[stream] = stream._buffers


MAX_RUN_OUTPUTS: Final = 100
"""Limit at the beginning of a run, and at its end."""
MAX_RUN_IMAGES: Final = 20

OutputKind = Literal["stream", "display", "result"]


@dataclass(slots=True)
class _Output:
    """One captured output; `name` is the name of a stream."""

    kind: OutputKind
    name: str = ""
    display_id: str | None = None
    text: BoundedText = field(default_factory=BoundedText)
    images: tuple[Image, ...] = ()


class OutputCapture:
    """The outputs of one run of code, in the state that a page shows at its end.

    Attributes:
        value: True while the value of an expression is displayed.
    """

    def __init__(self) -> None:
        self.value = False
        self._first: list[_Output] = []
        self._last: deque[_Output] = deque(maxlen=MAX_RUN_OUTPUTS)
        self._count = self._images = 0
        self._clears_next = False

    def add_message(self, kind: str, content: Mapping[str, Any]) -> None:
        """Add the content of an iopub message of the type `kind`."""
        display_id = (content.get("transient") or {}).get("display_id")
        if kind == "stream":
            self.add_text(str(content.get("name", "stdout")), str(content.get("text", "")))
        elif kind in ("display_data", "execute_result"):
            output = _Output("display", display_id=display_id)
            self._fill(output, content)
            self._append(output)
        elif kind == "update_display_data" and display_id is not None:
            for output in (*self._first, *self._last):
                if output.display_id == display_id:
                    self._fill(output, content)
        elif kind == "clear_output":
            self._clears_next = True
            if not content.get("wait"):
                self._clear()

    def add_text(self, stream: str, text: str) -> None:
        """Add text that was written to `stream`."""
        latest = next(iter(reversed(self._last or self._first)), None)
        if self._clears_next or latest is None or (latest.kind, latest.name) != ("stream", stream):
            latest = _Output("stream", stream)
            self._append(latest)
        latest.text.add(text)

    def outputs(self) -> tuple[CellOutput, ...]:
        """Return the outputs without terminal escapes, with a note in place of omitted ones."""
        omitted = self._count - len(self._first) - len(self._last)
        first = map(_finish_output, self._first)
        last = map(_finish_output, self._last)
        if not omitted:
            return (*first, *last)

        return (*first, CellOutput("stream", f"[… {omitted} outputs omitted …]"), *last)

    def _append(self, output: _Output) -> None:
        if self._clears_next:
            self._clear()
        self._count += 1
        if len(self._first) < MAX_RUN_OUTPUTS:
            self._first.append(output)
        else:
            self._last.append(output)

    def _clear(self) -> None:
        self._first.clear()
        self._last.clear()
        self._count = 0
        self._clears_next = False

    def _fill(self, output: _Output, content: Mapping[str, Any]) -> None:
        bundle = content.get("data") or {}
        output.kind = "result" if self.value else output.kind
        output.text = BoundedText()
        output.images = ()
        output.text.add(_extract_text(bundle))

        if (image := _extract_image(bundle)) is not None:
            self._images += 1
            if self._images <= MAX_RUN_IMAGES:
                output.images = (image,)
            else:
                output.text.add(f" [image omitted: the limit is {MAX_RUN_IMAGES} images per run]")


def _finish_output(output: _Output) -> CellOutput:
    # The text is bounded already; a limit here would add a second note.
    text = plain(str(output.text), limit=sys.maxsize)
    return CellOutput(output.kind, text, output.images)


def _extract_text(bundle: Mapping[str, Any]) -> str:
    # The plainest text of a MIME bundle, or the list of its types.
    for kind in ("text/plain", "text/markdown", "text/latex"):
        if kind in bundle:
            return str(bundle[kind])
    return f"[{', '.join(sorted(map(str, bundle)))}]" if bundle else ""


def _extract_image(bundle: Mapping[str, Any]) -> Image | None:
    # The first image whose content fits its type, in the order of `MEDIA_TYPES`.
    for kind in MEDIA_TYPES:
        text = bundle.get(kind)
        with suppress(binascii.Error, ValueError):
            content = base64.b64decode(text) if isinstance(text, str) else text
            if isinstance(content, bytes) and detect_media_type(content) == kind:
                return Image(kind, content)

    return None


# --- capture of the running cell ---------------------------------------------------------------


@contextmanager
def capturing(shell: Any) -> Iterator[OutputCapture]:
    """Capture all output of the running cell, which is still shown. Use on the cell's thread."""
    capture = OutputCapture()
    session = getattr(getattr(shell, "kernel", None), "session", None)
    if session is None:
        # A terminal prints the text of displays as well.
        out = _Tee(sys.stdout, "stdout", capture)
        err = _Tee(sys.stderr, "stderr", capture)
        with redirect_stdout(out), redirect_stderr(err):
            yield capture
        return

    outer: Callable[..., Any] = session.send
    replaced = session.__dict__.get("send")
    cell = _running_request(shell.kernel)

    def send(stream: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        published = Published.read(message, *args, **kwargs)
        if published.is_about(cell) and not is_ours():
            capture.add_message(published.kind, published.content)
        return outer(stream, message, *args, **kwargs)

    flush_streams()
    session.send = send

    try:
        yield capture
        flush_streams()
    finally:
        if replaced is None:
            del session.send
        else:
            session.send = replaced


def _running_request(kernel: Any) -> str | None:
    # The id of the request that runs the cell.
    request: str | None = (kernel.get_parent("shell").get("header") or {}).get("msg_id")
    return request


class _Tee:
    """A stream whose text is also captured."""

    def __init__(self, stream: Any, name: str, capture: OutputCapture) -> None:
        self._stream = stream
        self._name = name
        self._capture = capture

    def write(self, text: str) -> int:
        self._capture.add_text(self._name, text)
        written: int = self._stream.write(text)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_OURS = local()


@contextmanager
def ours() -> Iterator[None]:
    """Mark the output of this thread as output of the turn, which is not captured."""
    outer = is_ours()
    _OURS.inside = True

    try:
        yield
    finally:
        _OURS.inside = outer


def is_ours() -> bool:
    """Return True inside of `ours`."""
    return getattr(_OURS, "inside", False)


BATCH_INTERVAL_S: Final = 0.1


@dataclass(slots=True)
class _QueuedMessage:
    """A message in the queue; `texts` are those of a `stream` message.

    With `ends_batch`, the batch is sent at once. No messages are dropped or joined across it.
    """

    published: Published
    send: Callable[[Any], object]
    texts: list[str] = field(default_factory=list)
    ends_batch: bool = False

    @property
    def stream(self) -> tuple[Any, Mapping[str, Any]] | None:
        if self.published.kind != "stream":
            return None
        return self.published.content.get("name"), self.published.parent


class Outbox:
    """Replacement of `Session.send` while a turn runs. Thread-safe; the queue has no lock.

    - Messages that change the outputs of the cell, and entries of the record, wait for the next
      batch. Consecutive text of one stream becomes one message. Only the newest update of a
      display is sent. Outputs that were cleared meanwhile are not sent.
    - Other messages of the cell, such as those of widgets, end the batch, which is sent at once:
      the widgets of a form must exist before the page shows the form.
    - Messages of other requests, and the kernel's status, are sent directly.
    - ipykernel's publishing thread sends all messages of the cell in the order of the calls.

    `request` is the id of the request that runs the cell.
    """

    def __init__(self, kernel: Any, request: str | None, interval: float) -> None:
        cells = RunningCells.of(kernel)
        self._send: Callable[..., Any] = kernel.session.send
        self._recording: Callable[[Published], AbstractContextManager[None]]
        self._recording = lambda published: nullcontext()

        if cells is not None and cells.send is not None and self._send == cells.record_and_send:
            # Outputs are kept in the order of the calls, before they wait for a batch.
            self._send = cells.send
            self._recording = cells.recording

        self._thread = kernel.iopub_thread
        self._iopub_streams = (self._thread, getattr(kernel, "iopub_socket", None))
        self._request = request
        self._interval = min(interval, BATCH_INTERVAL_S)
        self._queue: deque[_QueuedMessage] = deque()
        self._scheduled_until = self._next_batch_at = 0.0

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
        of_cell = published.is_about(self._request)
        changes_outputs = of_cell and published.kind in OUTPUT_CHANGES
        waits = changes_outputs or is_batchable(published.kind, published.content)
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
            sent = message
            queued = self._queue_text(published)
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
            parent = dict(published.parent)
            metadata = dict(published.metadata)
            self._send(socket, "stream", content, parent, published.ident, metadata=metadata)

        queued = _QueuedMessage(published, send, [str(published.content.get("text", ""))])
        return queued

    def _release_in_time(self) -> None:  # in the publishing thread, as `_release`
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
    # Drops outputs that a later message of the batch clears.
    added = False
    last = -1

    for number in reversed(range(len(batch))):
        published = batch[number].published
        # `clear_output` with `wait` takes effect when the next output arrives.
        if published.kind == "clear_output" and (added or not published.content.get("wait")):
            last = number
            break
        added = added or published.kind in OUTPUTS

    dropped = OUTPUTS | {"clear_output"}
    return [
        queued
        for number, queued in enumerate(batch)
        if number >= last or queued.published.kind not in dropped
    ]


def _drop_outdated(batch: list[_QueuedMessage]) -> list[_QueuedMessage]:
    # Drops updates of a display that a later message of the batch updates again.
    kept: list[_QueuedMessage] = []
    updated: set[str] = set()

    for queued in reversed(batch):
        display_id = queued.published.display_id
        if queued.published.kind == "update_display_data" and display_id is not None:
            if display_id in updated:
                continue
            updated.add(display_id)
        kept.append(queued)

    return kept[::-1]


def _join_texts(batch: Iterable[_QueuedMessage]) -> list[_QueuedMessage]:
    # Joins consecutive texts of one stream into one message.
    joined: list[_QueuedMessage] = []
    for queued in batch:
        if joined and queued.stream is not None and joined[-1].stream == queued.stream:
            joined[-1].texts += queued.texts
        else:
            joined.append(queued)

    return joined


SendOutput = Callable[[], Any]


class Clears(Protocol):
    """Receiver of the request of a tool to clear outputs; with `wait`, before its next output."""

    def __call__(self, *, wait: bool) -> None:
        """Clear the outputs of the current call."""


class ToolOutput:
    """Watcher of the output of tools while a turn runs.

    Output of a function on the cell's thread is distinguished from output of other tools. Output
    inside of `ours` belongs to the turn.

    Args:
        hold: Hold the output until `take`, because in a headless run the order of final outputs
            matters. Otherwise it is sent in batches with all output of the cell.
        interval: Shortest time between two batches, in seconds.

    Attributes:
        watches: True while tools run.
        function_has_image: True if the last function displayed an image.
        clears: Called on the thread of a tool that clears outputs.
        cleared: Called on any thread when a tool has cleared the cell's outputs.
    """

    def __init__(self, kernel: Any, *, hold: bool, interval: float = BATCH_INTERVAL_S) -> None:
        self.watches = False
        self.function_has_image = False
        self.clears: Clears = lambda *, wait: None
        self.cleared: Callable[[], None] = lambda: None
        self._holds = hold
        self._session = kernel.session
        self._replaced: Callable[..., Any] | None = None  # `send` of the session until `close`
        self._cell = _running_request(kernel)
        self._outbox = None if hold else Outbox.of(kernel, self._cell, interval)
        self._send: Callable[..., Any] = (self._outbox or self._session).send
        self._function_runs = False
        self._figures: frozenset[int] = frozenset()
        self._of_function = _HeldOutput()
        self._of_others = _HeldOutput()

    def open(self) -> None:
        """Start to watch."""
        self._replaced = self._session.__dict__.get("send")
        self._session.send = self._watch_and_send

    def close(self) -> None:
        """Stop to watch, and send the current batch."""
        self.send_now()
        if self._session.__dict__.get("send") != self._watch_and_send:
            return

        if self._replaced is None:
            del self._session.send
        else:
            self._session.send = self._replaced

    def send_now(self) -> None:
        """Send the current batch."""
        if self._outbox is not None:
            self._outbox.release()

    def function_begins(self) -> None:
        """Note that a tool's function begins on this thread."""
        flush_streams()
        self._of_function.is_new = self.function_has_image = False
        self._figures = open_figures()
        self._function_runs = True

    def function_ends(self) -> bool:
        """Note that the function has ended, show its figures, and return `function_has_output`."""
        if open_figures() - self._figures:
            show_figures()
        has_output = self.function_has_output()
        self._function_runs = False
        return has_output

    def function_has_output(self) -> bool:
        """Return True if the running function has shown anything since the last call."""
        return self._of_function.take_new()

    def others_have_output(self) -> bool:
        """Return True if other tools have shown anything since the last call."""
        return self._of_others.take_new()

    def take(self, *, of_function: bool) -> list[SendOutput]:
        """Return the held output, as functions that send it."""
        return (self._of_function if of_function else self._of_others).take()

    def _watch_and_send(self, stream: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        send = partial(self._send, stream, message, *args, **kwargs)
        published = Published.read(message, *args, **kwargs)
        is_output = published.kind in OUTPUT_CHANGES and published.is_about(self._cell)
        if not (self.watches and is_output) or is_ours():
            return send()

        if published.kind == "clear_output":
            self.clears(wait=bool(published.content.get("wait")))

        held = self._of_function if self._function_runs else self._of_others
        held.is_new = True
        if self._function_runs:
            kinds = read_mapping(published.content.get("data"))
            self.function_has_image |= any(str(kind).startswith("image/") for kind in kinds)

        if self._holds:
            held.add(send, published)
            return message

        sent = send()
        if published.kind == "clear_output":
            self.cleared()

        return sent


class _HeldOutput:
    """Output of tools that was not sent yet. Clearing affects only this output."""

    def __init__(self) -> None:
        self.is_new = False
        self._sends: list[SendOutput] = []
        self._clears_next = False

    def take_new(self) -> bool:
        flush_streams()
        is_new = self.is_new
        self.is_new = False
        return is_new

    def add(self, send: SendOutput, published: Published) -> None:
        clears = published.kind == "clear_output"
        if clears and published.content.get("wait"):
            self._clears_next = True
            return

        if clears or self._clears_next:
            self._sends.clear()
            self._clears_next = False

        if not clears:
            self._sends.append(send)

    def take(self) -> list[SendOutput]:
        taken = list(self._sends)
        del self._sends[: len(taken)]  # another thread may append meanwhile
        return taken
