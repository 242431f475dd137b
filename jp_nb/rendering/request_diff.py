"""Compare two requests, and a request with the recorded ones of a cassette.

Source: `docs/guide.md`, https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching,
`docs/cassettes.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.prompts import UNSET, ProposedChange
from jp_nb.agent.provider import Attachment
from jp_nb.agent.recording import NormalizedRequest, RequestPart
from jp_nb.agent.tokens import (
    estimate_attachment_tokens,
    estimate_text_tokens,
    estimate_tool_tokens,
    format_definition,
)
from jp_nb.config.secrets import hide_secrets
from jp_nb.images import format_bytes
from jp_nb.json_values import JsonObject, as_object
from jp_nb.rendering.prompts import difference
from jp_nb.rendering.report import Report, joined, table
from jp_nb.rendering.requests import (
    MESSAGE_COLUMNS,
    Message,
    TracedRequest,
    as_json,
    bounded,
    line_report,
    lines_report,
    message_row,
    tokens_in_words,
)
from jp_nb.text import escape_invisible

MAX_MESSAGES: Final = 10
"""Limit of messages of either request, from the first difference."""
MAX_DIFF_LINES: Final = 400
"""Of one part."""


def request_difference(before: TracedRequest, after: TracedRequest) -> Report:
    """Show the differences between two requests, and their common beginning."""
    parts = [
        line_report(f"request {before.name} → request {after.name}", strong=True),
        *_values(before, after),
        *_system(before, after),
        *_attachments(before, after),
        *_tools(before, after),
        *_message_rows(before, after),
    ]
    if len(parts) == 1:
        parts.append(line_report("no differences"))
    parts.append(line_report(shared_beginning(before, after)))
    for each in (before, after):
        parts.append(line_report(f"{each.name}: {tokens_in_words(each)}; {each.remarks[0]}"))
    return joined(parts, between="\n\n")


# --- the parts -------------------------------------------------------------------------------


def _values(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    now, then = _plain_values(before), _plain_values(after)
    for key in dict.fromkeys([*now, *then]):
        if now.get(key) != then.get(key):
            yield from _changed_rows(key, now.get(key), then.get(key))


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


def _changed_rows(what: str, now: JsonValue, then: JsonValue) -> Iterator[Report]:
    found = difference(ProposedChange(what, _json(now), _json(then)))
    if found is None:
        sides = (UNSET if value is None else as_json(value) for value in (now, then))
        yield line_report(f"{what}: {' → '.join(sides)}")
        return
    yield line_report(f"{what}: {found.sizes}")
    lines = [str(line) for line in found.lines]
    if more := lines[MAX_DIFF_LINES:]:
        lines[MAX_DIFF_LINES:] = [f"⟨… {len(more):,} more lines⟩"]
    yield lines_report(lines, "diff")


def _json(value: JsonValue) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _system(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    if before.shown.system != after.shown.system:
        now, then = ("\n\n".join(each.shown.system) or None for each in (before, after))
        yield from _changed_rows("system", now, then)


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
        {tool.name: format_definition(tool) for tool in before.shown.tools},
        {tool.name: format_definition(tool) for tool in after.shown.tools},
    )
    names = [[tool.name for tool in each.shown.tools] for each in (before, after)]
    if names[0] != names[1] and sorted(names[0]) == sorted(names[1]):
        yield line_report("tools: the same in another order")


def _members(
    what: str, now: Mapping[str, JsonValue], then: Mapping[str, JsonValue]
) -> Iterator[Report]:
    gone = [name for name in now if name not in then]
    new = [name for name in then if name not in now]
    for word, names in (("removed", gone), ("added", new)):
        if names:
            yield line_report(f"{what}s {word}: {bounded(', '.join(names), 1_000)}")
    for name, value in now.items():
        if name in then and value != then[name]:
            yield from _changed_rows(f"{what} {name}", value, then[name])


def _message_rows(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    now, then = before.messages, after.messages
    same = _count_equal(now, then)
    if same == len(now) == len(then):
        return
    yield line_report(
        f"messages: {same:,} identical, then {len(now) - same:,} in {before.name} and "
        f"{len(then) - same:,} in {after.name}"
    )
    for traced, messages in ((before, now), (after, then)):
        rest = messages[same : same + MAX_MESSAGES]
        rows = [message_row(number, each) for number, each in enumerate(rest, same + 1)]
        if more := len(messages) - same - len(rest):
            rows.append(("…", "…", f"… and {more:,} more", ""))
        if rows:
            yield line_report(f"from message {same + 1} on in {traced.name}:")
            yield table(MESSAGE_COLUMNS, rows)
    if same < min(len(now), len(then)) and now[same].role == then[same].role:
        yield from _changed_rows(f"message {same + 1}", now[same].text, then[same].text)


def _count_equal(now: list[Message], then: list[Message]) -> int:
    same = 0
    while same < min(len(now), len(then)) and now[same] == then[same]:
        same += 1
    return same


# --- common beginning ------------------------------------------------------------------


def shared_beginning(before: TracedRequest, after: TracedRequest) -> str:
    """Return the common beginning of two requests, the most that a provider's cache can serve.

    Tools come first, then system texts, attachments and messages.
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


