"""Outputs of a turn, updated at most once each interval.

Events come from the agent's thread, and the cell's thread publishes. While a function of a tool
uses the cell's thread, the agent's thread publishes instead.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from threading import RLock
from time import monotonic
from typing import Any, Protocol
from uuid import uuid4

from jp_nb.agent.display import (
    DiscardText,
    DisplayEvent,
    FunctionBegins,
    FunctionEnds,
    InterruptReceived,
    ShowText,
    ToolBegins,
    ToolEnds,
    TransientEvent,
    UserMessage,
)
from jp_nb.images import Image
from jp_nb.notebook.cells import RunningCells
from jp_nb.notebook.display.capture import Send, ToolOutput, ours
from jp_nb.rendering.prompts import PromptSummary
from jp_nb.rendering.status import Waiting
from jp_nb.rendering.turn import Transcript
from jp_nb.session.cell_loop import CellLoop, Timer
from jp_nb.text import one_line

CHARS_PER_INTERVAL = 20_000
"""Longer parts are updated less often: each update sends the whole of one."""

TICK = 1.0
"""Seconds between two updates that only say how long something is waited for."""


class UpdateClock:
    """Has a display updated soon after something came, not too often, and while nothing comes.

    Args:
        cell: The cell's thread.
        update: Updates the display, and calls `begins` and `updated`.
        elsewhere: Has a job run on the agent's loop.
        update_elsewhere: Updates it from there, if the cell's thread does something else.
        interval: Shortest time between two updates, in seconds.
        ticks: Whether it is updated while nothing comes.

    Attributes:
        soonest: When it may be updated next.
    """

    def __init__(
        self,
        cell: CellLoop,
        update: Callable[[], None],
        *,
        elsewhere: Callable[[Callable[[], None]], None],
        update_elsewhere: Callable[[], None],
        interval: float,
        ticks: bool,
    ) -> None:
        self._cell = cell
        self._update = update
        self._elsewhere = elsewhere
        self._update_elsewhere = update_elsewhere
        self._interval = interval
        self._ticks = ticks
        self._ticks_elsewhere = False
        self._scheduled: float | None = None
        self._comes_early = False
        self._updated = self.soonest = self._spacing = 0.0
        self._timer: Timer | None = None
        self._ticker: Timer | None = None

    def schedule(self, patience: float, *, at_once: bool = False) -> None:
        """Update within `patience`, but not too soon after the last one; from any thread.

        `at_once`: a tool may take this thread, so its line comes one interval early.
        """
        due = monotonic() + patience
        if at_once and self._comes_early:
            return
        if self._scheduled is not None and self._scheduled <= due and not at_once:
            return
        self._scheduled, self._comes_early = due, self._comes_early or at_once
        self._cell.post(lambda: self._update_at(due, at_once=at_once))

    def _update_at(self, due: float, *, at_once: bool) -> None:
        wait = max(due, self.soonest - (self._spacing if at_once else 0.0)) - monotonic()
        if self._timer is not None:
            self._timer.cancel()
        if wait > 0:
            self._timer = self._cell.call_later(wait, self._update)
        else:
            self._update()

    def begins(self) -> None:
        """Note that an update begins: what comes from now on needs another one."""
        self._scheduled, self._comes_early = None, False

    def updated(self, size: int) -> None:
        """Note that an update is done, for which `size` characters were looked at."""
        self._updated = monotonic()
        self._spacing = self._interval * (1 + size / CHARS_PER_INTERVAL)
        self.soonest = max(self.soonest, self._updated) + self._spacing
        self._tick_later()

    def _tick(self) -> None:
        """Say how long it has taken by now, unless that was just said; and again later."""
        self._ticker = None
        if monotonic() < max(self._updated + TICK, self.soonest):
            self._tick_later()
        else:
            self._update()

    def _tick_later(self) -> None:
        if self._ticks and self._ticker is None:
            due = max(self._updated + TICK, self.soonest)
            self._ticker = self._cell.call_later(max(0.0, due - monotonic()), self._tick)

    def tick_elsewhere(self) -> None:
        """Update from the agent's loop, too, from now on: a function has the cell's thread."""
        if self._ticks and not self._ticks_elsewhere:
            self._ticks_elsewhere = True
            self._elsewhere(self._tick_elsewhere)

    def _tick_elsewhere(self) -> None:
        if not self._ticks:
            return
        if monotonic() > max(self._updated + TICK / 2, self.soonest):
            self._update_elsewhere()
        asyncio.get_running_loop().call_later(TICK, self._tick_elsewhere)

    def stop(self) -> None:
        """Update no more."""
        self._ticks = False
        for timer in (self._timer, self._ticker):
            if timer is not None:
                timer.cancel()


class Publish(Protocol):
    """Shows a MIME bundle in the cell.

    `update`: in place of what was shown before. `final`: it will not be updated again.
    """

    def __call__(self, bundle: dict[str, Any], *, update: bool, final: bool) -> None:
        """Show it."""
        ...


class DisplayPublisher:
    """Publishes the parts of one turn through IPython's display publisher.

    Each has a display id. While the turn runs the metadata have it too: a page finds by it the
    output to go on with. A `kernel` keeps what is shown for pages that are loaded again while its
    cell runs. What is shown `of_turn` is no tool's. Made on the cell's thread.
    """

    def __init__(
        self, publish: Callable[..., None], kernel: Any = None, *, of_turn: bool = False
    ) -> None:
        self._publish = publish
        self._around = ours if of_turn else nullcontext
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
                self._cells.set_output(self._request, display_id, bundle, metadata)
            with self._around():
                self._publish(data=bundle, metadata=metadata, transient=transient, update=update)

        return show


ShowAbove = Callable[[dict[str, str]], None]
"""Shows a bundle above a form."""


@dataclass(slots=True)
class _PartOutput:
    """The output of one part of the turn.

    Attributes:
        above: What tools have shown above it and nobody has seen yet.
        pictures: Images of results, below that, each in an output of its own.
        shown: What it shows; None if it was not published yet.
        show_above_form: While a form has the output, takes what the part would show.
    """

    publish: Publish
    above: list[Send] = field(default_factory=list)
    shown: dict[str, Any] | None = None
    pictures: list[tuple[_PartOutput, dict[str, Any]]] = field(default_factory=list)
    show_above_form: ShowAbove | None = None

    def show(self, bundle: dict[str, Any], *, final: bool = False) -> None:
        if final or bundle != self.shown:
            self.publish(bundle, update=self.shown is not None, final=final)
            self.shown = bundle

    def release(self, *, final: bool = False) -> None:
        """Send what was held back, and then the images."""
        above, self.above = self.above, []
        for send in above:
            send()
        for picture, bundle in self.pictures:
            if picture.shown is not bundle:
                picture.show(bundle, final=final)


class TurnOutputs:
    """Shows each part of a transcript in an output of its own.

    A form has the output of one part from `show_form` to `end_form`. Nothing else is shown in that
    output meanwhile, and what comes later is shown below it.

    Args:
        transcript: Has the parts.
        new_output: Makes what publishes one output.
    """

    def __init__(self, transcript: Transcript, new_output: Callable[[], Publish]) -> None:
        self._transcript = transcript
        self._new_output = new_output
        self._parts = [_PartOutput(new_output())]
        self._settled = 0  # so many of them were shown as they will stay

    @property
    def last_is_shown(self) -> bool:
        """True if something stands where the next text goes."""
        return self._parts[-1].shown is not None

    @property
    def has_form(self) -> bool:
        """True while a form has one of the outputs."""
        return any(part.show_above_form for part in self._parts)

    def cut(
        self, held: list[Send], call_id: str | None = None, pictures: Iterable[dict[str, Any]] = ()
    ) -> None:
        """Begin another part, behind what tools have shown and was `held` back, and `pictures`.

        It begins behind the line of `call_id`; or behind a form, with all that is above it: the
        buttons stay where the user is about to click.
        """
        behind_form = self._parts[-1].show_above_form is not None
        if self._transcript.cut(None if behind_form else call_id, always=behind_form):
            self._parts.append(_PartOutput(self._new_output()))
        part = self._parts[-1]
        part.above += held
        for bundle in pictures:  # in the place of this part, which is empty yet and moves down
            part.pictures.append((_PartOutput(part.publish, shown=part.shown), bundle))
            part.publish, part.shown = self._new_output(), None

    def look_at_all(self) -> None:
        """Show every part again: what was settled may have changed."""
        self._settled = 0

    # --- a form ------------------------------------------------------------------------------

    def show_form(self, bundle: dict[str, Any], show_above: ShowAbove, *, more: str) -> None:
        """Give the last output to a form, below all that was shown.

        Args:
            bundle: The form.
            show_above: Shows above the form what the output would show.
            more: A line for that, about other decisions.
        """
        self.show_earlier()
        part = self._parts[-1]
        part.show_above_form = show_above
        above = self._above_form(-1, more)
        show_above(above)
        plain = "\n".join(filter(None, (above["text/plain"], bundle["text/plain"])))
        part.show({**bundle, "text/plain": plain})

    def end_form(self) -> None:
        """Take the output of the form back; the next update shows the part in it."""
        for part in self._parts:
            part.show_above_form = None

    def _above_form(self, number: int, more: str) -> dict[str, str]:
        bundle = self._transcript.bundle(number, live=True, status=more)
        plain = "\n".join(filter(None, (bundle["text/plain"], more)))
        return {**bundle, "text/plain": plain}

    # --- while the turn runs -----------------------------------------------------------------

    def show_earlier(self, *, more: str = "", status: str | None = None) -> int:
        """Show the parts behind which another one has begun, those that may have changed.

        Args:
            more: A line above a form, about other decisions.
            status: A last line of the part before the last one, while that may change.

        Returns how much was looked at for that.
        """
        size = 0
        for number in range(self._settled, len(self._parts) - 1):
            part = self._parts[number]
            part.release()
            if part.show_above_form is not None:
                size += self._show_above_form(number, part.show_above_form, more)
                continue
            settles = number == self._settled and self._transcript.is_final(number)
            self._settled += settles
            below = status if number == len(self._parts) - 2 and not settles else None
            bundle = self._transcript.bundle(number, live=True, status=below)
            part.show(dict(bundle))
            size += len(bundle["text/markdown"])
        self._parts[-1].release()
        return size

    def show_all(self, *, status: str, more: str, tools_run: bool) -> int:
        """Show every part as it is now.

        Args:
            status: A last line, while nothing is asked.
            more: A line above a form, about other decisions.
            tools_run: What tools show next comes below what is shown now.

        Returns how much was looked at for that.
        """
        last = self._parts[-1]
        if last.show_above_form is not None:
            return self.show_earlier() + self._show_above_form(-1, last.show_above_form, more)
        if tools_run and last.shown is None and self._transcript.is_empty(-1):
            return self.show_earlier(more=more, status=status)
        size = self.show_earlier(more=more)
        bundle = self._transcript.bundle(live=True, status=status)
        if bundle["text/markdown"] or last.shown is not None:
            last.show(dict(bundle))
        return size + len(bundle["text/markdown"])

    def _show_above_form(self, number: int, show_above: ShowAbove, more: str) -> int:
        bundle = self._above_form(number, more)
        show_above(bundle)
        return len(bundle["text/markdown"])

    def show_again(self) -> None:
        """Show anew, in order, what is shown: a tool has cleared the outputs of the cell."""
        for output in self._outputs():
            if output.shown is not None:
                output.publish(output.shown, update=False, final=False)

    def _outputs(self) -> Iterator[_PartOutput]:
        for part in self._parts:
            yield from (picture for picture, _ in part.pictures)
            yield part

    # --- when it is done ---------------------------------------------------------------------

    def show_final(self) -> None:
        """Show, with nobody there, the first parts that cannot change any more."""
        for number, part in enumerate(self._parts):
            part.release(final=True)
            if not self._transcript.is_final(number):
                return
            if part.shown is None:
                part.show(dict(self._transcript.bundle(number)), final=True)

    def finish(self, *, live: bool) -> None:
        """Replace whatever was shown by static outputs, which have nothing volatile in them."""
        self.end_form()
        if live:
            # In their order, what nobody has seen yet; a page that was loaded again takes up no
            # output that is final when it is first shown.
            self.show_earlier()
            bundle = self._transcript.bundle(live=True)
            if not self.last_is_shown and any(bundle.values()):
                self._parts[-1].show(dict(bundle))
        numbers = range(len(self._parts))
        # Live from the last to the first: a page that was loaded again finds a part that it has
        # never seen by the ones before it, as long as those are not final.
        for number in reversed(numbers) if live else numbers:
            part = self._parts[number]
            if not live:
                part.release(final=True)
            if live or part.shown is None:
                bundle = self._transcript.bundle(number)
                if any(bundle.values()) or part.shown is not None:
                    part.show(dict(bundle), final=True)
            for picture, bundle in reversed(part.pictures) if live else ():
                picture.show(bundle, final=True)


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
            case ToolBegins() | ToolEnds() | ShowText() | UserMessage():
                self._follow_batch(event)
        self._events.append(event)
        if isinstance(event, ToolEnds):
            self._take_pictures(event)
        if not self._live:
            return
        if isinstance(event, InterruptReceived):
            self._cell.post(self._update)  # a menu is about to take the output
            if self._function is not None:
                self._elsewhere(self._update_elsewhere)
        elif isinstance(event, ToolBegins):
            self._clock.schedule(0.0, at_once=True)
        elif isinstance(event, TransientEvent):
            self._clock.schedule(PATIENCE)
        else:
            self._clock.schedule(0.0)

    def _follow_batch(self, event: ToolBegins | ToolEnds | ShowText | UserMessage) -> None:
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
        with self._cell.defer_interrupts(), self._lock:
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

    # --- a form in the same place: implements `prompt.output.FormOutput` -----------------------

    def show(self, bundle: dict[str, Any], so_far: Callable[[dict[str, str]], None]) -> None:
        """Give an output to a form; `so_far` takes what was shown, as it was shown."""
        with self._lock:
            self._fold()
            if self._tools is not None and self._tools.function_has_shown():
                self._outputs.cut([])  # the form comes below that
            self._outputs.show_form(bundle, so_far, more=self._decisions_behind_form())
            self._send_now()

    def end(self, note: str | None, record: PromptSummary | None) -> None:
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
