"""Capture the output of tools, and show it in the cell.

The captured text is bounded: its beginning and its end are kept. All output of a cell leaves the
kernel through `Session.send`, from any thread.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

import base64
import binascii
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import local
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

from jp_nb.images import MEDIA_TYPES, Image, detect_media_type
from jp_nb.notebook.display.outbox import INTERVAL_S, KINDS, Outbox, Published
from jp_nb.text import plain
from jp_nb.tools.base import CellOutput


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
    for stream in (sys.stdout, sys.stderr):
        # New buffers are empty too, while the text of the previous ones is not yet sent.
        buffers = getattr(stream, "_buffers", None)
        if buffers is None or buffers or _FLUSHED.get(stream) is not buffers:
            with suppress(Exception):  # the user may have replaced the stream
                _flush(stream)


def _flush(stream: Any) -> None:
    # This runs in the publishing thread, which replaces the buffers when it has sent their text.
    def set_flushed() -> None:
        _FLUSHED[stream] = stream._buffers

    stream.flush()
    stream.pub_thread.schedule(set_flushed)


MAX_CHARS: Final = 25_000
"""Limit at the beginning of one output, and at its end."""
MAX_OUTPUTS: Final = 100
"""Limit at the beginning of a run, and at its end."""
MAX_IMAGES: Final = 20

Kind = Literal["stream", "display", "result"]


class BoundedText:
    """The beginning and the end of a text that arrives in pieces.

    As in a terminal, a carriage return overwrites the line, such as a progress bar.
    """

    def __init__(self) -> None:
        self._head = ""
        self._tail: list[str] = []
        self._tail_chars = 0
        self._chars = 0
        self._line = ""

    def add(self, text: str) -> None:
        """Append `text`."""
        lines, newline, last = (self._line + text).rpartition("\n")
        if "\r" in lines:
            lines = "\n".join(map(_visible_part, lines.split("\n")))
        self._append(lines + newline)
        # A final carriage return stays: it takes effect when more text arrives.
        self._line = last[last.rstrip("\r").rfind("\r") + 1 :]
        if len(self._line) > MAX_CHARS:
            self._append(self._line)
            self._line = ""

    def __str__(self) -> str:
        """Return the text, with a note in place of omitted characters."""
        line = _visible_part(self._line)
        tail = "".join(self._tail)[-MAX_CHARS:]
        omitted = self._chars - len(self._head) - len(tail)
        gap = f"\n[… {omitted} characters omitted …]\n" if omitted else ""
        return f"{self._head}{gap}{tail}{line}"

    def _append(self, text: str) -> None:
        self._chars += len(text)
        if room := MAX_CHARS - len(self._head):
            self._head += text[:room]
            text = text[room:]
        if text:
            self._tail.append(text)
            self._tail_chars += len(text)
        if self._tail_chars > 2 * MAX_CHARS:
            self._tail = ["".join(self._tail)[-MAX_CHARS:]]
            self._tail_chars = MAX_CHARS


def _visible_part(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[-1]


@dataclass(slots=True)
class _Output:
    """One captured output; `name` is the name of a stream."""

    kind: Kind
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
        self._last: deque[_Output] = deque(maxlen=MAX_OUTPUTS)
        self._count = self._images = 0
        self._clears_next = False

    def add_message(self, kind: str, content: Mapping[str, Any]) -> None:
        """Add the content of an iopub message of the type `kind`.

        Source: https://jupyter-client.readthedocs.io/en/stable/messaging.html
        """
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
        gap = [CellOutput("stream", f"[… {omitted} outputs omitted …]")] if omitted else []
        first, last = (
            # The text is bounded already; a limit here would add a second note.
            [CellOutput(x.kind, plain(str(x.text), limit=sys.maxsize), x.images) for x in outputs]
            for outputs in (self._first, self._last)
        )
        return (*first, *gap, *last)

    def _append(self, output: _Output) -> None:
        if self._clears_next:
            self._clear()
        self._count += 1
        (self._first if len(self._first) < MAX_OUTPUTS else self._last).append(output)

    def _clear(self) -> None:
        self._first.clear()
        self._last.clear()
        self._count, self._clears_next = 0, False

    def _fill(self, output: _Output, content: Mapping[str, Any]) -> None:
        bundle = content.get("data") or {}
        output.kind = "result" if self.value else output.kind
        output.text, output.images = BoundedText(), ()
        output.text.add(_extract_text(bundle))
        image = _extract_image(bundle)
        if image is not None:
            self._images += 1
            if self._images <= MAX_IMAGES:
                output.images = (image,)
            else:
                output.text.add(f" [image omitted: the limit is {MAX_IMAGES} images per run]")


def _extract_text(bundle: Mapping[str, Any]) -> str:
    """Return the plainest text of a MIME bundle, or the list of its types."""
    for kind in ("text/plain", "text/markdown", "text/latex"):
        if kind in bundle:
            return str(bundle[kind])
    return f"[{', '.join(sorted(map(str, bundle)))}]" if bundle else ""


def _extract_image(bundle: Mapping[str, Any]) -> Image | None:
    """Return the first image whose content fits its type, in the order of `MEDIA_TYPES`."""
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
        out, err = _Tee(sys.stdout, "stdout", capture), _Tee(sys.stderr, "stderr", capture)
        with redirect_stdout(out), redirect_stderr(err):
            yield capture
    else:
        with _capturing_messages(capture, session, shell.kernel):
            yield capture


@contextmanager
def _capturing_messages(capture: OutputCapture, session: Any, kernel: Any) -> Iterator[None]:
    outer: Callable[..., Any] = session.send
    replaced = session.__dict__.get("send")
    cell = (kernel.get_parent("shell").get("header") or {}).get("msg_id")

    def send(stream: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        published = Published.read(message, *args, **kwargs)
        if published.is_about(cell) and not is_ours():
            capture.add_message(published.kind, published.content)
        return outer(stream, message, *args, **kwargs)

    flush_streams()
    session.send = send
    try:
        yield
        flush_streams()
    finally:
        if replaced is None:
            del session.send
        else:
            session.send = replaced


class _Tee:
    """A stream whose text is also captured."""

    def __init__(self, stream: Any, name: str, capture: OutputCapture) -> None:
        self._stream, self._name, self._capture = stream, name, capture

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
    outer, _OURS.inside = is_ours(), True
    try:
        yield
    finally:
        _OURS.inside = outer


def is_ours() -> bool:
    """Return True inside of `ours`."""
    return getattr(_OURS, "inside", False)


Send = Callable[[], Any]
Clears = Literal["now", "next"] | None


class ToolOutput:
    """Watcher of the output of tools while a turn runs.

    Output of a function on the cell's thread is distinguished from output of other tools. Output
    inside of `ours` belongs to the turn.

    Args:
        kernel: The kernel, in a cell.
        hold: Hold the output until `take`, because in a headless run the order of final outputs
            matters. Otherwise it is sent in batches with all output of the cell.
        interval: Shortest time between two batches, in seconds.

    Attributes:
        watches: True while tools run.
        function_has_image: True if the last function displayed an image.
        cleared: Called on any thread when a tool has cleared the cell's outputs.
    """

    def __init__(self, kernel: Any, *, hold: bool, interval: float = INTERVAL_S) -> None:
        self.watches = False
        self.function_has_image = False
        self.cleared: Callable[[], None] = lambda: None
        self._holds = hold
        self._session = kernel.session
        self._cell = (kernel.get_parent("shell").get("header") or {}).get("msg_id")
        self._outbox = None if hold else Outbox.of(kernel, self._cell, interval)
        self._send: Callable[..., Any] = (self._outbox or self._session).send
        self._function_runs = False
        self._figures: frozenset[int] = frozenset()
        self._of_function, self._of_others = _HeldOutput(), _HeldOutput()

    def open(self) -> None:
        """Start to watch."""
        self._session.send = self._watch_and_send

    def close(self) -> None:
        """Stop to watch, and send the current batch."""
        self.send_now()
        if self._session.__dict__.get("send") == self._watch_and_send:
            del self._session.send

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

    def take(self, *, of_function: bool) -> list[Send]:
        """Return the held output, as functions that send it."""
        return (self._of_function if of_function else self._of_others).take()

    def _watch_and_send(self, stream: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        """Replace `Session.send`."""
        send = partial(self._send, stream, message, *args, **kwargs)
        published = Published.read(message, *args, **kwargs)
        is_output = published.kind in KINDS and published.is_about(self._cell)
        if not (self.watches and is_output) or is_ours():
            return send()
        held = self._of_function if self._function_runs else self._of_others
        held.is_new = True
        if self._function_runs:
            data = published.content.get("data")
            kinds = data if isinstance(data, dict) else ()
            self.function_has_image |= any(str(kind).startswith("image/") for kind in kinds)
        clears: Clears = None
        if published.kind == "clear_output":
            clears = "next" if published.content.get("wait") else "now"
        if self._holds:
            held.add(send, clears)
            return message
        sent = send()
        if clears is not None:
            self.cleared()
        return sent


class _HeldOutput:
    """Output of tools that was not sent yet. Clearing affects only this output.

    `is_new`: there was output since the last `take_new`.
    """

    def __init__(self) -> None:
        self.is_new = False
        self._sends: list[Send] = []
        self._clears_next = False

    def take_new(self) -> bool:
        flush_streams()
        is_new, self.is_new = self.is_new, False
        return is_new

    def add(self, send: Send, clears: Clears) -> None:
        if clears == "now" or (clears is None and self._clears_next):
            self._sends.clear()
            self._clears_next = False
        if clears == "next":
            self._clears_next = True
        elif clears is None:
            self._sends.append(send)

    def take(self) -> list[Send]:
        taken = list(self._sends)
        del self._sends[: len(taken)]  # another thread may append meanwhile
        return taken
