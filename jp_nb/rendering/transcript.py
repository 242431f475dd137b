"""What a turn looks like in its cell: a fold over what happened, in Markdown and in plain text.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, assert_never

from pydantic import JsonValue

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
    ShowText,
    ToolBegins,
    ToolEnds,
    Waits,
)
from jp_nb.config.secret_names import SECRET_ANSWER
from jp_nb.json_values import indented_json, read_json
from jp_nb.rendering import wording
from jp_nb.rendering.markdown import code_block, code_span, safe_markdown
from jp_nb.rendering.tool_calls import (
    bounded,
    call_markdown,
    call_plain,
    folded,
    no_markup,
)
from jp_nb.safe_text import one_line, plain


@dataclass(slots=True)
class TextPiece:
    """Assistant text, reasoning or structured data, as it came."""

    kind: Literal["message", "reasoning", "structured"]
    chunks: list[str] = field(default_factory=list)
    done: bool = False

    @property
    def text(self) -> str:
        """All of it so far."""
        if len(self.chunks) > 1:
            self.chunks[:] = ["".join(self.chunks)]
        return self.chunks[0] if self.chunks else ""


@dataclass(slots=True)
class ToolPiece:
    """One tool call; `ends` is None while it runs."""

    begins: ToolBegins
    ends: ToolEnds | None = None


Piece = TextPiece | ToolPiece | QuestionEnds | ChangeEnds | Notice | PersonSays

MAX_NOTICE_LINES = 50
NO_BREAK_SPACE = "\u00a0"


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
        self._show_reasoning = show_reasoning
        self._show_tools = show_tools
        self._image_hosts = image_hosts
        self._response = 0
        self._running: dict[str, ToolPiece] = {}
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
            case Waits() | FunctionBegins() | FunctionEnds() | InterruptHeard():
                pass
            case PersonSays() | ChangeEnds():
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

    # --- parts -------------------------------------------------------------------------------

    @property
    def parts(self) -> int:
        """How many parts there are; the last one may be empty."""
        return len(self._starts)

    def cut(self, call_id: str | None = None) -> bool:
        """Begin a part behind the line of a call, if the last part has it, or else behind all.

        Returns whether it began one: there is nothing to end in a part that is empty.
        """
        piece = self._running.get(call_id) if call_id is not None else None
        end = len(self.pieces)
        if piece is not None:
            places = (n for n in range(self._starts[-1], end) if self.pieces[n] is piece)
            end = next(places, end - 1) + 1
        if end <= self._starts[-1]:
            return False
        self._starts.append(end)
        return True

    def is_final(self, part: int) -> bool:
        """Whether nothing in `part` can change any more; never true of the last one."""
        return part < len(self._starts) - 1 and all(map(_is_final, self._pieces_of(part)))

    def _pieces_of(self, part: int) -> list[Piece]:
        return [self.pieces[number] for number in self._numbers_of(part)]

    def _numbers_of(self, part: int) -> range:
        part %= len(self._starts)
        end = self._starts[part + 1] if part + 1 < len(self._starts) else len(self.pieces)
        return range(self._starts[part], end)

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
        numbers = self._numbers_of(part)
        if live:
            blocks = [self._live_markdown(number) for number in numbers]
        else:
            blocks = [self._piece_markdown(self.pieces[number], live) for number in numbers]
        if status:
            blocks.append(f"*{no_markup(status)}*")
        return "\n\n".join(block for block in blocks if block)

    def plain_text(self, part: int = -1) -> str:
        """A part as text, for terminals and diffs."""
        blocks = [self._plain(number) for number in self._numbers_of(part)]
        return "\n".join(block for block in blocks if block)

    def _live_markdown(self, number: int) -> str:
        """A piece while the turn runs; one that cannot change any more is rendered once."""
        if (known := self._markdown.get(number)) is not None:
            return known
        text = self._piece_markdown(self.pieces[number], live=True)
        if self._stays(number):
            self._markdown[number] = text
        return text

    def _plain(self, number: int) -> str:
        """A piece as text, likewise."""
        if (known := self._texts.get(number)) is not None:
            return known
        text = piece_plain(self.pieces[number])
        if self._stays(number):
            self._texts[number] = text
        return text

    def _stays(self, number: int) -> bool:
        """Whether a piece cannot change any more; text is added to the last one alone."""
        piece = self.pieces[number]
        return _is_final(piece) or (isinstance(piece, TextPiece) and piece is not self.pieces[-1])

    def _piece_markdown(self, piece: Piece, live: bool) -> str:
        match piece:
            case TextPiece(kind="message"):
                return self._safe(piece.text).strip("\n")
            case TextPiece(kind="reasoning"):
                return self._reasoning_markdown(piece)
            case TextPiece():
                return code_block(_pretty(piece.text))
            case ToolPiece():
                return call_markdown(piece.begins, piece.ends, live=live)
            case QuestionEnds():
                return _question_markdown(piece)
            case ChangeEnds():
                return _change_markdown(piece)
            case Notice(text=text):
                return _notice_markdown(text)
            case PersonSays(text=text):
                return f"> 💬 {no_markup(one_line(text, limit=2000))}"
            case _:
                assert_never(piece)

    def _reasoning_markdown(self, piece: TextPiece) -> str:
        if not self._show_reasoning or not piece.text.strip():
            return ""
        return folded("Reasoning", self._safe(piece.text))

    def _safe(self, text: str) -> str:
        return safe_markdown(text, image_hosts=self._image_hosts)


def piece_plain(piece: Piece) -> str:
    """A piece as text; "" for what is not for terminals, such as reasoning."""
    match piece:
        case TextPiece(kind="reasoning"):
            return ""
        case TextPiece(kind="structured"):
            return plain(_pretty(piece.text))
        case TextPiece():
            return plain(piece.text).strip("\n")
        case ToolPiece():
            return call_plain(piece.begins, piece.ends)
        case QuestionEnds():
            return question_text(piece)
        case ChangeEnds():
            return change_text(piece)
        case Notice(text=text):
            return _notice_text(text)
        case PersonSays(text=text):
            return f"> {one_line(text, limit=2000)}"
        case _:
            assert_never(piece)


def _is_final(piece: Piece) -> bool:
    if isinstance(piece, ToolPiece):
        return piece.ends is not None
    return piece.done if isinstance(piece, TextPiece) else True


def question_text(ends: QuestionEnds) -> str:
    """One line: the question, and its answer or why there is none."""
    label = f"{one_line(ends.label, limit=80)}: " if ends.label else ""
    return f"? {label}{one_line(ends.question.text, limit=500)} {_outcome(ends)}"


def _question_markdown(ends: QuestionEnds) -> str:
    label = f"**{no_markup(one_line(ends.label, limit=80))}**: " if ends.label else ""
    question = no_markup(one_line(ends.question.text, limit=500))
    asked = f"> ❓ {label}{question} **{no_markup(_outcome(ends))}**"
    if not ends.question.context:
        return asked
    # Made safe as a quotation: that decides what is code in it.
    context = plain(ends.question.context, limit=2000).split("\n")
    quoted = (f"> {line}" if line else ">" for line in context)
    return "\n\n".join([safe_markdown("\n".join(quoted)), asked])


def change_text(ends: ChangeEnds) -> str:
    """What was decided about a configuration change: a line, or one more for each of several."""
    about, several = _changes(ends)
    lines = [f"⟳ {about.line} — {_verdict(ends)}", *(f"    {line}" for line in about.difference)]
    for one in several:
        lines += [f"    {one.line}", *(f"        {line}" for line in one.difference)]
    return "\n".join(lines)


def _change_markdown(ends: ChangeEnds) -> str:
    about, several = _changes(ends)
    head = f"⟳ {code_span(about.line)} — {no_markup(_verdict(ends))}"
    items = "\n".join(_with_difference(f"- {code_span(one.line)}", one, "  ") for one in several)
    return "\n\n".join(filter(None, (_with_difference(head, about, ""), items)))


def _with_difference(line: str, about: wording.Decided, indentation: str) -> str:
    if not about.difference:
        return line
    block = code_block("\n".join(about.difference), "diff").split("\n")
    return "\n".join([line, "", *(f"{indentation}{text}" for text in block)])


def _changes(ends: ChangeEnds) -> tuple[wording.Decided, list[wording.Decided]]:
    """What it was about, and what goes below that if it was not just one change."""
    tool, lines = one_line(ends.tool, limit=80), wording.decided(ends.changes)
    if len(lines) == 1:
        return lines[0]._replace(line=f"{tool}: {lines[0].line}"), []
    return wording.Decided(f"{tool}: {len(ends.changes)} configuration changes"), lines


def _verdict(ends: ChangeEnds) -> str:
    match ends.by:
        case "person":
            channel = f" ({ends.channel})" if ends.channel else ""
            return f"{'applied' if ends.applied else 'rejected'} by you{channel}"
        case "grant":
            return "applied, as its grant allows"
        case "nobody":
            reason = ends.reason or "nobody could be asked"
            return f"not applied: {one_line(reason, limit=300)}"
        case other:
            assert_never(other)


def _notice_text(text: str) -> str:
    return bounded(text, lines=MAX_NOTICE_LINES)


def _notice_markdown(text: str) -> str:
    """A notice line by line, with its indentation, which Markdown would drop."""
    lines = []
    for line in _notice_text(text).split("\n"):
        if said := one_line(line, limit=2000):
            indentation = len(line) - len(line.lstrip(" "))
            lines.append(f"{NO_BREAK_SPACE * indentation}*{no_markup(said)}*")
    return "  \n".join(lines)


_ENDS: Mapping[str, str] = {
    "declined": "declined",
    "cancelled": "cancelled",
    "timed_out": "no answer in time",
    "interrupted": "interrupted",
    "unavailable": "nobody could be asked",
}
_REASONS: Mapping[str, str] = {
    "user": "cancelled",
    "backend_error": "no model could answer",
    "no_prompt_backend": "nobody could be asked",
    "assistant_routing_denied": "only a person may answer",
    "invalid_static_answer": "the configured answer does not fit",
}


def _outcome(ends: QuestionEnds) -> str:
    if ends.outcome == "redacted":
        return f"→ {SECRET_ANSWER}"
    if ends.outcome == "answered":
        origin = (
            f" ({ends.channel})" if ends.channel in ("configured", "remembered", "model") else ""
        )
        return f"→ {_answer(ends.answer)}{origin}"
    why = _ENDS.get(ends.end or "") or _REASONS.get(ends.reason or "", ends.reason or "cancelled")
    return f"— no answer: {why}"


def _answer(answer: JsonValue) -> str:
    if isinstance(answer, bool):
        return "Yes" if answer else "No"
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return one_line(text, limit=2000) or "(empty)"


def _pretty(text: str) -> str:
    try:
        return indented_json(read_json(text))
    except ValueError:
        return text
