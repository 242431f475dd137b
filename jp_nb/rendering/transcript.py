"""Text of a running turn: the transcript, and forms of calls and names that the log shares.

The log of recorded turns is in `jp_nb.rendering.log`.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Literal, assert_never

from pydantic import JsonValue

from jp_nb.agent.argument_editor import format_visible_json
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
from jp_nb.agent.prepared_answers import ANSWERS_CHANNEL
from jp_nb.agent.provider import TextKind
from jp_nb.agent.question_route import format_no_user_error
from jp_nb.images import count_images
from jp_nb.json_values import indented_json, read_json, spaced_json
from jp_nb.record.outcomes import CHANNEL_WORDS, END_WORDS
from jp_nb.record.turn_view import ToolCall
from jp_nb.rendering.change_text import ChangeSummary, summarize_changes
from jp_nb.rendering.markdown import (
    escape_markup,
    make_code_block,
    make_code_span,
    make_details_block,
    quote_markdown,
    sanitize_markdown,
)
from jp_nb.rendering.question_text import (
    QuestionCard,
    format_card_lines,
    format_outcome,
    make_question_card,
    render_card,
)
from jp_nb.rendering.report import (
    MAX_LINE_CHARS,
    Report,
    bound_text,
    indent_text,
    make_line,
    make_note,
)
from jp_nb.text import (
    MAX_LISTED_LINES,
    escape_invisible,
    format_user_name,
    one_line,
    plain,
    pluralize,
    spell_invisible,
    spell_lines,
    truncate,
)
from jp_nb.toolkit.data_sections import remove_frame

EDITED_NOTE = " (arguments edited by you)"
RULE_NOTE = " (rule: {})"
MAX_RULE_CHARS = 160
"""Maximum length of the rule in the line of a call."""
MAX_CALL_LINE_CHARS = 120
MAX_CALL_REASON_CHARS = 300
MAX_OPEN_LINES = 40
"""Limit of lines of code in the arguments. Longer code is folded."""
MAX_FOLDED_LINES = 200
"""Limit of lines of a folded result."""
MAX_FOLDED_CHARS = 10_000
"""Limit of characters of a folded result."""
_CELL_FILE = re.compile(r'File "(?:[^"]*ipykernel_\d+/\d+\.py|<ipython-input-[^"]*>)"')


def render_call(begins: ToolBegins, ends: ToolEnds | None) -> Report:
    """Return the line of a call, and the blocks below it, which are indented in the text."""
    mark, seconds, about = _format_state(ends)
    head = _format_head(begins)
    edited = EDITED_NOTE if begins.edited else ""
    rule = "" if begins.rule is None else format_rule_note(begins.rule)
    line = f"{mark} {make_code_span(head)}{edited}{escape_markup(rule)}"

    blocks = [block for block in _list_blocks_below(begins, ends) if block.markdown]
    below = [block.markdown for block in blocks]
    if ends is not None and ends.traceback:
        traceback = make_code_block(normalize_traceback(ends.traceback))
        below.append(make_details_block("Traceback", traceback))

    texts = [block.text for block in blocks if block.text]
    return Report(
        "\n\n".join([f"{line}{escape_markup(about)}", *below]),
        "\n".join([f"{mark} {head}{edited}{rule}{about}", *texts]),
        "\n\n".join([f"{line}{escape_markup(seconds + about)}", *below]),
    )


def format_rule_note(words: str) -> str:
    """Return the part of a call's line about the rule that decided about the call."""
    return RULE_NOTE.format(one_line(escape_invisible(words), limit=MAX_RULE_CHARS))


