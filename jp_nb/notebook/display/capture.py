"""Capture the output of tools, and show it in the cell.

The captured text is bounded: its beginning and its end are kept. All output of a cell leaves the
kernel through one method, from any thread.

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
from threading import get_ident, local
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

from jp_nb.images import MEDIA_TYPES, Image, detect_media_type
from jp_nb.notebook.display.outbox import INTERVAL_S, KINDS, Outbox, Published
from jp_nb.text import plain
from jp_nb.tools.notebook_access import CellOutput


def open_figures() -> frozenset[int]:
    """Return the numbers of the figures that are open; none if nothing draws inline."""
    inline = sys.modules.get("matplotlib_inline.backend_inline")
    pyplot = sys.modules.get("matplotlib.pyplot")
    if inline is None or pyplot is None or "inline" not in str(pyplot.get_backend()):
        return frozenset()
    return frozenset(pyplot.get_fignums())


def show_figures() -> None:
    """Show them now."""
    if open_figures():
        sys.modules["matplotlib_inline.backend_inline"].flush_figures()


_SENT: WeakKeyDictionary[Any, object] = WeakKeyDictionary()
"""By stream, the buffers that took the place of those whose text was sent."""


def flush_streams() -> None:
    """Send what was printed so far; where nothing was, wait for nobody."""
    for stream in (sys.stdout, sys.stderr):
        if not _holds_nothing(stream):
            with suppress(Exception):  # somebody's own stream
                _flush(stream)


def _flush(stream: Any) -> None:
    def note() -> None:  # in the thread that alone replaces the buffers: what was in them is sent
        _SENT[stream] = stream._buffers

    stream.flush()
    stream.pub_thread.schedule(note)


def _holds_nothing(stream: Any) -> bool:
    """Return True if nothing was printed since the buffers were noted: they are there, and empty.

    Others that are empty may have taken their place while the text is still on its way.
    """
    buffers = getattr(stream, "_buffers", None)
    return buffers is not None and not buffers and _SENT.get(stream) is buffers


MAX_CHARS: Final = 25_000
"""Of the beginning of one output, and of its end."""
MAX_OUTPUTS: Final = 100
"""At the beginning of a run, and at its end."""
MAX_IMAGES: Final = 20
"""The first ones of a run."""

Kind = Literal["stream", "display", "result"]


class KeptText:
    """The beginning and the end of a text that comes in pieces; lines as a terminal ends with them.

    What a carriage return overwrites, such as a progress bar's last state, is gone.
    """

    def __init__(self) -> None:
        self._head = ""
        self._tail: list[str] = []
        self._tail_chars = 0
        self._chars = 0
        self._line = ""

    def add(self, text: str) -> None:
        """Append `text`."""
        done, newline, line = (self._line + text).rpartition("\n")
        if "\r" in done:
            done = "\n".join(map(_overwritten, done.split("\n")))
        self._keep(done + newline)
        # One return stays: it counts once something comes behind it.
        self._line = line[line.rstrip("\r").rfind("\r") + 1 :]
        if len(self._line) > MAX_CHARS:
            self._keep(self._line)
            self._line = ""

    def __str__(self) -> str:
        """Return what is kept, and how much is not."""
        line = _overwritten(self._line)
        tail = "".join(self._tail)[-MAX_CHARS:]
        left_out = self._chars - len(self._head) - len(tail)
        gap = f"\n[… {left_out} characters omitted …]\n" if left_out else ""
        return f"{self._head}{gap}{tail}{line}"

    def _keep(self, text: str) -> None:
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


def _overwritten(line: str) -> str:
    """Return what a terminal shows of `line`."""
    return line.rstrip("\r").rpartition("\r")[-1]


@dataclass(slots=True)
class _Kept:
    """One output; `name` tells streams apart, `display_id` is by what it is updated."""

    kind: Kind
    name: str = ""
    display_id: str | None = None
    text: KeptText = field(default_factory=KeptText)
    images: tuple[Image, ...] = ()


class OutputCapture:
    """Keeps the outputs of one run of code, in order, as a page would have them at its end.

    Attributes:
        value: True while the value of an expression is displayed.
    """

    def __init__(self) -> None:
        self.value = False
        self._first: list[_Kept] = []
        self._last: deque[_Kept] = deque(maxlen=MAX_OUTPUTS)
        self._count = self._images = 0
        self._clears_next = False

    def take(self, kind: str, content: Mapping[str, Any]) -> None:
        """Keep one message of Jupyter's protocol.

        Source: https://jupyter-client.readthedocs.io/en/stable/messaging.html
        """
        if kind == "stream":
            self.print(str(content.get("name", "stdout")), str(content.get("text", "")))
        elif kind in ("display_data", "execute_result"):
            self._append(self._filled(_Kept("display", display_id=_display_id(content)), content))
        elif kind == "update_display_data" and (name := _display_id(content)) is not None:
            for kept in (*self._first, *self._last):
                if kept.display_id == name:
                    self._filled(kept, content)
        elif kind == "clear_output":
            self._clears_next = True
            if not content.get("wait"):
                self._clear()

    def print(self, stream: str, text: str) -> None:
        """Keep what was written to `stream`."""
        latest = next(iter(reversed(self._last or self._first)), None)
        if self._clears_next or latest is None or (latest.kind, latest.name) != ("stream", stream):
            latest = self._append(_Kept("stream", stream))
        latest.text.add(text)

    def outputs(self) -> tuple[CellOutput, ...]:
        """Return what is kept, without terminal escapes."""
        left_out = self._count - len(self._first) - len(self._last)
        gap = [CellOutput("stream", f"[… {left_out} outputs omitted …]")]
        first, last = map(_read, self._first), map(_read, self._last)
        return (*first, *(gap if left_out else []), *last)

    def _append(self, kept: _Kept) -> _Kept:
        if self._clears_next:
            self._clear()
        self._count += 1
        (self._first if len(self._first) < MAX_OUTPUTS else self._last).append(kept)
        return kept

    def _clear(self) -> None:
        self._first.clear()
        self._last.clear()
        self._count, self._clears_next = 0, False

    def _filled(self, kept: _Kept, content: Mapping[str, Any]) -> _Kept:
        bundle = content.get("data") or {}
        kept.kind = "result" if self.value else kept.kind
        kept.text = KeptText()
        kept.text.add(_text_of(bundle))
        found = tuple(_images_of(bundle))
        self._images += len(found)
        kept.images = found if self._images <= MAX_IMAGES else ()
        if found and not kept.images:
            kept.text.add(f" [image omitted: the limit is {MAX_IMAGES} images per run]")
        return kept


def _read(kept: _Kept) -> CellOutput:
    # No limit here: it is bounded, and a second note on what is missing would confuse.
    return CellOutput(kept.kind, plain(str(kept.text), limit=sys.maxsize), kept.images)


def _display_id(content: Mapping[str, Any]) -> str | None:
    name = (content.get("transient") or {}).get("display_id")
    return name if isinstance(name, str) else None


def _text_of(bundle: Mapping[str, Any]) -> str:
    """Return the plainest text of a MIME bundle; without any, what it is made of."""
    for kind in ("text/plain", "text/markdown", "text/latex"):
        if kind in bundle:
            return str(bundle[kind])
    return f"[{', '.join(sorted(map(str, bundle)))}]" if bundle else ""


def _images_of(bundle: Mapping[str, Any]) -> Iterator[Image]:
    """Yield the first image in `bundle` that is what it says, in the order of `MEDIA_TYPES`."""
    for kind in MEDIA_TYPES:
        text = bundle.get(kind)
        with suppress(binascii.Error, ValueError):
            content = base64.b64decode(text) if isinstance(text, str) else text
            if isinstance(content, bytes) and detect_media_type(content) == kind:
                yield Image(kind, content)
                return


# --- where it is seen --------------------------------------------------------------------------


@contextmanager
def capturing(shell: Any) -> Iterator[OutputCapture]:
    """Open a block in which all that the running cell shows is kept, too; on the cell's thread."""
    capture = OutputCapture()
    session = getattr(getattr(shell, "kernel", None), "session", None)
    with _printed(capture) if session is None else _sent(capture, session, shell.kernel):
        yield capture


