"""Text of a turn: the transcript of a running one, and the log of recorded ones.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, assert_never

from pydantic import JsonValue

from jp_nb.agent.display import (
    ChangeEnds,
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
from jp_nb.agent.prompts import ANSWERS
from jp_nb.config.partial import is_wrapper
from jp_nb.config.schema import (
    JSON,
    ROOT,
    Element,
    SchemaNode,
    format_path,
    is_secret_path,
    mask_secrets,
    parse_path,
)
from jp_nb.config.secrets import NOT_SHOWN, hide_credentials
from jp_nb.errors import ConfigError
from jp_nb.json_values import indented_json, read_json
from jp_nb.record.compaction import find_compactions, format_compactions
from jp_nb.record.conversations import ConversationInfo, list_conversations
from jp_nb.record.document import Document
from jp_nb.record.events import Entry
from jp_nb.record.outcomes import END_WORDS
from jp_nb.record.stream import ProposedBy
from jp_nb.record.turns import (
    ConfigChange,
    Inquiry,
    Part,
    StructuredData,
    Text,
    ToolCall,
    Turn,
)
from jp_nb.rendering import prompts as prompt_text
from jp_nb.rendering.markdown import (
    code_block,
    code_span,
    details_block,
    no_markup,
    quoted,
    safe_markdown,
)
from jp_nb.rendering.questions import (
    QuestionCard,
    answer_as_json,
    card_markdown,
    card_text,
    format_outcome,
    question_card,
)
from jp_nb.rendering.report import (
    MAX_CELL_CHARS,
    MAX_LINE_CHARS,
    Rendered,
    Report,
    block,
    heading,
    indent,
    joined,
    line,
    note,
    remark,
    table,
)
from jp_nb.rendering.tool_calls import (
    CallPiece,
    TurnPiece,
    bounded,
    for_user,
    format_call,
)
from jp_nb.text import (
    MAX_CHARS,
    format_user_name,
    one_line,
    plain,
)

MAX_NOTICE_LINES = 50
NO_BREAK_SPACE = "\u00a0"
TextKind = Literal["message", "reasoning", "structured"]
Event = QuestionEnds | ChangeEnds | Notice | ShowRequest | UserMessage
"""An event that is shown as it is."""


@dataclass(frozen=True, slots=True)
class PieceStyle:
    """The settings with which pieces are shown.

    Attributes:
        show_reasoning: Whether reasoning is shown (folded).
        image_hosts: Hosts whose images are loaded.
    """

    show_reasoning: bool = True
    image_hosts: Collection[str] = ()


class TextPiece(TurnPiece):
    """Assistant text, reasoning or structured data as received."""

    def __init__(self, kind: TextKind, style: PieceStyle) -> None:
        super().__init__()
        self.kind = kind
        self.is_final = False
        self._style = style
        self._chunks: list[str] = []

    def add(self, text: str) -> None:
        """Append `text`."""
        self._chunks.append(text)
        self._rendered = None

    def _render(self) -> Rendered:
        self._chunks[:] = ["".join(self._chunks)]
        return _render_text(self.kind, self._chunks[0], self._style)


class EventPiece(TurnPiece):
    """An event that is shown as it is: a decision, a notice, or a message of the user."""

    def __init__(self, event: Event) -> None:
        super().__init__()
        self.event = event

    def _render(self) -> Rendered:
        return _render_event(self.event)


Piece = TextPiece | CallPiece | EventPiece


def _deciding_call(piece: Piece) -> str | None:
    # The call that a decision belongs to; None for other pieces.
    event = piece.event if isinstance(piece, EventPiece) else None
    return event.call_id if isinstance(event, (QuestionEnds, ChangeEnds)) else None


def _render_event(event: Event) -> Rendered:
    match event:
        case QuestionEnds():
            return _render_question(event)
        case ChangeEnds():
            return _render_change(event)
        case Notice(text=text):
            return _render_notice(text)
        case ShowRequest(text=text):
            block = details_block("Request", code_block(text, limit=len(text)))
            lines = plain(text, limit=len(text)).split("\n")
            return _rendered(block, "\n".join(f"> {line}".rstrip() for line in lines))
        case UserMessage(text=text):
            shown = line(text)
            return _rendered(f"> 💬 {shown.markdown}", f"> {shown.text}")
        case _:
            assert_never(event)


def _rendered(markdown: str, text: str) -> Rendered:
    return Rendered(markdown, text, markdown)


def _render_text(kind: TextKind, text: str, style: PieceStyle) -> Rendered:
    if kind == "structured":
        shown = _indent_json(text)
        return _rendered(code_block(shown), plain(shown))
    if kind == "reasoning" and not (style.show_reasoning and text.strip()):
        return _rendered("", "")
    markdown = safe_markdown(text, image_hosts=style.image_hosts)
    if kind == "reasoning":  # not shown in terminals
        return _rendered(details_block("Reasoning", markdown), "")
    return _rendered(markdown.strip("\n"), plain(text).strip("\n"))


def _render_question(ends: QuestionEnds) -> Rendered:
    # The question with its outcome, and the offered options below it.
    label = one_line(ends.label, limit=80) if ends.label else ""
    question, card = one_line(ends.question.text, limit=500), _question_card(ends)
    outcome = format_outcome(ends.outcome, card.words)
    asked = f"? {f'{label}: ' if label else ''}{question} {outcome}"
    marked = f"**{no_markup(label)}**: " if label else ""
    markdown = f"❓ {marked}{no_markup(question)} **{no_markup(outcome)}**"
    quotation = quoted("\n\n".join(filter(None, [markdown, card_markdown(card)])))
    if ends.question.context:
        # Sanitize the quotation, not its content, because `> ` may change which lines are code.
        context = quoted(plain(ends.question.context, limit=2000))
        quotation = "\n\n".join([safe_markdown(context), quotation])
    return _rendered(quotation, "\n".join([asked, *(f"    {line}" for line in card_text(card))]))


def _question_card(ends: QuestionEnds) -> QuestionCard:
    # A question that the user never saw is shown without its options.
    answered = ends.outcome.stored == "answered"
    if not answered and not ends.outcome.was_seen:
        return QuestionCard()
    return question_card(ends.question.answer_type.to_record(), ends.answer, answered=answered)


def _render_change(ends: ChangeEnds) -> Rendered:
    # The decision about configuration changes. Several changes have a line each.
    about, several = _summarize_changes(ends)
    decision = _format_decision(ends)
    text = [f"⟳ {about.line} — {decision}", *(f"    {line}" for line in about.difference)]
    for one in several:
        text += [f"    {one.line}", *(f"        {line}" for line in one.difference)]
    head = f"⟳ {code_span(about.line)} — {no_markup(decision)}"
    items = "\n".join(_add_difference(f"- {code_span(one.line)}", one, "  ") for one in several)
    markdown = "\n\n".join(filter(None, (_add_difference(head, about, ""), items)))
    return _rendered(markdown, "\n".join(text))


def _add_difference(line: str, about: prompt_text.Decided, indentation: str) -> str:
    if not about.difference:
        return line
    block = code_block("\n".join(about.difference), "diff").split("\n")
    return "\n".join([line, "", *(f"{indentation}{text}" for text in block)])


def _summarize_changes(ends: ChangeEnds) -> tuple[prompt_text.Decided, list[prompt_text.Decided]]:
    tool, lines = one_line(ends.tool, limit=80), prompt_text.decided(ends.changes)
    if len(lines) == 1:
        return lines[0]._replace(line=f"{tool}: {lines[0].line}"), []
    return prompt_text.Decided(f"{tool}: {len(ends.changes)} configuration changes"), lines


def _format_decision(ends: ChangeEnds) -> str:
    if ends.by == "nobody":
        return f"not applied: {one_line(ends.reason or END_WORDS['unavailable'].user, limit=300)}"
    who = _format_approver(ends.by, ends.channel, ends.person)
    if not ends.applied:
        return f"rejected by {who}"
    return f"applied by {who}" if ends.counts else f"approved by {who}; not applied outside a turn"


def _format_approver(by: Literal["person", "grant"], channel: str | None, name: str | None) -> str:
    if by == "grant":
        return "a grant"
    if channel == ANSWERS:
        return "the answers file"
    user = "you" if name is None else format_user_name(name)
    return f"{user} ({_format_name(channel)})" if channel else user


def _render_notice(text: str) -> Rendered:
    shown = bounded(text, lines=MAX_NOTICE_LINES)
    # Markdown removes the indentation of a line, but not no-break spaces.
    lines = []
    for each in shown.split("\n"):
        if said := one_line(each, limit=MAX_LINE_CHARS):
            indentation = len(each) - len(each.lstrip(" "))
            lines.append(f"{NO_BREAK_SPACE * indentation}{note(said).markdown}")
    return _rendered("  \n".join(lines), shown)


def _indent_json(text: str) -> str:
    try:
        return indented_json(read_json(text))
    except ValueError:
        return text


class TranscriptPart:
    """The pieces of a turn in one output."""

    def __init__(self, pieces: list[Piece], calls: Mapping[str, int]) -> None:
        self.pieces = pieces
        self._calls = calls

    @property
    def is_final(self) -> bool:
        """True if no piece can change. Only the last part gets new pieces."""
        return all(piece.is_final for piece in self.pieces)

    def bundle(self, *, live: bool = False, status: str | None = None) -> dict[str, str]:
        """Return the MIME bundle of the part: `text/markdown` and `text/plain`.

        Args:
            live: Whether durations are shown, because the turn still runs. They are never saved.
            status: Last line while the turn runs.
        """
        rendered = [piece.render() for piece in self._in_call_order()]
        markdown = [each.live if live else each.markdown for each in rendered]
        if status:
            markdown.append(f"*{no_markup(status)}*")
        return {
            "text/markdown": "\n\n".join(filter(None, markdown)),
            "text/plain": "\n".join(filter(None, (each.text for each in rendered))),
        }

    def _in_call_order(self) -> Iterator[Piece]:
        # Calls run concurrently and ask in any order. Adjacent decisions are sorted by call, so
        # that each run shows the same order.
        def place(piece: Piece) -> int:
            return self._calls.get(_deciding_call(piece) or "", 0)

        for decides, found in groupby(self.pieces, lambda each: _deciding_call(each) is not None):
            pieces = list(found)
            yield from sorted(pieces, key=place) if decides else pieces


class Transcript:
    """The pieces of one turn, in order, in one or several parts.

    A part is the content of one output. A new part starts after another output, such as text that a
    tool prints.

    Args:
        show_reasoning: Whether reasoning is shown (folded).
        show_tools: Whether tool calls are shown.
        image_hosts: Hosts whose images are loaded.

    Attributes:
        parts: The parts. The last one may be empty.
    """

    def __init__(
        self,
        *,
        show_reasoning: bool = True,
        show_tools: bool = True,
        image_hosts: Collection[str] = (),
    ) -> None:
        self._show_tools = show_tools
        self._style = PieceStyle(show_reasoning, image_hosts)
        self._running: dict[str, CallPiece] = {}
        self._calls: dict[str, int] = {}  # order of the calls, by id
        self._last: Piece | None = None
        self._response: list[Piece] = []  # the pieces that `DiscardText` removes
        self.parts = [TranscriptPart([], self._calls)]

    def apply(self, events: Iterable[DisplayEvent]) -> None:
        """Process `events`."""
        for event in events:
            self.add(event)

    def add(self, event: DisplayEvent) -> Piece | None:
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
            case Waits() | TokensSoFar() | FunctionBegins() | FunctionEnds() | InterruptReceived():
                pass
            case QuestionEnds() | ChangeEnds() | Notice() | ShowRequest() | UserMessage():
                self._append(piece := EventPiece(event))
                self._response = self._response if isinstance(event, (QuestionEnds, Notice)) else []
                return piece
            case _:
                assert_never(event)
        return None

    def _discard_response(self) -> None:
        dropped = set(map(id, self._response))
        for part in self.parts:
            part.pieces = [piece for piece in part.pieces if id(piece) not in dropped]
        self._last = None if id(self._last) in dropped else self._last
        self._response = []

    def _append(self, piece: Piece) -> None:
        self.parts[-1].pieces.append(piece)
        self._response.append(piece)
        self._last = piece

    def _add_text(self, kind: TextKind, text: str) -> TextPiece:
        last = self._last
        if not isinstance(last, TextPiece) or last.is_final or last.kind != kind:
            self._append(last := TextPiece(kind, self._style))
        last.add(text)
        return last

    def _begin_tool(self, event: ToolBegins) -> CallPiece | None:
        self._calls.setdefault(event.call_id, len(self._calls))
        if not self.shows(event):
            return None
        piece = self._running.get(event.call_id)
        if piece is None:
            self._append(piece := CallPiece(event))
            self._running[event.call_id] = piece
        elif piece.begins != event:
            piece.begin_again(event)
        else:
            return None
        return piece

    def _end_tool(self, event: ToolEnds) -> CallPiece | None:
        piece = self._running.pop(event.call_id, None)
        if piece is None and self.shows(event):
            begins = ToolBegins(event.call_id, event.name, {}, event.hidden, parameters="off")
            self._append(piece := CallPiece(begins))
        if piece is not None:
            piece.end(event)
        self._response = []
        return piece

    def shows(self, event: ToolBegins | ToolEnds) -> bool:
        """Return True if the transcript shows the call."""
        return self._show_tools and not event.hidden

    def cut(self, call_id: str | None = None, *, always: bool = False) -> bool:
        """Start a new part, and return True. If the last part would be empty, do nothing.

        Args:
            call_id: The new part starts after the line of this running call, if the last part
                contains it. Otherwise it starts at the end.
            always: Start a new part even if the last one is empty.
        """
        pieces = self.parts[-1].pieces
        piece = self._running.get(call_id) if call_id is not None else None
        end = pieces.index(piece) + 1 if piece and piece in pieces else len(pieces)
        if not end and not always:
            return False
        self.parts.append(TranscriptPart(pieces[end:], self._calls))
        del pieces[end:]
        return True

    def markdown(self, *, live: bool = False, status: str | None = None) -> str:
        """Return the last part as safe Markdown."""
        return self.parts[-1].bundle(live=live, status=status)["text/markdown"]

    def plain_text(self) -> str:
        """Return the last part as text, for terminals and diffs."""
        return self.parts[-1].bundle()["text/plain"]

    def bundle(self, *, live: bool = False, status: str | None = None) -> dict[str, str]:
        """Return the MIME bundle of the last part."""
        return self.parts[-1].bundle(live=live, status=status)


MAX_LOG_CHARS = 1000
"""Limit of one line of the log."""
MAX_COMPACTIONS = 20
"""Limit of compactions shown after one turn. An untrusted record may contain any number."""
MAX_NAMED = 5
"""Limit of names in a list of the tools that proposed a change."""
_NAME = re.compile(r"[\w.-]{1,64}")
_UNANSWERED = {
    "failed": "✗ failed: no answer",
    "interrupted": "⏹ interrupted before the answer",
}
_INCOMPLETE = {
    "failed": "✗ failed: the answer is incomplete",
    "interrupted": "⏹ interrupted",
    "stopped": "⏹ stopped by you",
}


def log_report(
    document: Document,
    turns: Sequence[Turn],
    *,
    total: int | None = None,
    image_hosts: Collection[str] = (),
) -> Report:
    """Return `turns` as a conversation, and the other conversations of the notebook.

    Args:
        document: The conversations.
        turns: The turns to show, which are the last ones.
        total: Number of all turns, if some are hidden.
        image_hosts: Hosts whose images are shown, not linked.
    """
    parts: list[Report | str] = []
    if total is not None and total > len(turns):
        earlier = total - len(turns)
        word = "turn" if earlier == 1 else "turns"
        parts.append(note(f"{earlier} earlier {word} hidden. Show all: `%jp log {total}`"))
    compactions = _compactions(document.conversation.entries) if turns else {}
    for turn in turns:
        parts += [*_turn_reports(turn, image_hosts), *compactions.get(turn.number, ())]
    if not turns:
        parts.append(remark("No turns in this conversation yet."))
    if document.others:
        parts += ["Other conversations in this notebook:", conversations_table(document)]
    return joined(parts)


def _get_speaker(part: Part) -> str:
    if not (isinstance(part, Text) and part.by_person):
        return "assistant"
    return "you" if part.by is None else f"asked by {format_user_name(part.by)}"


def _turn_reports(turn: Turn, image_hosts: Collection[str]) -> Iterator[Report]:
    requests = (x for x in turn.parts if isinstance(x, Text) and x.by_person)
    request = next(requests, Text("", by_person=True))
    speaker = _get_speaker(request)
    asked = _part_report(request, image_hosts)
    begins = heading(f"{turn.number} · {speaker}")
    text = f"{turn.number} {speaker}: {asked.text.lstrip()}"
    yield Report(f"{begins.markdown}\n\n{asked.markdown}", text)
    for image in turn.images:
        yield _line_report(f"[image: {image.words}]")
    for part in (x for x in turn.parts if x is not request):
        if isinstance(part, ConfigChange) and not (part.delta or part.unsets or part.begins_again):
            continue  # only the source of a value changed
        says = _get_speaker(part)
        if says != speaker and not isinstance(part, ConfigChange):
            speaker = says
            yield Report(heading(f"{turn.number} · {says}").markdown, f"{turn.number} {says}:")
        yield _part_report(part, image_hosts)
    if turn.uncalled:
        yield _line_report(f"⚠ {uncalled_words(turn.uncalled)}")
    if end := _format_end(turn):
        yield _line_report(end)


def _compactions(entries: Sequence[Entry]) -> dict[int, list[Report]]:
    # The keys are the turns after which the compactions were recorded.
    found: dict[int, list[Report]] = {}
    counts: Counter[int] = Counter()
    for placed in find_compactions(entries):
        entry, lines = placed.effective, found.setdefault(placed.after, [])
        counts[placed.after] += 1
        if counts[placed.after] > MAX_COMPACTIONS:
            continue
        end = " (undone)" if placed.is_reverted else ""
        lines.append(_line_report(f"⊟ {format_compactions([entry])} from here on{end}"))
        if entry.summary is not None and not placed.is_reverted:
            said = entry.summary.summary
            lines.append(Report(safe_markdown(said), indent(plain(said))))
    for turn, count in counts.items():
        if count > MAX_COMPACTIONS:
            found[turn].append(_line_report(f"⊟ and {count - MAX_COMPACTIONS} more"))
    return found


def _part_report(part: Part, image_hosts: Collection[str]) -> Report:
    match part:
        case Text(content=content, by_person=by_person):
            # Markdown joins lines that do not end in two spaces.
            markdown = content.replace("\n", "  \n") if by_person else content
            shown = safe_markdown(markdown, image_hosts=image_hosts)
            return Report(shown, indent(plain(content)))
        case StructuredData(data=data):
            return block(indented_json(data), "json", limit=MAX_CHARS)
        case ToolCall():
            return _line_report(_format_call(part))
        case Inquiry():
            return _line_report(_format_inquiry(part))
        case ConfigChange():
            return _line_report(_format_change(part))
        case _:
            assert_never(part)


def _line_report(text: str) -> Report:
    shown = line(text, limit=MAX_LOG_CHARS)
    return Report(f"- {shown.markdown}", f"  {shown.text}")


def _format_end(turn: Turn) -> str:
    if turn.left_out:
        taken = "; its settings were reverted" if turn.taken_back else ""
        how = _UNANSWERED.get(turn.status, "✗ no answer")
        return f"{how} (this turn is not sent to models{taken})"
    return _INCOMPLETE.get(turn.status, "")


def conversations_table(document: Document, *, with_active: bool = False) -> Report:
    """Return the other conversations of `document` as a table, or all `with_active`."""
    rows = [
        (
            x.id,
            " ".join(filter(None, (x.title, "(active)" if x.active else None))),
            "damaged" if x.damaged else f"{x.turns} turn{'' if x.turns == 1 else 's'}",
            x.made or "",
            _format_parent(x),
        )
        for x in list_conversations(document)
        if with_active or not x.active
    ]
    return table(("id", "title", "turns", "made", "from"), rows)


def _format_parent(listed: ConversationInfo) -> str:
    if listed.parent is None:
        return ""
    return (
        listed.parent
        if listed.parent_turn is None
        else f"{listed.parent}, turn {listed.parent_turn}"
    )


def uncalled_words(required: str) -> str:
    """Return the sentence about a required tool call that the model did not make."""
    return f"a call of {required} was required, but the model made none"


def _format_call(call: ToolCall) -> str:
    shown = f"{format_call(call.name, call.arguments)}{_format_edited(call)}"
    if call.is_error is None:
        return f"⚙ {shown} …"
    mark = "⊘" if call.skipped else "✗" if call.is_error else "✓"
    result = one_line(for_user(call.name, call.content or ""), limit=MAX_CELL_CHARS)
    return f"{mark} {shown} → {result}{''.join(f' · {image.words}' for image in call.images)}"


def _format_edited(call: ToolCall) -> str:
    if call.edited_by is None:
        return ""
    channel = f", {_format_name(call.channel)}" if call.channel else ""
    return f" (arguments edited by you{channel})"


def _format_inquiry(inquiry: Inquiry) -> str:
    answer = answer_as_json(dict(inquiry.answer_type), inquiry.answer)
    outcome = format_outcome(inquiry.ended, one_line(answer, limit=300))
    return f"? {one_line(inquiry.question, limit=300)} {outcome}"


def _format_change(change: ConfigChange) -> str:
    if change.begins_again:
        return f"⟳ configuration reset{_format_proposers(change)}"
    settings = ", ".join(_format_settings(dict(change.delta)))
    says = [one_line(settings, limit=300)] if settings else []
    back = frozenset(change.taken_back)
    for word, taken in (("unset", False), ("reverted", True)):
        found = [path for path in change.unsets if (path in back) is taken]
        if found:
            # Each path has at least one character, so `one_line` would cut further paths.
            paths = ", ".join(map(masked_path, found[:MAX_CELL_CHARS]))
            says.append(f"{word} {one_line(paths, limit=200)}")
    return f"⟳ configuration {', '.join(says)}{_format_proposers(change)}"


def _format_settings(
    delta: Mapping[str, JsonValue], node: SchemaNode = ROOT, above: tuple[str, ...] = ()
) -> Iterator[str]:
    for key, value in delta.items():
        keys, below = (*above, key), node.child(key) or JSON
        is_whole = below.kind == "json" or is_wrapper(value, below)
        if isinstance(value, dict) and value and not is_whole:
            yield from _format_settings(value, below, keys)
        else:
            shown = json.dumps(mask_secrets(value, keys), ensure_ascii=False)
            yield f"{format_path(keys)} = {hide_credentials(shown)}"


def masked_path(path: str) -> str:
    """Return `path` without list items that may be secrets."""
    try:
        keys = parse_path(path)
    except ConfigError:
        return hide_credentials(path)
    shown = [
        Element(NOT_SHOWN) if isinstance(key, Element) and is_secret_path(keys[:i]) else key
        for i, key in enumerate(keys)
    ]
    return hide_credentials(format_path(shown))


def _format_proposers(change: ConfigChange) -> str:
    # Tools of one response are named together.
    tools: dict[str, dict[str, None]] = {}
    for call in change.proposed_by:
        tools.setdefault(_format_approval(call), {})[_format_name(call.tool)] = None
    said = [f"proposed by {_join_names(names)}, {how}" for how, names in tools.items()]
    return f" ({_join_names(said, '; ')})" if said else ""


def _format_approval(call: ProposedBy) -> str:
    return f"applied by {_format_approver(call.applied_by, call.channel, call.by)}"


def by_tools(calls: Iterable[ProposedBy]) -> list[str]:
    """Return a short text for each of `calls`: `by tool t, applied by you (form)`."""
    texts = (f"by tool {_format_name(call.tool)}, {_format_approval(call)}" for call in calls)
    return _limit_names(dict.fromkeys(texts))


def _format_name(text: str) -> str:
    # An invalid name is quoted, because it could look like other words of the line.
    return text if _NAME.fullmatch(text) else json.dumps(one_line(text, limit=60))


def _join_names(names: Iterable[str], between: str = ", ") -> str:
    return between.join(_limit_names(names))


def _limit_names(names: Iterable[str]) -> list[str]:
    found = list(names)
    more = len(found) - MAX_NAMED
    return [*found[:MAX_NAMED], f"and {more} more"] if more > 0 else found
