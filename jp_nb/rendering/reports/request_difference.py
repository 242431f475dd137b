"""Report of the differences between two requests to a model: `%jp request --diff`.

It lists settings, system texts, attachments, and tools that differ, and the messages from the first
difference on. The last lines tell which beginning the requests share, for a prompt cache.

A provider may append changed system texts, tools, and attachments to the messages. So a
`TracedRequest` (`traced_request.py`) has two views: `shown` is the request with the old ones in
front of the messages, and `content` has them after all changes.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from jp_nb.agent.provider import ModelRequest
from jp_nb.agent.shared_prefix import compare_parts
from jp_nb.rendering.report import (
    Report,
    join_reports,
    make_block,
    make_heading,
    make_remark,
    make_table,
)
from jp_nb.rendering.reports.request_text import (
    MESSAGE_COLUMNS,
    format_message_row,
    format_token_estimate,
    shorten,
)
from jp_nb.rendering.reports.traced_request import TracedRequest
from jp_nb.rendering.same_runs import count_equal
from jp_nb.rendering.text_diff import compare_values
from jp_nb.text import format_bytes


def render_request_difference(before: TracedRequest, after: TracedRequest) -> Report:
    """Report the differences between two requests, and their common prefix."""
    parts = [
        make_heading(f"request {before.name} → request {after.name}"),
        *_report_values(before, after),
        *_report_parts(before, after),
        *_report_messages(before, after),
    ]
    if len(parts) == 1:
        parts.append(make_remark("no differences"))

    parts.append(make_remark(describe_shared_prefix(before, after)))
    for traced in (before, after):
        line = f"{traced.name}: {format_token_estimate(traced)}; {traced.how_sent}"
        parts.append(make_remark(line))

    return join_reports(parts, between="\n\n")


def _report_values(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    """Report the differences of settings, headers, and system texts."""
    is_same_form = _have_same_form(before, after)
    if not is_same_form:
        yield make_remark(
            "the bodies have different forms, so only their content is compared; see each with "
            f"`%jp request {before.name} --json` and `%jp request {after.name} --json`"
        )

    old = _list_values(before, is_same_form=is_same_form)
    new = _list_values(after, is_same_form=is_same_form)
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            yield from _report_change(key, old.get(key), new.get(key))

    old_request, new_request = _select_compared(before, after)
    if old_request.system != new_request.system:
        old_text = "\n\n".join(old_request.system) or None
        new_text = "\n\n".join(new_request.system) or None
        yield from _report_change("system", old_text, new_text)


def _list_values(traced: TracedRequest, *, is_same_form: bool) -> dict[str, JsonValue]:
    values: dict[str, JsonValue] = {"model": traced.model, "sent to": traced.sent.url}
    if is_same_form:
        values.update(traced.sent.headers)
        values.update(traced.parameters)

    # Both are the same in `content`: only system texts, tools, and attachments can be appended.
    schema = traced.shown.schema
    values["tool choice"] = traced.shown.tool_choice
    values["response schema"] = None if schema is None else dict(schema)
    return values


def _report_change(label: str, old: JsonValue, new: JsonValue) -> Iterator[Report]:
    summary, lines = compare_values(label, old, new, limit=400)
    yield make_remark(summary)
    if lines:
        yield make_block("\n".join(lines), "diff")


def _have_same_form(before: TracedRequest, after: TracedRequest) -> bool:
    """Return True if the bodies have the same members, as those of one API have."""
    return before.sent.members == after.sent.members


def _select_compared(
    before: TracedRequest, after: TracedRequest
) -> tuple[ModelRequest, ModelRequest]:
    """Return the contents to compare.

    Bodies of one form append the same kinds of changes, and `_report_messages` compares these.
    Otherwise one body may have a change in front that the other one appends, so the contents are
    compared.
    """
    if _have_same_form(before, after):
        return before.shown, after.shown

    return before.content, after.content


def _report_parts(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    old, new = _select_compared(before, after)
    yield from _report_members("attachment", _index_attachments(old), _index_attachments(new))

    old_tools = {tool.name: tool.to_json() for tool in old.tools}
    new_tools = {tool.name: tool.to_json() for tool in new.tools}
    yield from _report_members("tool", old_tools, new_tools)

    old_names = [tool.name for tool in old.tools]
    new_names = [tool.name for tool in new.tools]
    if old_names != new_names and sorted(old_names) == sorted(new_names):
        yield make_remark("tools: the same in another order")


def _index_attachments(request: ModelRequest) -> dict[str, JsonValue]:
    contents: dict[str, JsonValue] = {}
    for attachment in request.attachments:
        content = attachment.content
        if not isinstance(content, str):
            content = f"{attachment.media_type}, {format_bytes(len(content))}"
        contents[attachment.source] = content

    return contents


def _report_members(
    label: str, old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]
) -> Iterator[Report]:
    """Report which tools or attachments were removed, added, and changed."""
    removed = [name for name in old if name not in new]
    added = [name for name in new if name not in old]
    for word, names in (("removed", removed), ("added", added)):
        if names:
            listed = shorten(", ".join(names), 1_000)
            yield make_remark(f"{label}s {word}: {listed}")

    for name, value in old.items():
        if name in new and value != new[name]:
            yield from _report_change(f"{label} {name}", value, new[name])


def _report_messages(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    """Report the messages from the first difference on, and the difference of the first one."""
    old = before.messages
    new = after.messages
    first = count_equal(old, new)  # index of the first message that differs
    if first == len(old) == len(new):
        return

    yield make_remark(
        f"messages: {first:,} identical, then {len(old) - first:,} in {before.name} and "
        f"{len(new) - first:,} in {after.name}"
    )

    for traced in (before, after):
        listed = traced.messages[first : first + 10]
        rows = [format_message_row(number, row) for number, row in enumerate(listed, first + 1)]
        omitted_count = len(traced.messages) - first - len(listed)
        if omitted_count:
            rows.append(("…", "…", f"… and {omitted_count:,} more", ""))

        if rows:
            yield make_remark(f"from message {first + 1} on in {traced.name}:")
            yield make_table(MESSAGE_COLUMNS, rows)

    if first < min(len(old), len(new)) and old[first].role == new[first].role:
        yield from _report_change(f"message {first + 1}", old[first].text, new[first].text)


def describe_shared_prefix(before: TracedRequest, after: TracedRequest) -> str:
    """Return a line about the common prefix of two requests, which a prompt cache can serve."""
    begins = "shared prefix for a prompt cache:"
    if before.model != after.model:
        return f"{begins} none, because each model has its own cache"
    if not (before.sent.parts and after.sent.parts):
        return f"{begins} unknown, because this provider does not list the parts of its requests"

    shared = compare_parts(before.sent.parts, after.sent.parts)
    if not shared.part:
        return f"{begins} all of request {before.name}"

    kept = f"{shared.percent} % of request {before.name}; then" if shared.kept else "none;"
    return f"{begins} {kept} {shared.part} differs"
