"""Sees what tools show in the running cell: prints, displays, figures.

What a cell shows leaves the kernel through one method, from whichever thread it comes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import Any, Literal

from jp_nb.notebook.figures import open_figures, show_figures
from jp_nb.notebook.outbox import INTERVAL_S, KINDS, Outbox
from jp_nb.notebook.output_capture import is_ours
from jp_nb.notebook.printed_text import flush_streams
from jp_nb.notebook.published import Published

Send = Callable[[], Any]
Clears = Literal["now", "next"] | None


class ToolOutput:
    """Watches whether tools show anything; with `hold`, keeps it for later.

    A function on the cell's thread is told from other tools. `publish` of others is theirs, what
    is published in `output_capture.ours` is not.

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
