"""The Interactions API of Gemini: the steps of a request.

A *step* is an input of the user, a thought, an output of the model, a call, or its result. Requests
are stateless: they contain all steps of the conversation. A step that differs from the one that
would be made of its entry, for example because it has unknown fields, is kept in the metadata of
the entry and sent back as it came.

Source: `docs/providers.md`, https://ai.google.dev/api/interactions-api.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Self

from jp_nb.agent.provider import Attachment
from jp_nb.image_headers import PDF
from jp_nb.images import Image
from jp_nb.json_writing import compact_json
from jp_nb.providers.google.google_continued_decoder import THOUGHT_SIGNATURE_KEY
from jp_nb.providers.google.google_interactions_steps import (
    STEPS_KEY,
    join_texts,
    make_call_step,
    make_output_step,
    make_text_content,
    make_thought_step,
)
from jp_nb.providers.google.google_recorded_steps import rebuild_steps
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
from jp_nb.providers.request_parts.readable_arguments import format_arguments
from jp_nb.providers.request_parts.request_body import WireMessage, encode_json
from jp_nb.record.entries.events import ChatResponse, ToolCallRequest
from jp_nb.record.request_context.context import ContextEntry, ContextItem

_FROM_USER: Final = frozenset({"user_input", "function_result"})
"""Types of the steps that are not part of a response."""


def format_attachments(attachments: Sequence[Attachment]) -> FormattedAttachments:
    """Format attachments as a step of the user before the context."""
    contents, omitted = list_attachments(attachments)
    steps = (encode_json(_make_user_step(contents)),) if contents else ()
    return FormattedAttachments(steps, omitted=omitted)


def _format_content(content: Content) -> WireMessage:
    if isinstance(content, str):
        return make_text_content(content)
    media_type, data = content
    kind = "document" if media_type == PDF else "image"
    return {"type": kind, "mime_type": media_type, "data": data}


def _make_user_step(contents: Sequence[Content]) -> WireMessage:
    return {"type": "user_input", "content": [*map(_format_content, contents)]}


class InteractionsRendering(GoogleRendering):
    """Steps of a context: a response, a call, or a result is a step of its own.

    The methods override those of `Rendering` (`messages.py`), which calls `_add` with each item of
    the context, and `_continue_answer` at last, if the model must continue its answer. It also has
    `has_own_metadata`, which it sets before each `_add`, `has_valid_signatures`, `has_signatures`.

    The calls of the items in `text_calls`, which are positions in the context, are sent as text
    with their results: the API requires a thought before a call of the current turn, and has
    rejected calls without one. `InteractionsProvider` then makes the request again in this way.
    """

    continue_request: ClassVar[WireMessage] = _make_user_step([CONTINUE_PROMPT])

    def __init__(self, unsigned_items: int = 0, text_calls: range = range(0)) -> None:
        super().__init__(unsigned_items)
        self.text_calls = text_calls
        self._calls: dict[str, ToolCallRequest] = {}  # by the id that is sent
        self._sent_as_text: set[str] = set()  # ids of the calls in `text_calls`

    def copy_repairs(self) -> Self:
        """Return an empty rendering with the same repairs."""
        return type(self)(self.unsigned_items, self.text_calls)

    @property
    def _ends_in_answer(self) -> bool:
        return bool(self.messages) and self.messages[-1]["type"] not in _FROM_USER

    def _render_change(self, change: HeadChange) -> list[WireMessage]:
        steps: list[WireMessage] = []
        contents, _ = list_attachments(change.added)
        if contents:
            steps.append(_make_user_step(contents))

        text = describe_change(change)
        if text:
            steps.append(_make_user_step([text]))
        return steps

    def _strip_reasoning(self, message: WireMessage) -> WireMessage | None:
        return None if message["type"] == "thought" else message

    def _continue_answer(self, encoded: list[bytes]) -> None:
        """Ask the model to continue. `encoded` has one JSON text for each of `messages`."""
        # The thoughts at the end have no answer, and the API rejects such thoughts.
        last = len(self.messages) - 1
        while last >= 0 and self.messages[last]["type"] == "thought":
            last -= 1
        del encoded[last + 1 :]
        if last >= 0 and self.messages[last]["type"] not in _FROM_USER:
            encoded.append(encode_json(self.continue_request))

    def _add(self, item: ContextItem) -> None:
        """Add the current item: as the server's steps that it has, else as steps made of it."""
        entry = item.entry
        self.has_valid_signatures = item.is_bound

        steps = None  # the steps of the server, if the entry has them
        if self.has_own_metadata:
            steps = rebuild_steps(entry.metadata.get(STEPS_KEY))

        if steps is None or not self._may_send_back(entry, steps):
            super()._add(item)
        elif isinstance(entry, ToolCallRequest):
            self._append_call(entry, steps[0])
        else:
            self.has_signatures |= any("signature" in step for step in steps)
            self.messages += steps

    def _may_send_back(self, entry: ContextEntry, steps: list[WireMessage]) -> bool:
        """Return True if `steps` may be sent in place of a step that is made of `entry`.

        They must have the content of the entry, which can have changed since: a compaction removes
        arguments.
        """
        has_signature = any("signature" in step for step in steps)
        if has_signature and not self._may_sign():
            return False

        kinds = [step["type"] for step in steps]
        match entry:
            case ToolCallRequest(name=name, arguments=arguments) if kinds == ["function_call"]:
                return (steps[0]["name"], steps[0]["arguments"]) == (name, arguments)
            case ChatResponse(kind="reasoning") if {*kinds} == {"thought"}:
                return join_texts(steps, "summary") == (entry.reasoning or "")
            case ChatResponse(kind="message") if {*kinds} == {"model_output"}:
                return join_texts(steps, "content") == entry.message
            case ChatResponse(kind="structured"):  # not compared: its data is the parsed text
                return {*kinds} == {"model_output"}
        return False

    def _add_request(self, text: str, images: Sequence[Image]) -> None:
        # A request may not follow thoughts without an answer. Each call removes one of them.
        while self.messages and self.messages[-1]["type"] == "thought":
            self._drop_empty_answer()
        if contents := list_input_contents(text, images):
            self.messages.append(_make_user_step(contents))

    def _add_text(self, text: str) -> None:
        if text:
            self.messages.append(make_output_step(text))

    def _add_reasoning(self, response: ChatResponse) -> bool:
        signature = response.metadata.get(THOUGHT_SIGNATURE_KEY)
        if not isinstance(signature, str) or not self._may_sign():
            return False
        self.has_signatures = True
        self.messages.append(make_thought_step(response.reasoning or "", signature))
        return True

    def _add_call(self, call: ToolCallRequest) -> None:
        self._append_call(call, make_call_step(call.id, call.name, call.arguments))

    def _append_call(self, call: ToolCallRequest, step: WireMessage) -> None:
        """Add `call` as `step`, with accepted names; or keep it for the text with its result."""
        id_ = self._ids.assign(call.id, len(self.messages))
        self._calls[id_] = call
        if self.item_count in self.text_calls:
            self._sent_as_text.add(id_)
        else:
            name = self._rules.format_name(call.name)
            arguments = format_arguments(step["arguments"])
            self.messages.append({**step, "id": id_, "name": name, "arguments": arguments})

    def _add_result(
        self, call_id: str, call_index: int, text: str, images: Sequence[Image], *, is_error: bool
    ) -> None:
        """Add a result after its call; or both as text, if the call is sent as text."""
        call = self._calls[call_id]
        name = self._rules.format_name(call.name)
        if call_id in self._sent_as_text:
            arguments = compact_json(format_arguments(call.arguments))
            described = f"Result of the tool {name} with {arguments}:\n{text}"
            self.messages.append(_make_user_step(list_input_contents(described, images)))
            return

        result: str | list[WireMessage] = text
        if images:
            result = list(map(_format_content, list_input_contents(text, images)))
        step: WireMessage = {
            "type": "function_result",
            "call_id": call_id,
            "name": name,
            "result": result,
        }

        if is_error:
            step["is_error"] = True

        # `call_index` is not used. With parallel calls, the results that were inserted before have
        # moved the call.
        self._insert_message(self._find_result_index(call_id), step)

    def _find_result_index(self, call_id: str) -> int:
        """Return the index of the result of a call among the steps.

        It is after the response that contains the call, and the results of the calls before it.
        """
        index = len(self.messages)
        while self.messages[index - 1].get("id") != call_id:
            index -= 1

        while index < len(self.messages) and self.messages[index]["type"] not in _FROM_USER:
            index += 1
        while index < len(self.messages) and self.messages[index]["type"] == "function_result":
            index += 1

        return index
