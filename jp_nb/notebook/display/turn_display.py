"""Display of a turn in a notebook: the outputs of its cell, updated at most once per interval.

`TurnDisplay.__call__` queues an event and schedules an update. `_update` adds the queued events to
the transcript. `TurnOutputs.show_all_live` selects the parts that may have changed, and publishes
those that have changed.

Output of tools appears between the parts. `RunningTools` (`running_tools.py`) follows the calls,
and returns a `NewPart` where a part must start below such output. In a headless run, it *holds* the
output of tools back until the part above is published. So the queue has two more kinds of entries:
a `NewPart`, and the text that a call has printed.

A *batch* consists of the tool calls of one response. The images of their results are shown when all
of them have ended.

Events come from the agent's thread, and the cell's thread publishes. While a *function* of a tool
occupies the cell's thread, the agent's thread publishes instead.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from threading import RLock
from time import monotonic
from typing import Any

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
from jp_nb.notebook.display.cell_output import Publish
from jp_nb.notebook.display.printed import PrintedTexts
from jp_nb.notebook.display.running_tools import NewPart, RunningTools
from jp_nb.notebook.display.tool_output import ToolOutput
from jp_nb.notebook.display.turn_outputs import TurnOutputs
from jp_nb.notebook.display.update_clock import UpdateClock
from jp_nb.rendering.prompt_texts.prompt_summary import PromptSummary
from jp_nb.rendering.status import TurnWaits
from jp_nb.rendering.transcripts.transcript import Transcript
from jp_nb.rendering.turn_counts import TurnCounts
from jp_nb.session.threads.cell_loop import CellLoop
from jp_nb.text import one_line

STATUS_DELAY_S = 0.2
"""A wait that ends within this time is not shown in the status line."""


@dataclass(frozen=True, slots=True)
class _Printed:
    """All text that a call has printed."""

    call_id: str
    text: str


_Queued = DisplayEvent | NewPart | _Printed


class TurnDisplay:
    """Outputs of one turn in a notebook. It is called with each event.

    Implements `TurnOutput` (`session/host.py`), and `FormOutput` for the forms of the turn.

    A tool with its own output starts a new part after it: below the tool's line if it ran on the
    cell thread, else below its batch. Text that other tools print is a part of the tool's line.
    Images of results are shown with the batch, unless the tool displayed an image.

    Args:
        run_in_agent_loop: Runs a function on the agent's event loop.
        tools: Watches the output that tools display, and holds it back in a headless run. None
            without a kernel, as the next two.
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
        self._tools = RunningTools(tools, printed)
        self._show_end = show_end
        self._live = live
        self._has_begun = False
        self._is_done = False

        # Events wait in the queue, without the lock. An update adds them to the transcript and
        # publishes its outputs. The lock guards both, because two threads may publish.
        self._lock = RLock()
        self._events: deque[_Queued] = deque()
        self._outputs = TurnOutputs(transcript, new_output)

        # `TurnWaits` follows the events to tell what the turn waits for: as the status line, and as
        # the *queue line* about later questions. The note is about a form that has ended, and is
        # shown in place of the status until the next event.
        self._waiting = TurnWaits(monotonic())
        self._note: str | None = None

        self._function_runs = False  # True while a function occupies the cell's thread
        self._clock = UpdateClock(
            cell,
            self._update,
            run_in_agent_loop=run_in_agent_loop,
            update_in_agent_loop=self._update_in_agent_loop,
            interval=interval,
            ticks=live,
        )

    def begin(self) -> None:
        """Begin to show the turn; on the cell's thread.

        A turn that was shown early, when its tools started, begins once more: this has no effect.
        """
        if self._has_begun:
            return

        self._has_begun = True
        update_soon = partial(self._clock.schedule, 0.0) if self._live else None
        self._tools.open(on_cleared=self._show_again, on_printed=update_soon)
        if self._live:
            self._clock.schedule(STATUS_DELAY_S)

    def __call__(self, event: DisplayEvent) -> None:
        """Show `event`. This is cheap: most events are only queued."""
        match event:
            case ShowText() | UserMessage():  # the most frequent events
                self._end_batch()
                self._queue(event)
            case ToolBegins():
                self._handle_tool_begins(event)
            case ToolEnds():
                self._handle_tool_ends(event)
            case FunctionBegins():
                self._handle_function_begins(event)
            case FunctionEnds():
                self._handle_function_ends(event)
            case InterruptReceived():
                self._events.append(event)
                if self._live:
                    self._update_before_menu()
            case Waits() | TokensSoFar() | CodeAsks():
                self._queue(event, STATUS_DELAY_S)
            case _:
                self._queue(event)

    def _queue(self, event: DisplayEvent, delay: float = 0.0, *, early: bool = False) -> None:
        """Queue an event, and schedule its update in `delay` seconds.

        With `early`, the rate limit of `UpdateClock` allows it one interval earlier.
        """
        self._events.append(event)
        if self._live:
            self._clock.schedule(delay, early=early)

    def _handle_tool_begins(self, event: ToolBegins) -> None:
        self._end_batch()
        self._tools.begin_call(event.call_id)

        # Early: its line must be visible before its function may occupy the cell's thread.
        self._queue(event, early=True)

        # A call that the settings hide has no line, to which its text could belong.
        if self._transcript.shows(event):
            self._tools.begin_printing(event.call_id)

    def _handle_tool_ends(self, event: ToolEnds) -> None:
        text = self._tools.end_call(event.call_id)
        if text is not None:  # before the end, with which the call's line is final
            self._events.append(_Printed(event.call_id, text))

        self._queue(event)
        if self._transcript.shows(event):
            self._tools.keep_images(event)
        self._queue_part(self._tools.take_images())

    def _end_batch(self) -> None:
        """Start a new part below the output of the batch, if all its calls have ended."""
        self._queue_part(self._tools.end_batch())

    def _queue_part(self, part: NewPart | None) -> None:
        """Queue a new part, if there is one. The event that comes with it schedules the update."""
        if part is not None:
            self._events.append(part)

    def _update_before_menu(self) -> None:
        """Show everything before the menu of an interrupt occupies the output."""
        self._cell.post(self._update)
        if self._function_runs:
            self._run_in_agent_loop(self._update_in_agent_loop)

    def _update(self) -> None:
        """Publish the changes of a live turn; on the cell's thread, or while it is occupied."""
        with self._lock:
            if self._is_done:
                return

            self._clock.begin_update()
            self._apply_events()
            size = self._outputs.show_all_live(
                status=self._note or one_line(self._waiting.format_status(monotonic())),
                queue_line=self._waiting.format_queue_line(),
                tools_run=self._tools.are_running,
            )
            self._clock.end_update(size)

    def _update_in_agent_loop(self) -> None:
        """Update, because a function occupies the cell's thread, which otherwise does it.

        Do nothing if the function has ended meanwhile, or while a form is open: only the cell's
        thread may use the widgets of a form.
        """
        with self._lock:
            if self._function_runs and not self._outputs.has_form:
                self._update()

    def _show_again(self) -> None:
        """Publish all outputs again, because a tool has cleared the cell."""
        with self._lock:
            if not self._is_done:
                self._outputs.show_again()

    def _apply_events(self) -> None:
        """Add the queued events to the transcript, and the text that open calls have printed."""
        for event in _join_texts(self._events):
            if isinstance(event, NewPart):
                self._outputs.start_part(event.held, images=event.images)
                continue
            if isinstance(event, _Printed):
                self._transcript.set_printed(event.call_id, event.text)
                continue

            if isinstance(event, DiscardText):
                self._outputs.reopen_parts()  # the discarded text may be in a part that was final

            self._note = None
            self._waiting.apply(event, monotonic())
            self._transcript.add(event)

        for call_id, text in self._tools.take_printed().items():
            self._transcript.set_printed(call_id, text)

    def _handle_function_begins(self, event: FunctionBegins) -> None:
        """Show everything now: the function occupies the thread, and its output comes below.

        This and the end of the function come on the cell's thread. They are not queued, because the
        function must not begin before. They add nothing to the transcript.

        An interrupt is raised after the block: half an update would leave a wrong display.
        """
        with self._cell.interrupts.defer(in_job=True), self._lock:
            self._function_runs = True
            self._waiting.apply(event, monotonic())
            self._apply_events()
            if self._live and not self._outputs.last_is_shown:
                self._update()

            self._tools.begin_function(event.call_id)

        self._clock.start_ticks_in_agent_loop()

    def _handle_function_ends(self, event: FunctionEnds) -> None:
        """Start a new part below the output of the function, if it has any."""
        with self._cell.interrupts.defer(in_job=True), self._lock:
            self._function_runs = False
            self._waiting.apply(event, monotonic())

            held = self._tools.end_function(event.call_id)
            if held is None:
                return

            self._apply_events()
            self._outputs.start_part(held, event.call_id)
            if self._live:
                self._update()
            else:
                self._outputs.publish_final_parts()

    def finish(self) -> None:
        """Replace all outputs by final ones."""
        with self._lock:
            self._is_done = True
            self._clock.stop()
            self._queue_part(self._tools.take_images(interrupted=True))
            self._tools.close_printed()
            self._apply_events()

            held = self._tools.close_output()
            if held:
                self._outputs.start_part(held)

            if self._live:
                self._outputs.finish_live()
            else:
                self._outputs.finish_headless()

        if self._live and self._show_end is not None:
            self._show_end(self._waiting.count_turn(monotonic()))

    # --- a form in the same place: implements `FormOutput` of `prompt/forms/form_output.py` -------

    def show(self, bundle: dict[str, Any], show_above: Callable[[dict[str, str]], None]) -> None:
        """Show a form in an output; `show_above` shows the current part above the form."""
        with self._lock:
            self._apply_events()
            if self._tools.check_function_output():
                self._outputs.start_part([])  # the form comes below that output
            self._outputs.show_form(
                bundle, show_above, queue_line=self._waiting.format_queue_line()
            )
            self._tools.send_now()

    def end(self, note: str | None, record: PromptSummary | None) -> None:
        """Release the output of the form. The transcript contains the answer."""
        with self._lock:
            self._outputs.end_form()
            if not self._is_done:
                self._note = note
                self._update()
                self._tools.send_now()

    def catch_up(self) -> None:
        """Show all events now, because a question on stdin is about to block this thread."""
        if self._live:
            self._update()
            self._tools.send_now()


def _join_texts(events: deque[_Queued]) -> Iterator[_Queued]:
    """Remove and yield `events`. Adjacent texts of one kind are one event."""
    while events:
        event = events.popleft()
        if isinstance(event, ShowText):
            texts = [event.text]
            while events and isinstance(after := events[0], ShowText) and after.kind == event.kind:
                texts.append(after.text)
                events.popleft()
            event = ShowText(event.kind, "".join(texts))

        yield event