@contextmanager
def _sent(capture: OutputCapture, session: Any, kernel: Any) -> Iterator[None]:
    """See the messages of a kernel: all leave through one method, whoever shows something."""
    outer: Callable[..., Any] = session.send
    replaced = session.__dict__.get("send")
    cell = _message_id(kernel.get_parent("shell"))

    def send(stream: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        parent = args[1] if len(args) > 1 else kwargs.get("parent")
        content = args[0] if args else kwargs.get("content")
        kind = message
        if isinstance(message, dict):
            kind, content = message.get("msg_type"), message.get("content")
            parent = message.get("parent_header")
        if _message_id(parent) == cell and not is_ours() and isinstance(content, dict):
            capture.take(str(kind), content)
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


def _message_id(parent: Any) -> str | None:
    """Return the id of a message, or of a header alone."""
    header = parent.get("header", parent) if isinstance(parent, dict) else {}
    name = header.get("msg_id") if isinstance(header, dict) else None
    return name if isinstance(name, str) else None


@contextmanager
def _printed(capture: OutputCapture) -> Iterator[None]:
    """See what is printed, where nothing else is: a terminal shows the text of a display."""
    out, err = _Tee(sys.stdout, "stdout", capture), _Tee(sys.stderr, "stderr", capture)
    with redirect_stdout(out), redirect_stderr(err):
        yield


class _Tee:
    """A stream whose text is kept besides."""

    def __init__(self, stream: Any, name: str, capture: OutputCapture) -> None:
        self._stream, self._name, self._capture = stream, name, capture

    def write(self, text: str) -> int:
        """Write `text`, and keep it."""
        self._capture.print(self._name, text)
        written: int = self._stream.write(text)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_OURS = local()


@contextmanager
def ours() -> Iterator[None]:
    """Open a block in which what this thread shows is the turn's own, and not kept."""
    outer, _OURS.inside = is_ours(), True
    try:
        yield
    finally:
        _OURS.inside = outer


def is_ours() -> bool:
    """Return True if what this thread shows is the turn's own."""
    return getattr(_OURS, "inside", False)


Send = Callable[[], Any]
Clears = Literal["now", "next"] | None


class ToolOutput:
    """Watches whether tools show anything; with `hold`, keeps it for later.

    A function on the cell's thread is told from other tools. `publish` of others is theirs, what
    is published in `ours` is not.

    Args:
        kernel: The kernel, in a cell.
        hold: Keep back what tools show until somebody takes it: nobody is there to see it come,
            and the order counts. Else it is sent in batches, with what else the cell shows.
        interval: Shortest time between two batches, in seconds.

    Attributes:
        watches: Whether tools run, so that what is shown is theirs.
        function_has_pictured: Whether the last function has shown an image.
        cleared: Is called, on whichever thread, when a tool has cleared the cell's outputs.
    """

    def __init__(self, kernel: Any, *, hold: bool, interval: float = INTERVAL_S) -> None:
        self.watches = False
        self.function_has_pictured = False
        self.cleared: Callable[[], None] = _nothing_to_show
        self._holds = hold
        self._session = kernel.session
        self._cell = (kernel.get_parent("shell").get("header") or {}).get("msg_id")
        self._outbox = None if hold else Outbox.of(kernel, self._cell, interval)
        self._send: Callable[..., Any] = (self._outbox or self._session).send
        self._thread: int | None = None
        self._figures: frozenset[int] = frozenset()
        self._seen_of_function = self._seen = False
        self._held_of_function = _Held()
        self._held = _Held()

    def open(self) -> None:
        """See what is shown from now on."""
        self._session.send = self._pass_on

    def close(self) -> None:
        """See nothing any more. What waits is sent."""
        self.send_now()
        if self._session.__dict__.get("send") == self._pass_on:
            del self._session.send

    def send_now(self) -> None:
        """Have what waits for the next batch sent: the person waits for it, or it is the last."""
        if self._outbox is not None:
            self._outbox.release()

    def function_begins(self) -> None:
        """Note that a tool's function begins, on this thread."""
        flush_streams()
        self._seen_of_function = self.function_has_pictured = False
        self._figures = open_figures()
        self._thread = get_ident()

    def function_ends(self) -> bool:
        """Note that it ended, show its figures, and return what `function_has_shown` does."""
        if open_figures() - self._figures:
            show_figures()
        seen = self.function_has_shown()
        self._thread = None
        return seen

    def function_has_shown(self) -> bool:
        """Return whether the function that runs has shown anything since this was asked last."""
        flush_streams()
        seen, self._seen_of_function = self._seen_of_function, False
        return seen

    def others_have_shown(self) -> bool:
        """Return whether other tools have shown anything since this was asked last."""
        flush_streams()
        seen, self._seen = self._seen, False
        return seen

    def take(self, *, of_function: bool) -> list[Send]:
        """Return what is held back, for `release`."""
        return (self._held_of_function if of_function else self._held).take()

    def _pass_on(self, stream: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        """Stand in for `Session.send`."""
        send = partial(self._send, stream, message, *args, **kwargs)
        published = Published.read(message, *args, **kwargs)
        if not self._is_of_tool(published):
            return send()
        of_function = self._thread is not None
        if of_function:
            self._seen_of_function = True
            self.function_has_pictured |= _is_picture(published)
        else:
            self._seen = True
        clears = _clears(published)
        if self._holds:
            (self._held_of_function if of_function else self._held).add(send, clears)
            return message
        sent = send()
        if clears is not None:
            self.cleared()
        return sent

    def _is_of_tool(self, published: Published) -> bool:
        of_tool = self.watches and not is_ours() and published.kind in KINDS
        return of_tool and published.is_about(self._cell)


class _Held:
    """What one tool or several have shown, and nobody has seen yet.

    Clearing takes that away alone: what is above it in the cell is the turn's.
    """

    def __init__(self) -> None:
        self._sends: list[Send] = []
        self._clears_next = False

    def add(self, send: Send, clears: Clears) -> None:
        """Keep `send`; or, as it clears, drop what is kept."""
        if clears == "now" or (clears is None and self._clears_next):
            self._sends.clear()
            self._clears_next = False
        if clears == "next":
            self._clears_next = True
        elif clears is None:
            self._sends.append(send)

    def take(self) -> list[Send]:
        """Return what is kept, and keep it no longer."""
        taken = list(self._sends)
        del self._sends[: len(taken)]
        return taken


def _clears(published: Published) -> Clears:
    """Return when a message clears the outputs."""
    if published.kind != "clear_output":
        return None
    return "next" if published.content.get("wait") else "now"


def _nothing_to_show() -> None:
    """Do nothing: nothing of ours was cleared."""


def _is_picture(published: Published) -> bool:
    """Return True if a message shows an image."""
    data = published.content.get("data")
    return isinstance(data, dict) and any(str(kind).startswith("image/") for kind in data)
