"""Display of a turn in a notebook: the outputs of its cell, updated at most once per interval.

`TurnDisplay.__call__` queues an event and schedules an update. `_update` adds the queued events to
the transcript. `TurnOutputs.show_all` selects the parts that may have changed, and
`_CellOutput.show` publishes those that have changed.

Events come from the agent's thread, and the cell's thread publishes. While a function of a tool
occupies the cell's thread, the agent's thread publishes instead.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from threading import RLock
from time import monotonic
from typing import Any, Protocol
from uuid import uuid4

from jp_nb.agent.display import (
    CodeAsks,
    DiscardText,
    DisplayEvent,
    FunctionBegins,
    FunctionEnds,
    InterruptReceived,
    ShowText,
    TokensSoFar,
    ToolBegins,
    ToolEnds,
    UserMessage,
    Waits,
)
from jp_nb.notebook.cells import RunningCells
from jp_nb.notebook.display.capture import SendOutput, ToolOutput, flush_streams, ours
from jp_nb.notebook.display.printed import PrintedTexts
from jp_nb.rendering.prompt_text import PromptSummary
from jp_nb.rendering.status import TurnCounts, Waiting
from jp_nb.rendering.transcript import Transcript, TranscriptPart
from jp_nb.session.cell_loop import CellLoop, Timer
from jp_nb.text import one_line

CHARS_PER_INTERVAL = 20_000
"""Longer parts are updated less often, because each update sends a part completely."""

TICK_S = 1.0
"""Time between two updates of the elapsed time in the status line."""


@dataclass(slots=True, eq=False)
class UpdateClock:
    """Timer of updates: soon after an event, limited in rate, and with `ticks` without events.

    `update` calls `begin_update` and `end_update`. `update_in_agent_loop` updates the display from
    the agent's event loop, while a function occupies the cell's thread.
    """

    cell: CellLoop
    update: Callable[[], None]
    _: KW_ONLY
    run_in_agent_loop: Callable[[Callable[[], None]], None]
    update_in_agent_loop: Callable[[], None]
    interval: float
    ticks: bool
    ticks_in_agent_loop: bool = False
    next_allowed: float = 0.0
    _scheduled: float | None = None
    _is_early: bool = False
    _updated: float = 0.0
    _spacing: float = 0.0
    _timer: Timer | None = None
    _ticker: Timer | None = None

    def schedule(self, delay: float, *, early: bool = False) -> None:
        """Schedule an update in `delay` seconds, or when the rate limit allows it. Thread-safe.

        With `early`, the limit allows it one interval earlier, so that the line of a tool is
        visible before the tool occupies the cell's thread.
        """
        due = monotonic() + delay
        if early:
            is_scheduled = self._is_early
        else:
            is_scheduled = self._scheduled is not None and self._scheduled <= due
        if is_scheduled:
            return

        self._scheduled = due
        self._is_early = self._is_early or early

        def update_at_due() -> None:
            allowed = self.next_allowed
            if early:
                allowed -= self._spacing
            wait = max(due, allowed) - monotonic()
            if self._timer is not None:
                self._timer.cancel()

            if wait > 0:
                self._timer = self.cell.call_later(wait, self.update)
            else:
                self.update()

        self.cell.post(update_at_due)

    def begin_update(self) -> None:
        """Note that an update begins. Later events need another update."""
        self._scheduled = None
        self._is_early = False

    def end_update(self, size: int) -> None:
        """Note that an update has ended, which rendered `size` characters."""
        self._updated = monotonic()
        self._spacing = self.interval * (1 + size / CHARS_PER_INTERVAL)
        self.next_allowed = max(self.next_allowed, self._updated) + self._spacing
        if self.ticks and self._ticker is None:
            self._tick()

    def _tick(self) -> None:
        wait = max(self._updated + TICK_S, self.next_allowed) - monotonic()
        if wait > 0:
            self._ticker = self.cell.call_later(wait, self._tick)
        else:
            self._ticker = None
            self.update()

    def start_ticks_in_agent_loop(self) -> None:
        """Update from the agent's loop as well, because a function occupies the cell's thread."""
        if self.ticks and not self.ticks_in_agent_loop:
            self.ticks_in_agent_loop = True
            self.run_in_agent_loop(self._tick_in_agent_loop)

    def _tick_in_agent_loop(self) -> None:
        if not self.ticks:
            return
        if monotonic() > max(self._updated + TICK_S / 2, self.next_allowed):
            self.update_in_agent_loop()
        asyncio.get_running_loop().call_later(TICK_S, self._tick_in_agent_loop)

    def stop(self) -> None:
        """Cancel all updates."""
        self.ticks = False
        for timer in (self._timer, self._ticker):
            if timer is not None:
                timer.cancel()


class Publish(Protocol):
    """Publisher of one output."""

    def __call__(self, bundle: dict[str, Any], *, update: bool, final: bool) -> None:
        """Show a MIME bundle in the cell; with `update`, in place of the previous one.

        With `final`, no update follows.
        """


class DisplayPublisher:
    """Factory of outputs in the running cell, `of_turn` or of a tool.

    Each output has a display id. Until the output is final, its metadata contain this id, so that
    a reloaded page finds the output. `RunningCells` keeps the output for such pages. `publish` is
    the method of IPython's publisher. Create the factory on the cell's thread.
    """

    def __init__(
        self, publish: Callable[..., None], kernel: Any = None, *, of_turn: bool = False
    ) -> None:
        self._publish = publish
        self._context = ours if of_turn else nullcontext
        self._prefix = f"jp-nb-{uuid4().hex}"
        self._count = 0
        self._cells = RunningCells.of(kernel)
        self._request = kernel.get_parent("shell") if self._cells is not None else {}

    def __call__(self) -> Publish:
        """Return the publisher of a new output."""
        display_id = f"{self._prefix}-{self._count}"
        self._count += 1

        def show(bundle: dict[str, Any], *, update: bool, final: bool) -> None:
            metadata = {} if final else {"jp_nb": {"display_id": display_id}}
            transient = {"display_id": display_id}
            if self._cells is not None:
                if not update:
                    flush_streams()  # text that was printed before is above the output
                self._cells.set_output(self._request, display_id, bundle, metadata, update=update)

            with self._context():
                self._publish(data=bundle, metadata=metadata, transient=transient, update=update)

        return show


ShowAbove = Callable[[dict[str, Any]], None]
"""Shows a bundle above a form."""


@dataclass(slots=True)
class _CellOutput:
    """An output of the cell. `shown` is None until it is published."""

    publish: Publish
    shown: dict[str, Any] | None = None

    def show(self, bundle: dict[str, Any], *, final: bool = False) -> None:
        if final or bundle != self.shown:
            self.publish(bundle, update=self.shown is not None, final=final)
            self.shown = bundle


@dataclass(slots=True)
class _PartOutput:
    """One part of the turn, and its output.

    Attributes:
        held: Output of tools above the part that was not sent yet.
        images: Images of results below `held`, each in a separate output.
        show_above_form: While a form occupies the output: shows the part above the form.
    """

    part: TranscriptPart
    output: _CellOutput
    held: list[SendOutput] = field(default_factory=list)
    images: list[tuple[_CellOutput, dict[str, Any]]] = field(default_factory=list)
    show_above_form: ShowAbove | None = None

    def release(self, *, final: bool = False) -> None:
        """Send the held output, and then the images."""
        held = self.held
        self.held = []

        for send in held:
            send()

        for output, bundle in self.images:
            if output.shown is not bundle:
                output.show(bundle, final=final)

    def update(
        self, *, status: str | None = None, queue_line: str = "", is_earlier: bool = False
    ) -> dict[str, str]:
        """Show the part as it is now, and return its bundle.

        Above a form, the queue line about later questions replaces the status line. With
        `is_earlier`, an empty part is published too, to keep the order of the outputs.
        """
        if self.show_above_form is not None:
            bundle = self.part.bundle(live=True, status=queue_line)
            bundle["text/plain"] = "\n".join(filter(None, (bundle["text/plain"], queue_line)))
            self.show_above_form(bundle)
            return bundle

        bundle = self.part.bundle(live=True, status=status)
        if is_earlier or bundle["text/markdown"] or self.output.shown is not None:
            self.output.show(bundle)

        return bundle


class TurnOutputs:
    """Outputs of a transcript, one for each part.

    A form occupies the output of one part from `show_form` to `end_form`. Meanwhile, later parts
    appear below the form. `final_count` is the number of first parts that are shown and cannot
    change.
    """

    def __init__(self, transcript: Transcript, new_output: Callable[[], Publish]) -> None:
        self._transcript = transcript
        self._new_output = new_output
        self._parts: list[_PartOutput] = []
        self.final_count = 0
        self._add_part()

    def _add_part(self) -> None:
        self._parts.append(_PartOutput(self._transcript.parts[-1], _CellOutput(self._new_output())))

    @property
    def last_is_shown(self) -> bool:
        """True if the output of the last part was published."""
        return self._parts[-1].output.shown is not None

    @property
    def has_form(self) -> bool:
        """True while a form occupies one of the outputs."""
        return any(part.show_above_form for part in self._parts)

    def cut(
        self,
        held: list[SendOutput],
        call_id: str | None = None,
        images: Iterable[dict[str, Any]] = (),
    ) -> None:
        """Start a new part, below the `held` output of tools and `images`.

        The cut is after the line of the tool call `call_id`. If there is a form, it is after the
        form, so that its buttons do not move when the user is about to click.
        """
        behind_form = self._parts[-1].show_above_form is not None
        if behind_form:
            is_new = self._transcript.cut(None, always=True)
        else:
            is_new = self._transcript.cut(call_id, always=False)
        if is_new:
            self._add_part()

        last = self._parts[-1]
        last.held += held

        for bundle in images:  # they take the output of the part, and the part gets a new one
            last.images.append((last.output, bundle))
            last.output = _CellOutput(self._new_output())

    def show_form(self, bundle: dict[str, Any], show_above: ShowAbove, *, queue_line: str) -> None:
        """Show a form in the last output; `show_above` shows the part's text above it."""
        self.show_earlier()
        last = self._parts[-1]
        last.show_above_form = show_above
        above = last.update(queue_line=queue_line)
        plain = "\n".join(filter(None, (above["text/plain"], bundle["text/plain"])))
        last.output.show({**bundle, "text/plain": plain})

    def end_form(self) -> None:
        """Release the output of the form. The next update shows the part in it."""
        for part in self._parts:
            part.show_above_form = None

    def show_earlier(self, *, queue_line: str = "", status: str | None = None) -> int:
        """Update all parts before the last one that may have changed; return their characters.

        The status line is below the part before the last one, unless that is final.
        """
        size = 0
        for number in range(self.final_count, len(self._parts) - 1):
            each = self._parts[number]
            each.release()
            is_final = each.part.is_final and each.show_above_form is None
            is_final = is_final and number == self.final_count
            self.final_count += is_final
            below = status if number == len(self._parts) - 2 and not is_final else None
            shown = each.update(status=below, queue_line=queue_line, is_earlier=True)
            size += len(shown["text/markdown"])

        self._parts[-1].release()
        return size

    def show_all(self, *, status: str, queue_line: str, tools_run: bool) -> int:
        """Update all parts that may have changed, and return the number of rendered characters.

        The status line is shown while no form is open. While `tools_run`, an empty last part is
        not published, because their output comes first.
        """
        last = self._parts[-1]
        if tools_run and not self.last_is_shown and not last.part.pieces:
            return self.show_earlier(queue_line=queue_line, status=status)

        size = self.show_earlier(queue_line=queue_line)
        return size + len(last.update(status=status, queue_line=queue_line)["text/markdown"])

    def show_again(self) -> None:
        """Publish all outputs again, in order, because a tool has cleared the cell."""
        for part in self._parts:
            for output in (*(image for image, _ in part.images), part.output):
                if output.shown is not None:
                    output.publish(output.shown, update=False, final=False)

    def show_final(self) -> None:
        """Publish the parts before the first one that is not final. Used in headless runs."""
        for each in self._parts:
            each.release(final=True)
            if each is self._parts[-1] or not each.part.is_final:
                return
            if each.output.shown is None:
                each.output.show(each.part.bundle(), final=True)

    def finish(self, *, live: bool) -> None:
        """Replace all outputs by final ones, without status lines and display ids."""
        self.end_form()
        if live:
            # Publish new parts in order first, and not as final: a reloaded page ignores an output
            # that is final when it first appears.
            self.show_earlier()
            if not self.last_is_shown:
                self._parts[-1].update()

        # From the last to the first if live: a reloaded page places an unknown part after the
        # previous ones, which it recognizes only while they are not final.
        parts = list(reversed(self._parts)) if live else self._parts
        for each in parts:
            if not live:
                each.release(final=True)

            if live or each.output.shown is None:
                bundle = each.part.bundle()
                if any(bundle.values()) or each.output.shown is not None:
                    each.output.show(bundle, final=True)

            if live:
                for output, image in reversed(each.images):
                    output.show(image, final=True)


