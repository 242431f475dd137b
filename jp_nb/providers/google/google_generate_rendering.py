"""The `generateContent` API of Gemini: the contents of a request.

A *content* of this API is a message with the role `user` or `model`, and a list of parts.

Source: `docs/providers.md`, https://ai.google.dev/api/generate-content.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from jp_nb.agent.provider import Attachment
from jp_nb.images import Image
from jp_nb.providers.google.google_continued_decoder import THOUGHT_SIGNATURE_KEY
from jp_nb.providers.google.google_rendering import (
    Content,
    GoogleRendering,
    describe_change,
    list_attachments,
    list_input_contents,
)
from jp_nb.providers.request_parts.attachment_parts import FormattedAttachments
from jp_nb.providers.request_parts.head_changes import HeadChange
from jp_nb.providers.request_parts.messages import CONTINUE_PROMPT
from jp_nb.providers.request_parts.own_metadata import read_own_text
from jp_nb.providers.request_parts.readable_arguments import format_arguments
from jp_nb.providers.request_parts.request_body import WireMessage, encode_json
from jp_nb.record.entries.events import ChatResponse, ToolCallRequest
from jp_nb.record.request_context.context import ContextItem

NO_SIGNATURE: Final = "skip_thought_signature_validator"
"""Signature of a call that has none, such as a call of another provider.

Source: https://ai.google.dev/gemini-api/docs/thought-signatures
"""


def format_attachments(attachments: Sequence[Attachment]) -> FormattedAttachments:
    """Format attachments as parts at the start of the first message of the user."""
    contents, omitted = list_attachments(attachments)
    message = {"role": "user", "parts": [*map(_format_part, contents)]}
    messages = (encode_json(message),) if contents else ()
    return FormattedAttachments(messages, omitted=omitted)


def _format_part(content: Content) -> WireMessage:
    if isinstance(content, str):
        return {"text": content}
    media_type, data = content
    return {"inlineData": {"mimeType": media_type, "data": data}}


class GenerateRendering(GoogleRendering):
    """Contents of a context: messages whose roles alternate.

    The methods override steps of `Rendering` (`request_parts/messages.py`), the base of
    `GoogleRendering`. For each item of the context, it sets `has_own_metadata` (True if its
    metadata is from this server), and calls `_add`, which calls one of the methods `_add_…`. A
    message that was encoded before is changed only through `_edit_message`.

    After the API has rejected signatures, the first `unsigned_items` items have none.
    """

    continue_request: ClassVar[WireMessage] = {"role": "user", "parts": [{"text": CONTINUE_PROMPT}]}

    def __init__(self, unsigned_items: int = 0) -> None:
        super().__init__(unsigned_items)
        self._signature = ""  # of the current item; "" if it is sent without one
        self._names: dict[str, str] = {}  # names of tools, by the id of their call

    @property
    def _ends_in_answer(self) -> bool:
        return bool(self.messages) and self.messages[-1]["role"] == "model"

    def _render_change(self, change: HeadChange) -> list[WireMessage]:
        contents, _ = list_attachments(change.added)
        parts = [*map(_format_part, contents)]
        text = describe_change(change)
        if text:
            parts.append({"text": text})
        return [{"role": "user", "parts": parts}] if parts else []

    def _strip_reasoning(self, message: WireMessage) -> WireMessage | None:
        """Return an answer without reasoning at its end: thoughts, and signatures without one."""
        parts = message["parts"]
        while parts and (parts[-1].get("thought") or parts[-1].get("text") == ""):
            parts = parts[:-1]
        return {**message, "parts": parts} if parts else None

    def _add(self, item: ContextItem) -> None:
        """Add the current item, and note its signature, which its parts then get (`_sign`)."""
        self.has_valid_signatures = item.is_bound  # one of the conditions of `_may_sign`
        self._signature = ""
        if self.has_own_metadata and self._may_sign():
            self._signature = read_own_text(item.entry.metadata, THOUGHT_SIGNATURE_KEY)
        self.has_signatures = self.has_signatures or bool(self._signature)
        super()._add(item)

    def _open_parts(self, role: str) -> list[WireMessage]:
        """Return the parts of the last message if it has that `role`, else of a new one."""
        if not self.messages or self.messages[-1]["role"] != role:
            self.messages.append({"role": role, "parts": []})
        parts: list[WireMessage] = self._edit_message(-1)["parts"]
        return parts

    def _sign(self, part: WireMessage) -> WireMessage:
        """Return `part` with the signature of the current item, if it has one."""
        if not self._signature:
            return part
        return {**part, "thoughtSignature": self._signature}

    def _add_request(self, text: str, images: Sequence[Image]) -> None:
        if contents := list_input_contents(text, images):
            self._drop_empty_answer()  # the API rejects thoughts that no answer follows
            self._open_parts("user").extend(map(_format_part, contents))

    def _add_text(self, text: str) -> None:
        if text:
            self._open_parts("model").append(self._sign({"text": text}))

    def _add_reasoning(self, response: ChatResponse) -> bool:
        if not self._signature:
            return False

        # A signature that came without a thought is sent back in an empty text.
        text = response.reasoning or ""
        part: WireMessage = {"text": text, "thought": True} if text else {"text": ""}
        self._open_parts("model").append(self._sign(part))
        return True

    def _add_call(self, call: ToolCallRequest) -> None:
        parts = self._open_parts("model")
        id_ = self._ids.assign(call.id, len(self.messages) - 1)
        name = self._rules.format_name(call.name)
        self._names[id_] = name
        arguments = format_arguments(call.arguments)
        part = self._sign({"functionCall": {"id": id_, "name": name, "args": arguments}})

        # The API requires a signature, of parallel calls only for the first.
        is_first_call = not any("functionCall" in earlier for earlier in parts)
        if is_first_call:
            part.setdefault("thoughtSignature", NO_SIGNATURE)
        parts.append(part)

    def _add_result(
        self, call_id: str, call_index: int, text: str, images: Sequence[Image], *, is_error: bool
    ) -> None:
        """Add a result to the user message after the call, which may have to be made.

        `call_id` is the id with which `_add_call` sent the call, `call_index` its message.
        """
        key = "error" if is_error else "result"
        response: WireMessage = {
            "id": call_id,
            "name": self._names[call_id],
            "response": {key: text},
        }

        if images:
            response["parts"] = [_format_part((image.media_type, image.text)) for image in images]

        # Results are in the message after that of the call, before its other parts.
        if call_index + 1 == len(self.messages):
            self.messages.append({"role": "user", "parts": []})

        parts = self._edit_message(call_index + 1)["parts"]
        result_count = sum("functionResponse" in part for part in parts)
        parts.insert(result_count, {"functionResponse": response})