_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?")
MAX_MISS_LINES: Final = 40
"""Of one part."""
MAX_PARTS: Final = 12
MAX_CHARS: Final = 4_000
"""Of one line."""


def missed_lines(recorded: NormalizedRequest, asked: NormalizedRequest) -> list[str]:
    """Return the differences as lines: settings, system, attachments, tools, messages."""
    found: list[list[str]] = []
    for what, now, then in _diff_requests(recorded, asked):
        if len(found) == MAX_PARTS:
            found.append(["… and more"])
            break
        found.append([*_changed_parts(what, now, then), *_hint(what, now, then)])
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
        now, then = recorded.get(key), asked.get(key)
        if key == "parameters":
            before, after = as_object(now), as_object(then)
            for name in dict.fromkeys([*before, *after]):
                if not _is_equal(before.get(name), after.get(name)):
                    yield f"parameter {name}", before.get(name), after.get(name)
        elif not _is_equal(now, then):
            yield key.replace("_", " "), now, then


def _diff_named_parts(
    kind: str, key: str, recorded: Sequence[RequestPart], asked: Sequence[RequestPart]
) -> Iterator[Change]:
    now = {str(part.value.get(key)): part for part in recorded}
    then = {str(part.value.get(key)): part for part in asked}
    for name in dict.fromkeys([*now, *then]):
        one, other = now.get(name), then.get(name)
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


def _is_equal(now: JsonValue, then: JsonValue) -> bool:
    return _part_json(now) == _part_json(then)  # 1, 1.0 and True differ


def _part_json(value: JsonValue) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _changed_parts(what: str, now: JsonValue, then: JsonValue) -> Iterator[str]:
    now, then = (
        _hide_keys(now),
        _hide_keys(then),
    )  # before folding, which could leave an unrecognizable part of a key
    found = difference(ProposedChange(what, _part_json(now), _part_json(then)))
    name = escape_invisible(what)
    if _is_equal(now, then):
        yield f"  {name}: the difference looks like an API key and is not shown"
        return
    if found is None:
        sides = (
            UNSET if (text := _part_json(each)) is None else escape_invisible(text)
            for each in (now, then)
        )
        yield f"  {name}: {' → '.join(sides)}"
        return
    yield f"  {name}: {found.sizes}"
    lines = [str(line) for line in found.lines]
    if more := lines[MAX_MISS_LINES:]:
        lines[MAX_MISS_LINES:] = [f"⟨… {len(more):,} more lines⟩"]
    yield from (f"    {line}" for line in lines)


def _hide_keys(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return hide_secrets(value)
        case list():
            return [_hide_keys(each) for each in value]
        case dict():
            return {key: _hide_keys(each) for key, each in value.items()}
    return value


def _hint(what: str, now: JsonValue, then: JsonValue) -> Iterator[str]:
    # For differences with a known cause: times, or a tool that needs a user.
    before, after = (_TIME.sub("", each) if isinstance(each, str) else "" for each in (now, then))
    if before and before == after:
        yield (
            "    only times differ: set `record.reproducible = true` to record and to replay, so "
            "that each run writes the same times"
        )
    if what.startswith("tool ") and isinstance(now, dict) and then is None:
        yield (
            "    headless runs do not offer tools that need a user, such as `ask`: record with "
            "`jp-nb run --record`, which is headless too"
        )


def _bounded(line: str) -> str:
    if len(line) <= MAX_CHARS:
        return line
    return f"{line[:MAX_CHARS]}⟨… {len(line) - MAX_CHARS:,} more⟩"
