"""OpenAI Responses: the input items of a conversation.

An *item* is a message (`openai_responses_parts.py`), a reasoning, a call, or its result. Encrypted
reasoning, ids, and the spelling of arguments come from the metadata of the record
(`openai_responses_metadata.py`).

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/responses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import ClassVar, Final, Self

from pydantic import JsonValue

from jp_nb.agent.provider import ModelRequest
from jp_nb.image_headers import PDF
from jp_nb.images import MAX_IMAGE_NAME_CHARS, Image
from jp_nb.json_reading import read_json
from jp_nb.json_writing import compact_json
from jp_nb.providers.openai.openai_responses_fields import (
    adapt_responses_schema,
    format_responses_effort,
    format_responses_tool,
    format_text_format,
)
from jp_nb.providers.openai.openai_responses_metadata import (
    ANNOTATIONS_KEY,
    ENCRYPTED_KEY,
    ITEM_ID_KEY,
    ITEM_KEY,
    PHASE_KEY,
    SUMMARY_LENGTHS_KEY,
    split_summary,
)
from jp_nb.providers.openai.openai_responses_parts import (
    format_attachments,
    format_system_item,
    make_text_and_image_parts,
    make_text_part,
    make_user_item,
)
from jp_nb.providers.request_parts.attachment_parts import (
    IMAGE_AND_PDF_TYPES,
)
from jp_nb.providers.request_parts.call_rules import RESPONSES_CALLS
from jp_nb.providers.request_parts.first_head import REMOVED_TOOLS
from jp_nb.providers.request_parts.head_changes import HeadChange
from jp_nb.providers.request_parts.messages import (
    CONTINUE_PROMPT,
    RESULT_IMAGES_INTRO,
    RESULT_PDFS_INTRO,
    Rendering,
    format_response_text,
)
from jp_nb.providers.request_parts.own_metadata import (
    read_item_id,
    read_own_text,
    read_phase,
    rebuild_annotations,
)
from jp_nb.providers.request_parts.readable_arguments import format_arguments
from jp_nb.providers.request_parts.reasoning_effort import ParsedReasoning, parse_reasoning
from jp_nb.providers.request_parts.request_body import WireMessage, encode_json
from jp_nb.record.entries.events import ChatResponse, ToolCallRequest
from jp_nb.record.request_context.context import ContextItem
from jp_nb.record.request_context.request_head import RequestHead
from jp_nb.text import one_line

_CALL_TYPES: Final = ("function_call", "function_call_output")
OPENAI_APPENDED: Final = frozenset({"system", "attachments", "tools", "reasoning", "schema"})
"""Changes that OpenAI's own server accepts as items."""
OTHERS_APPENDED: Final = frozenset({"system", "attachments", REMOVED_TOOLS})


