"""A turn as its cell shows it: a fold over what happened, in Markdown and in plain text.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import groupby
from typing import assert_never

from jp_nb.agent.display_events import (
    ChangeEnds,
    DiscardText,
    DisplayEvent,
    EndOfText,
    FunctionBegins,
    FunctionEnds,
    InterruptHeard,
    Notice,
    PersonSays,
    QuestionEnds,
    ShowRequest,
    ShowText,
    TokensSoFar,
    ToolBegins,
    ToolEnds,
    Waits,
)
from jp_nb.rendering.tool_calls import (
    no_markup,
)
from jp_nb.rendering.transcript_pieces import (
    Piece,
    PieceStyle,
    TextPiece,
    ToolPiece,
    piece_markdown,
    piece_plain,
)

_DECISIONS = (QuestionEnds, ChangeEnds)


class Transcript:
    """The pieces of one turn, in order, in one part or several.

    A part is what one output shows. Another one begins where something else was shown in between,
    such as what a tool printed.

    Args:
        show_reasoning: Whether reasoning is shown (folded).
        show_tools: Whether tool calls are shown.
        image_hosts: Hosts whose images are loaded.
    """

    def __init__(
        self,
        *,
        show_reasoning: bool = True,
        show_tools: bool = True,
        image_hosts: Collection[str] = (),
    ) -> None:
        self.pieces: list[Piece] = []
        self._show_tools = show_tools
        self._style = PieceStyle(show_reasoning, image_hosts)
        self._response = 0
        self._running: dict[str, ToolPiece] = {}
        self._calls: dict[str, int] = {}
        self._starts = [0]
        self._markdown: dict[int, str] = {}  # of pieces that cannot change any more, while it runs
        self._texts: dict[int, str] = {}

    def apply(self, events: Iterable[DisplayEvent]) -> None:
        """Fold `events` in."""
        for event in events:
            self._apply(event)

    def _apply(self, event: DisplayEvent) -> None:
        match event:
            case ShowText():
                self._add_text(event)
            case EndOfText():
                if self.pieces and isinstance(self.pieces[-1], TextPiece):
                    self.pieces[-1].done = True
            case DiscardText():
                del self.pieces[self._response :]
                self._starts = [min(start, self._response) for start in self._starts]
                self._markdown.clear()
                self._texts.clear()
            case ToolBegins():
                self._begin_tool(event)
            case ToolEnds():
                self._end_tool(event)
            case Waits() | TokensSoFar() | FunctionBegins() | FunctionEnds() | InterruptHeard():
                pass
            case ShowRequest() | PersonSays() | ChangeEnds():
                self.pieces.append(event)
                self._response = len(self.pieces)
            case QuestionEnds() | Notice():
                self.pieces.append(event)
            case _:
                assert_never(event)

    def _add_text(self, event: ShowText) -> None:
        last = self.pieces[-1] if self.pieces else None
        if not isinstance(last, TextPiece) or last.done or last.kind != event.kind:
            last = TextPiece(event.kind)
            self.pieces.append(last)
        last.chunks.append(event.text)

    def _begin_tool(self, event: ToolBegins) -> None:
        self._calls.setdefault(event.call_id, len(self._calls))
        if not self._show_tools or event.hidden:
            return
        running = self._running.get(event.call_id)
        if running is not None:
            running.begins = event
            return
        self._running[event.call_id] = piece = ToolPiece(event)
        self.pieces.append(piece)

    def _end_tool(self, event: ToolEnds) -> None:
        self._response = len(self.pieces)
        piece = self._running.pop(event.call_id, None)
        if piece is not None:
            piece.ends = event
        elif self._show_tools and not event.hidden:
            begins = ToolBegins(event.call_id, event.name, {}, event.hidden, parameters="off")
            self.pieces.append(ToolPiece(begins, event))
            self._response = len(self.pieces)

    def shows(self, event: ToolEnds) -> bool:
        """Return True if the call that ended has a line."""
        return self._show_tools and not event.hidden

    # --- parts -------------------------------------------------------------------------------

    @property
    def parts(self) -> int:
        """The number of parts; the last one may be empty."""
        return len(self._starts)

    def cut(self, call_id: str | None = None, *, always: bool = False) -> bool:
        """Begin a part behind the line of a call, if the last part has it, or else behind all.

        Returns whether it began one: a part that is empty has nothing to end, unless `always`.
        """
        piece = self._running.get(call_id) if call_id is not None else None
        end = len(self.pieces)
        if piece is not None:
            places = (n for n in range(self._starts[-1], end) if self.pieces[n] is piece)
            end = next(places, end - 1) + 1
        if end <= self._starts[-1] and not always:
            return False
        self._starts.append(end)
        return True

    def is_empty(self, part: int) -> bool:
        """Return True if `part` has no pieces."""
        return not self._numbers_of(part)

    def is_final(self, part: int) -> bool:
        """Return True if nothing in `part` can change any more; never true of the last one."""
        return part < len(self._starts) - 1 and all(map(_is_final, self._pieces_of(part)))

    def _pieces_of(self, part: int) -> list[Piece]:
        return [self.pieces[number] for number in self._numbers_of(part)]

    def _numbers_of(self, part: int) -> range:
        part %= len(self._starts)
        end = self._starts[part + 1] if part + 1 < len(self._starts) else len(self.pieces)
        return range(self._starts[part], end)

    def _in_call_order(self, numbers: Iterable[int]) -> Iterator[int]:
        """Yield `numbers`, with decisions that stand together in the order of their calls.

        Calls run side by side and ask in any order; a cell that is run again shows the same.
        """
        for decided, group in groupby(numbers, lambda n: isinstance(self.pieces[n], _DECISIONS)):
            together = list(group)
            yield from sorted(together, key=self._place) if decided else together

    def _place(self, number: int) -> int:
        piece = self.pieces[number]
        return self._calls.get(piece.call_id, 0) if isinstance(piece, _DECISIONS) else 0

    # --- rendering ---------------------------------------------------------------------------

    def bundle(
        self, part: int = -1, *, live: bool = False, status: str | None = None
    ) -> dict[str, str]:
        """The MIME bundle of a part: `text/markdown` and `text/plain`.

        Args:
            part: Its number, from 0; the last one if it is negative.
            live: The turn is still running: durations are shown, which a saved cell never has.
            status: A last line while it runs, such as what is waited for.
        """
        return {
            "text/markdown": self.markdown(part, live=live, status=status),
            "text/plain": self.plain_text(part),
        }

    def markdown(self, part: int = -1, *, live: bool = False, status: str | None = None) -> str:
        """A part as Markdown in which model and tool text is neutralised."""
        numbers = list(self._in_call_order(self._numbers_of(part)))
        if live:
            blocks = [self._live_markdown(number) for number in numbers]
        else:
            blocks = [
                piece_markdown(self.pieces[number], self._style, live=False) for number in numbers
            ]
        if status:
            blocks.append(f"*{no_markup(status)}*")
        return "\n\n".join(block for block in blocks if block)

    def plain_text(self, part: int = -1) -> str:
        """A part as text, for terminals and diffs."""
        numbers = self._in_call_order(self._numbers_of(part))
        blocks = [self._once(number, self._texts, piece_plain) for number in numbers]
        return "\n".join(block for block in blocks if block)

    def _live_markdown(self, number: int) -> str:
        return self._once(
            number, self._markdown, lambda x: piece_markdown(x, self._style, live=True)
        )

    def _once(self, number: int, known: dict[int, str], render: Callable[[Piece], str]) -> str:
        """Return a piece as `render` gives it; one that cannot change any more is rendered once."""
        text = known.get(number)
        if text is None:
            text = render(self.pieces[number])
            if self._stays(number):
                known[number] = text
        return text

    def _stays(self, number: int) -> bool:
        """Return True if a piece cannot change any more; text is added to the last one alone."""
        piece = self.pieces[number]
        return _is_final(piece) or (isinstance(piece, TextPiece) and piece is not self.pieces[-1])


def _is_final(piece: Piece) -> bool:
    if isinstance(piece, ToolPiece):
        return piece.ends is not None
    return piece.done if isinstance(piece, TextPiece) else True
