"""Changes of a request's head that are appended to its messages.

The requests of a conversation keep their first instructions, tools, and attachments in front. A
later change becomes a message, so that each request begins with the previous one.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, Final

from jp_nb.agent.provider import Attachment, ModelRequest
from jp_nb.errors import ProviderError
from jp_nb.json_values import compact_json
from jp_nb.record.request_head import AttachmentDigest, RequestHead, ToolDefinition

REMOVED_TOOLS: Final = "removed_tools"
"""Name among the appended parts of a head: only the removal of tools is appended."""
REPLACED_INSTRUCTIONS: Final = "These instructions replace all earlier ones:"

_REFUSALS: Final = (400, 404, 422, 500)  # llama.cpp answers 500 to a failing chat template
_REFUSED_CHANGE: Final = re.compile(
    r"\broles?\b|system (?:message|prompt)|template|tool_addition|tool_removal|anthropic-beta|"
    r"additional_tools|configuration_update",
    re.IGNORECASE,
)
_HEAD_PARTS: Final = frozenset(each.name for each in fields(RequestHead))


@dataclass(frozen=True, slots=True)
class HeadChange:
    """A change of the request's head that is appended to the messages.

    `before` and `after` differ only in parts that the rendering appends. `added` are attachments
    that `before` does not have, or not with this content.
    """

    before: RequestHead
    after: RequestHead
    added: tuple[Attachment, ...]

    def instructions(self) -> str:
        """Return what the model must know about changed instructions; "" if they are the same."""
        before = self.before.system
        after = self.after.system
        if before == after:
            return ""

        if after[: len(before)] == before:
            return "\n\n".join(after[len(before) :])

        if not any(text.strip() for text in after):
            return "The instructions at the beginning of this conversation no longer apply."
        return "\n\n".join((REPLACED_INSTRUCTIONS, *after))

    def tools(self) -> str:
        """Return what the model must know about the availability of tools in its list."""
        before = {tool.name for tool in self.before.tools}
        after = {tool.name for tool in self.after.tools}
        lines = []

        if removed := sorted(before - after):
            lines.append(f"These tools are no longer available: {_join_names(removed)}.")
        if added := sorted(after - before):
            lines.append(f"These tools are available from now on: {_join_names(added)}.")

        return "\n".join(lines)

    def new_tools(self) -> tuple[ToolDefinition, ...]:
        """Return the tools that were added or changed."""
        return tuple(tool for tool in self.after.tools if tool not in self.before.tools)

    def attachments(self) -> str:
        """Return what the model must know about attachments that were replaced or removed."""
        before = {mark.source for mark in self.before.attachments}
        after = {mark.source for mark in self.after.attachments}
        lines = []

        if replaced := sorted(before & {each.source for each in self.added}):
            lines.append(f"New contents of {_join_names(replaced)}. The earlier ones are outdated.")
        if removed := sorted(before - after):
            lines.append(f"The user removed these attachments: {_join_names(removed)}.")
        return "\n".join(lines)

    def describe(self) -> Iterator[tuple[str, str | Attachment]]:
        """Yield the name and the new content of each changed part, for the user."""
        before = self.before
        after = self.after

        for each in self.added:
            yield f"attachment {each.source}", each

        names = {tool.name for tool in before.tools}
        changed = (x.name for x in after.tools if x.name in names and x not in before.tools)
        listed = _join_names(changed)

        effort = compact_json(after.reasoning) if before.reasoning != after.reasoning else ""
        schema = compact_json(after.schema) if before.schema != after.schema else ""
        texts = {
            "instructions": self.instructions(),
            "tools": "\n".join(filter(None, (self.tools(), listed and f"Changed: {listed}."))),
            "attachments": self.attachments(),
            "tool choice": self.forced_call(),
            "effort": effort,
            "response schema": schema,
        }
        yield from ((part, text) for part, text in texts.items() if text.strip())

    def forced_call(self) -> str:
        """Return the demand to call a tool, if the request makes one; else ""."""
        choice = self.after.tool_choice
        if choice == self.before.tool_choice or choice in ("auto", "none"):
            return ""
        return describe_forced_call(choice)


def describe_forced_call(choice: str) -> str:
    """Return the demand to call a tool for a `choice` other than `auto` and `none`."""
    name = choice.removeprefix("tool:")
    tool = "one of your tools" if name == choice else f"the tool `{name}`"
    return f"Your next response must call {tool}."


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def find_change(
    before: RequestHead | None,
    after: RequestHead,
    contents: Mapping[AttachmentDigest, Attachment],
    appended: frozenset[str],
    *,
    has_tools: bool,
) -> HeadChange | None:
    """Return the change from one request to the next, as far as it is `appended`; None if empty.

    `before` is None for the first request. `has_tools` is True if an earlier request had tools: the
    first tools are never appended.
    """
    before = without_turn_parts(after) if before is None else before
    replaced = {name: getattr(after, name) for name in _HEAD_PARTS - appended}

    if not has_tools:
        replaced["tools"] = after.tools
    elif REMOVED_TOOLS in appended:  # the list in front has the latest definitions
        latest = {tool.name: tool for tool in after.tools}
        known = {tool.name: latest.get(tool.name, tool) for tool in before.tools}
        replaced["tools"] = after.tools if known == latest else tuple(known.values())

    added = [x for x in after.attachments if x not in before.attachments and x in contents]
    before = replace(before, **replaced)

    if before == after:
        return None
    return HeadChange(before, after, tuple(contents[mark] for mark in added))


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
        kept["attachments"] = tuple(contents[x] for x in first.attachments if x in contents)

    if "schema" in appended:
        kept["schema"] = None
    if "reasoning" in appended:
        kept["parameters"] = replace(request.parameters, reasoning=first.reasoning)
    if "tools" in appended:
        with_tools = (head.tools for _, head in heads if head.tools)
        kept["tools"] = next(with_tools, wanted.tools)
    elif REMOVED_TOOLS in appended:
        tools = chain.from_iterable(head.tools for _, head in heads)
        offered = {tool.name: tool for tool in tools}
        # A tool keeps its place, and has its latest definition.
        kept["tools"] = tuple((offered | {x.name: x for x in wanted.tools}).values())

    return replace(request, **kept) if kept else request


def without_turn_parts(head: RequestHead) -> RequestHead:
    """Return `head` without the parts that are for one turn, and so never are in front."""
    return replace(head, schema=None, tool_choice="auto")


def is_refused_change(error: ProviderError) -> bool:
    """Return True if a server may have refused a request because of appended changes."""
    return error.status in _REFUSALS and _REFUSED_CHANGE.search(str(error)) is not None
