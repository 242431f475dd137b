"""How a request differs from one on a cassette, part by part.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.asked_request import AskedRequest, RequestPart
from jp_nb.agent.prompts import UNSET, ProposedChange
from jp_nb.config.secret_names import without_secrets
from jp_nb.json_values import JsonObject, as_object
from jp_nb.rendering.difference import difference
from jp_nb.safe_text import escape_unseen

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?")
MAX_LINES: Final = 40
"""Of one part."""
MAX_PARTS: Final = 12
MAX_CHARS: Final = 4_000
"""Of one line."""


def missed_lines(recorded: AskedRequest, asked: AskedRequest) -> list[str]:
    """Return the lines that say what differs: settings, system, attachments, tools, messages."""
    found: list[list[str]] = []
    for what, now, then in _differing(recorded, asked):
        if len(found) == MAX_PARTS:
            found.append(["… and more"])
            break
        found.append([*_changed(what, now, then), *_hint(what, now, then)])
    return [_bounded(line) for lines in found for line in lines]


Change = tuple[str, JsonValue, JsonValue]


def _differing(recorded: AskedRequest, asked: AskedRequest) -> Iterator[Change]:
    yield from _settings(recorded.settings, asked.settings)
    for number, (one, other) in enumerate(zip_longest(recorded.system, asked.system), 1):
        if _id(one) != _id(other):
            yield f"system text {number}", _said(one, "text"), _said(other, "text")
    yield from _named("attachment", "source", recorded.attachments, asked.attachments)
    yield from _named("tool", "name", recorded.tools, asked.tools)
    yield from _messages(recorded.messages, asked.messages)


def _settings(recorded: JsonObject, asked: JsonObject) -> Iterator[Change]:
    for key in dict.fromkeys([*recorded, *asked]):
        now, then = recorded.get(key), asked.get(key)
        if key == "parameters":
            before, after = as_object(now), as_object(then)
            for name in dict.fromkeys([*before, *after]):
                if not _same(before.get(name), after.get(name)):
                    yield f"parameter {name}", before.get(name), after.get(name)
        elif not _same(now, then):
            yield key.replace("_", " "), now, then


def _named(
    kind: str, key: str, recorded: Sequence[RequestPart], asked: Sequence[RequestPart]
) -> Iterator[Change]:
    """Yield what differs of parts that have names: what is gone, new, another, elsewhere."""
    now = {str(part.value.get(key)): part for part in recorded}
    then = {str(part.value.get(key)): part for part in asked}
    for name in dict.fromkeys([*now, *then]):
        one, other = now.get(name), then.get(name)
        if _id(one) == _id(other):
            continue
        before, after = (dict(each.value) if each else {} for each in (one, other))
        if one is None or other is None:
            yield f"{kind} {name}", before or None, after or None
            continue
        for field in dict.fromkeys([*before, *after]):
            if not _same(before.get(field), after.get(field)):
                yield f"{kind} {name}, {field}", before.get(field), after.get(field)
    order = [str(part.value.get(key)) for part in recorded]
    new_order = [str(part.value.get(key)) for part in asked]
    if order != new_order and sorted(order) == sorted(new_order):
        yield f"the order of the {kind}s", ", ".join(order), ", ".join(new_order)


def _messages(recorded: Sequence[RequestPart], asked: Sequence[RequestPart]) -> Iterator[Change]:
    for number, (one, other) in enumerate(zip_longest(recorded, asked), 1):
        if _id(one) == _id(other):
            continue
        before, after = (dict(each.value) if each else {} for each in (one, other))
        if before.get("role") != after.get("role"):
            yield f"message {number}", before or None, after or None
            continue
        for field in dict.fromkeys([*before, *after]):
            if not _same(before.get(field), after.get(field)):
                role, more = before["role"], "" if field == "text" else f", {field}"
                yield f"message {number} ({role}){more}", before.get(field), after.get(field)


def _id(part: RequestPart | None) -> str:
    return part.id if part is not None else ""


def _said(part: RequestPart | None, key: str) -> JsonValue:
    return part.value.get(key) if part is not None else None


def _same(now: JsonValue, then: JsonValue) -> bool:
    return _json(now) == _json(then)  # 1 is not 1.0, nor True


def _json(value: JsonValue) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _changed(what: str, now: JsonValue, then: JsonValue) -> Iterator[str]:
    now, then = (
        _hidden(now),
        _hidden(then),
    )  # a fold may leave a part of a key, which looks like none
    found = difference(ProposedChange(what, _json(now), _json(then)))
    name = escape_unseen(what)
    if _same(now, then):
        yield f"  {name}: the difference looks like an API key and is not shown"
        return
    if found is None:
        sides = (
            UNSET if (text := _json(each)) is None else escape_unseen(text) for each in (now, then)
        )
        yield f"  {name}: {' → '.join(sides)}"
        return
    yield f"  {name}: {found.sizes}"
    lines = [str(line) for line in found.lines]
    if more := lines[MAX_LINES:]:
        lines[MAX_LINES:] = [f"⟨… {len(more):,} more lines⟩"]
    yield from (f"    {line}" for line in lines)


def _hidden(value: JsonValue) -> JsonValue:
    """Return `value` without what looks like a key in its texts."""
    match value:
        case str():
            return without_secrets(value)
        case list():
            return [_hidden(each) for each in value]
        case dict():
            return {key: _hidden(each) for key, each in value.items()}
    return value


def _hint(what: str, now: JsonValue, then: JsonValue) -> Iterator[str]:
    """Yield what helps where nothing but times differs, or a tool is gone."""
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
