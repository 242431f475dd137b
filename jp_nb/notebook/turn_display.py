"""Shows a turn in its cell: live while somebody watches, once and for all when it is done.

Events come from the agent's thread; what is published is published by the cell's. While a tool's
function has that one, the agent's keeps the display moving.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from time import monotonic
from typing import Any

from jp_nb.agent.display_events import (
    DiscardText,
    DisplayEvent,
    FunctionBegins,
    FunctionEnds,
    InterruptHeard,
    Passing,
    PersonSays,
    ShowText,
    ToolBegins,
    ToolEnds,
)
from jp_nb.image import Image
from jp_nb.notebook.display_publisher import Publish
from jp_nb.notebook.tool_output import Send, ToolOutput
from jp_nb.notebook.turn_outputs import TurnOutputs
from jp_nb.notebook.update_clock import UpdateClock
from jp_nb.rendering.transcript import Transcript
from jp_nb.rendering.waiting import Waiting
from jp_nb.rendering.wording import StaticRecord
from jp_nb.safe_text import one_line
from jp_nb.session.cell_loop import CellLoop

PATIENCE = 0.2
"""Seconds until it is shown what is waited for: most of it has come by then."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """Another part begins: tools of the batch that is over have shown something.

    Attributes:
        held: What they have shown themselves.
        pictures: The images of their results.
    """

    held: list[Send] = field(default_factory=list)
    pictures: list[Image] = field(default_factory=list)


class TurnDisplay:
    """The outputs of a turn. Calling it takes an event; implements `Display`.

    There is one output, and one more behind each tool that has shown something itself: what a
    function on the cell's thread shows stands below its line, what other tools show below those
    of their batch, and so do the images of results, but for those of a function that has shown a
    picture itself.

    Args:
        transcript: Folds the events.
        cell: The cell's thread.
        new_output: Makes what publishes one output.
        elsewhere: Has a job run on the agent's loop.
        tools: Sees what tools show; None if nothing does.
        interval: Shortest time between two updates, in seconds.
        live: Whether anything is shown before the turn is done.
    """

    def __init__(
        self,
        transcript: Transcript,
        cell: CellLoop,
        new_output: Callable[[], Publish],
        *,
        elsewhere: Callable[[Callable[[], None]], None] = lambda job: None,
        tools: ToolOutput | None = None,
        interval: float = 0.1,
        live: bool = True,
    ) -> None:
        self._transcript = transcript
        self._cell = cell
        self._elsewhere = elsewhere
        self._tools = tools
        self._live = live
        self._lock = RLock()
        self._waiting = Waiting(monotonic())
        self._events: deque[DisplayEvent | _Cut] = deque()
        self._open_calls: set[str] = set()
        self._batch_over = False
        self._pictures: list[Image] = []
        self._have_pictured: set[str] = set()
        self._outputs = TurnOutputs(transcript, new_output)
        self._function: FunctionBegins | None = None
        self._done = False
        self._note: str | None = None
        self._clock = UpdateClock(
            cell,
            self._update,
            elsewhere=elsewhere,
            update_elsewhere=self._update_elsewhere,
            interval=interval,
            ticks=live,
        )

    def begin(self) -> None:
        """Begin to show the turn; on the cell's thread."""
        if self._tools is not None:
            self._tools.cleared = self._show_again
            self._tools.open()
        if self._live:
            self._clock.schedule(PATIENCE)

    def __call__(self, event: DisplayEvent) -> None:
        """Take `event`; cheap: most events only join a queue."""
        match event:
            case FunctionBegins():
                return self._function_begins(event)
            case FunctionEnds():
                return self._function_ends(event)
            case ToolBegins() | ToolEnds() | ShowText() | PersonSays():
                self._follow_batch(event)
        self._events.append(event)
        if isinstance(event, ToolEnds):
            self._take_pictures(event)
        if not self._live:
            return
        if isinstance(event, InterruptHeard):
            self._cell.post(self._update)  # a menu is about to take the output
            if self._function is not None:
                self._elsewhere(self._update_elsewhere)
        elif isinstance(event, ToolBegins):
            self._clock.schedule(0.0, at_once=True)
        elif isinstance(event, Passing):
            self._clock.schedule(PATIENCE)
        else:
            self._clock.schedule(0.0)

    def _follow_batch(self, event: ToolBegins | ToolEnds | ShowText | PersonSays) -> None:
        """Begin another part behind a batch of tools that have shown something."""
        if isinstance(event, ToolEnds):
            self._open_calls.discard(event.call_id)
            self._batch_over = not self._open_calls
            return
        tools = self._tools
        if self._batch_over:
            self._batch_over = False
            if tools is not None:
                if tools.others_have_shown():
                    self._events.append(_Cut(tools.take(of_function=False)))
                tools.watches = False
        if isinstance(event, ToolBegins):
            self._open_calls.add(event.call_id)
            if tools is not None:
                tools.watches = True

    def _take_pictures(self, event: ToolEnds) -> None:
        """Show the images of the batch's results, once it is over."""
        if event.call_id not in self._have_pictured and self._transcript.shows(event):
            self._pictures += event.images
        self._have_pictured.discard(event.call_id)
        if self._batch_over and self._pictures:
            self._events.append(_Cut(pictures=self._pictures))
            self._pictures = []

    # --- the update --------------------------------------------------------------------------

    def _update(self) -> None:
        with self._lock:
            if self._done:
                return
            self._clock.begins()
            self._fold()
            self._clock.updated(self._show_live())

    def _update_elsewhere(self) -> None:
        with self._lock:
            # The widgets of a form belong to the cell's thread.
            if self._function is not None and not self._outputs.has_form:
                self._update()

    def _show_again(self) -> None:
        """Put the turn back: a tool has cleared the cell, to show something in place of its own."""
        with self._lock:
            if not self._done:
                self._outputs.show_again()

    def _show_live(self) -> int:
        """Show all parts as they are; return how much was looked at for that."""
        return self._outputs.show_all(
            status=self._note or one_line(self._waiting.status(monotonic())),
            more=self._decisions_behind_form(),
            tools_run=bool(self._open_calls),
        )

    def _decisions_behind_form(self) -> str:
        """Return a line about the decisions that the user has to make later."""
        behind = self._waiting.in_line - 1
        if behind <= 0:
            return ""
        return f"{behind} more {'decision follows' if behind == 1 else 'decisions follow'}"

    def _fold(self) -> None:
        while self._events:
            event = self._events.popleft()
            if isinstance(event, _Cut):
                self._outputs.cut(event.held, pictures=map(_picture_bundle, event.pictures))
                continue
            if isinstance(event, DiscardText):
                self._outputs.look_at_all()
            self._note = None
            self._waiting.apply(event, monotonic())
            self._transcript.apply((event,))

    # --- functions on the cell's thread ------------------------------------------------------

    def _function_begins(self, event: FunctionBegins) -> None:
        with self._undisturbed():
            self._function = event
            self._waiting.apply(event, monotonic())
            self._fold()
            if self._live and not self._outputs.last_is_shown:
                self._update()  # what it shows comes below this
            if self._tools is not None:
                self._tools.function_begins()
        self._clock.tick_elsewhere()

    def _function_ends(self, event: FunctionEnds) -> None:
        with self._undisturbed():
            self._function = None
            self._waiting.apply(event, monotonic())
            if self._tools is None:
                return
            seen = self._tools.function_ends()
            if self._tools.function_has_pictured:
                self._have_pictured.add(event.call_id)
            if not seen:
                return
            self._fold()
            self._outputs.cut(self._tools.take(of_function=True), event.call_id)
            if self._live:
                self._update()
            else:
                self._outputs.show_final()

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """A block on the cell's thread that no interrupt cuts and in which nobody else updates."""
        with self._cell.sheltered(), self._lock:
            yield

    def finish(self) -> None:
        """Replace whatever was shown by static outputs, which have nothing volatile in them."""
        with self._lock:
            self._done = True
            self._clock.stop()
            if self._pictures:  # of a batch that was cut short
                self._events.append(_Cut(pictures=self._pictures))
            self._fold()
            if self._tools is not None:
                self._tools.close()
                left = [self._tools.take(of_function=it_is) for it_is in (True, False)]
                if any(left):
                    self._outputs.cut([*left[0], *left[1]])
            self._outputs.finish(live=self._live)

    # --- a form in the same place: implements `prompt.form_place.FormPlace` -----------------------

    def show(self, bundle: dict[str, Any], so_far: Callable[[dict[str, str]], None]) -> None:
        """Give an output to a form; `so_far` takes what was shown, as it was shown."""
        with self._lock:
            self._fold()
            if self._tools is not None and self._tools.function_has_shown():
                self._outputs.cut([])  # the form comes below that
            self._outputs.show_form(bundle, so_far, more=self._decisions_behind_form())
            self._send_now()

    def end(self, note: str | None, record: StaticRecord | None) -> None:
        """Take the output back. What was answered is in the transcript."""
        with self._lock:
            self._outputs.end_form()
            if not self._done:
                self._note = note
                self._update()
                self._send_now()

    def catch_up(self) -> None:
        """Show what has come so far: a question on stdin is about to keep this thread."""
        if self._live:
            self._update()
            self._send_now()

    def _send_now(self) -> None:
        """Send what waits for the next batch: the person waits for it."""
        if self._tools is not None:
            self._tools.send_now()


def _picture_bundle(image: Image) -> dict[str, Any]:
    return {image.media_type: image.text, "text/plain": f"[image: {image.words}]"}
