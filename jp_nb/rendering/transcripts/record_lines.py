"""The content of a recorded turn as lines, for the comparison of two records (`record_diff.py`).

Unlike the log, the lines omit only ids and times: a long text is not truncated, and reasoning, the
sources of questions, and models are included. Secrets are masked.

Source: `docs/decisions.md` D121.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, assert_never

from pydantic import JsonValue

from jp_nb.agent.approvals.rule_texts import format_recorded_rule
from jp_nb.config.masked_settings import mask_path, mask_secrets
from jp_nb.config.secrets.replacements import SECRET_ANSWER
from jp_nb.exact_form import escape_invisible, format_user_name
from jp_nb.json_writing import indented_json, sorted_json
from jp_nb.record.entries.events import ChatRequest, ChatResponse, Entry
from jp_nb.record.entries.inquiry_events import InquiryRequest
from jp_nb.record.entries.token_usage import read_usage
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
from jp_nb.rendering.report import MAX_CELL_CHARS
from jp_nb.rendering.transcripts.edit_text import format_applied_edits, list_applied_edits
from jp_nb.rendering.transcripts.log import describe_uncalled_tool
from jp_nb.rendering.transcripts.recorded_change_text import (
    format_proposing_tools,
)
from jp_nb.text import one_line

INDENT: Final = "  "


def list_turn_lines(turn: Turn, entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the lines of `turn`, whose stored `entries` have facts that `Turn` does not have."""
    yield from _list_view_lines(turn)
    yield from _list_entry_lines(entries)


def _list_view_lines(turn: Turn) -> Iterator[str]:
    """Yield the parts of a turn, its images, its end, and its tokens."""
    for part in turn.parts:
        yield from _list_part_lines(part)

    # A digest, because two images may have the same size and type.
    for image in turn.images:
        yield f"{image.noun} of the request: {image.words}, {image.digest}"

    if turn.uncalled:  # a tool that the request required, and the model did not call
        yield describe_uncalled_tool(turn.uncalled)
    if turn.left_out:
        end = f" ({turn.status})" if turn.status else ""
        yield f"no answer{end}: this turn is not sent to models"

    usage = turn.usage
    counts = (
        (usage.input_tokens, "in"),
        (usage.cache_read_tokens, "from cache"),
        (usage.cache_write_tokens, "into cache"),
        (usage.output_tokens, "out"),
        (usage.reasoning_tokens, "reasoning"),
    )
    if tokens := ", ".join(f"{count:,} {word}" for count, word in counts if count is not None):
        yield f"tokens: {tokens}"


