"""Shows a turn where no display can be updated: its text is printed as it comes."""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Any

from jp_nb.agent.display import (
    ChangeEnds,
    DisplayEvent,
    EndOfText,
    FunctionBegins,
    FunctionEnds,
    InterruptReceived,
    Notice,
    QuestionEnds,
    ShowRequest,
    ShowText,
    ToolBegins,
    ToolEnds,
    UserMessage,
    Waits,
)
from jp_nb.notebook.prompt.output import SeparateOutput
from jp_nb.rendering.prompts import PromptSummary
from jp_nb.rendering.status import again_words, interrupt_words
from jp_nb.rendering.turn import TextPiece, ToolPiece, piece_plain
from jp_nb.session.cell_loop import CellLoop
from jp_nb.text import one_line, plain

_HALF = re.compile(r"(?:\r|(?:\x1b|\x1b\[|\x9b)[0-?]{0,100}[ -/]{0,100})\Z")
"""Matches half of a line break or of an escape: the other half may come."""


class Printer:
    """Turns events into what a console prints: no escapes, and nothing that is taken back.

    Args:
        show_tools: Whether tool calls are shown.
    """

    def __init__(self, *, show_tools: bool = True) -> None:
        self._show_tools = show_tools
        self._in_line = False
        self._blank = True
        self._half = ""
        self._structured: TextPiece | None = None
        self._begun: dict[str, ToolBegins] = {}
        self._function: FunctionBegins | None = None
        self._said = ""

    def apply(self, event: DisplayEvent) -> None:
        """Print what there is to say of `event`."""
        match event:
            case ShowText(kind="message", text=text):
                self._text(text)
            case ShowText(kind="structured", text=text):
                self._structured = self._structured or TextPiece("structured")
                self._structured.chunks.append(text)
            case EndOfText():
                self.end_line()
            case ToolBegins():
                self._tool_begins(event)
            case ToolEnds():
                self._tool_ends(event)
            case QuestionEnds() | ChangeEnds() | Notice() | ShowRequest() | UserMessage():
                self._line(piece_plain(event))
            case _:
                self._pass(event)

    def _pass(self, event: DisplayEvent) -> None:
        match event:
            case Waits(until=float()):
                self._line(f"… {one_line(again_words(event, monotonic()))}")
            case FunctionBegins():
                self._function = event
            case FunctionEnds():
                self._function = None
            case InterruptReceived():
                self._interrupted(event)

    def end_line(self) -> None:
        """End what is printed so far: something else comes."""
        if self._structured is not None:
            piece, self._structured = self._structured, None
            self._line(piece_plain(piece))
        if self._in_line:
            _write("\n")
        self._in_line, self._blank, self._half = False, True, ""

    def _line(self, text: str) -> None:
        self.end_line()
        if text:
            _write(f"{text}\n")

    def _text(self, text: str) -> None:
        if self._structured is not None:
            self.end_line()
        text = self._half + text
        half = _HALF.search(text)
        self._half = text[half.start() :] if half else ""
        text = plain(text[: half.start()] if half else text, limit=sys.maxsize)
        if self._blank:
            text = text.lstrip("\n")
        if text:
            _write(text)
            self._blank, self._in_line = False, not text.endswith("\n")

    def _tool_begins(self, event: ToolBegins) -> None:
        if self._show_tools and not event.hidden and self._begun.get(event.call_id) != event:
            self._begun[event.call_id] = event
            self._line(piece_plain(ToolPiece(event)))

    def _tool_ends(self, event: ToolEnds) -> None:
        begun = self._begun.pop(event.call_id, None)
        if begun is None:
            if not self._show_tools or event.hidden:
                return
            begun = ToolBegins(event.call_id, event.name, {}, parameters="off")
        if begun.parameters != "line" or begun.formatted is not None or begun.texts:
            begun = replace(begun, parameters="off", formatted=None)  # shown when it began
        self._line(piece_plain(ToolPiece(begun, event)))

    def _interrupted(self, event: InterruptReceived) -> None:
        said = one_line(interrupt_words(event, self._function))
        if said != self._said:
            self._line(said)
        self._said = said


def _write(text: str) -> None:
    print(text, end="")


class PrintedTurn:
    """A turn in a console. Calling it takes an event; implements `Display`.

    Args:
        printer: Prints events.
        cell: The cell's thread.
        interval: Shortest time between two updates, in seconds.
    """

    def __init__(self, printer: Printer, cell: CellLoop, *, interval: float = 0.1) -> None:
        self._printer = printer
        self._cell = cell
        self._interval = interval
        self._events: deque[DisplayEvent] = deque()
        self._scheduled = False
        self._next = 0.0
        self._form: SeparateOutput | None = None

    def begin(self) -> None:
        """Print nothing: there is nothing to say yet."""

    def __call__(self, event: DisplayEvent) -> None:
        """Take `event`; cheap: most events only join a queue."""
        self._events.append(event)
        if isinstance(event, FunctionBegins):  # on the cell's thread: what it prints comes next
            with self._cell.defer_interrupts():
                self._print()
        elif isinstance(event, (ToolBegins, InterruptReceived)):
            self._cell.post(self._print)
        elif not self._scheduled:
            self._scheduled = True
            self._cell.post(self._print_later)

    def _print_later(self) -> None:
        wait = self._next - monotonic()
        if wait > 0:
            self._cell.call_later(wait, self._print)
        else:
            self._print()

    def _print(self) -> None:
        self._scheduled = False
        self._next = monotonic() + self._interval
        while self._events:
            self._printer.apply(self._events.popleft())
        sys.stdout.flush()

    def finish(self) -> None:
        """Print what is left. What was printed stays, and nothing is shown again."""
        self.catch_up()

    def catch_up(self) -> None:
        """Print what has come so far, to the end of a line: a question comes below it."""
        self._print()
        self._printer.end_line()
        sys.stdout.flush()

    def show(self, bundle: dict[str, Any], so_far: Callable[[dict[str, str]], None]) -> None:
        """Show a form below what is printed, in case that the front end knows forms."""
        self.catch_up()
        self._form = SeparateOutput()
        self._form.show(bundle, so_far)

    def end(self, note: str | None, record: PromptSummary | None) -> None:
        """Take the form away. What was answered is printed."""
        if self._form is not None:
            self._form.end(note, None)
            self._form = None
