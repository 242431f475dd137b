"""What code shows in the running cell, kept for a model while it is shown to the person.

What is kept is bounded, whatever is printed: beginnings and ends.

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
from threading import local
from typing import Any, Final, Literal

from jp_nb.image import MEDIA_TYPES, Image, media_type_of
from jp_nb.notebook.printed_text import flush_streams
from jp_nb.safe_text import plain
from jp_nb.tooling.notebook_access import CellOutput

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
            if isinstance(content, bytes) and media_type_of(content) == kind:
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
