"""Compare two records turn by turn: requests, calls, decisions, configuration and responses.

Ids and times are not compared, because they differ in each run. Secrets are masked, and differing
inactive conversations are only counted. Everything else is shown completely and exactly. The work
is linear in the size of the records.

Source: `docs/guide.md`, `docs/decisions.md` D121.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from pydantic import JsonValue

from jp_nb.config.schema import mask_secrets
from jp_nb.config.secrets import SECRET_ANSWER
from jp_nb.json_values import JsonObject, as_object, canonical_json, indented_json, sorted_json
from jp_nb.record.compaction import find_compactions, format_compactions
from jp_nb.record.document import Document, events_of, head_of
from jp_nb.record.events import ChatRequest, ChatResponse, Entry, InquiryRequest
from jp_nb.record.marks import Usage, read_usage
from jp_nb.record.stream import ConversationStream
from jp_nb.record.turns import (
    ConfigChange,
    Inquiry,
    Part,
    StructuredData,
    Text,
    ToolCall,
    Turn,
    read_turns,
)
from jp_nb.rendering.prompts import Line, line_difference, same_runs
from jp_nb.rendering.questions import answer_as_json
from jp_nb.rendering.turn import by_tools, masked_path, uncalled_words
from jp_nb.text import escape_invisible, format_user_name, one_line

INDENT: Final = "  "
_TITLE_CHARS: Final = 60
_IGNORED_KEYS: Final = frozenset({"event_id", "request_id", "timestamp", "id"})


@dataclass(frozen=True, slots=True)
class ComparedRecord:
    """The compared parts of a notebook's record.

    Attributes:
        beginning: Title and configuration of the active conversation, as lines.
        requests: The request of each turn.
        turns: The turns, as lines.
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
        lines = [
            [*_turn_lines(turn), *_entry_lines(each.entries)]
            for turn, each in zip(turns, stream.turns(), strict=True)
        ]
        beginning = list(_beginning_lines(stream))
        for placed in find_compactions(stream.entries):
            end = " (undone)" if placed.is_reverted else ""
            where = lines[placed.after] if 0 <= placed.after < len(lines) else beginning
            where.append(f"compaction: {format_compactions([placed.effective])}{end}")
        return cls(
            tuple(beginning),
            tuple(turn.request for turn in turns),
            tuple(map(tuple, lines)),
            tuple(map(_normalize_conversation, document.others)),
        )


def record_difference(before: ComparedRecord, after: ComparedRecord) -> list[str]:
    """Return the differences as lines; empty if the records are equal."""
    found: list[str] = []
    if lines := line_difference(before.beginning, after.beginning):
        found += _format_section("at the beginning", lines)
    for at, there in _pair_turns(before.requests, after.requests):
        then = after.turns[there] if there is not None else None
        now = before.turns[at] if at is not None else None
        if now == then:
            continue
        lines = line_difference(now or (), then or ())
        request = after.requests[there] if there is not None else before.requests[at or 0]
        found += _format_section(f"{_format_numbers(at, there)}: {_title(request)}", lines)
    if gone_or_new := _count_unmatched(before.others, after.others):
        found += ["other conversations", *gone_or_new, ""]
    return found


def _title(request: str) -> str:
    return escape_invisible(one_line(request, limit=_TITLE_CHARS))


def _format_section(heading: str, lines: Sequence[Line]) -> list[str]:
    return [heading, *map(str, lines), ""]


def _format_numbers(at: int | None, there: int | None) -> str:
    if at is None:
        return f"+ turn {there}"
    if there is None:
        return f"- turn {at}"
    return f"turn {at}" if at == there else f"turn {at} → {there}"


def _count_unmatched(before: Sequence[str], after: Sequence[str]) -> list[str]:
    now, then = Counter(before), Counter(after)
    counts = ((now - then).total(), "-"), ((then - now).total(), "+")
    return [f"{sign} {count} without a counterpart" for count, sign in counts if count]


def _pair_turns(
    before: Sequence[str], after: Sequence[str]
) -> Iterator[tuple[int | None, int | None]]:
    # Pairs turns with equal requests. Between them, equal numbers of turns are paired in order.
    at = there = 0
    for run in same_runs(before, after):
        gone, new = range(at, run.at), range(there, run.there)
        if len(gone) == len(new):
            yield from zip(gone, new, strict=True)
        else:
            yield from ((index, None) for index in gone)
            yield from ((None, index) for index in new)
        yield from ((run.at + step, run.there + step) for step in range(run.length))
        at, there = run.at + run.length, run.there + run.length


def _beginning_lines(stream: ConversationStream) -> Iterator[str]:
    if stream.title:
        yield f"title: {stream.title}"
    yield from _json_lines("configuration", mask_secrets(stream.base_config))
    yield from (f"damaged: {damage.message}" for damage in stream.damage)


# --- a turn in lines -------------------------------------------------------------------------


def _turn_lines(turn: Turn) -> Iterator[str]:
    for part in turn.parts:
        yield from _part_lines(part)
    yield from (f"image of the request: {image.words}, {image.digest}" for image in turn.images)
    if turn.uncalled:
        yield uncalled_words(turn.uncalled)
    if turn.left_out:
        end = f" ({turn.status})" if turn.status else ""
        yield f"no answer{end}: this turn is not sent to models"
    if tokens := _format_tokens(turn.usage):
        yield f"tokens: {tokens}"


