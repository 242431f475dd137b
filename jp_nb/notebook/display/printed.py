"""Text that tools print, by call.

ipykernel sends printed text on another thread, where the call that printed it is unknown. So
the text of `async def` and threaded tools is taken when it is written. The context variable
`CURRENT_RUN` names the call.

Source: `docs/guide.md`, "While a turn runs".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from jp_nb.notebook.bounded_text import BoundedText
from jp_nb.notebook.display.output_origin import is_ours
from jp_nb.toolkit.current_run import CURRENT_RUN


@dataclass(slots=True)
class _CallText:
    """The text of one call.

    Attributes:
        text: All of it.
        is_new: True if the text changed since the last `take`.
        clears_next: True if the next text replaces all earlier text.
    """

    text: BoundedText = field(default_factory=BoundedText)
    is_new: bool = False
    clears_next: bool = False


class PrintedTexts:
    """Texts that the running calls print on `sys.stdout` and `sys.stderr`.

    The function of a tool on the cell's thread prints as the cell does, so its text is not taken.
    The lock guards the texts, because tools print on any thread.

    Attributes:
        function: The call whose function occupies the cell's thread.
        changed: Called on any thread when a text has changed.
    """

    def __init__(self) -> None:
        self.function: str | None = None
        self.changed: Callable[[], None] = lambda: None
        self._calls: dict[str, _CallText] = {}
        self._lock = RLock()  # the garbage collector may run code that prints
        self._is_open = False
        self._process = os.getpid()
        self._restores: list[Callable[[], None]] = []  # give each stream its own `write` back

    def open(self) -> None:
        """Start to take the text of calls."""
        self._is_open = True
        for stream in (sys.stdout, sys.stderr):
            # Another stream, such as that of `redirect_stdout`, is the user's own.
            if hasattr(stream, "pub_thread"):
                self._take_from(stream)

    def close(self) -> None:
        """Stop taking text. Later text of the calls is printed as that of the cell."""
        with self._lock:
            self._is_open = False
        for restore in reversed(self._restores):
            restore()
        self._restores.clear()

    def begin(self, call_id: str) -> None:
        """Take the text of this call from now on."""
        with self._lock:
            self._calls.setdefault(call_id, _CallText())

    def end(self, call_id: str) -> str | None:
        """Stop taking the text of this call, and return all of it; None if it has not changed."""
        with self._lock:
            return _take(self._calls.pop(call_id, None))

    def take(self) -> dict[str, str]:
        """Return the whole texts that have changed since the last time."""
        with self._lock:
            taken = {call_id: _take(call) for call_id, call in self._calls.items()}
        return {call_id: text for call_id, text in taken.items() if text is not None}

    def clear(self, *, wait: bool) -> None:
        """Remove the text of the current call; with `wait`, when it prints again."""
        call_id = self._get_current_call()
        with self._lock:
            call = self._calls.get(call_id)
            if call is None:
                return

            if wait:
                call.clears_next = True
            else:
                call.text = BoundedText()
                call.is_new = True

        self.changed()

    def _take_from(self, stream: Any) -> None:
        """Replace `write` of a stream until `close`."""
        outer: Callable[[str], int | None] = stream.write
        replaced = stream.__dict__.get("write")

        def write(text: str) -> int | None:
            if isinstance(text, str) and self._add(text):
                return len(text)
            return outer(text)

        def restore() -> None:
            # Code of the user may have replaced the method meanwhile.
            if stream.__dict__.get("write") is not write:
                return
            if replaced is None:
                del stream.write
            else:
                stream.write = replaced

        stream.write = write
        self._restores.append(restore)

    def _add(self, text: str) -> bool:
        """Add text to the call that prints it; return False if no open call does."""
        call_id = self._get_current_call()
        if not call_id:
            return False

        with self._lock:
            call = self._calls.get(call_id)
            if call is None or not self._is_open:
                return False

            if call.clears_next:
                call.text = BoundedText()
                call.clears_next = False

            call.text.add(text)
            was_new = call.is_new
            call.is_new = True

        if not was_new:
            self.changed()

        return True

    def _get_current_call(self) -> str:
        """Return the id of the call whose code runs in this thread; "" if its text is not taken.

        That is so for the function on the cell's thread, and for text of jp_nb itself (`is_ours`).
        It is also so in a forked process, which has a copy of the texts that no front end shows.
        """
        run = CURRENT_RUN.get()
        if run is None or run.call_id == self.function:
            return ""
        if is_ours() or os.getpid() != self._process:
            return ""

        return run.call_id


def _take(call: _CallText | None) -> str | None:
    """Return the whole text of a call if it has changed since the last time."""
    if call is None or not call.is_new:
        return None
    call.is_new = False
    return str(call.text)
