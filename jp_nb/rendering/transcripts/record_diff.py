"""The differences between two records.

The comparison ignores ids and times, because they differ in each run. Secrets are masked, and
differing inactive conversations are only counted. Everything else is shown completely and exactly.
The work is linear in the size of the records.

Source: `docs/decisions.md` D121.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, assert_never

from pydantic import JsonValue

from jp_nb.config.masked_settings import mask_secrets
from jp_nb.config.secrets.replacements import SECRET_ANSWER
from jp_nb.exact_form import escape_invisible, format_user_name
from jp_nb.json_values import as_object, canonical_json, indented_json, sorted_json
from jp_nb.record.compactions.compaction import find_compactions
from jp_nb.record.compactions.compaction_text import format_compactions
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.record_shape import get_events, get_properties
from jp_nb.record.entries.events import ChatRequest, ChatResponse, Entry, InquiryRequest
from jp_nb.record.entries.token_usage import read_usage
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.record.reading.turn_reader import read_turns
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
from jp_nb.rendering.same_runs import find_same_runs
from jp_nb.rendering.text_diff import diff_lines
from jp_nb.rendering.transcripts.edit_text import format_applied_edits, list_applied_edits
from jp_nb.rendering.transcripts.log import describe_uncalled_tool
from jp_nb.rendering.transcripts.recorded_change_text import (
    format_proposing_tools,
    format_recorded_rule,
    mask_path,
)
from jp_nb.text import one_line

INDENT: Final = "  "
_TITLE_CHARS: Final = 60
_IGNORED_KEYS: Final = frozenset({"event_id", "request_id", "timestamp", "id"})


@dataclass(frozen=True, slots=True)
class ComparedRecord:
    """The compared parts of a notebook's record, as lines.

    Attributes:
        beginning: Title and configuration of the active conversation.
        requests: The request of each turn, by which the turns of two records are paired.
        turns: The lines of each turn.
        others: The other conversations, without ids and times.
    """

    beginning: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    turns: tuple[tuple[str, ...], ...] = ()
    others: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: Document) -> ComparedRecord:
        """Return the record in `document`, whose entries may be damaged."""
        stream = document.conversation
        turns = read_turns(stream)
        lines = []
        for turn, turn_entries in zip(turns, stream.turns(), strict=True):
            lines.append([*_list_turn_lines(turn), *_list_entry_lines(turn_entries.entries)])

        beginning = [f"title: {stream.title}"] if stream.title else []
        beginning += _format_json("configuration", mask_secrets(stream.base_config))
        beginning += [f"damaged: {damage.message}" for damage in stream.damage]

        for placed in find_compactions(stream.entries):
            end = " (undone)" if placed.is_reverted else ""
            line = f"compaction: {format_compactions([placed.effective])}{end}"
            if 0 <= placed.after < len(lines):
                lines[placed.after].append(line)
            else:  # before the first turn
                beginning.append(line)

        return cls(
            tuple(beginning),
            tuple(turn.request for turn in turns),
            tuple(map(tuple, lines)),
            tuple(map(_normalize_conversation, document.others)),
        )


def diff_records(before: ComparedRecord, after: ComparedRecord) -> list[str]:
    """Return the differences as lines; empty if the records are equal."""
    lines: list[str] = []
    if beginning := diff_lines(before.beginning, after.beginning):
        lines += ["at the beginning", *map(str, beginning), ""]

    for pair in _pair_turns(before.requests, after.requests):
        lines += _diff_turns(before, after, pair)

    if others := _count_differing_others(before, after):
        lines += ["other conversations", *others, ""]

    return lines


class _TurnPair(NamedTuple):
    """The indices of a turn in both records; None in the record that has no such turn."""

    before: int | None
    after: int | None


def _diff_turns(before: ComparedRecord, after: ComparedRecord, pair: _TurnPair) -> list[str]:
    """Return a heading, and the differences of a pair; empty if both turns are equal."""
    old_lines: tuple[str, ...] = ()
    new_lines: tuple[str, ...] = ()
    request = ""

    if pair.before is not None:
        old_lines = before.turns[pair.before]
        request = before.requests[pair.before]
    if pair.after is not None:
        new_lines = after.turns[pair.after]
        request = after.requests[pair.after]

    is_in_both = pair.before is not None and pair.after is not None
    if is_in_both and old_lines == new_lines:
        return []

    title = escape_invisible(one_line(request, limit=_TITLE_CHARS))
    heading = f"{_format_turn_place(pair)}: {title}"
    return [heading, *map(str, diff_lines(old_lines, new_lines)), ""]


def _format_turn_place(pair: _TurnPair) -> str:
    """Return the number of a turn: `+ turn 3` if it was added, or `turn 3 → 4` if it moved."""
    match pair:
        case _TurnPair(before=None, after=int(added)):
            return f"+ turn {to_shown_turn(added)}"
        case _TurnPair(before=int(removed), after=None):
            return f"- turn {to_shown_turn(removed)}"
        case _TurnPair(before=int(old), after=int(new)) if old != new:
            return f"turn {to_shown_turn(old)} → {to_shown_turn(new)}"
    return f"turn {to_shown_turn(pair.before or 0)}"


def _count_differing_others(before: ComparedRecord, after: ComparedRecord) -> list[str]:
    """Return lines with the numbers of other conversations that only one record has."""
    old = Counter(before.others)
    new = Counter(after.others)
    counts = (("-", (old - new).total()), ("+", (new - old).total()))
    return [f"{sign} {count} without a counterpart" for sign, count in counts if count]


def _pair_turns(before: Sequence[str], after: Sequence[str]) -> Iterator[_TurnPair]:
    """Pair turns with equal requests. Between them, pair equal numbers of turns in order."""
    before_end = 0  # of the last run of equal requests
    after_end = 0

    for run in find_same_runs(before, after):
        removed = range(before_end, run.before_start)
        added = range(after_end, run.after_start)

        if len(removed) == len(added):
            yield from map(_TurnPair, removed, added)
        else:
            yield from (_TurnPair(index, None) for index in removed)
            yield from (_TurnPair(None, index) for index in added)

        before_end = run.before_end
        after_end = run.after_end
        same = zip(
            range(run.before_start, before_end), range(run.after_start, after_end), strict=True
        )
        yield from (_TurnPair(*indices) for indices in same)


def _list_turn_lines(turn: Turn) -> Iterator[str]:
    """Yield the parts of a turn, its images, its end, and its tokens."""
    for part in turn.parts:
        yield from _list_part_lines(part)

    yield from (
        f"{image.noun} of the request: {image.words}, {image.digest}" for image in turn.images
    )

    if turn.uncalled:
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
            yield from _format_json("answer", data)
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
    """Yield a call with its arguments, or with its applied edits of cells, and its result."""
    yield f"call {call.name}"
    applied = list_applied_edits(call.structured)
    for name, value in sorted(call.arguments.items()):
        if applied and name == "edits":
            yield from _indent_lines(_list_edit_lines(call, applied))
        else:
            yield from _indent_lines(_format_json(name, value))

    if call.requested_arguments is not None:
        yield f"{INDENT}arguments edited by you"
        yield from _indent_lines(_format_json("model's arguments", dict(call.requested_arguments)))

    if call.rule is not None:
        rule = f"rule ({call.rule['from']}): {format_recorded_rule(call.rule)}"
        yield f"{INDENT}{escape_invisible(one_line(rule, limit=MAX_CELL_CHARS))}"

    if call.content is None:
        yield f"{INDENT}no result"
    else:
        noun = "error" if call.is_error else "result"
        yield from _indent_lines(_format_text(noun, call.content))

    yield from (f"{INDENT}{image.noun}: {image.words}, {image.digest}" for image in call.images)


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
        yield from _format_json("edits not applied", others)


def _list_inquiry_lines(inquiry: Inquiry) -> Iterator[str]:
    """Yield a question, its kind, and its answer, or the reason why it has none."""
    yield from _format_text("question", inquiry.question)
    yield from _indent_lines(_format_json("kind", dict(inquiry.answer_type)))

    notes = [inquiry.channel, *inquiry.marks]
    ended = inquiry.ended
    if ended.is_answered and ended.unexpected:  # such as a timeout
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
        return  # only the source of a value changed

    yield "configuration reset" if change.begins_again else "configuration"
    if change.delta:
        yield from _indent_lines(_format_json("set", mask_secrets(dict(change.delta))))
    yield from (f"{INDENT}unset {mask_path(path)}" for path in change.unsets)
    yield from (f"{INDENT}{line}" for line in format_proposing_tools(change.proposed_by))


def _format_text(name: str, text: str) -> Iterator[str]:
    yield f"{name}:"
    yield from _indent_lines(text.split("\n"))


def _format_json(name: str, value: JsonValue) -> Iterator[str]:
    # Front ends may sort the keys when they save a notebook, so the keys are always sorted.
    first, *more = indented_json(json.loads(sorted_json(value))).split("\n")
    yield f"{name}: {first}"
    yield from more


def _indent_lines(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"{INDENT}{line}" if line else ""


def _normalize_conversation(entry: JsonValue) -> str:
    """Return a stored conversation as JSON without ids and times; a damaged one as it is."""
    if not get_events(entry):
        return canonical_json(entry)

    events = [_remove_ignored_keys(event) for event in get_events(entry)]

    title = get_properties(entry).get("title")
    config = as_object(entry).get("base_config")
    return canonical_json({"title": title, "base_config": config, "events": events})


def _remove_ignored_keys(event: JsonValue) -> JsonValue:
    if not isinstance(event, dict):
        return event

    return {key: value for key, value in event.items() if key not in _IGNORED_KEYS}
