"""Shows a turn in its cell: live while somebody watches, once and for all when it is done.

Events come from the agent's thread; everything that is published is published by the cell's.

Source: `design/interface.md` section 3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol
from uuid import uuid4

from jp_nb.agent.ports import DisplayEvent, Notice, ToolBegins
from jp_nb.notebook.cell_loop import CellLoop, Timer
from jp_nb.notebook.prompt.wording import StaticRecord
from jp_nb.notebook.transcript import Transcript

CHARS_PER_INTERVAL = 20_000
"""Longer transcripts are updated less often: each update sends the whole of it."""


class Publish(Protocol):
    """Shows a MIME bundle in the cell.

    `update`: in place of what was shown before. `final`: it will not be updated again.
    """

    def __call__(self, bundle: dict[str, Any], *, update: bool, final: bool) -> None:
        """Show it."""
        ...


class TurnDisplay:
    """The one output of a turn. Calling it takes an event; implements `ports.Display`.

    Args:
        transcript: Folds the events.
        cell: The cell's thread.
        publish: Shows a bundle in the cell.
        interval: Shortest time between two updates, in seconds.
        live: Whether anything is shown before the turn is done.
    """

    def __init__(
        self,
        transcript: Transcript,
        cell: CellLoop,
        publish: Publish,
        *,
        interval: float = 0.1,
        live: bool = True,
    ) -> None:
        self._transcript = transcript
        self._cell = cell
        self._publish = publish
        self._interval = interval
        self._live = live
        self._events: deque[DisplayEvent] = deque()
        self._scheduled = False
        self._shown = False
        self._done = False
        self._status: str | None = None
        self._next = self._spacing = 0.0
        self._timer: Timer | None = None
        self._so_far: Callable[[str], None] | None = None
        self._note: str | None = None

    def __call__(self, event: DisplayEvent) -> None:
        """Take `event`; from the agent's thread, and cheap: most events only join a queue."""
        self._events.append(event)
        urgent = isinstance(event, ToolBegins)
        if self._live and (urgent or not self._scheduled):
            self._scheduled = True
            self._cell.post(self._due_at_once if urgent else self._due)

    # --- the cell's thread -------------------------------------------------------------------

    def _due(self) -> None:
        self._update_in(self._next - monotonic())

    def _due_at_once(self) -> None:
        """A tool begins: it may keep this thread, so its line comes one interval early."""
        self._update_in(self._next - self._spacing - monotonic())

    def _update_in(self, wait: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if wait > 0:
            self._timer = self._cell.call_later(wait, self._update)
        else:
            self._update()

    def _update(self) -> None:
        self._scheduled = False
        if self._done:
            return
        self._fold()
        size = 0
        if self._so_far is not None:
            self._so_far(self._transcript.plain_text())
        else:
            bundle = self._transcript.bundle(live=True, status=self._status or self._note)
            size = len(bundle["text/markdown"])
            if size or self._shown:
                self._show(dict(bundle))
        if size or self._so_far is not None:
            self._spacing = self._interval * (1 + size / CHARS_PER_INTERVAL)
            self._next = max(self._next, monotonic()) + self._spacing

    def _fold(self) -> None:
        while self._events:
            event = self._events.popleft()
            self._status = self._note = None
            if isinstance(event, Notice) and event.transient:
                self._status = event.text
            self._transcript.apply((event,))

    def _show(self, bundle: dict[str, Any], *, final: bool = False) -> None:
        self._publish(bundle, update=self._shown, final=final)
        self._shown = True

    def finish(self) -> None:
        """Replace whatever was shown by the static output, which has nothing volatile in it."""
        self._done = True
        if self._timer is not None:
            self._timer.cancel()
        self._fold()
        bundle = self._transcript.bundle()
        if bundle["text/plain"] or bundle["text/markdown"] or self._shown:
            self._show(dict(bundle), final=True)

    # --- a form in the same place: implements `prompt.form.Place` --------------------------------

    def show(self, bundle: dict[str, Any], so_far: Callable[[str], None]) -> None:
        """Give the output to a form; `so_far` takes the transcript, as plain text."""
        self._fold()
        self._so_far = so_far
        text = self._transcript.plain_text()
        so_far(text)
        self._show({**bundle, "text/plain": "\n".join(filter(None, (text, bundle["text/plain"])))})

    def end(self, note: str | None, record: StaticRecord | None) -> None:
        """Take the output back. What was answered is in the transcript."""
        self._so_far = None
        if not self._done:
            self._note = note
            self._update()


def display_publisher(publish: Callable[..., None]) -> Publish:
    """Publishes bundles under one display id, through IPython's display publisher.

    While a turn runs the id is in the metadata too: a page that is loaded again finds by it the
    output to go on with.
    """
    display_id = f"jp-nb-{uuid4().hex}"

    def show(bundle: dict[str, Any], *, update: bool, final: bool) -> None:
        metadata = {} if final else {"jp_nb": {"display_id": display_id}}
        transient = {"display_id": display_id}
        publish(data=bundle, metadata=metadata, transient=transient, update=update)

    return show
