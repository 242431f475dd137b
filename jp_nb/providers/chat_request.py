"""Renders a thread and a request as the body of OpenAI's chat completions.

Source: `docs/providers.md`;
https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, Self

from jp_nb.agent.model_events import (
    Attachment,
    ModelRequest,
    ToolDefinition,
)
from jp_nb.image import MAX_NAME_CHARS, Image
from jp_nb.providers import answer_schema as schemas
from jp_nb.providers.attachment_parts import (
    PDF,
    Attached,
    base64_text,
    documents_xml,
    name_of,
    sort_out,
)
from jp_nb.providers.chat_profiles import Profile
from jp_nb.providers.messages import (
    CONTINUE,
    CallIds,
    Message,
    Rendering,
    continues_answer,
    encode,
    plain_schema,
    reasoning_as_text,
    response_text,
    with_images_in_words,
)
from jp_nb.providers.parameters import Warnings, parse_reasoning
from jp_nb.record.events import ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse
from jp_nb.record.thread import Thread, ThreadItem
from jp_nb.safe_text import one_line

DETAILS: Final = "openrouter_reasoning_details"
"""Where OpenRouter's reasoning is kept in a response's metadata, to be sent back."""


IMAGES_OF_RESULTS: Final = "The results of these tool calls came with images:"


def answer_schema(request: ModelRequest, profile: Profile) -> schemas.AnswerSchema | None:
    """The schema of a structured answer as `profile` takes it; None for text."""
    if request.schema is None:
        return None
    return (profile.answer or schemas.for_json_mode)(request.schema)


def build_head(
    request: ModelRequest,
    profile: Profile,
    *,
    answer: schemas.AnswerSchema | None = None,
    warnings: Warnings | None = None,
) -> Message:
    """Everything in the body of `request` but its messages."""
    warnings = warnings or Warnings(profile.name)
    head: Message = {"model": request.model, "stream": True}
    if profile.stream_options:
        head["stream_options"] = {"include_usage": True}
    head.update(_tools(request, profile))
    if answer is not None:
        head["response_format"] = _response_format(answer, profile)
        if profile.require_parameters:  # else the answer may come from who never saw the schema
            head["provider"] = {"require_parameters": True}
    reasoning = parse_reasoning(request.parameters.reasoning)
    if reasoning is not None:
        head.update(profile.reasoning(reasoning))
    head.update(_sampling(request, profile, warnings))
    return head


def system_messages(
    request: ModelRequest, profile: Profile, *, documents: str = ""
) -> list[Message]:
    """The system texts as one message: many chat templates refuse a second one.

    `documents` stand behind them, and before what not every request says.
    """
    texts = [text for text in (*request.system, documents) if text.strip()]
    answer = answer_schema(request, profile) if profile.answer is None else None
    if answer is not None:
        texts.append(
            "Answer with one JSON object that fits this JSON schema, and nothing else:\n"
            + json.dumps(answer.schema, ensure_ascii=False)
        )
    if not texts:
        return []
    if request.model.startswith(profile.cached_by_mark):
        parts = [_text_part(text) for text in texts]
        parts[-1]["cache_control"] = {"type": "ephemeral"}
        return [{"role": "system", "content": parts}]
    return [{"role": "system", "content": "\n\n".join(texts)}]


def attach(attachments: Sequence[Attachment], profile: Profile) -> Attached:
    """`attachments` as `profile` has them: as a user message, or as a system text."""
    sent, skipped = sort_out(attachments, profile.media_types)
    xml = documents_xml(sent)
    parts = [part for attachment in sent for part in _binary_parts(attachment)]
    system, text = (xml, "") if profile.documents == "system" else ("", xml)
    content = [_text_part(text), *parts] if text and parts else text or parts
    messages = (encode({"role": "user", "content": content}),) if content else ()
    return Attached(messages, system, skipped)


def _binary_parts(attachment: Attachment) -> list[Message]:
    content, name = attachment.content, name_of(attachment)
    if isinstance(content, str):
        return []
    url = f"data:{attachment.media_type};base64,{base64_text(content)}"
    if attachment.media_type == PDF:
        return [{"type": "file", "file": {"filename": name, "file_data": url}}]
    return [_text_part(name), {"type": "image_url", "image_url": {"url": url}}]


def _image_part(image: Image) -> Message:
    url = f"data:{image.media_type};base64,{image.text}"
    return {"type": "image_url", "image_url": {"url": url}}


def _text_part(text: str) -> Message:
    return {"type": "text", "text": text}


def _tools(request: ModelRequest, profile: Profile) -> Message:
    """`tools` and `tool_choice`, as far as the server understands choices."""
    tools, choice = request.tools, request.tool_choice
    name = choice.removeprefix("tool:") if choice.startswith("tool:") else None
    # Who does not read `tool_choice` calls no tool only if it is shown none.
    if not tools or (choice == "none" and profile.tool_choices == "nothing"):
        return {}
    if name is not None and profile.tool_choices != "named":  # forced: the only one there is
        tools = tuple(tool for tool in tools if tool.name == name) or tools
        name, choice = None, "required"
    return {
        "tools": [_tool(tool) for tool in tools],
        "tool_choice": choice if name is None else _named(name),
    }


def _tool(tool: ToolDefinition) -> Message:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": plain_schema(tool),
        },
    }


def _named(name: str) -> Message:
    return {"type": "function", "function": {"name": name}}


def _response_format(answer: schemas.AnswerSchema, profile: Profile) -> Message:
    if profile.answer is None:
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "json_schema": {
            "name": "structured_output",
            "schema": answer.schema,
            "strict": answer.strict,
        },
    }


def _sampling(request: ModelRequest, profile: Profile, warnings: Warnings) -> Message:
    parameters = request.parameters
    sampling: Message = {
        name: value
        for name, value in (
            (profile.max_tokens, parameters.max_tokens),
            ("temperature", parameters.temperature),
            ("top_p", parameters.top_p),
            ("top_k", parameters.top_k if profile.top_k else None),
            ("stop", list(parameters.stop_words) or None),
        )
        if value is not None
    }
    ignored = {name for name in parameters.other if name not in profile.extras}
    if parameters.top_k is not None and not profile.top_k:
        ignored.add("top_k")
    for name in sorted(ignored):
        warnings.ignored(
            name, "not a parameter of this API", conversation_id=request.conversation_id
        )
    sampling.update(
        (name, value) for name, value in parameters.other.items() if name in profile.extras
    )
    return sampling


class ChatRendering(Rendering):
    """A thread as chat messages: what one response held is one message, results follow it."""

    def __init__(self, profile: Profile) -> None:
        super().__init__()
        self._profile = profile
        self._ids = CallIds(limit=profile.max_id_length)
        self._turn_start = 0
        self._called: dict[str, str] = {}
        self._with_images: set[int] = set()  # messages that call tools: the images come behind

    def anew(self) -> Self:
        """Return an empty rendering of what begins as this thread does."""
        return type(self)(self._profile)

    def add(self, item: ThreadItem) -> None:
        """Render the next item."""
        match item.entry:
            case ChatRequest(content=text):
                self._end_turn()
                self._drop_empty_answer()
                self._request(text, item.images)
            case ChatResponse() as response:
                self._response(response, own=item.provider == self._profile.name)
            case ToolCallRequest() as call:
                calls = self._assistant().setdefault("tool_calls", [])
                id_ = self._ids.called(call.id, len(self.messages) - 1)
                self._called[id_] = call.name
                calls.append(
                    {
                        "id": id_,
                        "type": "function",
                        "function": {
                            "name": call.name,
                            "arguments": json.dumps(call.arguments, ensure_ascii=False),
                        },
                    }
                )
            case ToolCallResponse() as result:
                self._result(result, item.images)

    def encode(self, thread: Thread, *, before: Sequence[Message | bytes] = ()) -> bytes:
        """Return the messages of `thread`, which is rendered here, behind those `before`, as JSON.

        An answer that was cut is asked to go on.
        """
        if not continues_answer(thread):
            return self.messages.encode(before=before)
        ended = self.anew() if self._has_empty_answer() else self
        if ended is not self:
            ended.follow(thread)
            ended._drop_empty_answer()
        goes_on = ended.messages.last_role == "assistant"
        after = ({"role": "user", "content": CONTINUE},) if goes_on else ()
        return ended.messages.encode(before=before, after=after)

    def _has_empty_answer(self) -> bool:
        """Return True if the last message is an answer of reasoning alone."""
        if self.messages.last_role != "assistant":
            return False
        last = self.messages[-1]
        return last["content"] is None and "tool_calls" not in last

    def _drop_empty_answer(self) -> None:
        """Take away an answer that nothing came of: servers refuse one that says nothing."""
        if self._has_empty_answer():
            self.messages.drop_last()

    def _request(self, text: str, images: Sequence[Image]) -> None:
        if images and not self._profile.takes_images:
            text, images = with_images_in_words(text, images), ()
        if images:
            parts = [_text_part(text)] if text.strip() else []
            for image in images:
                parts += [_text_part(f"[image: {image.words}]"), _image_part(image)]
            self.messages.append({"role": "user", "content": parts})
        elif text.strip():
            self.messages.append({"role": "user", "content": text})

    def _response(self, response: ChatResponse, *, own: bool) -> None:
        field = self._profile.reasoning_field
        if response.kind != "reasoning":
            text = response_text(response)
        elif own and field is not None:
            self._own_reasoning(response, field)
            return
        else:
            text = reasoning_as_text(response)
        if text:
            message = self._assistant()
            message["content"] = (message["content"] or "") + text

    def _own_reasoning(self, response: ChatResponse, field: str) -> None:
        details = response.metadata.get(DETAILS)
        if isinstance(details, list) and details:
            self._assistant().setdefault("reasoning_details", []).extend(details)
        elif response.reasoning:
            message = self._assistant()
            message[field] = message.get(field, "") + response.reasoning

    def _result(self, result: ToolCallResponse, images: Sequence[Image]) -> None:
        asked = self._ids.answered(result.id)
        if asked is None:
            return  # nobody asked: servers refuse such a message
        id_, asked_in = asked
        place = asked_in + 1
        while place < len(self.messages) and self.messages[place]["role"] == "tool":
            place += 1
        content = result.content
        if images and not self._profile.takes_images:
            content, images = with_images_in_words(content, images), ()
        self.messages.insert(place, {"role": "tool", "tool_call_id": id_, "content": content})
        if images:
            self._images(images, id_, asked_in, place + 1)

    def _images(self, images: Sequence[Image], call_id: str, asked_in: int, place: int) -> None:
        """Show `images` of a result behind all results of its batch.

        A message with the role `tool` holds text alone.
        """
        if asked_in not in self._with_images:
            self._with_images.add(asked_in)
            content = [_text_part(IMAGES_OF_RESULTS)]
            self.messages.insert(place, {"role": "user", "content": content})
        parts = self.messages.edit(place)["content"]
        name = one_line(self._called[call_id], limit=MAX_NAME_CHARS)
        for image in images:
            words = f"[image: {image.words}, of {name}, call {call_id}]"
            parts += [_text_part(words), _image_part(image)]

    def _assistant(self) -> Message:
        """The assistant message to add to: the last one, or a new one."""
        if self.messages.last_role == "assistant":
            return self.messages.edit(-1)
        return self.messages.append({"role": "assistant", "content": None})

    def _end_turn(self) -> None:
        """Forget reasoning that the server does not want to see in a later turn."""
        field = self._profile.reasoning_field
        if field is None or self._profile.reasoning_lasts:
            return
        for index in range(self._turn_start, len(self.messages)):
            if field in self.messages[index]:
                del self.messages.edit(index)[field]
        self._turn_start = len(self.messages)
