"""Chat Completions: the messages of a conversation, and those before it.

A response is one message of the `assistant`, followed by a message of a `tool` for each result.

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import ClassVar, Self

from jp_nb.agent.provider import Attachment, ModelRequest
from jp_nb.image_headers import PDF
from jp_nb.images import MAX_IMAGE_NAME_CHARS, Image
from jp_nb.json_values import replace_surrogates, spaced_json
from jp_nb.providers.openai.chat_profiles import Profile
from jp_nb.providers.openai.reasoning_details import REASONING_DETAILS_KEY
from jp_nb.providers.request_parts.attachment_parts import (
    FormattedAttachments,
    encode_base64,
    format_attachment_name,
    format_documents_xml,
    format_pdf_name,
    split_attachments,
)
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
from jp_nb.providers.request_parts.request_body import WireMessage, encode_json
from jp_nb.providers.schemas.answer_schemas import AnswerSchema, adapt_for_json_mode
from jp_nb.record.entries.events import ChatResponse, ToolCallRequest
from jp_nb.text import one_line


class ChatRendering(Rendering):
    """Chat messages of a context: one message for each response, followed by its tool results.

    The methods override steps of `Rendering`, see `request_parts/messages.py`.
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
        """Return an empty rendering."""
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
            texts.append(_describe_answer(adapt_for_json_mode(schema)))
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
            content = [_make_text_part(text)] if text.strip() else []
            for image in images:
                content += _format_image(image, f"[{image.noun}: {image.words}]")

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
            content = [_make_text_part(RESULT_IMAGES_INTRO)]
            self._insert_message(index, {"role": "user", "content": content})

        parts = self._edit_message(index)["content"]
        if any(image.media_type == PDF for image in images):
            parts[0] = _make_text_part(RESULT_PDFS_INTRO)

        name = one_line(self._tool_names[call_id], limit=MAX_IMAGE_NAME_CHARS)
        for image in images:
            words = f"{image.noun}: {image.words}, of {name}, call {call_id}"
            parts += _format_image(image, f"[{words}]")


def _format_image(image: Image, words: str) -> list[WireMessage]:
    if image.media_type == PDF:
        part = _make_pdf_part(format_pdf_name(image), image.text)
    else:
        part = _make_image_part(image.media_type, image.text)
    return [_make_text_part(words), part]


def format_system_messages(
    request: ModelRequest, profile: Profile, *, documents: str = ""
) -> list[WireMessage]:
    """Return the system texts as one message, because many chat templates reject a second one.

    The texts of attachments (`documents`) follow the system texts. The schema of the answer is last
    if the server cannot enforce it. Without any text, there is no message.
    """
    texts = [text for text in (*request.system, documents) if text.strip()]
    if profile.answer is None and request.schema is not None:
        texts.append(_describe_answer(adapt_for_json_mode(request.schema)))

    if not texts:
        return []

    # The server caches the beginning of a request up to the marked part.
    if request.model.startswith(profile.cached_by_mark):
        parts = [_make_text_part(text) for text in texts]
        parts[-1]["cache_control"] = {"type": "ephemeral"}
        return [{"role": "system", "content": parts}]
    return [{"role": "system", "content": "\n\n".join(texts)}]


def _describe_answer(answer: AnswerSchema) -> str:
    """Return the instruction that asks for a structured answer, for JSON mode."""
    schema = json.dumps(answer.schema, ensure_ascii=False)
    return f"Answer with one JSON object that fits this JSON schema, and nothing else:\n{schema}"


def format_attachments(attachments: Sequence[Attachment], profile: Profile) -> FormattedAttachments:
    """Format attachments as a user message or as a part of the system message; see `Profile`."""
    sent, omitted = split_attachments(attachments, profile.media_types)
    xml = format_documents_xml(sent)
    parts = list(chain.from_iterable(map(_format_binary_parts, sent)))

    # The texts are in the system message, or in a user message with the images and PDFs.
    is_in_system = profile.documents == "system"
    system = xml if is_in_system else ""
    text = "" if is_in_system else xml

    content: str | list[WireMessage] = text or parts
    if text and parts:
        content = [_make_text_part(text), *parts]

    messages = (encode_json({"role": "user", "content": content}),) if content else ()
    return FormattedAttachments(messages, system, omitted)


def _format_binary_parts(attachment: Attachment) -> list[WireMessage]:
    """Return the parts of an image or a PDF; none for a text."""
    content = attachment.content
    name = format_attachment_name(attachment)
    if isinstance(content, str):
        return []

    media_type = attachment.media_type
    data = encode_base64(content)
    if media_type == PDF:
        return [_make_pdf_part(name, data)]
    return [_make_text_part(name), _make_image_part(media_type, data)]


def _make_pdf_part(name: str, base64_data: str) -> WireMessage:
    url = f"data:{PDF};base64,{base64_data}"
    return {"type": "file", "file": {"filename": name, "file_data": url}}


def _make_image_part(media_type: str, base64_data: str) -> WireMessage:
    url = f"data:{media_type};base64,{base64_data}"
    return {"type": "image_url", "image_url": {"url": url}}


def _make_text_part(text: str) -> WireMessage:
    return {"type": "text", "text": text}
