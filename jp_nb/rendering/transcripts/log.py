"""The log of recorded turns.

The comparison of two records has lines of its own (`record_lines.py`), which leave nothing out.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from jp_nb.agent.approvals.rule_texts import format_recorded_rule
from jp_nb.exact_form import format_user_name
from jp_nb.json_writing import indented_json
from jp_nb.record.compactions.compaction import PlacedCompaction, find_compactions
from jp_nb.record.compactions.compaction_text import format_compactions
from jp_nb.record.documents.document import Document
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.record.reading.turn_view import (
    ConfigChange,
    Inquiry,
    NoteToModel,
    RejectedAnswer,
    StructuredData,
    ToolCall,
    Turn,
    TurnPart,
    TurnText,
)
from jp_nb.rendering.markdown_sanitizer import sanitize_markdown
from jp_nb.rendering.prompt_texts.outcome_text import format_outcome
from jp_nb.rendering.prompt_texts.question_card import make_question_card
from jp_nb.rendering.report import (
    MAX_CELL_CHARS,
    Report,
    indent_text,
    join_reports,
    make_block,
    make_heading,
    make_line,
    make_note,
    make_remark,
)
from jp_nb.rendering.transcripts.call_text import (
    format_call,
    format_content_for_user,
    format_rule_note,
    get_call_mark,
)
from jp_nb.rendering.transcripts.conversation_table import render_conversations
from jp_nb.rendering.transcripts.edit_text import make_edits_block
from jp_nb.rendering.transcripts.event_text import format_name
from jp_nb.rendering.transcripts.recorded_change_text import (
    format_recorded_change,
)
from jp_nb.rendering.transcripts.setting_text import NO_TOOLSETS, Toolsets
from jp_nb.text import MAX_LISTED_LINES, MAX_PLAIN_CHARS, one_line, plain, pluralize
from jp_nb.toolkit.data_sections import remove_frame

# Ends of a turn by its status: without an answer, and with a part of one.
_UNANSWERED = {
    "failed": "✗ failed: no answer",
    "interrupted": "⏹ interrupted before the answer",
}
_INCOMPLETE = {
    "failed": "✗ failed: the answer is incomplete",
    "interrupted": "⏹ interrupted",
    "stopped": "⏹ stopped by you",
}


def render_log(
    document: Document,
    turns: Sequence[Turn],
    *,
    total: int | None = None,
    image_hosts: Collection[str] = (),
    toolsets: Toolsets = NO_TOOLSETS,
    with_typed_texts: bool = False,
) -> Report:
    """Return the last `turns` as a conversation, and the other conversations of the notebook.

    Args:
        document: The conversations of the notebook.
        turns: The turns to show.
        total: Number of all turns.
        image_hosts: Hosts whose images are shown. Other images are linked.
        toolsets: The tools that are switched together, by the name of their toolset.
        with_typed_texts: Show requests as the user typed them, without the values of the notebook
            that they were sent with. Use it only for a trusted record, because the author of the
            record chose this text.
    """
    parts: list[Report | str] = []
    hidden_count = (total or 0) - len(turns)
    if hidden_count > 0:
        noun = pluralize("turn", hidden_count)
        note = f"{hidden_count} earlier {noun} hidden. Show all: `%jp log {total}`"
        parts.append(make_note(note))

    compactions: dict[int, list[PlacedCompaction]] = {}  # by the turn before them
    for placed in find_compactions(document.conversation.entries) if turns else ():
        compactions.setdefault(placed.after, []).append(placed)

    for turn in turns:
        shown = _replace_sent_texts(turn) if with_typed_texts else turn
        parts += _list_turn_reports(shown, image_hosts, toolsets)
        parts += _list_compaction_reports(compactions.get(turn.number, []))

    if not turns:
        parts.append(make_remark("No turns in this conversation yet."))

    if document.others:
        parts += ["Other conversations in this notebook:", render_conversations(document)]

    return join_reports(parts)


def _replace_sent_texts(turn: Turn) -> Turn:
    """Return `turn` with the words of the user as the text of its request."""
    parts: list[TurnPart] = []
    for part in turn.parts:
        if isinstance(part, TurnText) and part.typed:
            parts.append(replace(part, content=part.typed))
        else:
            parts.append(part)

    return replace(turn, parts=tuple(parts))


def _get_speaker(part: TurnPart) -> str:
    if isinstance(part, RejectedAnswer):
        return "answer rejected"
    if isinstance(part, NoteToModel):
        return "note to the model"
    if not (isinstance(part, TurnText) and part.by_person):
        return "assistant"

    return "you" if part.by is None else f"asked by {format_user_name(part.by)}"


def _list_turn_reports(
    turn: Turn, image_hosts: Collection[str], toolsets: Toolsets
) -> Iterator[Report]:
    """Yield the request, the parts of the turn with a heading for each speaker, and its end."""
    from_user = (part for part in turn.parts if isinstance(part, TurnText) and part.by_person)
    request = next(from_user, TurnText("", by_person=True))

    speaker = _get_speaker(request)
    shown_request = _render_part(request, image_hosts, toolsets)
    number = to_shown_turn(turn.number)
    heading = make_heading(f"{number} · {speaker}")
    text = f"{number} {speaker}: {shown_request.text.lstrip()}"
    yield Report(f"{heading.markdown}\n\n{shown_request.markdown}", text)

    for image in turn.images:
        yield _render_line(f"[{image.noun}: {image.words}]")

    for part in turn.parts:
        if part is request:
            continue
        if isinstance(part, ConfigChange) and not (part.delta or part.unsets or part.begins_again):
            continue  # only the source of a value changed

        # A change belongs to the part before it.
        part_speaker = _get_speaker(part)
        if part_speaker != speaker and not isinstance(part, ConfigChange):
            speaker = part_speaker
            yield Report(make_heading(f"{number} · {speaker}").markdown, f"{number} {speaker}:")

        yield _render_part(part, image_hosts, toolsets)

    if turn.uncalled:  # a required tool that the model has not called, or `any tool`
        yield _render_line(f"⚠ {describe_uncalled_tool(turn.uncalled)}")
    if turn.left_out:  # it has no answer, so later requests omit it
        reverted = "; its settings were reverted" if turn.taken_back else ""
        end = _UNANSWERED.get(turn.status, "✗ no answer")
        yield _render_line(f"{end} (this turn is not sent to models{reverted})")
    elif turn.status in _INCOMPLETE:
        yield _render_line(_INCOMPLETE[turn.status])


def _list_compaction_reports(compactions: list[PlacedCompaction]) -> Iterator[Report]:
    for placed in compactions[:MAX_LISTED_LINES]:
        entry = placed.effective
        end = " (undone)" if placed.is_reverted else ""
        yield _render_line(f"⊟ {format_compactions([entry])} from here on{end}")

        if entry.summary is not None and not placed.is_reverted:
            summary = entry.summary.summary
            yield Report(sanitize_markdown(summary), indent_text(plain(summary)))

    omitted_count = len(compactions) - MAX_LISTED_LINES
    if omitted_count > 0:
        yield _render_line(f"⊟ and {omitted_count} more")


def _render_part(part: TurnPart, image_hosts: Collection[str], toolsets: Toolsets) -> Report:
    """Return a part of a turn: texts as Markdown, data as code, and all else as one line."""
    match part:
        case TurnText(content=content, by_person=by_person):
            # Markdown joins lines that do not end in two spaces.
            markdown = content.replace("\n", "  \n") if by_person else content
            shown = sanitize_markdown(markdown, image_hosts=image_hosts)
            return Report(shown, indent_text(plain(content)))
        case StructuredData(data=data):
            return make_block(indented_json(data), "json", limit=MAX_PLAIN_CHARS)
        case RejectedAnswer(content=content) | NoteToModel(content=content):
            return Report(sanitize_markdown(content), indent_text(plain(content)))
        case ToolCall():
            return _render_call_part(part)
        case Inquiry():
            return _render_line(_format_inquiry(part))
        case ConfigChange():
            return _render_line(format_recorded_change(part, toolsets))
        case _:
            assert_never(part)


def _render_call_part(call: ToolCall) -> Report:
    """Return the line of a call, with the differences of the cells that it edited."""
    line = _render_line(_format_call(call))
    if call.name != "edit_cells":
        return line

    block = make_edits_block(call.arguments, call.structured)
    if not block.text:
        return line
    return Report(f"{line.markdown}\n\n{block.markdown}", f"{line.text}\n{block.text}")


def _render_line(text: str) -> Report:
    shown = make_line(text, limit=1000)  # one line of the log
    return Report(f"- {shown.markdown}", f"  {shown.text}")


def describe_uncalled_tool(required: str) -> str:
    """Return the sentence about a required tool call that the model did not make."""
    return f"a call of {required} was required, but the model made none"


def _format_call(call: ToolCall) -> str:
    """Return a call in one line, such as `✓ add(a=1, b=2) → 3`."""
    shown = format_call(call.name, call.arguments)
    if call.edited_by is not None:
        channel = f", {format_name(call.channel)}" if call.channel else ""
        shown = f"{shown} (arguments edited by you{channel})"

    if call.rule is not None:
        shown += format_rule_note(format_recorded_rule(call.rule))

    if call.is_error is None:
        return f"⚙ {shown} …"

    content = remove_frame(format_content_for_user(call.name, call.content or ""))
    result = one_line(content, limit=MAX_CELL_CHARS)
    images = "".join(f" · {image.words}" for image in call.images)
    return f"{get_call_mark(call)} {shown} → {result}{images}"


def _format_inquiry(inquiry: Inquiry) -> str:
    answered = inquiry.outcome == "answered"
    card = make_question_card(dict(inquiry.answer_type), inquiry.answer, answered=answered)

    # The words of the card have the first line of an own text, and the log has all lines in one.
    answer = inquiry.answer if isinstance(inquiry.answer, str) and card.own_text else card.words
    outcome = format_outcome(inquiry.ended, one_line(answer, limit=300))
    return f"? {one_line(inquiry.question, limit=300)} {outcome}"