STATUS_DELAY_S = 0.2
"""A wait that ends within this time is not shown in the status line."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """Start of a new part, below the output of tools and the images of their results."""

    held: list[SendOutput] = field(default_factory=list)
    images: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Printed:
    """All text that a call has printed."""

    call_id: str
    text: str


_Queued = DisplayEvent | _Cut | _Printed


class TurnDisplay:
    """Outputs of one turn in a notebook. Implements `Display`: it is called with each event.

    A tool with its own output starts a new part after it: below the tool's line if it ran on the
    cell thread, else below its batch. Text that other tools print is a part of the tool's line.
    Images of results are shown with the batch, unless the tool displayed an image.

    Args:
        run_in_agent_loop: Runs a function on the agent's event loop.
        printed: Takes the text that tools print outside of the cell's thread.
        show_end: Shows the duration and the tokens of the turn when it has ended, if it is live.
        interval: Shortest time between two updates, in seconds.
        live: False in headless runs: outputs are shown when they are final.
    """

    def __init__(
        self,
        transcript: Transcript,
        cell: CellLoop,
        new_output: Callable[[], Publish],
        *,
        run_in_agent_loop: Callable[[Callable[[], None]], None] = lambda job: None,
        tools: ToolOutput | None = None,
        printed: PrintedTexts | None = None,
        show_end: Callable[[TurnCounts], None] | None = None,
        interval: float = 0.1,
        live: bool = True,
    ) -> None:
        self._transcript = transcript
        self._cell = cell
        self._run_in_agent_loop = run_in_agent_loop
        self._tools = tools
        self._printed = printed
        self._show_end = show_end
        self._live = live
        self._lock = RLock()
        self._waiting = Waiting(monotonic())
        self._events: deque[_Queued] = deque()
        self._open_calls: set[str] = set()
        self._batch_over = False
        self._images: list[dict[str, Any]] = []
        self._calls_with_image: set[str] = set()
        self._outputs = TurnOutputs(transcript, new_output)
        self._function: FunctionBegins | None = None
        self._has_begun = False
        self._done = False
        self._note: str | None = None
        self._clock = UpdateClock(
            cell,
            self._update,
            run_in_agent_loop=run_in_agent_loop,
            update_in_agent_loop=self._update_in_agent_loop,
            interval=interval,
            ticks=live,
        )

    def begin(self) -> None:
        """Begin to show the turn; on the cell's thread. A second call has no effect."""
        if self._has_begun:
            return

        self._has_begun = True
        if self._tools is not None:
            self._tools.cleared = self._show_again
            self._tools.open()

        if self._printed is not None:
            if self._live:
                self._printed.changed = partial(self._clock.schedule, 0.0)
            self._printed.open()

        if self._live:
            self._clock.schedule(STATUS_DELAY_S)

    def __call__(self, event: DisplayEvent) -> None:
        """Show `event`. This is cheap: most events are only queued."""
        match event:
            case ShowText() | UserMessage():  # the most frequent events
                self._end_batch()
                self._queue(event)
            case ToolBegins():
                self._tool_begins(event)
            case ToolEnds():
                self._open_calls.discard(event.call_id)
                self._batch_over = not self._open_calls
                self._queue_printed(event.call_id)
                self._queue(event)
                self._collect_images(event)
            case FunctionBegins():
                self._function_begins(event)
            case FunctionEnds():
                self._function_ends(event)
            case InterruptReceived():
                self._events.append(event)
                if self._live:
                    self._update_before_menu()
            case Waits() | TokensSoFar() | CodeAsks():
                self._queue(event, STATUS_DELAY_S)
            case _:
                self._queue(event)

    def _queue(self, event: DisplayEvent, delay: float = 0.0, *, early: bool = False) -> None:
        self._events.append(event)
        if self._live:
            self._clock.schedule(delay, early=early)

    def _tool_begins(self, event: ToolBegins) -> None:
        self._end_batch()
        self._open_calls.add(event.call_id)
        if self._tools is not None:
            self._tools.watches = True

        self._queue(event, early=True)

        if self._printed is not None and self._transcript.shows(event):
            self._printed.begin(event.call_id)

    def _queue_printed(self, call_id: str) -> None:
        # The call ends: later text of its threads and tasks belongs to the cell.
        if self._printed is None:
            return

        text = self._printed.end(call_id)
        if text is not None:
            self._events.append(_Printed(call_id, text))

    def _update_before_menu(self) -> None:
        self._cell.post(self._update)  # a menu is about to occupy the output
        if self._function is not None:
            self._run_in_agent_loop(self._update_in_agent_loop)

    def _end_batch(self) -> None:
        if not self._batch_over:
            return

        self._batch_over = False
        if self._tools is not None:
            if self._tools.others_have_output():
                self._events.append(_Cut(self._tools.take(of_function=False)))
            self._tools.watches = False

    def _collect_images(self, event: ToolEnds) -> None:
        # The images of all results are shown when the batch ends.
        if event.call_id not in self._calls_with_image and self._transcript.shows(event):
            self._images += (
                {**image.display_data, "text/plain": f"[{image.noun}: {image.words}]"}
                for image in event.images
            )

        self._calls_with_image.discard(event.call_id)
        if self._batch_over and self._images:
            self._events.append(_Cut(images=self._images))
            self._images = []

    def _update(self) -> None:
        with self._lock:
            if self._done:
                return

            self._clock.begin_update()
            self._apply_events()
            size = self._outputs.show_all(
                status=self._note or one_line(self._waiting.status(monotonic())),
                queue_line=self._waiting.queue_line(),
                tools_run=bool(self._open_calls),
            )
            self._clock.end_update(size)

    def _update_in_agent_loop(self) -> None:
        with self._lock:
            # Only the cell's thread may use the widgets of a form.
            if self._function is not None and not self._outputs.has_form:
                self._update()

    def _show_again(self) -> None:
        with self._lock:
            if not self._done:
                self._outputs.show_again()

    def _apply_events(self) -> None:
        for event in _join_texts(self._events):
            if isinstance(event, _Cut):
                self._outputs.cut(event.held, images=event.images)
                continue
            if isinstance(event, _Printed):
                self._transcript.set_printed(event.call_id, event.text)
                continue

            if isinstance(event, DiscardText):
                self._outputs.final_count = 0  # all parts are shown again

            self._note = None
            self._waiting.apply(event, monotonic())
            self._transcript.add(event)

        if self._printed is not None:
            for call_id, text in self._printed.take().items():
                self._transcript.set_printed(call_id, text)

    def _function_begins(self, event: FunctionBegins) -> None:
        with self._cell.interrupts.defer(in_job=True), self._lock:
            self._function = event
            self._waiting.apply(event, monotonic())
            self._apply_events()
            if self._live and not self._outputs.last_is_shown:
                self._update()  # the function's output comes below

            if self._tools is not None:
                self._tools.function_begins()

            if self._printed is not None:
                self._printed.function = event.call_id

        self._clock.start_ticks_in_agent_loop()

    def _function_ends(self, event: FunctionEnds) -> None:
        with self._cell.interrupts.defer(in_job=True), self._lock:
            self._function = None
            self._waiting.apply(event, monotonic())
            if self._printed is not None:
                self._printed.function = None

            if self._tools is None:
                return

            has_output = self._tools.function_ends()
            if self._tools.function_has_image:
                self._calls_with_image.add(event.call_id)

            if not has_output:
                return

            if self._printed is not None:
                # An awaitable that the function returned prints below this output.
                self._printed.end(event.call_id)

            self._apply_events()
            self._outputs.cut(self._tools.take(of_function=True), event.call_id)
            if self._live:
                self._update()
            else:
                self._outputs.show_final()

    def finish(self) -> None:
        """Replace all outputs by final ones."""
        with self._lock:
            self._done = True
            self._clock.stop()
            if self._images:  # of an interrupted batch
                self._events.append(_Cut(images=self._images))

            if self._printed is not None:
                self._printed.close()

            self._apply_events()
            if self._tools is not None:
                self._tools.close()
                held = self._tools.take(of_function=True) + self._tools.take(of_function=False)
                if held:
                    self._outputs.cut(held)

            self._outputs.finish(live=self._live)

        if self._live and self._show_end is not None:
            self._show_end(self._waiting.end(monotonic()))

    # --- a form in the same place: implements `prompt.output.FormOutput` -----------------------

    def show(self, bundle: dict[str, Any], so_far: Callable[[dict[str, str]], None]) -> None:
        """Show a form in an output; `so_far` shows the current part above the form."""
        with self._lock:
            self._apply_events()
            if self._tools is not None and self._tools.function_has_output():
                self._outputs.cut([])  # the form comes below that output
            self._outputs.show_form(bundle, so_far, queue_line=self._waiting.queue_line())
            self._send_now()

    def end(self, note: str | None, record: PromptSummary | None) -> None:
        """Release the output of the form. The transcript contains the answer."""
        with self._lock:
            self._outputs.end_form()
            if not self._done:
                self._note = note
                self._update()
                self._send_now()

    def catch_up(self) -> None:
        """Show all events now, because a question on stdin is about to block this thread."""
        if self._live:
            self._update()
            self._send_now()

    def _send_now(self) -> None:
        if self._tools is not None:
            self._tools.send_now()


def _join_texts(events: deque[_Queued]) -> Iterator[_Queued]:
    # Removes and yields `events`. Adjacent texts of one kind are one event.
    while events:
        event = events.popleft()
        if isinstance(event, ShowText):
            texts = [event.text]
            while events and isinstance(after := events[0], ShowText) and after.kind == event.kind:
                texts.append(after.text)
                events.popleft()
            event = ShowText(event.kind, "".join(texts))

        yield event