def _list_entry_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the author, reasoning, askers, and models of a turn, which `Turn` does not have."""
    models: dict[str, None] = {}

    for entry in entries:
        models.update((used.model, None) for used in read_usage(entry.metadata) if used.model)

        match entry:
            case ChatRequest(author=str(author)):
                yield f"author: {author}"
            case ChatResponse(kind="reasoning", reasoning=reasoning):
                yield from _format_text("reasoning", reasoning or "")
            case InquiryRequest(source=source, question=question):
                exclusive = ", which only a user may answer" if question.exclusive else ""
                yield f"question of {source.name or source.source}{exclusive}"

    if models:
        yield f"tokens of: {', '.join(models)}"


def _list_part_lines(part: TurnPart) -> Iterator[str]:
    match part:
        case TurnText(content=content, by_person=by_person):
            speaker = "you" if by_person else "assistant"
            yield from _format_text(speaker, content)
        case StructuredData(data=data):
            yield from format_json("answer", data)
        case RejectedAnswer(content=content):
            yield from _format_text("answer rejected", content)
        case NoteToModel(content=content):
            yield from _format_text("note to the model", content)
        case ToolCall():
            yield from _list_call_lines(part)
        case Inquiry():
            yield from _list_inquiry_lines(part)
        case ConfigChange():
            yield from _list_change_lines(part)
        case _:
            assert_never(part)


def _list_call_lines(call: ToolCall) -> Iterator[str]:
    """Yield a call with its arguments, or with its applied edits of cells, and its result.

    The tool `edit_cells` proposes numbered `edits`. The user may accept only some of them, or edit
    their source, so its structured result has the applied ones, each with the number `edit`.
    """
    yield f"call {call.name}"
    applied = list_applied_edits(call.structured)
    for name, value in sorted(call.arguments.items()):
        if applied and name == "edits":
            yield from _indent_lines(_list_edit_lines(call, applied))
        else:
            yield from _indent_lines(format_json(name, value))

    if call.requested_arguments is not None:
        yield f"{INDENT}arguments edited by you"
        yield from _indent_lines(format_json("model's arguments", dict(call.requested_arguments)))

    if call.rule is not None:  # the permission rule that allowed or denied the call
        rule = f"rule ({call.rule['from']}): {format_recorded_rule(call.rule)}"
        yield f"{INDENT}{escape_invisible(one_line(rule, limit=MAX_CELL_CHARS))}"

    if call.content is None:
        yield f"{INDENT}no result"
    else:
        noun = "error" if call.is_error else "result"
        yield from _indent_lines(_format_text(noun, call.content))

    for image in call.images:
        yield f"{INDENT}{image.noun}: {image.words}, {image.digest}"


def _list_edit_lines(call: ToolCall, applied: Sequence[Mapping[str, JsonValue]]) -> Iterator[str]:
    """Yield the applied edits as differences, and the others as the model has proposed them."""
    yield "edits applied"
    differences = format_applied_edits(call.arguments, call.structured)
    yield from _indent_lines(escape_invisible(line) for line in differences.split("\n"))

    proposed = call.arguments.get("edits")
    numbers = [edit.get("edit") for edit in applied]
    others: list[JsonValue] = []
    if isinstance(proposed, list):
        others += [edit for number, edit in enumerate(proposed, 1) if number not in numbers]
    if others:
        yield from format_json("edits not applied", others)


def _list_inquiry_lines(inquiry: Inquiry) -> Iterator[str]:
    """Yield a question, its kind, and its answer, or the reason why it has none.

    `outcome` tells if there is an answer. If not, `end` is the category, such as `declined`, and
    `reason` the recorded text.
    """
    yield from _format_text("question", inquiry.question)
    yield from _indent_lines(format_json("kind", dict(inquiry.answer_type)))

    notes = [inquiry.channel, *inquiry.marks]
    ended = inquiry.ended
    # Another program may have recorded an answer with an end such as `timed_out`.
    if ended.is_answered and ended.unexpected:
        notes.append(f"end: {ended.unexpected}")
    if inquiry.by is not None:
        notes.append(f"by {format_user_name(inquiry.by)}")

    listed = ", ".join(note for note in notes if note)
    suffix = f" ({listed})" if listed else ""

    match inquiry.outcome:
        case "answered":
            answer = json.dumps(inquiry.answer, ensure_ascii=False)
            yield f"{INDENT}answer{suffix}: {answer}"
        case "redacted":
            yield f"{INDENT}answer{suffix}: {SECRET_ANSWER}"
        case _:
            yield f"{INDENT}no answer{suffix}: {inquiry.end or inquiry.reason or 'open'}"
            if inquiry.reason and inquiry.end:
                yield f"{INDENT}reason: {inquiry.reason}"


def _list_change_lines(change: ConfigChange) -> Iterator[str]:
    if not (change.delta or change.unsets or change.begins_again):
        return  # only the recorded source of a value changed, such as a file instead of the user

    yield "configuration reset" if change.begins_again else "configuration"
    if change.delta:
        yield from _indent_lines(format_json("set", mask_secrets(dict(change.delta))))
    for path in change.unsets:
        yield f"{INDENT}unset {mask_path(path)}"
    yield from _indent_lines(format_proposing_tools(change.proposed_by))


def _format_text(name: str, text: str) -> Iterator[str]:
    yield f"{name}:"
    yield from _indent_lines(text.split("\n"))


def format_json(name: str, value: JsonValue) -> Iterator[str]:
    """Yield the lines of a JSON value after its name."""
    # Front ends may sort the keys when they save a notebook, so the keys are always sorted.
    first, *more = indented_json(json.loads(sorted_json(value))).split("\n")
    yield f"{name}: {first}"
    yield from more


def _indent_lines(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"{INDENT}{line}" if line else ""
