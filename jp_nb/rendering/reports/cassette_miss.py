"""Describe why no recorded exchange of a cassette answers a request.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.model_requests.normalized_request import NormalizedRequest, RequestPart
from jp_nb.config.secrets.secret_hiding import hide_secrets
from jp_nb.exact_form import escape_invisible
from jp_nb.json_values import JsonObject, as_object, map_texts
from jp_nb.rendering.text_diff import compare_values, format_sorted_json
from jp_nb.storage.cassettes.cassette_content import CassetteContent

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?")
MAX_DIFFERENT_PARTS: Final = 12
MAX_DIFFERENT_CHARS: Final = 4_000
MISS_ADVICE: Final = (
    "Record everything again: `jp-nb run NOTEBOOK --record`, or `%jp cassette "
    "record` in a notebook. Record only the missing requests: `--replay-or-record`, "
    "or `%jp cassette replay-or-record`"
)


def describe_miss(
    content: CassetteContent, name: str, request: NormalizedRequest, *, used: Collection[int]
) -> str:
    """Return the message that no exchange of the cassette `name` answers `request`.

    It has the differences from the nearest exchange. `used` are the numbers of the exchanges that
    were replayed, each of which is used once.
    """
    exchanges = content.exchanges
    lines = [str(exchange.line) for exchange in exchanges if exchange.request == request.id]
    if lines:
        times = "once" if len(lines) == 1 else f"{len(lines)} times"
        return (
            f"this request is on the cassette {name} {times} (line "
            f"{', '.join(lines[:10])}), but was sent more "
            "often. Each recording is used once. Start again with `%jp cassette "
            f"replay`. {MISS_ADVICE}"
        )

    unused = [exchange for exchange in exchanges if exchange.number not in used]
    nearest = content.find_nearest(request, unused or exchanges)
    if nearest is None:
        return f"the cassette {name} is empty. {MISS_ADVICE}"

    kind = "closest unused recording" if unused else "closest recording (all were used)"
    differences = format_mismatch(content.rebuild_request(nearest), request)
    has_marks = any(line.startswith(("    - ", "    + ")) for line in differences)
    legend = "- on the cassette, + now" if has_marks else "on the cassette → now"

    first_line = (
        f"this request is not on the cassette {name}. The {kind} is on line "
        f"{nearest.line}. Differences ({legend}):"
    )
    return "\n".join([first_line, *differences, MISS_ADVICE])


def format_mismatch(recorded: NormalizedRequest, asked: NormalizedRequest) -> list[str]:
    """Return lines about settings, system texts, attachments, tools, and messages that differ."""
    lines: list[str] = []
    for number, change in enumerate(_diff_requests(recorded, asked)):
        if number == MAX_DIFFERENT_PARTS:
            lines.append("… and more")
            break

        lines += _format_change(*change)
        lines += _list_hints(*change)

    return [_truncate_line(line) for line in lines]


def _truncate_line(line: str) -> str:
    omitted_chars = len(line) - MAX_DIFFERENT_CHARS
    if omitted_chars <= 0:
        return line

    return f"{line[:MAX_DIFFERENT_CHARS]}⟨… {omitted_chars:,} more⟩"


_Change = tuple[str, JsonValue, JsonValue]
"""The label of a part of the request, with its recorded value and its new one."""


def _diff_requests(recorded: NormalizedRequest, asked: NormalizedRequest) -> Iterator[_Change]:
    """Yield the parts that differ: settings, system texts, attachments, tools, and messages."""
    for key, old, new in _diff_fields(recorded.settings, asked.settings):
        if key == "parameters":
            for name, before, after in _diff_fields(as_object(old), as_object(new)):
                yield f"parameter {name}", before, after
        else:
            yield key.replace("_", " "), old, new

    for number, before, after in _diff_pairs(recorded.system, asked.system):
        yield f"system text {number}", before.get("text"), after.get("text")

    yield from _diff_named_parts("attachment", "source", recorded.attachments, asked.attachments)
    yield from _diff_named_parts("tool", "name", recorded.tools, asked.tools)

    for number, before, after in _diff_pairs(recorded.messages, asked.messages):
        # Messages of different roles, or a missing one (`{}`), are compared as a whole.
        if before.get("role") != after.get("role"):
            yield f"message {number}", before or None, after or None
            continue

        for field, old, new in _diff_fields(before, after):
            suffix = "" if field == "text" else f", {field}"
            yield f"message {number} ({before['role']}){suffix}", old, new


def _diff_fields(old: JsonObject, new: JsonObject) -> Iterator[_Change]:
    """Yield the keys whose values differ; a missing value is None."""
    for key in dict.fromkeys([*old, *new]):
        before = old.get(key)
        after = new.get(key)
        if format_sorted_json(before) != format_sorted_json(after):  # 1, 1.0 and True differ
            yield key, before, after


def _diff_pairs(
    recorded: Sequence[RequestPart], asked: Sequence[RequestPart]
) -> Iterator[tuple[int, JsonObject, JsonObject]]:
    """Yield the number and both contents of parts that differ; a missing part is `{}`."""
    for number, (old, new) in enumerate(zip_longest(recorded, asked), 1):
        if old is not None and new is not None and old.id == new.id:
            continue

        before = dict(old.value) if old else {}
        after = dict(new.value) if new else {}
        yield number, before, after


def _diff_named_parts(
    kind: str, key: str, recorded: Sequence[RequestPart], asked: Sequence[RequestPart]
) -> Iterator[_Change]:
    """Yield the differences of parts that have the same name in `key`, and of their order."""
    old = {str(part.value.get(key)): dict(part.value) for part in recorded}
    new = {str(part.value.get(key)): dict(part.value) for part in asked}

    for name in dict.fromkeys([*old, *new]):
        if name not in old or name not in new:
            yield f"{kind} {name}", old.get(name), new.get(name)
            continue

        for field, before, after in _diff_fields(old[name], new[name]):
            yield f"{kind} {name}, {field}", before, after

    old_order = [str(part.value.get(key)) for part in recorded]
    new_order = [str(part.value.get(key)) for part in asked]
    if old_order != new_order and sorted(old_order) == sorted(new_order):
        yield f"the order of the {kind}s", ", ".join(old_order), ", ".join(new_order)


def _format_change(label: str, old: JsonValue, new: JsonValue) -> Iterator[str]:
    # Before the texts are cut, because a part of a key is not recognized as a key.
    old = map_texts(old, hide_secrets)
    new = map_texts(new, hide_secrets)
    name = escape_invisible(label)

    if format_sorted_json(old) == format_sorted_json(new):
        yield f"  {name}: the difference looks like an API key and is not shown"
        return

    summary, lines = compare_values(name, old, new, limit=40)
    yield f"  {summary}"
    yield from (f"    {line}" for line in lines)


def _list_hints(label: str, old: JsonValue, new: JsonValue) -> Iterator[str]:
    """Yield advice about differences with a known cause: times, or a tool that needs a user."""
    before = _remove_times(old)
    if before and before == _remove_times(new):
        yield (
            "    only times differ: set `record.reproducible = true` to record and to replay, so "
            "that each run writes the same times"
        )

    if label.startswith("tool ") and isinstance(old, dict) and new is None:
        yield (
            "    headless runs do not offer tools that need a user, such as `ask`: record with "
            "`jp-nb run --record`, which is headless too"
        )


def _remove_times(value: JsonValue) -> str:
    """Return a text without dates and times; "" for another value."""
    return _TIME.sub("", value) if isinstance(value, str) else ""
