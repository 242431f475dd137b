"""Anthropic Messages: the messages of a conversation.

Roles alternate, thinking precedes calls, and results precede text. Thinking is valid only with the
signature that the API gave it, and only if everything before it is unchanged.

Source: `docs/providers.md`, https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import ClassVar, Final, Self

from jp_nb.images import Image
from jp_nb.providers.anthropic.anthropic_blocks import (
    format_attachment_blocks,
    format_text_and_images,
    make_text_block,
)
from jp_nb.providers.anthropic.anthropic_decoder import ANTHROPIC_NAME
from jp_nb.providers.anthropic.anthropic_fields import format_tools
from jp_nb.providers.anthropic.anthropic_open_blocks import (
    REDACTED_THINKING_KEY,
    THINKING_SIGNATURE_KEY,
)
from jp_nb.providers.request_parts.attachment_parts import IMAGE_AND_PDF_TYPES, split_attachments
from jp_nb.providers.request_parts.call_rules import ANTHROPIC_CALLS
from jp_nb.providers.request_parts.head_changes import HeadChange
from jp_nb.providers.request_parts.messages import CONTINUE_PROMPT, Rendering
from jp_nb.providers.request_parts.own_metadata import read_own_text
from jp_nb.providers.request_parts.parameter_names import ParameterNames
from jp_nb.providers.request_parts.readable_arguments import format_arguments
from jp_nb.providers.request_parts.request_body import WireMessage
from jp_nb.record.entries.events import ChatResponse, ToolCallRequest

_THINKING_TYPES: Final = ("thinking", "redacted_thinking")


class AnthropicRendering(Rendering):
    """Anthropic messages of a context.

    The methods override steps of `Rendering`, see `request_parts/messages.py`. The reasoning of
    `rejected_items`, which are positions in the context, is sent as text: the API has rejected its
    signatures.
    """

    continue_request: ClassVar[WireMessage] = {
        "role": "user",
        "content": [make_text_block(CONTINUE_PROMPT)],
    }
    appended = frozenset({"system", "tools", "attachments", "tool_choice"})

    def __init__(self, rejected_items: frozenset[int] = frozenset()) -> None:
        super().__init__(ANTHROPIC_NAME, ANTHROPIC_CALLS)
        self.rejected_items = rejected_items
        self.signed_items: dict[str, int] = {}  # first position in the context, by signature
        self.last_message_id: str | None = None  # the id of the last response, for diagnostics

    def copy_repairs(self) -> Self:
        """Return an empty rendering with the same rejected items, and the same last message."""
        return self.copy_without_messages(self.rejected_items)

    def copy_without_messages(self, rejected_items: frozenset[int]) -> Self:
        """Return an empty rendering of the same conversation with other `rejected_items`."""
        copy = type(self)(rejected_items)
        copy.last_message_id = self.last_message_id
        return copy

    def _render_change(self, change: HeadChange) -> list[WireMessage]:
        """Return a user message with added attachments, and a system message with the rest.

        A model without system messages gets all in the user message. For such a model, only
        attachments are appended, so the rest are the texts about them.
        """
        sent, _ = split_attachments(change.added, IMAGE_AND_PDF_TYPES)
        blocks = list(chain.from_iterable(map(format_attachment_blocks, sent)))
        texts = (
            change.format_instructions(),
            change.format_attachment_names(),
            change.format_forced_call(),
        )
        content = [make_text_block(text) for text in texts if text.strip()]
        content += _format_tool_changes(change)

        if "system" not in self.appended:
            blocks = content + blocks
            content = []

        messages = []
        # A system message must follow a user message.
        if blocks:
            messages.append({"role": "user", "content": blocks})
        elif self._ends_in_answer:
            messages.append(self.continue_request)

        if content:
            messages.append({"role": "system", "content": content})
        return messages

    def _strip_reasoning(self, message: WireMessage) -> WireMessage | None:
        content = message["content"]
        while content and content[-1]["type"] in _THINKING_TYPES:
            content = content[:-1]
        return {**message, "content": content} if content else None

    def _open_content(self, role: str) -> list[WireMessage]:
        """Return the blocks of the last message if it has that `role`, else of a new one."""
        content: list[WireMessage] = self._open_message(role, [])["content"]
        return content

    def _add_request(self, text: str, images: Sequence[Image]) -> None:
        if text.strip() or images:
            self._drop_empty_answer()
            self._open_content("user").extend(format_text_and_images(text, images))

    def _add_text(self, text: str) -> None:
        if text:
            self._open_content("assistant").append(make_text_block(text))

    def _add_reasoning(self, response: ChatResponse) -> bool:
        """Add thinking with its valid signature; return False for other reasoning."""
        position = self.item_count
        if position in self.rejected_items or not self.has_valid_signatures:
            return False

        signature = read_own_text(response.metadata, THINKING_SIGNATURE_KEY)
        redacted = read_own_text(response.metadata, REDACTED_THINKING_KEY)

        if redacted:
            block: WireMessage = {"type": "redacted_thinking", "data": redacted}
        elif signature:
            thinking = response.reasoning
            block = {"type": "thinking", "thinking": thinking, "signature": signature}
        else:
            return False

        self.signed_items.setdefault(redacted or signature, position)
        self._open_content("assistant").append(block)
        return True

    def _add_call(self, call: ToolCallRequest) -> None:
        content = self._open_content("assistant")
        id_ = self._ids.assign(call.id, len(self.messages) - 1)
        name = self._rules.format_name(call.name)
        arguments = format_arguments(call.arguments)
        if names := self._find_parameter_names(call.name):
            arguments = names.format_arguments(arguments)
        content.append({"type": "tool_use", "id": id_, "name": name, "input": arguments})

    def _find_parameter_names(self, tool: str) -> ParameterNames | None:
        """Return the names by the definition of `tool` that the model had for the current call.

        So a later change of the tool does not change earlier messages.
        """
        for offered in self.tools:
            if offered.name == tool:
                return ParameterNames.of(offered, self._rules)
        return None

    def _add_result(
        self, call_id: str, call_index: int, text: str, images: Sequence[Image], *, is_error: bool
    ) -> None:
        """Add a result to the user message after the call, which may have to be made."""
        result: WireMessage = {"type": "tool_result", "tool_use_id": call_id}
        if images:
            result["content"] = format_text_and_images(text, images)
        elif text.strip():
            result["content"] = text
        if is_error:
            result["is_error"] = True

        # Results are in the user message after that of the call, before all other blocks.
        if call_index + 1 == len(self.messages):
            self.messages.append({"role": "user", "content": []})

        content = self._edit_message(call_index + 1)["content"]
        result_count = sum(block["type"] == "tool_result" for block in content)
        content.insert(result_count, result)


def _format_tool_changes(change: HeadChange) -> list[WireMessage]:
    """Return the blocks that remove and add tools. A changed tool is removed, then added."""
    before = change.before.tools
    after = change.after.tools
    blocks: list[WireMessage] = [
        {"type": "tool_removal", "tool": {"type": "tool_reference", "name": tool.name}}
        for tool in before
        if tool not in after
    ]

    # Not strict: the limits apply to all strict tools of a request, and those in front use them.
    added = format_tools([tool for tool in after if tool not in before], strict=False)
    for definition in added:
        addition = {"type": "tool_definition", "definition": definition}
        blocks.append({"type": "tool_addition", "tool": addition})
    return blocks
