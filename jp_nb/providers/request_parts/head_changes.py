"""Tell the model about a change of a request's head: instructions, tools, or attachments.

The change is a message in the middle of the conversation (`first_head.py` says when). The methods
`format_…` of `HeadChange` return the text for the model about one part, or "" if this part is the
same. A provider sends those that its API needs. New definitions of tools are sent as such
(`list_new_tools`). Reasoning effort and response schema are members of each request, so the model
needs no text about them, except for the schema in JSON mode, which `openai_chat_rendering.py` adds.

Source: `docs/providers.md`, "Requests only grow".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from jp_nb.agent.provider import Attachment
from jp_nb.json_writing import compact_json
from jp_nb.record.request_context.request_head import RequestHead, ToolDefinition

REPLACED_INSTRUCTIONS: Final = "These instructions replace all earlier ones:"


@dataclass(frozen=True, slots=True)
class HeadChange:
    """A change of the head from one request to the next, of which messages tell the model.

    `before` and `after` differ only in the parts that the API cannot change in front. For example,
    if it can change the list of tools there, `before` has the tools of `after`.

    Attributes:
        before: The head that the model knows from the earlier request.
        after: The head of the new request.
        added: Attachments that `before` does not have, or not with this content.
    """

    before: RequestHead
    after: RequestHead
    added: tuple[Attachment, ...]

    def format_instructions(self) -> str:
        """Return what the model must know about changed instructions; "" if they are the same."""
        before = self.before.system
        after = self.after.system
        if before == after:
            return ""

        only_adds = after[: len(before)] == before
        if only_adds:
            return "\n\n".join(after[len(before) :])

        if not any(text.strip() for text in after):
            return "The instructions at the beginning of this conversation no longer apply."
        return "\n\n".join((REPLACED_INSTRUCTIONS, *after))

    def format_tool_names(self) -> str:
        """Return what the model must know about the availability of tools in its list."""
        before = {tool.name for tool in self.before.tools}
        after = {tool.name for tool in self.after.tools}
        lines = []

        if removed := sorted(before - after):
            lines.append(f"These tools are no longer available: {_join_names(removed)}.")
        if added := sorted(after - before):
            lines.append(f"These tools are available from now on: {_join_names(added)}.")

        return "\n".join(lines)

    def list_new_tools(self) -> tuple[ToolDefinition, ...]:
        """Return the tools that were added or changed."""
        return tuple(tool for tool in self.after.tools if tool not in self.before.tools)

    def format_attachment_names(self) -> str:
        """Return what the model must know about attachments that were replaced or removed."""
        before = {digest.source for digest in self.before.attachments}
        after = {digest.source for digest in self.after.attachments}
        lines = []

        if replaced := sorted(before & {attachment.source for attachment in self.added}):
            lines.append(f"New contents of {_join_names(replaced)}. The earlier ones are outdated.")
        if removed := sorted(before - after):
            lines.append(f"The user removed these attachments: {_join_names(removed)}.")
        return "\n".join(lines)

    def list_parts(self) -> Iterator[tuple[str, str | Attachment]]:
        """Yield the name and the new content of each changed part, for the user."""
        before = self.before
        after = self.after

        for attachment in self.added:
            yield f"attachment {attachment.source}", attachment

        names = {tool.name for tool in before.tools}
        new_tools = self.list_new_tools()
        changed = (tool.name for tool in new_tools if tool.name in names)
        tool_lines = [self.format_tool_names()]
        if listed := _join_names(changed):
            tool_lines.append(f"Changed: {listed}.")

        effort = compact_json(after.reasoning) if before.reasoning != after.reasoning else ""
        schema = compact_json(after.schema) if before.schema != after.schema else ""
        texts = {
            "instructions": self.format_instructions(),
            "tools": "\n".join(filter(None, tool_lines)),
            "attachments": self.format_attachment_names(),
            "tool choice": self.format_forced_call(),
            "effort": effort,
            "response schema": schema,
        }
        yield from ((part, text) for part, text in texts.items() if text.strip())

    def format_forced_call(self) -> str:
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