class ResponsesRendering(Rendering):
    """Input items of a context. The methods override steps of `Rendering`, see `messages.py`.

    Attributes:
        allowed_tools: The tools that the model may call; None for all tools of the request. It is
            for the request that was settled last.
        stale_items: Positions in the context whose reasoning is sent as text, because the API has
            rejected its encrypted content.
        images_in_results: False if the API has rejected images in the results of tools: then they
            follow in a user message.
        has_result_images: True if a result has images.
        last_response_id: The id of the last response of this conversation, for diagnostics.
        encrypted_items: The position in the context of each encrypted reasoning, by its id.
    """

    continue_request: ClassVar[WireMessage] = make_user_item([make_text_part(CONTINUE_PROMPT)])
    # The most that any server takes. On the instance, it is what this server and model take.
    appended = OPENAI_APPENDED | OTHERS_APPENDED

    def __init__(
        self,
        provider: str,
        *,
        media_types: frozenset[str] = IMAGE_AND_PDF_TYPES,
        system_role: str = "developer",
        stale_items: frozenset[int] = frozenset(),
        images_in_results: bool = True,
    ) -> None:
        super().__init__(provider, RESPONSES_CALLS, media_types)
        self.allowed_tools: tuple[str, ...] | None = None
        self.stale_items = stale_items
        self.images_in_results = images_in_results
        self.has_result_images = False
        self.last_response_id: str | None = None
        self.encrypted_items: dict[str, int] = {}
        self._system_role = system_role
        self._is_openai = system_role == "developer"  # other servers get the role `system`
        # True if the current item comes after encrypted reasoning of the same response. Only then
        # does the API accept the ids of its messages and calls.
        self._follows_reasoning = False
        self._tool_names: dict[str, str] = {}  # by the id of a call

    def copy_repairs(self) -> Self:
        """Return an empty rendering with the repairs of this one."""
        return self.repair()

    def repair(
        self, *, stale_items: frozenset[int] = frozenset(), images_in_results: bool = True
    ) -> Self:
        """Return an empty rendering with the repairs of this one, and with further ones.

        The reasoning of more `stale_items` is sent as text, or there are no `images_in_results`.
        """
        copy = type(self)(
            self.provider,
            media_types=self.media.media_types,
            system_role=self._system_role,
            stale_items=self.stale_items | stale_items,
            images_in_results=self.images_in_results and images_in_results,
        )
        copy.last_response_id = self.last_response_id
        return copy

    def settle(self, request: ModelRequest) -> ModelRequest:
        """Return `request` with the head at the beginning; see `Rendering.settle`."""
        tools = chain.from_iterable(head.tools for _, head in request.context.heads)
        offered_before = {tool.name for tool in tools}
        names = tuple(tool.name for tool in request.tools)

        # A tool that was removed stays in the list, and must not be called.
        has_removed_tools = not offered_before <= {*names}
        is_limited = "tools" in self.appended and has_removed_tools
        self.allowed_tools = names if is_limited else None
        return super().settle(request)

    def _render_change(self, change: HeadChange) -> list[WireMessage]:
        """Return the items that tell about `change`.

        They are a message with added attachments, a system message with texts, added tools, and an
        update of the effort and the schema. OpenAI's own server knows the last two.
        """
        attached = format_attachments(change.added, self.media.media_types)
        items: list[WireMessage] = [json.loads(message) for message in attached.messages]
        texts = [
            change.format_instructions(),
            change.format_tool_names(),
            change.format_attachment_names(),
        ]
        system_item = format_system_item(texts, self._system_role)
        if system_item is not None:
            items.append(system_item)

        new_tools = change.list_new_tools()
        if "tools" in self.appended and new_tools:
            tools = [*map(format_responses_tool, new_tools)]
            items.append({"type": "additional_tools", "role": "developer", "tools": tools})

        if update := _make_configuration_update(change.before, change.after):
            items.append({"type": "configuration_update", **update})
        return items

    def _continue_answer(self, encoded: list[bytes]) -> None:
        """Ask for the rest of an incomplete answer, whose reasoning at the end is omitted.

        `encoded` has one element for each of `messages`, which stay as they are for later requests.
        """
        # The API answers, and does not continue, a message of the assistant that comes last.
        while encoded and self._strip_reasoning(self.messages[len(encoded) - 1]) is None:
            del encoded[-1]
        if encoded and self.messages[len(encoded) - 1].get("role") == "assistant":
            encoded.append(encode_json(self.continue_request))

    def _add(self, item: ContextItem) -> None:
        """Add the current item. A message of this server keeps its metadata, others only a text.

        `Rendering._add` calls the method `_add_…` for the kind of the entry.
        """
        entry = item.entry
        if self.has_own_metadata and isinstance(entry, ChatResponse) and entry.kind != "reasoning":
            self._add_own_message(entry)
        else:
            super()._add(item)

    def _strip_reasoning(self, message: WireMessage) -> WireMessage | None:
        return None if message["type"] == "reasoning" else message

    @property
    def _ends_in_answer(self) -> bool:
        if not self.messages:
            return False
        last = self.messages[-1]
        return last["type"] == "reasoning" or last.get("role") == "assistant"

    def _drop_empty_answer(self) -> None:
        # The API rejects reasoning without the item that it led to. Each reasoning is an item here.
        while self.messages and self.messages[-1]["type"] == "reasoning":
            del self.messages[-1]
        del self._encoded[len(self.messages) :]  # the JSON of the removed messages

    def _add_request(self, text: str, images: Sequence[Image]) -> None:
        self._drop_empty_answer()
        self._follows_reasoning = False
        if parts := make_text_and_image_parts(text, images):
            self.messages.append(make_user_item(parts))

    def _add_text(self, text: str) -> None:
        if text:
            self.messages.append({"type": "message", "role": "assistant", "content": text})

    def _add_own_message(self, response: ChatResponse) -> None:
        """Add a message of this server, with the metadata that it wants back."""
        text = format_response_text(response)
        metadata = response.metadata
        if not text:
            return

        message: WireMessage = {"type": "message", "role": "assistant", "content": text}
        item_id = self._read_id(metadata, "msg_")
        phase = read_phase(metadata, PHASE_KEY)

        if self._follows_reasoning and item_id:
            annotations = rebuild_annotations(metadata.get(ANNOTATIONS_KEY))
            part = {"type": "output_text", "text": text, "annotations": annotations}
            message |= {"id": item_id, "status": "completed", "content": [part]}

        if phase:
            message["phase"] = phase
        self.messages.append(message)

    def _read_id(self, metadata: Mapping[str, JsonValue], prefix: str) -> str:
        """Return the id of an item; "" if OpenAI's server would refuse it for its `prefix`."""
        required_prefix = prefix if self._is_openai else ""  # other servers may have other prefixes
        return read_item_id(metadata, ITEM_ID_KEY, required_prefix)

    def _add_reasoning(self, response: ChatResponse) -> bool:
        """Add reasoning with its encrypted content, or omit it; return False to send it as text."""
        metadata = response.metadata
        text = response.reasoning or ""
        if not self.has_own_metadata:
            return False
        if ITEM_ID_KEY not in metadata:
            return True  # omitted: it is incomplete, or an item that is not part of an answer

        item_id = self._read_id(metadata, "rs_")
        encrypted = read_own_text(metadata, ENCRYPTED_KEY)
        position = self.item_count
        is_complete = bool(item_id and encrypted and self.has_valid_signatures)
        if not is_complete or position in self.stale_items:
            return False

        self.encrypted_items[item_id] = position
        self._follows_reasoning = True
        parts = split_summary(text, metadata.get(SUMMARY_LENGTHS_KEY))
        item = {
            "type": "reasoning",
            "id": item_id,
            "summary": [{"type": "summary_text", "text": part} for part in parts],
            "encrypted_content": encrypted,
        }
        self.messages.append(item)
        return True

    def _add_call(self, call: ToolCallRequest) -> None:
        """Add a call; one of this server with its item's id, and as the model has spelled it."""
        call_id = self._ids.assign(call.id, len(self.messages))
        name = self._rules.format_name(call.name)
        self._tool_names[call_id] = name

        item: WireMessage = {
            "type": "function_call",
            "call_id": call_id,
            "name": name,
            "arguments": compact_json(format_arguments(call.arguments)),
        }

        if self.has_own_metadata:
            whole = call.metadata.get(ITEM_KEY)
            if isinstance(whole, dict) and _has_arguments(whole, call.arguments):
                item["arguments"] = whole["arguments"]  # as the model has spelled them
            item_id = self._read_id(call.metadata, "fc_")
            if self._follows_reasoning and item_id:
                item["id"] = item_id

        self.messages.append(item)

    def _add_result(
        self, call_id: str, call_index: int, text: str, images: Sequence[Image], *, is_error: bool
    ) -> None:
        """Add a result after the calls of its response. Its images may follow as a user message."""
        self._follows_reasoning = False
        output: str | list[WireMessage] = text
        self.has_result_images = self.has_result_images or bool(images)

        if images and self.images_in_results:
            output = make_text_and_image_parts(text, images)

        # The result follows the calls of its response, and their earlier results.
        index = len(self.messages)
        if self.messages[-1]["type"] not in _CALL_TYPES:
            index = self._find_batch_end(call_id, call_index)

        item = {"type": "function_call_output", "call_id": call_id, "output": output}
        self._insert_message(index, item)

        if images and not self.images_in_results:
            name = one_line(self._tool_names[call_id], limit=MAX_IMAGE_NAME_CHARS)
            has_pdf = any(image.media_type == PDF for image in images)
            intro = RESULT_PDFS_INTRO if has_pdf else RESULT_IMAGES_INTRO
            parts = make_text_and_image_parts(intro, images, origin=f", of {name}, call {call_id}")
            self._insert_message(index + 1, make_user_item(parts))

    def _find_batch_end(self, call_id: str, call_index: int) -> int:
        """Return the index after the calls and results around the call `call_id`.

        Items that were inserted before the call have moved it from `call_index` to a later index.
        """
        index = call_index
        while self.messages[index].get("call_id") != call_id:
            index += 1
        while index < len(self.messages) and self.messages[index]["type"] in _CALL_TYPES:
            index += 1
        return index


def _make_configuration_update(before: RequestHead, after: RequestHead) -> WireMessage:
    """Return the members of an update from one head to another: the effort, and the schema."""
    update: WireMessage = {}
    if before.reasoning != after.reasoning:
        reasoning = parse_reasoning(after.reasoning) or ParsedReasoning("auto")
        update["reasoning"] = {"effort": format_responses_effort(reasoning)}
    if before.schema != after.schema:
        answer: WireMessage = {"type": "text"}
        if after.schema is not None:
            answer = format_text_format(adapt_responses_schema(after.schema))
        update["text"] = {"format": answer}
    return update


def _has_arguments(item: Mapping[str, JsonValue], arguments: Mapping[str, JsonValue]) -> bool:
    """Return True if `item` has these `arguments`. Those of the record may have been edited."""
    text = item.get("arguments")
    try:
        return isinstance(text, str) and read_json(text) == arguments
    except ValueError:
        return False
