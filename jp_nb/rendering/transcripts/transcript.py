"""The transcript of a running turn: its pieces in order, and their text in one or several outputs.

`Transcript.add` makes *pieces* of the turn's events: a text of the model, a tool call, or an event
that is shown as it is. A piece may change until it is final: text grows, and a call ends. A *part*
has the pieces of one output. Another part starts below an output of a tool.

`jp_nb/rendering/transcripts/log.py` renders recorded turns.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import assert_never

from jp_nb.agent.display import (
    ChangeEnds,
    CodeAsks,
    DiscardText,
    DisplayEvent,
    EndOfText,
    FunctionBegins,
    FunctionEnds,
    InterruptReceived,
    Notice,
    QuestionEnds,
    ShowRequest,
    ShowText,
    TokensSoFar,
    ToolBegins,
    ToolEnds,
    UserMessage,
    Waits,
)
from jp_nb.agent.provider_events import TextKind
from jp_nb.json_reading import read_json
from jp_nb.json_writing import indented_json
from jp_nb.rendering.markdown import escape_markup, make_code_block, make_details_block
from jp_nb.rendering.markdown_sanitizer import sanitize_markdown
from jp_nb.rendering.report import Report
from jp_nb.rendering.transcripts.call_text import add_printed, render_call
from jp_nb.rendering.transcripts.event_text import ShownEvent, render_event
from jp_nb.text import plain


@dataclass(slots=True, eq=False, kw_only=True)
class _Piece:
    """A piece of a turn as it is shown. An event that changes it sets `rendered` to None.

    Attributes:
        is_final: True if the piece cannot change.
        rendered: The rendering of the current state; None until it is needed.
    """

    is_final: bool = False
    rendered: Report | None = None


@dataclass(slots=True, eq=False)
class TextPiece(_Piece):
    """Assistant text, reasoning, or structured data, in the parts in which it was received."""

    kind: TextKind
    texts: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class CallPiece(_Piece):
    """One tool call: the latest event before it runs, its end, and the text that it printed."""

    begins: ToolBegins
    ends: ToolEnds | None = None
    printed: str = ""


@dataclass(slots=True, eq=False)
class EventPiece(_Piece):
    """An event that is shown as it is: a decision, a notice, or a message of the user."""

    event: ShownEvent


TranscriptPiece = TextPiece | CallPiece | EventPiece


class TranscriptPart:
    """The pieces of a turn in one output of the cell."""

    def __init__(self, transcript: Transcript, pieces: list[TranscriptPiece]) -> None:
        self.pieces = pieces
        self._transcript = transcript

    @property
    def is_final(self) -> bool:
        """True if no piece can change. Only the last part gets new pieces."""
        return all(piece.is_final for piece in self.pieces)

    def render(self, *, live: bool = False, status: str | None = None) -> dict[str, str]:
        """Return the MIME bundle of the part: `text/markdown` and `text/plain`.

        While the turn runs, it is `live`, with durations, and may end in a line with its `status`.
        """
        reports = list(map(self._transcript.render, self._sort_decisions()))
        markdown = []
        for report in reports:
            if live and report.live:
                markdown.append(report.live)
            else:
                markdown.append(report.markdown)

        if status:
            markdown.append(f"*{escape_markup(status)}*")

        return {
            "text/markdown": "\n\n".join(filter(None, markdown)),
            "text/plain": "\n".join(filter(None, (report.text for report in reports))),
        }

    def _sort_decisions(self) -> Iterator[TranscriptPiece]:
        """Yield the pieces, with adjacent decisions in the order of their calls.

        Calls run concurrently and ask in any order. So each run shows the same order.
        """

        def is_decision(piece: TranscriptPiece) -> bool:
            return _get_deciding_call(piece) is not None

        def get_call_number(piece: TranscriptPiece) -> int:
            return self._transcript.call_numbers.get(_get_deciding_call(piece) or "", 0)

        for are_decisions, adjacent in groupby(self.pieces, is_decision):
            pieces = list(adjacent)
            if are_decisions:
                pieces.sort(key=get_call_number)

            yield from pieces


class Transcript:
    """The pieces of one turn, in order, in one or several parts.

    A part is the content of one output. A new part starts after another output, such as text that a
    tool prints. Reasoning is folded, and only images of `image_hosts` are loaded.

    Attributes:
        parts: The parts. The last one may be empty.
        call_numbers: The place of each call in the order in which the calls began, by id.
    """

    def __init__(
        self,
        *,
        show_reasoning: bool = True,
        show_tools: bool = True,
        image_hosts: Collection[str] = (),
    ) -> None:
        self._show_tools = show_tools
        self._render_text = partial(
            _render_text, show_reasoning=show_reasoning, image_hosts=image_hosts
        )
        self._running: dict[str, CallPiece] = {}  # calls that have not ended, by id
        self._last: TranscriptPiece | None = None  # the piece that more text may extend
        # The pieces of the current response of the model. `DiscardText` removes them, because the
        # model answers again.
        self._response: list[TranscriptPiece] = []
        self.call_numbers: dict[str, int] = {}
        self.parts = [TranscriptPart(self, [])]

    def add(self, event: DisplayEvent) -> TranscriptPiece | None:
        """Process `event`, and return the piece that it adds or changes, if there is one."""
        match event:
            case ShowText(kind=kind, text=text):
                return self._add_text(kind, text)
            case EndOfText():
                if isinstance(self._last, TextPiece):
                    self._last.is_final = True
            case DiscardText():
                self._discard_response()
            case ToolBegins():
                return self._begin_tool(event)
            case ToolEnds():
                return self._end_tool(event)
            case (
                Waits()
                | TokensSoFar()
                | FunctionBegins()
                | FunctionEnds()
                | CodeAsks()
                | InterruptReceived()
            ):
                pass
            case QuestionEnds() | ChangeEnds() | Notice() | ShowRequest() | UserMessage():
                return self._add_event(event)
            case _:
                assert_never(event)

        return None

    def _add_event(self, event: ShownEvent) -> EventPiece:
        """Add a piece that cannot change. Most events end the response, see `_response`."""
        piece = EventPiece(event, is_final=True)
        self._append(piece)

        # These two can arrive within a response. The others end it.
        if not isinstance(event, (QuestionEnds, Notice)):
            self._response = []

        return piece

    def _discard_response(self) -> None:
        """Remove the pieces of the current response from all parts."""
        dropped = set(map(id, self._response))
        for part in self.parts:
            part.pieces = [piece for piece in part.pieces if id(piece) not in dropped]

        if id(self._last) in dropped:
            self._last = None

        self._response = []

    def _append(self, piece: TranscriptPiece) -> None:
        self.parts[-1].pieces.append(piece)
        self._response.append(piece)
        self._last = piece

    def _add_text(self, kind: TextKind, text: str) -> TextPiece:
        piece = self._last
        if not isinstance(piece, TextPiece) or piece.is_final or piece.kind != kind:
            piece = TextPiece(kind)
            self._append(piece)

        piece.texts.append(text)
        piece.rendered = None
        return piece

    def _begin_tool(self, event: ToolBegins) -> CallPiece | None:
        """Add the line of a call, or change it: a call begins again if its arguments change."""
        self.call_numbers.setdefault(event.call_id, len(self.call_numbers))
        if not self.shows(event):
            return None

        piece = self._running.get(event.call_id)
        if piece is None:
            piece = CallPiece(event)
            self._append(piece)
            self._running[event.call_id] = piece
        elif piece.begins == event:
            return None

        piece.begins = event
        piece.rendered = None
        return piece

    def _end_tool(self, event: ToolEnds) -> CallPiece | None:
        """End the line of a call. A call that never began, such as a skipped one, gets a line."""
        piece = self._running.pop(event.call_id, None)
        if piece is None and self.shows(event):
            begins = ToolBegins(event.call_id, event.name, {}, event.hidden, parameters="off")
            piece = CallPiece(begins)
            self._append(piece)

        if piece is not None:
            piece.ends = event
            piece.is_final = True
            piece.rendered = None

        self._response = []
        return piece

    def set_printed(self, call_id: str, text: str) -> None:
        """Show `text` below the line of the running call, in place of its earlier text."""
        piece = self._running.get(call_id)
        if piece is not None:
            piece.printed = text
            piece.rendered = None

    def shows(self, event: ToolBegins | ToolEnds) -> bool:
        """Return True if the transcript shows the call."""
        return self._show_tools and not event.hidden

    def render(self, piece: TranscriptPiece) -> Report:
        """Return `piece` as it is now. Each of its states is rendered once."""
        if piece.rendered is None:
            piece.rendered = self._render(piece)

        return piece.rendered

    def _render(self, piece: TranscriptPiece) -> Report:
        match piece:
            case TextPiece(kind=kind, texts=texts):
                # Later parts are joined with this one text, not with all earlier parts again.
                texts[:] = ["".join(texts)]
                return self._render_text(kind, texts[0])
            case CallPiece(begins=begins, ends=ends, printed=printed):
                return add_printed(render_call(begins, ends), printed)
            case EventPiece(event=event):
                return render_event(event)
            case _:
                assert_never(piece)

    def start_part(self, call_id: str | None = None, *, always: bool = False) -> bool:
        """Start a new part, and return True. Do nothing if no piece would stay in the last part.

        The new part starts after the line of the running call `call_id`, if the last part contains
        it: later pieces move into the new part. Otherwise it starts at the end; with `always`, even
        if the last part is empty.
        """
        pieces = self.parts[-1].pieces
        call = self._running.get(call_id) if call_id is not None else None
        end = len(pieces)
        if call is not None and call in pieces:
            end = pieces.index(call) + 1

        if not end and not always:
            return False

        self.parts.append(TranscriptPart(self, pieces[end:]))
        del pieces[end:]

        return True


def _get_deciding_call(piece: TranscriptPiece) -> str | None:
    """Return the id of the call that a decision belongs to; None for other pieces."""
    event = piece.event if isinstance(piece, EventPiece) else None
    return event.call_id if isinstance(event, (QuestionEnds, ChangeEnds)) else None


def _render_text(
    kind: TextKind, text: str, *, show_reasoning: bool, image_hosts: Collection[str]
) -> Report:
    """Return text of the model as a report: structured data as code, and reasoning folded."""
    if kind == "structured":
        with suppress(ValueError):
            text = indented_json(read_json(text))
        return Report(make_code_block(text), plain(text))

    if kind == "reasoning" and not (show_reasoning and text.strip()):
        return Report("", "")

    markdown = sanitize_markdown(text, image_hosts=image_hosts)
    if kind == "reasoning":  # not shown in terminals
        return Report(make_details_block("Reasoning", markdown), "")

    return Report(markdown.strip("\n"), plain(text).strip("\n"))