def _entry_lines(entries: Iterable[Entry]) -> Iterator[str]:
    # `Turn` has no author, reasoning, asker or model, so they are read from the entries.
    models: dict[str, None] = {}
    for entry in entries:
        models.update((used.model, None) for used in read_usage(entry.metadata) if used.model)
        match entry:
            case ChatRequest(author=str(author)):
                yield f"author: {author}"
            case ChatResponse(kind="reasoning", reasoning=reasoning):
                yield from _text_lines("reasoning", reasoning or "")
            case InquiryRequest(source=source, question=question):
                exclusive = ", which only a user may answer" if question.exclusive else ""
                yield f"question of {source.name or source.source}{exclusive}"
    if models:
        yield f"tokens of: {', '.join(models)}"


def _part_lines(part: Part) -> Iterator[str]:
    match part:
        case Text(content=content, by_person=by_person):
            yield from _text_lines("you" if by_person else "assistant", content)
        case StructuredData(data=data):
            yield from _json_lines("answer", data)
        case ToolCall():
            yield from _call_lines(part)
        case Inquiry():
            yield from _inquiry_lines(part)
        case ConfigChange():
            yield from _change_lines(part)
        case _:
            assert_never(part)


def _call_lines(call: ToolCall) -> Iterator[str]:
    yield f"call {call.name}"
    for name, value in sorted(call.arguments.items()):
        yield from _indent(_json_lines(name, value))
    if call.requested_arguments is not None:
        yield f"{INDENT}arguments edited by you"
        yield from _indent(_json_lines("model's arguments", dict(call.requested_arguments)))
    if call.content is None:
        yield f"{INDENT}no result"
    else:
        yield from _indent(_text_lines("error" if call.is_error else "result", call.content))
    yield from (f"{INDENT}image: {image.words}, {image.digest}" for image in call.images)


def _inquiry_lines(inquiry: Inquiry) -> Iterator[str]:
    yield from _text_lines("question", inquiry.question)
    yield from _indent(_json_lines("kind", dict(inquiry.answer_type)))
    by = f"by {format_user_name(inquiry.by)}" if inquiry.by is not None else None
    said = [inquiry.channel, *inquiry.marks, _describe_other_end(inquiry), by]
    about = ", ".join(filter(None, said))
    shown = f" ({about})" if about else ""
    match inquiry.outcome:
        case "answered":
            answer = answer_as_json(dict(inquiry.answer_type), inquiry.answer)
            yield f"{INDENT}answer{shown}: {answer}"
        case "redacted":
            yield f"{INDENT}answer{shown}: {SECRET_ANSWER}"
        case _:
            yield f"{INDENT}no answer{shown}: {inquiry.end or inquiry.reason or 'open'}"
            yield from (f"{INDENT}reason: {x}" for x in [inquiry.reason] if x and inquiry.end)


def _describe_other_end(inquiry: Inquiry) -> str | None:
    # An answered question may have another end, such as a timeout.
    ended = inquiry.ended
    return f"end: {ended.unexpected}" if ended.is_answered and ended.unexpected else None


def _change_lines(change: ConfigChange) -> Iterator[str]:
    if not (change.delta or change.unsets or change.begins_again):
        return  # only the source of a value changed
    yield "configuration reset" if change.begins_again else "configuration"
    if change.delta:
        yield from _indent(_json_lines("set", mask_secrets(dict(change.delta))))
    yield from (f"{INDENT}unset {masked_path(path)}" for path in change.unsets)
    yield from (f"{INDENT}{said}" for said in by_tools(change.proposed_by))


def _format_tokens(usage: Usage) -> str:
    counts = (
        (usage.input_tokens, "in"),
        (usage.cache_read_tokens, "from cache"),
        (usage.cache_write_tokens, "into cache"),
        (usage.output_tokens, "out"),
        (usage.reasoning_tokens, "reasoning"),
    )
    return ", ".join(f"{count:,} {word}" for count, word in counts if count is not None)


def _text_lines(name: str, text: str) -> Iterator[str]:
    yield f"{name}:"
    yield from _indent(text.split("\n"))


def _json_lines(name: str, value: JsonValue) -> Iterator[str]:
    # Front ends may sort the keys when they save a notebook, so the keys are always sorted.
    first, *more = indented_json(json.loads(sorted_json(value))).split("\n")
    yield f"{name}: {first}"
    yield from more


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"{INDENT}{line}" if line else "" for line in lines)


# --- other conversations ---------------------------------------------------------------------


def _normalize_conversation(entry: JsonValue) -> str:
    said: JsonObject = {
        "title": head_of(entry).get("title"),
        "base_config": as_object(entry).get("base_config"),
        "events": [_without_ids(event) for event in events_of(entry)],
    }
    return canonical_json(said if events_of(entry) else entry)


def _without_ids(event: JsonValue) -> JsonValue:
    if not isinstance(event, dict):
        return event
    return {key: value for key, value in event.items() if key not in _IGNORED_KEYS}