def _format_state(ends: ToolEnds | None) -> tuple[str, str, str]:
    # Returns the mark, the duration, and the text after it.
    if ends is None:
        return "⚙", "", " …"

    about = "".join(f" · {words}" for words in _format_images(ends))
    if (ends.skipped or ends.is_error) and not _format_result(ends):
        # Text after a blank line, such as advice for the model, is only in the record.
        first = format_content_for_user(ends.name, ends.content).strip().partition("\n\n")[0]
        if reason := one_line(first, limit=MAX_CALL_REASON_CHARS):
            about += f" — {reason}"

    return get_call_mark(ends), f" {ends.seconds:.1f} s", about


def get_call_mark(ended: ToolEnds | ToolCall) -> str:
    """Return the sign of a call that has ended."""
    if ended.skipped:
        return "⊘"

    return "✗" if ended.is_error else "✓"


def format_content_for_user(tool: str, content: str) -> str:
    """Return the response of a call for the user.

    The error for the model mentions a terminal if no user is available (`format_no_user_error`). A
    notebook has no terminal, so the user reads another message.
    """
    if content == format_no_user_error(tool):
        return (
            "no user is available to answer its question. Configure the answer, or give it in an "
            "answers file."
        )
    return content


def _format_images(ends: ToolEnds) -> list[str]:
    # The model may have seen only some of the images.
    listed = ends.omitted_images[:MAX_LISTED_LINES]
    words = count_images(ends.images)
    words += [one_line(text, limit=MAX_CALL_REASON_CHARS) for text in listed]

    more = len(ends.omitted_images) - len(listed)
    if more:
        words.append(f"{more} more omitted")

    return words


def _format_head(begins: ToolBegins) -> str:
    # Only the name if the arguments are hidden, or shown below the line.
    if begins.parameters != "line" or begins.formatted is not None:
        return plain(spell_invisible(begins.name), limit=MAX_CALL_LINE_CHARS)

    texts = {}
    for each in begins.texts:
        count = str(begins.arguments[each.name]).removesuffix("\n").count("\n") + 1
        texts[each.name] = f"…{count} {pluralize('line', count)}"

    return format_call(begins.name, begins.arguments, texts)


