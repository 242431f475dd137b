"""The pieces of a turn, each in Markdown and in plain text.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, assert_never

from jp_nb.agent.display_events import (
    ChangeEnds,
    Notice,
    PersonSays,
    QuestionEnds,
    ShowRequest,
    ToolBegins,
    ToolEnds,
)
from jp_nb.agent.prepared_answers import ANSWERS
from jp_nb.config.secret_names import SECRET_ANSWER
from jp_nb.json_values import indented_json, read_json
from jp_nb.record.answer_words import (
    DOES_NOT_FIT,
    LEFT,
    NO_MODEL,
    NO_USER,
    NOT_ANSWERED,
    USER_ONLY,
)
from jp_nb.rendering import wording
from jp_nb.rendering.markdown import code_block, code_span, safe_markdown
from jp_nb.rendering.question_card import (
    QuestionCard,
    card_markdown,
    card_text,
    marks_in_words,
    question_card,
    quoted,
)
from jp_nb.rendering.report import in_one_line
from jp_nb.rendering.tool_calls import (
    bounded,
    call_markdown,
    call_plain,
    details_block,
    no_markup,
)
from jp_nb.rendering.wording import by_in_words
from jp_nb.safe_text import one_line, plain, shown_name


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


Piece = TextPiece | ToolPiece | QuestionEnds | ChangeEnds | Notice | ShowRequest | PersonSays

MAX_NOTICE_LINES = 50
NO_BREAK_SPACE = "\u00a0"


@dataclass(frozen=True, slots=True)
class PieceStyle:
    """The settings with which pieces are shown.

    Attributes:
        show_reasoning: Whether reasoning is shown (folded).
        image_hosts: Hosts whose images are loaded.
    """

    show_reasoning: bool = True
    image_hosts: Collection[str] = ()


def piece_markdown(piece: Piece, style: PieceStyle, *, live: bool) -> str:
    """Return a piece as Markdown in which model and tool text is neutralised.

    With `live`, a tool call also says how long it took, which a saved cell never does.
    """
    match piece:
        case TextPiece():
            return _text_markdown(piece, style)
        case ToolPiece():
            return call_markdown(piece.begins, piece.ends, live=live)
        case QuestionEnds():
            return _question_markdown(piece)
        case ChangeEnds():
            return _change_markdown(piece)
        case Notice(text=text):
            return _notice_markdown(text)
        case ShowRequest(text=text):
            return details_block("Request", code_block(text, limit=len(text)))
        case PersonSays(text=text):
            return f"> 💬 {no_markup(one_line(text, limit=2000))}"
        case _:
            assert_never(piece)


def _text_markdown(piece: TextPiece, style: PieceStyle) -> str:
    match piece.kind:
        case "structured":
            return code_block(_pretty(piece.text))
        case "reasoning":
            if not style.show_reasoning or not piece.text.strip():
                return ""
            return details_block("Reasoning", _safe(piece.text, style))
        case "message":
            return _safe(piece.text, style).strip("\n")


def _safe(text: str, style: PieceStyle) -> str:
    return safe_markdown(text, image_hosts=style.image_hosts)


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
        case ShowRequest(text=text):
            return "\n".join(
                f"> {line}".rstrip() for line in plain(text, limit=len(text)).split("\n")
            )
        case PersonSays(text=text):
            return f"> {one_line(text, limit=2000)}"
        case _:
            assert_never(piece)


def question_text(ends: QuestionEnds) -> str:
    """Return the question with its answer or why there is none, and below it what was offered."""
    label = f"{one_line(ends.label, limit=80)}: " if ends.label else ""
    card = _card(ends)
    asked = f"? {label}{one_line(ends.question.text, limit=500)} {_outcome(ends, card)}"
    return "\n".join([asked, *(f"    {line}" for line in card_text(card))])


def _question_markdown(ends: QuestionEnds) -> str:
    label = f"**{no_markup(one_line(ends.label, limit=80))}**: " if ends.label else ""
    question, card = no_markup(one_line(ends.question.text, limit=500)), _card(ends)
    asked = f"❓ {label}{question} **{no_markup(_outcome(ends, card))}**"
    asked = quoted("\n\n".join(filter(None, [asked, card_markdown(card)])))
    if not ends.question.context:
        return asked
    # Made safe as a quotation: that decides what is code in it.
    context = plain(ends.question.context, limit=2000).split("\n")
    lines = (f"> {line}" if line else ">" for line in context)
    return "\n\n".join([safe_markdown("\n".join(lines)), asked])


def _card(ends: QuestionEnds) -> QuestionCard:
    """Return what was offered and chosen; of what nobody saw, nothing was offered."""
    answered = ends.outcome == "answered"
    if not answered and ends.end not in LEFT:
        return QuestionCard()
    return question_card(ends.question.answer_type.recorded(), ends.answer, answered=answered)


def change_text(ends: ChangeEnds) -> str:
    """Return what was decided about a configuration change: a line, and one for each of several."""
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
    """Return what it was about, and what goes below that if it was not just one change."""
    tool, lines = one_line(ends.tool, limit=80), wording.decided(ends.changes)
    if len(lines) == 1:
        return lines[0]._replace(line=f"{tool}: {lines[0].line}"), []
    return wording.Decided(f"{tool}: {len(ends.changes)} configuration changes"), lines


def _verdict(ends: ChangeEnds) -> str:
    applied, beside = (
        ("applied", "") if ends.counts else ("approved", "; not applied outside a turn")
    )
    match ends.by:
        case "person" if ends.channel == ANSWERS:
            answers = "by the answers file"
            return f"{applied} {answers}{beside}" if ends.applied else f"rejected {answers}"
        case "person":
            channel = f" ({ends.channel})" if ends.channel else ""
            person = "you" if ends.person is None else shown_name(ends.person)
            if not ends.applied:
                return f"rejected by {person}{channel}"
            return f"{applied} by {person}{channel}{beside}"
        case "grant":
            return f"{applied} by a grant{beside}"
        case "nobody":
            reason = ends.reason or NO_USER
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
            lines.append(f"{NO_BREAK_SPACE * indentation}{in_one_line(said, no_markup)}")
    return "  \n".join(lines)


_NO_PERSON: Final = {
    **{channel: channel for channel in ("configured", "remembered", "recorded", "model")},
    ANSWERS: "answers file",
}
"""Channels of answers that nobody gave just now, in words."""
_ENDS: Mapping[str, str] = {
    **LEFT,
    "unavailable": NO_USER,
}
_REASONS: Mapping[str, str] = {
    "user": "cancelled",
    "backend_error": NO_MODEL,
    "no_prompt_backend": NO_USER,
    "assistant_routing_denied": USER_ONLY,
    "invalid_static_answer": DOES_NOT_FIT,
}


def _outcome(ends: QuestionEnds, card: QuestionCard) -> str:
    if ends.outcome == "redacted":
        return f"→ {SECRET_ANSWER}{by_in_words(ends.by)}"
    if ends.outcome == "answered":
        origin = f" ({_NO_PERSON[ends.channel]})" if ends.channel in _NO_PERSON else ""
        return f"→ {card.words}{origin}{marks_in_words(ends.marks)}{by_in_words(ends.by)}"
    if ends.end == "declined":
        return f"— {NOT_ANSWERED}{by_in_words(ends.by)}"
    why = _ENDS.get(ends.end or "") or _REASONS.get(ends.reason or "", ends.reason or "cancelled")
    return f"— no answer: {why}{by_in_words(ends.by)}"


def _pretty(text: str) -> str:
    try:
        return indented_json(read_json(text))
    except ValueError:
        return text
