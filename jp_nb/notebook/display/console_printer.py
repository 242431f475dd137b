"""Print the events of a turn as text for a console, where printed text cannot change.

Text of the model is printed as it arrives. A tool call has one line when it begins, and one when it
ends, with its result. An example of the whole text of a turn:

    Let me look.
    ⚙ look(place="Delft") …
    ✓ look(place="Delft")
    All fine.

Reasoning and terminal escapes are never printed. `jp_nb/notebook/display/console.py` decides when
the events are printed.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from time import monotonic

from jp_nb.agent.display import (
    DisplayEvent,
    EndOfText,
    FunctionBegins,
    FunctionEnds,
    InterruptReceived,
    ShowText,
    ToolEnds,
    Waits,
)
from jp_nb.rendering.status import describe_interrupt, describe_retry
from jp_nb.rendering.transcripts.call_text import render_call
from jp_nb.rendering.transcripts.transcript import CallPiece, EventPiece, TextPiece, Transcript
from jp_nb.text import one_line, plain

_INCOMPLETE = re.compile(r"(?:\r|(?:\x1b|\x1b\[|\x9b)[0-?]{0,100}[ -/]{0,100})\Z")
"""Matches an incomplete line break or terminal escape at the end of a chunk."""


class ConsolePrinter:
    """Prints the text of each event on stdout. It knows nothing about time or threads."""

    def __init__(self, *, show_tools: bool = True) -> None:
        # Collects the events into pieces of text, and renders them.
        self._transcript = Transcript(show_tools=show_tools)

        # The text of the model that is being printed, since the last `end_line`.
        self._in_line = False  # True if the printed text does not end with a line break
        self._is_start = True  # True if no text was printed since `end_line`
        self._pending_text = ""  # an incomplete escape, held back until the next chunk
        self._structured: TextPiece | None = None  # a structured answer, held back until it ends

        self._function: FunctionBegins | None = None  # the function that runs on the cell's thread
        self._interrupt_line = ""  # the last line about an interrupt

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
                self._print_interrupt(event)

        # The piece of the transcript that the event has changed, if there is one.
        match self._transcript.add(event):
            case TextPiece(kind="message") if isinstance(event, ShowText):
                self._print_text(event.text)
            case TextPiece(kind="structured") as piece:
                self._structured = piece
            case CallPiece(ends=ToolEnds()) as piece:
                self._print_line(_render_call_end(piece))
            case CallPiece() | EventPiece() as piece:  # a call that begins, or another event
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
        """Print text of the model as it arrives, without terminal escapes.

        An escape that is not complete is held back, because the rest may be in the next chunk.
        """
        if self._structured is not None:
            self.end_line()

        text = self._pending_text + text
        incomplete = _INCOMPLETE.search(text)
        self._pending_text = ""
        if incomplete:
            self._pending_text = text[incomplete.start() :]
            text = text[: incomplete.start()]

        text = plain(text, limit=sys.maxsize)  # without terminal escapes
        if self._is_start:
            text = text.lstrip("\n")

        if text:
            print(text, end="")
            self._is_start = False
            self._in_line = not text.endswith("\n")

    def _print_interrupt(self, event: InterruptReceived) -> None:
        """Print the effect of an interrupt. Further interrupts with the same one print nothing."""
        line = one_line(describe_interrupt(event, self._function))
        if line != self._interrupt_line:
            self._print_line(line)
        self._interrupt_line = line


def _render_call_end(call: CallPiece) -> str:
    """Return the line of a call that has ended, with its result below.

    Arguments that do not fit into a line were printed when the call began. Then this line has only
    the tool's name.
    """
    begins = call.begins
    has_blocks = begins.parameters != "line" or begins.formatted is not None or bool(begins.texts)
    if has_blocks:
        begins = replace(begins, parameters="off", formatted=None)

    return render_call(begins, call.ends).text
