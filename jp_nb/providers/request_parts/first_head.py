"""Keep the first head of a conversation in front of its requests, and append later changes.

The *head* of a request is everything but its messages: instructions, tools, attachments, and
settings. Each request begins with the previous one, so that the server's cache covers it. So the
parts that an API lets clients append (`appended`, names of attributes of `RequestHead`) stay in
front as the first request had them, and a later change becomes a message (`head_changes.py`).
`appended` may also have `REMOVED_TOOLS`, which is no attribute: of the tools, only a removal is
appended then.

Source: `docs/providers.md`, "Requests only grow".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any, Final

from jp_nb.agent.provider import Attachment, ModelRequest, ToolDefinition
from jp_nb.providers.request_parts.head_changes import HeadChange
from jp_nb.record.request_context.request_head import AttachmentDigest, RequestHead

REMOVED_TOOLS: Final = "removed_tools"
"""Name among the appended parts: a tool that is removed stays in front, and is revoked."""
_HEAD_PARTS: Final = frozenset(part.name for part in fields(RequestHead))


def find_change(
    before: RequestHead | None,
    after: RequestHead,
    contents: Mapping[AttachmentDigest, Attachment],
    appended: frozenset[str],
    *,
    has_tools: bool,
) -> HeadChange | None:
    """Return the change from one request to the next, as far as it is `appended`; None if empty.

    Parts that are not appended are changed in front. In the result, `before` has their new values
    too, so that they do not count as a change.

    Args:
        before: The head of the earlier request; None if there is none.
        after: The head of the next request.
        contents: The contents of the attachments that this kernel has read. Others are not sent.
        appended: The parts that are appended.
        has_tools: True if an earlier request had tools. The first tools are never appended.
    """
    before = without_turn_parts(after) if before is None else before
    replaced = {name: getattr(after, name) for name in _HEAD_PARTS - appended}
    if not has_tools:
        replaced["tools"] = after.tools
    elif REMOVED_TOOLS in appended:
        replaced["tools"] = _update_tools(before.tools, after.tools)

    added = [
        digest
        for digest in after.attachments
        if digest not in before.attachments and digest in contents
    ]
    before = replace(before, **replaced)

    if before == after:
        return None
    return HeadChange(before, after, tuple(contents[digest] for digest in added))


def _update_tools(
    before: Sequence[ToolDefinition], after: Sequence[ToolDefinition]
) -> tuple[ToolDefinition, ...]:
    """Return the tools in front if only removals are appended.

    These are the earlier tools with their latest definitions, so that a new definition is no
    change, but a removed or added name is. If no name was removed or added, they are the tools of
    `after`, so that another order is no change either.
    """
    latest = {tool.name: tool for tool in after}
    known = {tool.name: latest.get(tool.name, tool) for tool in before}
    return tuple(after) if known == latest else tuple(known.values())


def keep_first_head(request: ModelRequest, appended: frozenset[str]) -> ModelRequest:
    """Return `request` with the `appended` parts as the first request of its conversation had them.

    With `REMOVED_TOOLS`, the tools are all that any request had.
    """
    heads = request.context.heads
    wanted = request.head
    oldest = heads[0].head if heads else wanted
    first = without_turn_parts(oldest)

    kept: dict[str, Any] = {}
    if "system" in appended:
        kept["system"] = first.system
    if "attachments" in appended and first.attachments != wanted.attachments:
        contents = request.context.contents
        kept["attachments"] = tuple(
            contents[digest] for digest in first.attachments if digest in contents
        )

    if "schema" in appended:
        kept["schema"] = None  # a schema is for one turn, so it is always appended
    if "reasoning" in appended:
        kept["parameters"] = replace(request.parameters, reasoning=first.reasoning)
    if "tools" in appended:
        with_tools = (head.tools for _, head in heads if head.tools)
        kept["tools"] = next(with_tools, wanted.tools)
    elif REMOVED_TOOLS in appended:
        tools = chain.from_iterable(head.tools for _, head in heads)
        offered = {tool.name: tool for tool in tools}
        # A tool keeps its place, and has its latest definition.
        latest = {tool.name: tool for tool in wanted.tools}
        kept["tools"] = tuple((offered | latest).values())

    return replace(request, **kept) if kept else request


def without_turn_parts(head: RequestHead) -> RequestHead:
    """Return `head` without the parts that are for one turn, and so never are in front."""
    return replace(head, schema=None, tool_choice="auto")
