"""Display of a turn in a console: decide when its events are printed.

The agent's thread calls the display with most events. The cell's thread prints all of them,
streamed text at most every `interval` seconds. The text of each event is the job of
`jp_nb/notebook/display/console_printer.py`.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import sys
from collections import deque
from time import monotonic

from jp_nb.agent.display import DisplayEvent, FunctionBegins, InterruptReceived, ToolBegins
from jp_nb.notebook.display.console_printer import ConsolePrinter
from jp_nb.session.threads.cell_loop import CellLoop


class PrintedTurn:
    """Display of a turn in a console; implements `TurnOutput` (`session/host.py`).

    It is called with each event. `CellLoop.post` and `call_later` let the cell's thread run a
    function, now or later.

    `interval` is the minimum time between two updates of streamed text, in seconds.
    """

    def __init__(self, cell: CellLoop, *, show_tools: bool = True, interval: float = 0.1) -> None:
        self._cell = cell
        self._interval = interval
        self._printer = ConsolePrinter(show_tools=show_tools)

        self._events: deque[DisplayEvent] = deque()  # not yet printed
        self._is_scheduled = False  # True if the cell's thread is going to print the events
        self._next_print_at = 0.0  # in seconds of `monotonic`

    def begin(self) -> None:
        """Print nothing yet."""

    def __call__(self, event: DisplayEvent) -> None:
        """Print `event`. This is cheap: most events are only queued."""
        self._events.append(event)

        if isinstance(event, FunctionBegins):
            # This is the cell's thread, and the function's own output comes next: print at once.
            # `KeyboardInterrupt` of the user is raised after the text, not in the middle of it.
            with self._cell.interrupts.defer():
                self._print()
        elif isinstance(event, (ToolBegins, InterruptReceived)):
            # At once, before the function of the tool, or the menu of the interrupt, occupies the
            # cell's thread.
            self._cell.post(self._print)
        elif not self._is_scheduled:
            self._is_scheduled = True
            self._cell.post(self._print_in_time)

    def _print_in_time(self) -> None:
        wait = self._next_print_at - monotonic()
        if wait > 0:
            self._cell.call_later(wait, self._print)
        else:
            self._print()

    def _print(self) -> None:
        self._is_scheduled = False
        self._next_print_at = monotonic() + self._interval

        while self._events:
            self._printer.apply(self._events.popleft())

        sys.stdout.flush()

    def finish(self) -> None:
        """Print the remaining events."""
        self.catch_up()

    def catch_up(self) -> None:
        """Print all events and end the line, because a question or the end of the cell follows."""
        self._print()
        self._printer.end_line()
        sys.stdout.flush()
