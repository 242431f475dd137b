"""Chat Completions: the messages of a conversation.

A response is one message of the `assistant`, followed by a message of a `tool` for each result. The
profile of a server (`chat_profiles.py`) has its differences from OpenAI's API, such as the name of
the field with the reasoning.

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar, Self

from jp_nb.image_headers import PDF
from jp_nb.images import MAX_IMAGE_NAME_CHARS, Image
from jp_nb.json_writing import spaced_json
from jp_nb.providers.openai.chat_profiles import Profile
from jp_nb.providers.openai.openai_chat_front import describe_answer, format_attachments
from jp_nb.providers.openai.openai_chat_parts import format_image_parts, make_text_part
from jp_nb.providers.openai.reasoning_details import REASONING_DETAILS_KEY
from jp_nb.providers.request_parts.first_head import REMOVED_TOOLS
from jp_nb.providers.request_parts.head_changes import HeadChange
from jp_nb.providers.request_parts.messages import (
    CONTINUE_PROMPT,
    RESULT_IMAGES_INTRO,
    RESULT_PDFS_INTRO,
    Rendering,
)
from jp_nb.providers.request_parts.own_metadata import rebuild_details
from jp_nb.providers.request_parts.readable_arguments import format_arguments
from jp_nb.providers.request_parts.request_body import WireMessage
from jp_nb.providers.schemas.answer_schemas import adapt_for_json_mode
from jp_nb.record.entries.events import ChatResponse, ToolCallRequest
from jp_nb.storable_json import replace_surrogates
from jp_nb.text import one_line


class ChatRendering(Rendering):
    """Chat messages of a context: one message for each response, followed by its tool results.

    The methods override steps of `Rendering` (`request_parts/messages.py`). It calls them for each
    entry of the conversation, and keeps the messages (`messages`), the rules for names of tools
    (`_rules`), and the ids of calls (`_ids`).
    """

    continue_request: ClassVar[WireMessage] = {"role": "user", "content": CONTINUE_PROMPT}
    appended = frozenset({"system", "attachments", "schema", REMOVED_TOOLS})

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile.name, profile.calls, profile.media_types)
        self._profile = profile
        self._turn_start = 0  # index of the first message of this turn
        self._tool_names: dict[str, str] = {}  # by the id of a call
        # The indexes of the messages with calls whose results have images:
        self._calls_with_images: set[int] = set()

    def copy_repairs(self) -> Self:
        """Return an empty rendering: this API needs no repairs."""
        return type(self)(self._profile)

    def _render_change(self, change: HeadChange) -> list[WireMessage]:
        """Return a message with added images and PDFs, and a system message with the texts."""
        attached = format_attachments(change.added, self._profile)
        texts = [
            change.format_instructions(),
            change.format_tool_names(),
            change.format_attachment_names(),
            attached.system,
        ]

        # In JSON mode, only an instruction tells the model the schema of the answer.
        schema = change.after.schema
        is_json_mode = self._profile.answer is None
        if is_json_mode and schema is not None:
            texts.append(describe_answer(adapt_for_json_mode(schema)))
        elif is_json_mode and change.before.schema is not None:
            texts.append("Answer with text again.")

        text = "\n\n".join(text for text in texts if text.strip())
        messages = [json.loads(message) for message in attached.messages]
        return [*messages, {"role": "system", "content": text}] if text else messages

    def _strip_reasoning(self, message: WireMessage) -> WireMessage | None:
        # Reasoning is a field of the message, so only a message with nothing else is dropped.
        has_content = message["content"] is not None or "tool_calls" in message
        return message if has_content else None

    def _open_answer(self) -> WireMessage:
        """Return the last message if it is one of the assistant, else a new one."""
        return self._open_message("assistant", None)

    def _add_request(self, text: str, images: Sequence[Image]) -> None:
        self._drop_turn_reasoning()
        self._drop_empty_answer()

        content: list[WireMessage] | str = text
        if images:
            content = [make_text_part(text)] if text.strip() else []
            for image in images:
                content += format_image_parts(image, f"[{image.noun}: {image.words}]")

        if images or text.strip():
            self.messages.append({"role": "user", "content": content})

    def _drop_turn_reasoning(self) -> None:
        """Remove the reasoning of the turn that ended, for servers that reject it later."""
        field = self._profile.reasoning_field
        if field is None or self._profile.reasoning_lasts:
            return

        for index in range(self._turn_start, len(self.messages)):
            if field in self.messages[index]:
                del self._edit_message(index)[field]
        self._turn_start = len(self.messages)

    def _add_text(self, text: str) -> None:
        if text:
            message = self._open_answer()
            message["content"] = (message["content"] or "") + text

    def _add_reasoning(self, response: ChatResponse) -> bool:
        field = self._profile.reasoning_field
        if field is None:
            return False

        if details := rebuild_details(response.metadata.get(REASONING_DETAILS_KEY)):
            self._open_answer().setdefault("reasoning_details", []).extend(details)
        elif response.reasoning:
            message = self._open_answer()
            message[field] = message.get(field, "") + replace_surrogates(response.reasoning)
        return True

    def _add_call(self, call: ToolCallRequest) -> None:
        calls = self._open_answer().setdefault("tool_calls", [])
        id_ = self._ids.assign(call.id, len(self.messages) - 1)
        name = self._rules.format_name(call.name)
        self._tool_names[id_] = name

        arguments = spaced_json(format_arguments(call.arguments))
        function = {"name": name, "arguments": arguments}
        calls.append({"id": id_, "type": "function", "function": function})

    def _add_result(
        self, call_id: str, call_index: int, text: str, images: Sequence[Image], *, is_error: bool
    ) -> None:
        # The result follows the earlier results of the same message.
        end = call_index + 1
        while end < len(self.messages) and self.messages[end]["role"] == "tool":
            end += 1
        self._insert_message(end, {"role": "tool", "tool_call_id": call_id, "content": text})

        if images:
            self._add_result_images(call_id, call_index, images, index=end + 1)

    def _add_result_images(
        self, call_id: str, call_index: int, images: Sequence[Image], *, index: int
    ) -> None:
        """Add the images of a result to the user message at `index`, after all results.

        A message with the role `tool` holds only text. The first result with images makes the user
        message. All results of a message come before the next one, so `call_index` stays valid.
        """
        if call_index not in self._calls_with_images:
            self._calls_with_images.add(call_index)
            content = [make_text_part(RESULT_IMAGES_INTRO)]
            self._insert_message(index, {"role": "user", "content": content})

        parts = self._edit_message(index)["content"]
        if any(image.media_type == PDF for image in images):
            parts[0] = make_text_part(RESULT_PDFS_INTRO)

        name = one_line(self._tool_names[call_id], limit=MAX_IMAGE_NAME_CHARS)
        for image in images:
            words = f"{image.noun}: {image.words}, of {name}, call {call_id}"
            parts += format_image_parts(image, f"[{words}]")
