"""Display of a turn in a console: text is printed as it arrives, because no output can change."""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Any

from jp_nb.agent.display import (
    DisplayEvent,
    EndOfText,
    FunctionBegins,
    FunctionEnds,
    InterruptReceived,
    ShowText,
    ToolBegins,
    ToolEnds,
    Waits,
)
from jp_nb.notebook.prompt.form_output import SeparateOutput
from jp_nb.rendering.call_text import render_call
from jp_nb.rendering.prompt_summary import PromptSummary
from jp_nb.rendering.status import describe_interrupt, describe_retry
from jp_nb.rendering.transcript import CallPiece, EventPiece, TextPiece, Transcript
from jp_nb.session.cell_loop import CellLoop
from jp_nb.text import one_line, plain

_INCOMPLETE = re.compile(r"(?:\r|(?:\x1b|\x1b\[|\x9b)[0-?]{0,100}[ -/]{0,100})\Z")
"""Matches an incomplete line break or terminal escape at the end of a chunk."""


class PrintedTurn:
    """Display of a turn in a console; implements `Display`. Call it with each event.

    It prints the new part of the transcript, without terminal escapes and reasoning.
    `interval` is the minimum time between two updates of streamed text, in seconds.
    """

    def __init__(self, cell: CellLoop, *, show_tools: bool = True, interval: float = 0.1) -> None:
        self._cell = cell
        self._interval = interval
        self._events: deque[DisplayEvent] = deque()
        self._scheduled = False
        self._next_print_at = 0.0
        self._form: SeparateOutput | None = None
        self._transcript = Transcript(show_tools=show_tools)
        self._in_line = False
        self._is_start = True
        self._pending_text = ""
        self._structured: TextPiece | None = None
        self._function: FunctionBegins | None = None
        self._interrupt_line = ""

    def apply(self, event: DisplayEvent) -> None:
        """Print `event`."""
        match event:
            case EndOfText():
                self.end_line()
            case Waits(until=float()):
                self._print_line(f"… {one_line(describe_retry(event, monotonic()))}")
            case FunctionBegins():
                self._function = event
            case FunctionEnds():
                self._function = None
            case InterruptReceived():
                self._interrupted(event)

        match self._transcript.add(event):
            case TextPiece(kind="message") if isinstance(event, ShowText):
                self._print_text(event.text)
            case TextPiece(kind="structured") as piece:
                self._structured = piece
            case CallPiece(ends=ToolEnds()) as piece:
                self._print_line(_render_end(piece))
            case CallPiece() | EventPiece() as piece:
                self._print_line(self._transcript.render(piece).text)

    def end_line(self) -> None:
        """End the current line, and print the structured answer that was held back, if any."""
        if self._structured is not None:
            piece = self._structured
            self._structured = None
            piece.is_final = True  # later data is printed below the line that follows
            self._print_line(self._transcript.render(piece).text)

        if self._in_line:
            print()

        self._in_line = False
        self._is_start = True
        self._pending_text = ""

    def _print_line(self, text: str) -> None:
        self.end_line()
        if text:
            print(text)

    def _print_text(self, text: str) -> None:
        if self._structured is not None:
            self.end_line()

        text = self._pending_text + text
        incomplete = _INCOMPLETE.search(text)
        self._pending_text = ""
        if incomplete:
            self._pending_text = text[incomplete.start() :]
            text = text[: incomplete.start()]

        text = plain(text, limit=sys.maxsize)
        if self._is_start:
            text = text.lstrip("\n")

        if text:
            print(text, end="")
            self._is_start = False
            self._in_line = not text.endswith("\n")

    def _interrupted(self, event: InterruptReceived) -> None:
        line = one_line(describe_interrupt(event, self._function))
        if line != self._interrupt_line:
            self._print_line(line)
        self._interrupt_line = line

    def begin(self) -> None:
        """Print nothing yet."""

    def __call__(self, event: DisplayEvent) -> None:
        """Print `event`. This is cheap: most events are only queued."""
        self._events.append(event)
        if isinstance(event, FunctionBegins):  # on the cell's thread; its output comes next
            with self._cell.interrupts.defer():
                self._print()
        elif isinstance(event, (ToolBegins, InterruptReceived)):
            self._cell.post(self._print)
        elif not self._scheduled:
            self._scheduled = True
            self._cell.post(self._print_in_time)

    def _print_in_time(self) -> None:
        wait = self._next_print_at - monotonic()
        if wait > 0:
            self._cell.call_later(wait, self._print)
        else:
            self._print()

    def _print(self) -> None:
        self._scheduled = False
        self._next_print_at = monotonic() + self._interval
        while self._events:
            self.apply(self._events.popleft())
        sys.stdout.flush()

    def finish(self) -> None:
        """Print the remaining events."""
        self.catch_up()

    def catch_up(self) -> None:
        """Print all events and end the line, because a question follows."""
        self._print()
        self.end_line()
        sys.stdout.flush()

    def show(self, bundle: dict[str, Any], so_far: Callable[[dict[str, str]], None]) -> None:
        """Show a form below the printed text, for a front end that supports forms."""
        self.catch_up()
        self._form = SeparateOutput()
        self._form.show(bundle, so_far)

    def end(self, note: str | None, record: PromptSummary | None) -> None:
        """Close the form. It is not replaced by the `record`, because the answer is printed."""
        if self._form is not None:
            self._form.end(note, None)
            self._form = None


def _render_end(piece: CallPiece) -> str:
    begins = piece.begins
    if begins.parameters != "line" or begins.formatted is not None or begins.texts:
        # The arguments below the line were printed at the beginning.
        begins = replace(begins, parameters="off", formatted=None)
    return render_call(begins, piece.ends).text
