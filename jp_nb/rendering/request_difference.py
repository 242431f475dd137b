"""Two requests compared part by part, and how much of their beginning a cache may share.

Source: `docs/guide.md`;
https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.model_events import Attachment
from jp_nb.agent.prompts import UNSET, ProposedChange
from jp_nb.agent.token_estimate import attachment_tokens, definition_json, text_tokens, tool_tokens
from jp_nb.image import amount
from jp_nb.rendering.difference import difference
from jp_nb.rendering.report import Report, joined, table
from jp_nb.rendering.request_report import (
    MESSAGE_COLUMNS,
    as_json,
    bounded,
    line_report,
    lines_report,
    message_row,
    tokens_in_words,
)
from jp_nb.rendering.traced_request import Message, TracedRequest

MAX_MESSAGES: Final = 10
"""Of either request, from the first that differs."""
MAX_LINES: Final = 400
"""Of one part."""


def request_difference(before: TracedRequest, after: TracedRequest) -> Report:
    """Show what differs between two requests, and what both begin with."""
    parts = [
        line_report(f"request {before.name} → request {after.name}", strong=True),
        *_values(before, after),
        *_system(before, after),
        *_attachments(before, after),
        *_tools(before, after),
        *_messages(before, after),
    ]
    if len(parts) == 1:
        parts.append(line_report("no differences"))
    parts.append(line_report(shared_beginning(before, after)))
    for each in (before, after):
        parts.append(line_report(f"{each.name}: {tokens_in_words(each)}; {each.remarks[0]}"))
    return joined(parts, between="\n\n")


# --- the parts -------------------------------------------------------------------------------


def _values(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    """Yield what differs of model, address, parameters, tool choice and schema."""
    now, then = _plain_values(before), _plain_values(after)
    for key in dict.fromkeys([*now, *then]):
        if now.get(key) != then.get(key):
            yield from _changed(key, now.get(key), then.get(key))


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


def _changed(what: str, now: JsonValue, then: JsonValue) -> Iterator[Report]:
    """Yield how `what` differs: beside each other if short, else line by line."""
    found = difference(ProposedChange(what, _json(now), _json(then)))
    if found is None:
        sides = (UNSET if value is None else as_json(value) for value in (now, then))
        yield line_report(f"{what}: {' → '.join(sides)}")
        return
    yield line_report(f"{what}: {found.sizes}")
    lines = [str(line) for line in found.lines]
    if more := lines[MAX_LINES:]:
        lines[MAX_LINES:] = [f"⟨… {len(more):,} more lines⟩"]
    yield lines_report(lines, "diff")


def _json(value: JsonValue) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _system(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    if before.shown.system != after.shown.system:
        now, then = ("\n\n".join(each.shown.system) or None for each in (before, after))
        yield from _changed("system", now, then)


def _attachments(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    yield from _members(
        "attachment",
        {each.source: _attached(each) for each in before.shown.attachments},
        {each.source: _attached(each) for each in after.shown.attachments},
    )


def _attached(attachment: Attachment) -> JsonValue:
    content = attachment.content
    if isinstance(content, str):
        return content
    return f"{attachment.media_type}, {amount(len(content))}"


def _tools(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    yield from _members(
        "tool",
        {tool.name: definition_json(tool) for tool in before.shown.tools},
        {tool.name: definition_json(tool) for tool in after.shown.tools},
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
            yield from _changed(f"{what} {name}", value, then[name])


def _messages(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    now, then = before.messages, after.messages
    same = _alike(now, then)
    if same == len(now) == len(then):
        return
    yield line_report(
        f"messages: {same:,} alike, then {len(now) - same:,} in {before.name} and "
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
        yield from _changed(f"message {same + 1}", now[same].text, then[same].text)


def _alike(now: list[Message], then: list[Message]) -> int:
    """Return how many messages both begin with."""
    same = 0
    while same < min(len(now), len(then)) and now[same] == then[same]:
        same += 1
    return same


# --- what a cache may share ------------------------------------------------------------------


def shared_beginning(before: TracedRequest, after: TracedRequest) -> str:
    """Return up to where both begin alike: a provider's cache serves no more than that.

    Tools are read first, then system texts, attachments and messages.
    """
    begins = "shared prefix for a prompt cache:"
    if before.model != after.model:
        return f"{begins} none, because each model has its own cache"
    tokens, shared = 0, list[str]()
    one, other = before.shown, after.shown
    for part, alike, count in (
        ("tools", one.tools == other.tools, sum(map(tool_tokens, one.tools))),
        ("system", one.system == other.system, sum(map(text_tokens, one.system))),
        (
            "attachments",
            one.attachments == other.attachments,
            sum(map(attachment_tokens, one.attachments)),
        ),
    ):
        if not alike:
            return _shared(begins, shared, tokens, f"then {part} differ")
        tokens += count
        if count:
            shared.append(part)
    same = _alike(before.messages, after.messages)
    tokens += sum(message.tokens for message in before.messages[:same])
    if same:
        shared.append(f"{same:,} message{'' if same == 1 else 's'}")
    whole = same == len(before.messages)
    end = "all of the first request" if whole else "then they differ"
    return _shared(begins, shared, tokens, end)


def _shared(begins: str, shared: list[str], tokens: int, end: str) -> str:
    if not shared:
        return f"{begins} none; {end.removeprefix('then ')}"
    return f"{begins} about {tokens:,} tokens ({', '.join(shared)}); {end}"
