"""Shows a turn in its cell: live while somebody watches, once and for all when it is done.

Events come from the agent's thread; what is published is published by the cell's. While a tool's
function has that one, the agent's keeps the display moving.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from threading import RLock
from time import monotonic
from typing import Any, Protocol
from uuid import uuid4

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
from jp_nb.notebook.running_cells import RunningCells
from jp_nb.notebook.tool_output import Send, ToolOutput
from jp_nb.rendering.transcript import Transcript
from jp_nb.rendering.waiting import Waiting
from jp_nb.rendering.wording import StaticRecord
from jp_nb.safe_text import one_line
from jp_nb.session.cell_loop import CellLoop, Timer

CHARS_PER_INTERVAL = 20_000
"""Longer parts are updated less often: each update sends the whole of one."""

PATIENCE = 0.2
"""Seconds until it is shown what is waited for: most of it has come by then."""

TICK = 1.0
"""Seconds between two updates that only say how long something is waited for."""


class Publish(Protocol):
    """Shows a MIME bundle in the cell.

    `update`: in place of what was shown before. `final`: it will not be updated again.
    """

    def __call__(self, bundle: dict[str, Any], *, update: bool, final: bool) -> None:
        """Show it."""
        ...


@dataclass(slots=True)
class _PartOutput:
    """The output of one part of the turn.

    Attributes:
        above: What tools have shown above it and nobody has seen yet.
        shown: What it shows; None if it was not published yet.
    """

    publish: Publish
    above: list[Send] = field(default_factory=list)
    shown: dict[str, Any] | None = None

    def show(self, bundle: dict[str, Any], *, final: bool = False) -> None:
        if final or bundle != self.shown:
            self.publish(bundle, update=self.shown is not None, final=final)
            self.shown = bundle

    def release(self) -> None:
        """Send what was held back."""
        above, self.above = self.above, []
        for send in above:
            send()


@dataclass(frozen=True, slots=True)
class _Cut:
    """Another part begins: tools of the batch that is over have shown something."""

    held: list[Send]


class TurnDisplay:
    """The outputs of a turn. Calling it takes an event; implements `Display`.

    There is one output, and one more behind each tool that has shown something itself: what a
    function on the cell's thread shows stands below its line, what other tools show below those
    of their batch.

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
        self._new_output = new_output
        self._elsewhere = elsewhere
        self._tools = tools
        self._interval = interval
        self._live = live
        self._lock = RLock()
        self._waiting = Waiting(monotonic())
        self._events: deque[DisplayEvent | _Cut] = deque()
        self._open_calls: set[str] = set()
        self._batch_over = False
        self._scheduled: float | None = None
        self._outputs = [_PartOutput(new_output())]
        self._settled = 0  # so many of them were shown as they will stay
        self._function: FunctionBegins | None = None
        self._ticks_elsewhere = False
        self._done = False
        self._updated = self._next = self._spacing = 0.0
        self._timer: Timer | None = None
        self._ticker: Timer | None = None
        self._so_far: Callable[[dict[str, str]], None] | None = None
        self._note: str | None = None

    def begin(self) -> None:
        """The turn begins; on the cell's thread."""
        if self._tools is not None:
            self._tools.open()
        if self._live:
            self._schedule(PATIENCE)

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
        if not self._live:
            return
        if isinstance(event, InterruptHeard):
            self._cell.post(self._update)  # a menu is about to take the output
            if self._function is not None:
                self._elsewhere(self._update_elsewhere)
        elif isinstance(event, ToolBegins):
            self._schedule(0.0, at_once=True)
        elif isinstance(event, Passing):
            self._schedule(PATIENCE)
        else:
            self._schedule(0.0)

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

    # --- when to update ----------------------------------------------------------------------

    def _schedule(self, patience: float, *, at_once: bool = False) -> None:
        """Update within `patience`, but not too soon after the last one; from any thread.

        `at_once`: a tool may take this thread, so its line comes one interval early.
        """
        due = monotonic() + patience
        if self._scheduled is not None and self._scheduled <= due and not at_once:
            return
        self._scheduled = due
        self._cell.post(lambda: self._update_at(due, at_once=at_once))

    def _update_at(self, due: float, *, at_once: bool) -> None:
        soonest = self._next - (self._spacing if at_once else 0.0)
        wait = max(due, soonest) - monotonic()
        if self._timer is not None:
            self._timer.cancel()
        if wait > 0:
            self._timer = self._cell.call_later(wait, self._update)
        else:
            self._update()

    def _tick(self) -> None:
        """Say how long it has taken by now, unless that was just said; and again later."""
        self._ticker = None
        if monotonic() < max(self._updated + TICK, self._next):
            self._tick_later()
        elif not self._done:
            self._update()

    def _tick_later(self) -> None:
        if self._ticker is None and self._live and not self._done:
            due = max(self._updated + TICK, self._next)
            self._ticker = self._cell.call_later(max(0.0, due - monotonic()), self._tick)

    def _tick_elsewhere(self) -> None:
        """Update from the agent's loop, as long as the turn goes on: a function may have ours."""
        if self._done:
            return
        if monotonic() > max(self._updated + TICK / 2, self._next):
            self._update_elsewhere()
        asyncio.get_running_loop().call_later(TICK, self._tick_elsewhere)

    def _update_elsewhere(self) -> None:
        with self._lock:
            # A form belongs to the cell's thread, which serves while it is shown.
            if self._function is not None and self._so_far is None:
                self._update()

    # --- the update --------------------------------------------------------------------------

    def _update(self) -> None:
        with self._lock:
            self._scheduled = None
            if self._done:
                return
            self._fold()
            size = self._show_live()
            self._updated = monotonic()
            self._spacing = self._interval * (1 + size / CHARS_PER_INTERVAL)
            self._next = max(self._next, self._updated) + self._spacing
        self._tick_later()

    def _show_live(self) -> int:
        """Show all parts as they are; return how much was looked at for that."""
        last = len(self._outputs) - 1
        size = self._show_earlier()
        if self._so_far is not None:
            bundle = self._bundle_so_far()
            self._so_far(bundle)
            return size + len(bundle["text/markdown"])
        status = self._note or one_line(self._waiting.line(monotonic()))
        bundle = self._transcript.bundle(live=True, status=status)
        if bundle["text/markdown"] or self._outputs[last].shown is not None:
            self._outputs[last].show(dict(bundle))
        return size + len(bundle["text/markdown"])

    def _show_earlier(self) -> int:
        """Show the parts behind which another one has begun, those that may have changed.

        Returns how much was looked at for that.
        """
        size = 0
        for number in range(self._settled, len(self._outputs) - 1):
            if number == self._settled and self._transcript.is_final(number):
                self._settled += 1
            bundle = self._transcript.bundle(number, live=True)
            self._outputs[number].show(dict(bundle))
            size += len(bundle["text/markdown"])
        return size

    def _bundle_so_far(self) -> dict[str, str]:
        """What stands above a form, and how much else is to be decided."""
        behind = self._waiting.in_line - 1
        more = f"({behind} more to be decided by you after this)" if behind > 0 else ""
        bundle = self._transcript.bundle(live=True, status=more)
        text = "\n".join(filter(None, (bundle["text/plain"], more)))
        return {**bundle, "text/plain": text}

    def _fold(self) -> None:
        while self._events:
            event = self._events.popleft()
            if isinstance(event, _Cut):
                self._cut(event.held)
                continue
            if isinstance(event, DiscardText):
                self._settled = 0
            self._note = None
            self._waiting.apply(event, monotonic())
            self._transcript.apply((event,))

    def _cut(self, held: list[Send], call_id: str | None = None) -> None:
        """Begin another part, behind what tools have shown."""
        if self._transcript.cut(call_id):
            self._outputs.append(_PartOutput(self._new_output()))
        self._outputs[-1].above += held

    # --- functions on the cell's thread ------------------------------------------------------

    def _function_begins(self, event: FunctionBegins) -> None:
        with self._undisturbed():
            self._function = event
            self._waiting.apply(event, monotonic())
            self._fold()
            if self._live and self._outputs[-1].shown is None:
                self._update()  # what it shows comes below this
            if self._tools is not None:
                self._tools.function_begins()
        if self._live and not self._ticks_elsewhere:
            self._ticks_elsewhere = True
            self._elsewhere(self._tick_elsewhere)

    def _function_ends(self, event: FunctionEnds) -> None:
        with self._undisturbed():
            self._function = None
            self._waiting.apply(event, monotonic())
            if self._tools is None or not self._tools.function_ends():
                return
            self._fold()
            self._cut(self._tools.take(of_function=True), event.call_id)
            if self._live:
                self._update()
            else:
                self._show_what_is_final()

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """A block on the cell's thread that no interrupt cuts and in which nobody else updates."""
        with self._cell.sheltered(), self._lock:
            yield

    def _show_what_is_final(self) -> None:
        """Show, with nobody there, the first parts that cannot change any more."""
        for number, output in enumerate(self._outputs):
            output.release()
            if not self._transcript.is_final(number):
                return
            if output.shown is None:
                output.show(dict(self._transcript.bundle(number)), final=True)

    def finish(self) -> None:
        """Replace whatever was shown by static outputs, which have nothing volatile in them."""
        with self._lock:
            self._done = True
            for timer in (self._timer, self._ticker):
                if timer is not None:
                    timer.cancel()
            self._fold()
            if self._tools is not None:
                self._tools.close()
                left = [self._tools.take(of_function=it_is) for it_is in (True, False)]
                if any(left):
                    self._cut([*left[0], *left[1]])
            numbers = range(len(self._outputs))
            # Live from the last to the first: a page that was loaded again finds a part that it
            # has never seen by the ones before it, as long as those are not final.
            for number in reversed(numbers) if self._live else numbers:
                self._finish(number)

    def _finish(self, number: int) -> None:
        output = self._outputs[number]
        output.release()
        if self._live or output.shown is None:
            bundle = self._transcript.bundle(number)
            if any(bundle.values()) or output.shown is not None:
                output.show(dict(bundle), final=True)

    # --- a form in the same place: implements `prompt.form_place.FormPlace` -----------------------

    def show(self, bundle: dict[str, Any], so_far: Callable[[dict[str, str]], None]) -> None:
        """Give the output to a form; `so_far` takes what was shown, as it was shown."""
        with self._lock:
            self._fold()
            if self._tools is not None and self._tools.function_has_shown():
                self._cut([])  # the form comes below that
            self._so_far = so_far
            shown = self._bundle_so_far()
            so_far(shown)
            plain = "\n".join(filter(None, (shown["text/plain"], bundle["text/plain"])))
            self._show_earlier()
            self._outputs[-1].show({**bundle, "text/plain": plain})

    def end(self, note: str | None, record: StaticRecord | None) -> None:
        """Take the output back. What was answered is in the transcript."""
        with self._lock:
            self._so_far = None
            if not self._done:
                self._note = note
                self._update()

    def catch_up(self) -> None:
        """Show what has come so far: a question on stdin is about to keep this thread."""
        if self._live:
            self._update()


class DisplayPublisher:
    """Publishes the parts of one turn through IPython's display publisher.

    Each has a display id. While the turn runs the metadata have it too: a page finds by it the
    output to go on with. A `kernel` keeps what is shown for pages that are loaded again while its
    cell runs. Made on the cell's thread.
    """

    def __init__(
        self, publish: Callable[..., None], tools: ToolOutput | None = None, kernel: Any = None
    ) -> None:
        self._publish = publish
        self._tools = tools
        self._turn = f"jp-nb-{uuid4().hex}"
        self._parts = 0
        self._cells = RunningCells.of(kernel)
        self._request = kernel.get_parent("shell") if self._cells is not None else {}

    def __call__(self) -> Publish:
        """Return what publishes the next part."""
        display_id = f"{self._turn}-{self._parts}"
        self._parts += 1

        def show(bundle: dict[str, Any], *, update: bool, final: bool) -> None:
            metadata = {} if final else {"jp_nb": {"display_id": display_id}}
            transient = {"display_id": display_id}
            if self._cells is not None:
                self._cells.shows(self._request, display_id, bundle, metadata)
            with self._tools.ours() if self._tools is not None else nullcontext():
                self._publish(data=bundle, metadata=metadata, transient=transient, update=update)

        return show
