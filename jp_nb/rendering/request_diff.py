"""Report the differences between two requests, and between a cassette and a new request.

Source: `docs/guide.md`, https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching,
`docs/cassettes.md`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.compaction import (
    estimate_attachment_tokens,
    estimate_text_tokens,
    estimate_tool_tokens,
)
from jp_nb.agent.prompts import UNSET, ProposedChange
from jp_nb.agent.provider import Attachment
from jp_nb.agent.recording import NormalizedRequest, RequestPart
from jp_nb.config.secrets import hide_secrets
from jp_nb.images import format_bytes
from jp_nb.json_values import JsonObject, as_object
from jp_nb.rendering.prompts import Difference, difference
from jp_nb.rendering.report import Report, block, heading, joined, remark, table
from jp_nb.rendering.requests import (
    MESSAGE_COLUMNS,
    Message,
    TracedRequest,
    as_json,
    bounded,
    message_row,
    tokens_in_words,
)
from jp_nb.storage.cassette import CassetteContent, StoredExchange
from jp_nb.text import escape_invisible, one_line, plain

MAX_MESSAGES: Final = 10
"""Limit of the messages of each request, from the first difference on."""
MAX_DIFF_LINES: Final = 400
"""Limit of the diff lines of one part."""


def request_difference(before: TracedRequest, after: TracedRequest) -> Report:
    """Report the differences between two requests, and their common prefix."""
    parts = [
        heading(f"request {before.name} → request {after.name}"),
        *_values(before, after),
        *_system(before, after),
        *_attachments(before, after),
        *_tools(before, after),
        *_message_rows(before, after),
    ]
    if len(parts) == 1:
        parts.append(remark("no differences"))
    parts.append(remark(describe_shared_prefix(before, after)))
    for each in (before, after):
        parts.append(remark(f"{each.name}: {tokens_in_words(each)}; {each.remarks[0]}"))
    return joined(parts, between="\n\n")


# --- the parts -------------------------------------------------------------------------------


def _values(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    old, new = _plain_values(before), _plain_values(after)
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            yield from _changed_rows(key, old.get(key), new.get(key))


def _plain_values(traced: TracedRequest) -> dict[str, JsonValue]:
    schema = traced.shown.schema
    headers: dict[str, JsonValue] = dict(traced.sent.headers)
    return {
        "model": traced.model,
        "sent to": traced.sent.url,
        **headers,
        **traced.parameters,
        "tool choice": traced.shown.tool_choice,
        "response schema": dict(schema) if schema is not None else None,
    }


def _changed_rows(label: str, old: JsonValue, new: JsonValue) -> Iterator[Report]:
    found = difference(ProposedChange(label, _json(old), _json(new)))
    if found is None:
        sides = (UNSET if value is None else as_json(value) for value in (old, new))
        yield remark(f"{label}: {' → '.join(sides)}")
        return
    yield remark(f"{label}: {found.sizes}")
    yield block("\n".join(_limit_lines(found, MAX_DIFF_LINES)), "diff")


def _limit_lines(found: Difference, limit: int) -> list[str]:
    lines = [str(line) for line in found.lines]
    if more := lines[limit:]:
        lines[limit:] = [f"⟨… {len(more):,} more lines⟩"]
    return lines


def _json(value: JsonValue) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _system(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    if before.shown.system != after.shown.system:
        old, new = ("\n\n".join(each.shown.system) or None for each in (before, after))
        yield from _changed_rows("system", old, new)


def _attachments(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    yield from _members(
        "attachment",
        {each.source: _describe_attachment(each) for each in before.shown.attachments},
        {each.source: _describe_attachment(each) for each in after.shown.attachments},
    )


def _describe_attachment(attachment: Attachment) -> JsonValue:
    content = attachment.content
    if isinstance(content, str):
        return content
    return f"{attachment.media_type}, {format_bytes(len(content))}"


def _tools(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    yield from _members(
        "tool",
        {tool.name: tool.to_json() for tool in before.shown.tools},
        {tool.name: tool.to_json() for tool in after.shown.tools},
    )
    names = [[tool.name for tool in each.shown.tools] for each in (before, after)]
    if names[0] != names[1] and sorted(names[0]) == sorted(names[1]):
        yield remark("tools: the same in another order")


def _members(
    label: str, old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]
) -> Iterator[Report]:
    removed = [name for name in old if name not in new]
    added = [name for name in new if name not in old]
    for word, names in (("removed", removed), ("added", added)):
        if names:
            yield remark(f"{label}s {word}: {bounded(', '.join(names), 1_000)}")
    for name, value in old.items():
        if name in new and value != new[name]:
            yield from _changed_rows(f"{label} {name}", value, new[name])


def _message_rows(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    old, new = before.messages, after.messages
    same = _count_equal(old, new)
    if same == len(old) == len(new):
        return
    yield remark(
        f"messages: {same:,} identical, then {len(old) - same:,} in {before.name} and "
        f"{len(new) - same:,} in {after.name}"
    )
    for traced, messages in ((before, old), (after, new)):
        rest = messages[same : same + MAX_MESSAGES]
        rows = [message_row(number, each) for number, each in enumerate(rest, same + 1)]
        if more := len(messages) - same - len(rest):
            rows.append(("…", "…", f"… and {more:,} more", ""))
        if rows:
            yield remark(f"from message {same + 1} on in {traced.name}:")
            yield table(MESSAGE_COLUMNS, rows)
    if same < min(len(old), len(new)) and old[same].role == new[same].role:
        yield from _changed_rows(f"message {same + 1}", old[same].text, new[same].text)


def _count_equal(old: list[Message], new: list[Message]) -> int:
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    return same


# --- common beginning ------------------------------------------------------------------


def describe_shared_prefix(before: TracedRequest, after: TracedRequest) -> str:
    """Return a line about the common prefix of two requests, which a prompt cache can serve.

    The prefix has the tools, system texts, attachments, and messages, in this order.
    """
    begins = "shared prefix for a prompt cache:"
    if before.model != after.model:
        return f"{begins} none, because each model has its own cache"
    tokens, shared = 0, list[str]()
    one, other = before.shown, after.shown
    for part, alike, count in (
        ("tools", one.tools == other.tools, sum(map(estimate_tool_tokens, one.tools))),
        ("system", one.system == other.system, sum(map(estimate_text_tokens, one.system))),
        (
            "attachments",
            one.attachments == other.attachments,
            sum(map(estimate_attachment_tokens, one.attachments)),
        ),
    ):
        if not alike:
            return _describe_shared(begins, shared, tokens, f"then {part} differ")
        tokens += count
        if count:
            shared.append(part)
    same = _count_equal(before.messages, after.messages)
    tokens += sum(message.tokens for message in before.messages[:same])
    if same:
        shared.append(f"{same:,} message{'' if same == 1 else 's'}")
    whole = same == len(before.messages)
    end = "all of the first request" if whole else "then they differ"
    return _describe_shared(begins, shared, tokens, end)


def _describe_shared(begins: str, shared: list[str], tokens: int, end: str) -> str:
    if not shared:
        return f"{begins} none; {end.removeprefix('then ')}"
    return f"{begins} about {tokens:,} tokens ({', '.join(shared)}); {end}"


# --- cassettes -------------------------------------------------------------------------

MAX_EXCHANGE_CHARS = 60
"""Limit of the text of a request in one line."""


def format_exchange_count(count: int) -> str:
    """Return the count as words, such as `1 exchange` or `2 exchanges`."""
    return f"{count:,} exchange{'' if count == 1 else 's'}"


def describe_exchange(cassette: CassetteContent, exchange: StoredExchange) -> str:
    """Return line, model, and last message of `exchange`: `line 7, anthropic/opus: Hello`."""
    model = f"{exchange.summary['provider']}/{exchange.summary['model']}"
    last = cassette.parts.get(("message", exchange.last_message))
    said = "" if last is None else str(last.value.get("text") or last.value.get("name") or "")
    # Before the text is cut, because a part of a key is not recognized as a key.
    hidden = hide_secrets(plain(said, limit=sys.maxsize))
    return f"line {exchange.line}, {one_line(model)}: {one_line(hidden, limit=MAX_EXCHANGE_CHARS)}"


_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?")
MAX_MISMATCH_LINES: Final = 40
"""Limit of the diff lines of one part."""
MAX_PARTS: Final = 12
MAX_LINE_CHARS: Final = 4_000


def format_mismatch(recorded: NormalizedRequest, asked: NormalizedRequest) -> list[str]:
    """Return lines about settings, system texts, attachments, tools, and messages that differ."""
    found: list[list[str]] = []
    for label, old, new in _diff_requests(recorded, asked):
        if len(found) == MAX_PARTS:
            found.append(["… and more"])
            break
        found.append([*_changed_parts(label, old, new), *_hint(label, old, new)])
    return [_bounded(line) for lines in found for line in lines]


Change = tuple[str, JsonValue, JsonValue]


def _diff_requests(recorded: NormalizedRequest, asked: NormalizedRequest) -> Iterator[Change]:
    yield from _diff_settings(recorded.settings, asked.settings)
    for number, (one, other) in enumerate(zip_longest(recorded.system, asked.system), 1):
        if _get_id(one) != _get_id(other):
            yield f"system text {number}", _get_value(one, "text"), _get_value(other, "text")
    yield from _diff_named_parts("attachment", "source", recorded.attachments, asked.attachments)
    yield from _diff_named_parts("tool", "name", recorded.tools, asked.tools)
    yield from _diff_messages(recorded.messages, asked.messages)


def _diff_settings(recorded: JsonObject, asked: JsonObject) -> Iterator[Change]:
    for key in dict.fromkeys([*recorded, *asked]):
        old, new = recorded.get(key), asked.get(key)
        if key == "parameters":
            before, after = as_object(old), as_object(new)
            for name in dict.fromkeys([*before, *after]):
                if not _is_equal(before.get(name), after.get(name)):
                    yield f"parameter {name}", before.get(name), after.get(name)
        elif not _is_equal(old, new):
            yield key.replace("_", " "), old, new


def _diff_named_parts(
    kind: str, key: str, recorded: Sequence[RequestPart], asked: Sequence[RequestPart]
) -> Iterator[Change]:
    old = {str(part.value.get(key)): part for part in recorded}
    new = {str(part.value.get(key)): part for part in asked}
    for name in dict.fromkeys([*old, *new]):
        one, other = old.get(name), new.get(name)
        if _get_id(one) == _get_id(other):
            continue
        before, after = (dict(each.value) if each else {} for each in (one, other))
        if one is None or other is None:
            yield f"{kind} {name}", before or None, after or None
            continue
        for field in dict.fromkeys([*before, *after]):
            if not _is_equal(before.get(field), after.get(field)):
                yield f"{kind} {name}, {field}", before.get(field), after.get(field)
    order = [str(part.value.get(key)) for part in recorded]
    new_order = [str(part.value.get(key)) for part in asked]
    if order != new_order and sorted(order) == sorted(new_order):
        yield f"the order of the {kind}s", ", ".join(order), ", ".join(new_order)


def _diff_messages(
    recorded: Sequence[RequestPart], asked: Sequence[RequestPart]
) -> Iterator[Change]:
    for number, (one, other) in enumerate(zip_longest(recorded, asked), 1):
        if _get_id(one) == _get_id(other):
            continue
        before, after = (dict(each.value) if each else {} for each in (one, other))
        if before.get("role") != after.get("role"):
            yield f"message {number}", before or None, after or None
            continue
        for field in dict.fromkeys([*before, *after]):
            if not _is_equal(before.get(field), after.get(field)):
                role, more = before["role"], "" if field == "text" else f", {field}"
                yield f"message {number} ({role}){more}", before.get(field), after.get(field)


def _get_id(part: RequestPart | None) -> str:
    return part.id if part is not None else ""


def _get_value(part: RequestPart | None, key: str) -> JsonValue:
    return part.value.get(key) if part is not None else None


def _is_equal(old: JsonValue, new: JsonValue) -> bool:
    return _part_json(old) == _part_json(new)  # 1, 1.0 and True differ


def _part_json(value: JsonValue) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _changed_parts(label: str, old: JsonValue, new: JsonValue) -> Iterator[str]:
    # Before the texts are cut, because a part of a key is not recognized as a key.
    old, new = _hide_keys(old), _hide_keys(new)
    found = difference(ProposedChange(label, _part_json(old), _part_json(new)))
    name = escape_invisible(label)
    if _is_equal(old, new):
        yield f"  {name}: the difference looks like an API key and is not shown"
        return
    if found is None:
        sides = (
            UNSET if (text := _part_json(each)) is None else escape_invisible(text)
            for each in (old, new)
        )
        yield f"  {name}: {' → '.join(sides)}"
        return
    yield f"  {name}: {found.sizes}"
    yield from (f"    {line}" for line in _limit_lines(found, MAX_MISMATCH_LINES))


def _hide_keys(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return hide_secrets(value)
        case list():
            return [_hide_keys(each) for each in value]
        case dict():
            return {key: _hide_keys(each) for key, each in value.items()}
    return value


def _hint(label: str, old: JsonValue, new: JsonValue) -> Iterator[str]:
    # For differences with a known cause: times, or a tool that needs a user.
    before, after = (_TIME.sub("", each) if isinstance(each, str) else "" for each in (old, new))
    if before and before == after:
        yield (
            "    only times differ: set `record.reproducible = true` to record and to replay, so "
            "that each run writes the same times"
        )
    if label.startswith("tool ") and isinstance(old, dict) and new is None:
        yield (
            "    headless runs do not offer tools that need a user, such as `ask`: record with "
            "`jp-nb run --record`, which is headless too"
        )


def _bounded(line: str) -> str:
    if len(line) <= MAX_LINE_CHARS:
        return line
    return f"{line[:MAX_LINE_CHARS]}⟨… {len(line) - MAX_LINE_CHARS:,} more⟩"