def format_call(
    name: str,
    arguments: Mapping[str, JsonValue],
    texts: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return a call in one line, such as `add(a=1, b=2)`. `texts` replace values of arguments."""
    given: list[str] = []
    cut = 0
    for key, value in _drop_empty(arguments).items():
        text = texts[key] if key in texts else spaced_json(value)
        # Cut before escaping: an argument may have a megabyte.
        shown = escape_invisible(text[:MAX_CALL_LINE_CHARS])
        given.append(f"{spell_invisible(key)}={shown}")
        cut += max(len(text) - MAX_CALL_LINE_CHARS, 0)

    listed = ", ".join(given)
    return truncate(f"{spell_invisible(name)}({listed})", MAX_CALL_LINE_CHARS, cut=cut)


def _list_blocks_below(begins: ToolBegins, ends: ToolEnds | None) -> Iterator[Report]:
    if begins.formatted is not None:
        yield _make_block_below(bound_text(begins.formatted))
    elif begins.parameters != "off":
        if begins.parameters == "json":
            below = {each.name for each in begins.texts}
            given = _drop_empty(begins.arguments)
            others = {key: value for key, value in given.items() if key not in below}
            text = bound_text(format_visible_json(others)) if others else ""
            yield _make_block_below(text, "json")

        is_shown_by_prompt = begins.asked and ends is None
        for each in () if is_shown_by_prompt else begins.texts:
            _, lines = spell_lines(str(begins.arguments[each.name]))
            yield _make_block_below(bound_text("\n".join(lines)), each.language, folds=True)

    if ends is not None:
        yield _make_block_below(_format_result(ends))
        yield _make_folded_result(ends)


def _make_folded_result(ends: ToolEnds) -> Report:
    # The result for pages. A text cannot be unfolded, so it has none.
    content = remove_frame(format_content_for_user(ends.name, ends.content))
    if not ends.folds_result or not content.strip() or _is_reason(ends):
        return Report("", "")

    shown = bound_text(content[:MAX_FOLDED_CHARS], lines=MAX_FOLDED_LINES)
    left = len(content) - MAX_FOLDED_CHARS
    if left > 0:
        shown = f"{shown}\n… {left:,} more {pluralize('character', left)}"

    noun = "error" if ends.is_error else "result"
    size = f"{len(content):,} {pluralize('character', len(content))}"
    title = f"{noun} ({size})"
    return Report(make_details_block(title, make_code_block(shown)), "")


def _make_block_below(text: str, language: str = "text", *, folds: bool = False) -> Report:
    if not text:
        return Report("", "")

    block = make_code_block(text, language)
    count = text.count("\n") + 1
    if folds and count > MAX_OPEN_LINES:
        block = make_details_block(f"{count} lines of {language}", block)

    return Report(block, indent_text(text))


def _add_printed(call: Report, printed: str) -> Report:
    # Printed text has its beginning and its end, and is not folded, as other output.
    text = plain(printed, limit=len(printed)).strip("\n")
    if not text.strip():
        return call

    block = make_code_block(text, limit=len(text))
    live = None
    if call.live is not None:
        live = f"{call.live}\n\n{block}"

    return Report(f"{call.markdown}\n\n{block}", f"{call.text}\n{indent_text(text)}", live)


def _drop_empty(arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: value for key, value in arguments.items() if value not in (None, {}, [])}


def _format_result(ends: ToolEnds) -> str:
    if ends.skipped or ends.result_lines == 0 or _is_reason(ends):
        return ""

    content = format_content_for_user(ends.name, ends.content)
    return bound_text(content.strip("\n"), lines=ends.result_lines)


def _is_reason(ends: ToolEnds) -> bool:
    # True if the line of the call has the whole content, as the reason of its failure.
    text = format_content_for_user(ends.name, ends.content).strip("\n")
    return ends.is_error and "\n" not in text and len(text) <= MAX_CALL_REASON_CHARS


def normalize_traceback(text: str) -> str:
    """Return `text` with `<cell>` for file names of cells, which differ in each run."""
    return _CELL_FILE.sub('File "<cell>"', text)


_NAME = re.compile(r"[\w.-]{1,64}")
NO_BREAK_SPACE = "\u00a0"

ShownEvent = QuestionEnds | ChangeEnds | Notice | ShowRequest | UserMessage
"""An event that is shown as it is."""


@dataclass(slots=True, eq=False, kw_only=True)
class _Piece:
    """A piece of a turn as it is shown.

    Attributes:
        is_final: True if the piece cannot change.
        rendered: The rendering of the current state; None until it is needed.
    """

    is_final: bool = False
    rendered: Report | None = None


@dataclass(slots=True, eq=False)
class TextPiece(_Piece):
    """Assistant text, reasoning, or structured data as received."""

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


def _deciding_call(piece: TranscriptPiece) -> str | None:
    # The call that a decision belongs to; None for other pieces.
    event = piece.event if isinstance(piece, EventPiece) else None
    return event.call_id if isinstance(event, (QuestionEnds, ChangeEnds)) else None


def _render_text(
    kind: TextKind, text: str, *, show_reasoning: bool, image_hosts: Collection[str]
) -> Report:
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


def _render_event(event: ShownEvent) -> Report:
    match event:
        case QuestionEnds():
            return _render_question(event)
        case ChangeEnds():
            return _render_change(event)
        case Notice(text=text):
            return _render_notice(text)
        case ShowRequest(text=text):
            block = make_details_block("Request", make_code_block(text, limit=len(text)))
            lines = plain(text, limit=len(text)).split("\n")
            return Report(block, "\n".join(f"> {line}".rstrip() for line in lines))
        case UserMessage(text=text):
            shown = make_line(text)
            return Report(f"> 💬 {shown.markdown}", f"> {shown.text}")
        case _:
            assert_never(event)


def _render_question(ends: QuestionEnds) -> Report:
    # The question with its outcome, and below an answer, the options or fields.
    label = one_line(ends.label, limit=80) if ends.label else ""
    question = one_line(ends.question.text, limit=500)
    card = QuestionCard()
    if ends.outcome.stored == "answered":
        kind = ends.question.answer_type.to_record()
        card = make_question_card(kind, ends.answer, answered=True)
    outcome = format_outcome(ends.outcome, card.headline)

    asked = f"? {question} {outcome}"
    markdown = f"❓ {escape_markup(question)} **{escape_markup(outcome)}**"
    if label:
        asked = f"? {label}: {question} {outcome}"
        markdown = (
            f"❓ **{escape_markup(label)}**: {escape_markup(question)} **{escape_markup(outcome)}**"
        )

    quotation = quote_markdown("\n\n".join(filter(None, [markdown, render_card(card)])))
    if ends.question.context and ends.question.context_is_text:
        lines = plain(ends.question.context, limit=2000).split("\n")
        quotation = (
            quote_markdown("\n\n".join(map(escape_markup, filter(str.strip, lines))))
            + "\n\n"
            + quotation
        )
    elif ends.question.context:
        # Sanitize the quotation, not its content, because `> ` may change which lines are code.
        context = quote_markdown(plain(ends.question.context, limit=2000))
        quotation = f"{sanitize_markdown(context)}\n\n{quotation}"
    return Report(
        quotation, "\n".join([asked, *(f"    {line}" for line in format_card_lines(card))])
    )


def _render_change(ends: ChangeEnds) -> Report:
    # The decision about configuration changes. Several changes have a line each.
    tool = one_line(ends.tool, limit=80)
    several = summarize_changes(ends.changes)

    about = ChangeSummary(f"{tool}: {len(ends.changes)} configuration changes")
    if len(several) == 1:
        about = several[0]._replace(line=f"{tool}: {several[0].line}")
        several = []

    decision = _format_decision(ends)
    text = [f"⟳ {about.line} — {decision}", *(f"    {line}" for line in about.difference)]
    for one in several:
        text += [f"    {one.line}", *(f"        {line}" for line in one.difference)]

    head = f"⟳ {make_code_span(about.line)} — {escape_markup(decision)}"
    items = "\n".join(
        _add_difference(f"- {make_code_span(one.line)}", one, "  ") for one in several
    )
    markdown = "\n\n".join(filter(None, (_add_difference(head, about, ""), items)))
    return Report(markdown, "\n".join(text))


def _add_difference(line: str, about: ChangeSummary, indentation: str) -> str:
    if not about.difference:
        return line

    block = make_code_block("\n".join(about.difference), "diff").split("\n")
    return "\n".join([line, "", *(f"{indentation}{text}" for text in block)])


def _format_decision(ends: ChangeEnds) -> str:
    if ends.by == "nobody":
        reason = ends.reason or END_WORDS["unavailable"].user
        return f"not applied: {one_line(reason, limit=300)}"

    who = format_approver(ends.by, ends.channel, ends.person)
    if not ends.applied:
        return f"rejected by {who}"

    return f"applied by {who}" if ends.counts else f"approved by {who}; not applied outside a turn"


def format_approver(by: Literal["person", "grant"], channel: str | None, name: str | None) -> str:
    """Return the source of an approval: `you (form)`."""
    if by == "grant":
        return "a grant"
    if channel == ANSWERS_CHANNEL:
        return f"the {CHANNEL_WORDS[ANSWERS_CHANNEL].origin}"

    user = "you" if name is None else format_user_name(name)
    return f"{user} ({format_name(channel)})" if channel else user


def format_name(text: str) -> str:
    """Return a name of the record; quoted if it could look like other words of its line."""
    return text if _NAME.fullmatch(text) else json.dumps(one_line(text, limit=60))


def _render_notice(text: str) -> Report:
    shown = bound_text(text, lines=50)

    # Markdown removes the indentation of a line, but not no-break spaces.
    lines = []
    for each in shown.split("\n"):
        if said := one_line(each, limit=MAX_LINE_CHARS):
            indentation = len(each) - len(each.lstrip(" "))
            lines.append(f"{NO_BREAK_SPACE * indentation}{make_note(said).markdown}")

    return Report("  \n".join(lines), shown)


class TranscriptPart:
    """The pieces of a turn in one output."""

    def __init__(self, transcript: Transcript, pieces: list[TranscriptPiece]) -> None:
        self.pieces = pieces
        self._transcript = transcript

    @property
    def is_final(self) -> bool:
        """True if no piece can change. Only the last part gets new pieces."""
        return all(piece.is_final for piece in self.pieces)

    def bundle(self, *, live: bool = False, status: str | None = None) -> dict[str, str]:
        """Return the MIME bundle of the part: `text/markdown` and `text/plain`.

        While the turn runs, it is `live`, with durations, and may end in a line with its `status`.
        """
        rendered = list(map(self._transcript.render, self._in_call_order()))
        markdown = []
        for each in rendered:
            if live and each.live:
                markdown.append(each.live)
            else:
                markdown.append(each.markdown)

        if status:
            markdown.append(f"*{escape_markup(status)}*")

        return {
            "text/markdown": "\n\n".join(filter(None, markdown)),
            "text/plain": "\n".join(filter(None, (each.text for each in rendered))),
        }

    def _in_call_order(self) -> Iterator[TranscriptPiece]:
        # Calls run concurrently and ask in any order. Adjacent decisions are sorted by call, so
        # that each run shows the same order.
        calls = self._transcript.calls
        for decides, found in groupby(self.pieces, lambda each: _deciding_call(each) is not None):
            pieces = list(found)
            if decides:
                pieces.sort(key=lambda each: calls.get(_deciding_call(each) or "", 0))
            yield from pieces


class Transcript:
    """The pieces of one turn, in order, in one or several parts.

    A part is the content of one output. A new part starts after another output, such as text that a
    tool prints. Reasoning is folded, and only images of `image_hosts` are loaded.

    Attributes:
        parts: The parts. The last one may be empty.
        calls: Order of the calls, by id.
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
        self._running: dict[str, CallPiece] = {}
        self._last: TranscriptPiece | None = None
        self._response: list[TranscriptPiece] = []  # the pieces that `DiscardText` removes
        self.calls: dict[str, int] = {}
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
                dropped = set(map(id, self._response))
                for part in self.parts:
                    part.pieces = [piece for piece in part.pieces if id(piece) not in dropped]
                self._last = None if id(self._last) in dropped else self._last
                self._response = []
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
                shown = EventPiece(event, is_final=True)
                self._append(shown)
                self._response = self._response if isinstance(event, (QuestionEnds, Notice)) else []
                return shown
            case _:
                assert_never(event)
        return None

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
        self.calls.setdefault(event.call_id, len(self.calls))
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
                texts[:] = ["".join(texts)]
                return self._render_text(kind, texts[0])
            case CallPiece(begins=begins, ends=ends, printed=printed):
                return _add_printed(render_call(begins, ends), printed)
            case EventPiece(event=event):
                return _render_event(event)
            case _:
                assert_never(piece)

    def cut(self, call_id: str | None = None, *, always: bool = False) -> bool:
        """Start a new part, and return True. If the last part would be empty, do nothing.

        The new part starts after the line of the running call `call_id`, if the last part contains
        it. Otherwise it starts at the end; with `always`, even if the last part is empty.
        """
        pieces = self.parts[-1].pieces
        piece = self._running.get(call_id) if call_id is not None else None
        end = pieces.index(piece) + 1 if piece and piece in pieces else len(pieces)
        if not end and not always:
            return False

        self.parts.append(TranscriptPart(self, pieces[end:]))
        del pieces[end:]
        return True
