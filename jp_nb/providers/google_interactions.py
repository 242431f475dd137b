"""The Interactions API of Google Gemini: build requests, decode streams.

A response is a list of steps: thoughts, texts, and calls. Requests are stateless: they contain all
steps of the conversation, and the server stores nothing. A step that differs from the one that
would be made of its entry, for example because it has unknown fields, is kept in the metadata of
the entry and sent back as it came.

Source: `docs/providers.md`, https://ai.google.dev/api/interactions-api.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Self

from pydantic import JsonValue

from jp_nb.agent.provider import (
    Attachment,
    Finished,
    FinishReason,
    Flush,
    KeepAlive,
    ModelRequest,
    ProviderEvent,
    Retry,
    ToolCallStart,
    ToolChoice,
)
from jp_nb.config.tree.models import Google
from jp_nb.errors import ProviderError
from jp_nb.images import Image
from jp_nb.json_values import compact_json
from jp_nb.providers.dialect import (
    CONTINUE,
    IMAGES,
    PDF,
    CallIds,
    FormattedAttachments,
    HttpProvider,
    Message,
    Omitted,
    Rendering,
    RequestBody,
    base64_text,
    encode_json,
    format_attachment_name,
    format_documents_xml,
    get_parameter_schema,
    omit_parameter,
    split_attachments,
)
from jp_nb.providers.endpoint import Endpoint, make_endpoint
from jp_nb.providers.google import (
    NAME,
    SIGNATURE,
    ContinuedDecoder,
    GoogleProvider,
    end_with_error,
    name_model,
)
from jp_nb.providers.schemas import AnswerSchema
from jp_nb.providers.streaming import EventBuffer, WireObject, is_json_object
from jp_nb.record.context import ContextEntry, ContextItem
from jp_nb.record.events import ChatRequest, ChatResponse, ToolCallRequest

STEP: Final = "google_step"
"""Metadata key of an entry for its steps, if they cannot be made of the entry."""
_EXTRAS: Final = frozenset({"safety_settings", "service_tier"})
_FROM_USER: Final = frozenset({"user_input", "function_result"})
MAX_UNKNOWN: Final = 20
"""Maximum number of unknown events, steps, and deltas of a response that the log names."""
_LOGGER: Final = logging.getLogger(__name__)

# --- requests ------------------------------------------------------------------------------------


def build_request_fields(
    request: ModelRequest,
    *,
    answer: AnswerSchema | None = None,
    thinking: tuple[str | None, bool] | None = None,
    omitted: Omitted | None = None,
) -> Message:
    """Return all members of the request body except `input`.

    `thinking` is the level, and True if the thoughts are not shown. Settings that are not sent are
    added to `omitted`, each with the reason.
    """
    fields: Message = {"model": name_model(request), "store": False, "stream": True}
    if system := "\n\n".join(text for text in request.system if text.strip()):
        fields["system_instruction"] = system
    if request.tools:
        fields["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": get_parameter_schema(tool),
            }
            for tool in request.tools
        ]
    if answer is not None:
        fields["response_format"] = {
            "type": "text",
            "mime_type": "application/json",
            "schema": answer.schema,
        }
    parameters = request.parameters
    config: Message = {
        name: value
        for name, value in (
            ("max_output_tokens", parameters.max_tokens),
            ("temperature", parameters.temperature),
            ("top_p", parameters.top_p),
            ("stop_sequences", list(parameters.stop_words) or None),
            ("seed", parameters.other.get("seed")),
            ("tool_choice", _format_tool_choice(request.tool_choice) if request.tools else None),
            ("thinking_level", thinking[0] if thinking else None),
            ("thinking_summaries", ("none" if thinking[1] else "auto") if thinking else None),
        )
        if value is not None
    }
    if config:
        fields["generation_config"] = config
    omitted = {} if omitted is None else omitted
    if parameters.top_k is not None:
        omit_parameter(omitted, "top_k", "not a parameter of this API")
    for name, value in parameters.other.items():
        if name in _EXTRAS:
            fields[name] = value
        elif name != "seed":
            omit_parameter(omitted, name, "not a parameter of this API")
    return fields


def _format_tool_choice(choice: ToolChoice) -> str | Message:
    name = choice.removeprefix("tool:")
    if name != choice:
        return {"allowed_tools": {"mode": "any", "tools": [name]}}
    return "any" if choice == "required" else choice


def format_attachments(attachments: Sequence[Attachment]) -> FormattedAttachments:
    """Format attachments as a step of the user before the context."""
    sent, omitted = split_attachments(attachments, IMAGES | {PDF})
    xml = format_documents_xml(sent)
    content = [_text_content(xml)] if xml else []
    for attachment in sent:
        if isinstance(attachment.content, bytes):
            kind = "document" if attachment.media_type == PDF else "image"
            data = base64_text(attachment.content)
            content += [
                _text_content(format_attachment_name(attachment)),
                {"type": kind, "mime_type": attachment.media_type, "data": data},
            ]
    steps = (encode_json({"type": "user_input", "content": content}),) if content else ()
    return FormattedAttachments(steps, omitted=omitted)


def _text_content(text: str) -> Message:
    return {"type": "text", "text": text}


def _format_content(text: str, images: Sequence[Image]) -> list[Message]:
    content = [_text_content(text)] if text.strip() else []
    for image in images:
        content += [
            _text_content(f"[image: {image.words}]"),
            {"type": "image", "mime_type": image.media_type, "data": image.text},
        ]
    return content


def _user_step(*content: Message) -> Message:
    return {"type": "user_input", "content": [*content]}


def _output_step(text: str) -> Message:
    return {"type": "model_output", "content": [_text_content(text)]}


def _thought_step(text: str, signature: JsonValue) -> Message:
    step: Message = {"type": "thought"}
    if signature:
        step["signature"] = signature
    if text:
        step["summary"] = [_text_content(text)]
    return step


def _call_step(id_: str, name: str, arguments: JsonValue) -> Message:
    return {"type": "function_call", "id": id_, "name": name, "arguments": arguments}


def _join_texts(steps: Sequence[Message], key: str) -> str:
    # `key` names the list of contents in each step.
    contents = (each for step in steps for each in step.get(key) or [])
    return "".join(each["text"] for each in contents if each.get("type") == "text")


class InteractionsRendering(Rendering):
    """Steps of a context.

    The API has rejected the signatures of the first `unsigned_items`. The calls of the items in
    `text_calls` are sent as text with their results, because the API requires a thought before a
    call of the current turn.
    """

    continue_request: ClassVar[Message] = _user_step(_text_content(CONTINUE))

    def __init__(self, unsigned_items: int = 0, text_calls: range = range(0)) -> None:
        super().__init__(NAME, CallIds())
        self.has_signatures = False
        self.unsigned_items = unsigned_items
        self.text_calls = text_calls
        self._calls: dict[str, ToolCallRequest] = {}  # by the id that is sent
        self._sent_as_text: set[str] = set()  # ids of calls

    def make_empty(self) -> Self:
        """Return an empty rendering with the same repairs."""
        return type(self)(self.unsigned_items, self.text_calls)

    @property
    def _ends_in_answer(self) -> bool:
        return bool(self.messages) and self.messages[-1]["type"] not in _FROM_USER

    def _strip_reasoning(self, message: Message) -> Message | None:
        return None if message["type"] == "thought" else message

    def _continue_answer(self, pieces: list[bytes]) -> None:
        last = len(self.messages) - 1
        while last >= 0 and self.messages[last]["type"] == "thought":
            last -= 1
        del pieces[last + 1 :]
        if last >= 0 and self.messages[last]["type"] not in _FROM_USER:
            pieces.append(encode_json(self.continue_request))

    def _add(self, item: ContextItem) -> None:
        entry = item.entry
        stored: Any = entry.metadata.get(STEP) if item.provider == self._provider else None
        steps: list[Any] = stored if isinstance(stored, list) else [stored]
        if not self._may_send_back(entry, steps):
            super()._add(item)
        elif isinstance(entry, ToolCallRequest):
            self._append_call(entry, steps[0])
        else:
            self.has_signatures |= any("signature" in step for step in steps)
            self.messages += steps

    def _may_send_back(self, entry: ContextEntry, steps: list[Any]) -> bool:
        # The text of an entry can have changed: a compaction removes arguments.
        if not steps or not all(isinstance(step, dict) and step.get("type") for step in steps):
            return False
        match entry:
            case ToolCallRequest(name=name, arguments=arguments):
                step = steps[0]
                return (step.get("name"), step.get("arguments")) == (name, arguments)
            case ChatResponse(kind="reasoning"):
                is_signed = any("signature" in step for step in steps)
                if is_signed and self.items < self.unsigned_items:
                    return False
                return _join_texts(steps, "summary") == (entry.reasoning or "")
            case ChatResponse(kind="message"):
                return _join_texts(steps, "content") == entry.message
        return isinstance(entry, ChatResponse)

    def _add_request(self, text: str, images: Sequence[Image]) -> None:
        while self.messages and self.messages[-1]["type"] == "thought":
            self._drop_empty_answer()
        if content := _format_content(text, images):
            self.messages.append(_user_step(*content))

    def _add_text(self, text: str) -> None:
        if text:
            self.messages.append(_output_step(text))

    def _add_reasoning(self, response: ChatResponse) -> bool:
        signature = response.metadata.get(SIGNATURE)
        if not isinstance(signature, str) or self.items < self.unsigned_items:
            return False
        self.has_signatures = True
        self.messages.append(_thought_step(response.reasoning or "", signature))
        return True

    def _add_call(self, call: ToolCallRequest) -> None:
        self._append_call(call, _call_step(call.id, call.name, call.arguments))

    def _append_call(self, call: ToolCallRequest, step: Message) -> None:
        id_ = self._ids.assign(call.id, len(self.messages))
        self._calls[id_] = call
        if self.items in self.text_calls:
            self._sent_as_text.add(id_)
        else:
            self.messages.append({**step, "id": id_})

    def _add_result(
        self, call_id: str, call_index: int, text: str, images: Sequence[Image], *, is_error: bool
    ) -> None:
        call = self._calls[call_id]
        if call_id in self._sent_as_text:
            said = f"Result of the tool {call.name} with {compact_json(call.arguments)}:\n{text}"
            self.messages.append(_user_step(*_format_content(said, images)))
            return
        step: Message = {
            "type": "function_result",
            "call_id": call_id,
            "name": call.name,
            "result": _format_content(text, images) if images else text,
        }
        if is_error:
            step["is_error"] = True
        self._insert(self._find_result_place(call_id), step)

    def _find_result_place(self, call_id: str) -> int:
        # Behind the response that contains the call, and the results of the calls before it.
        place = len(self.messages)
        while self.messages[place - 1].get("id") != call_id:
            place -= 1
        while place < len(self.messages) and self.messages[place]["type"] not in _FROM_USER:
            place += 1
        while place < len(self.messages) and self.messages[place]["type"] == "function_result":
            place += 1
        return place


# --- responses -----------------------------------------------------------------------------------

_FINISH: Final[Mapping[str, FinishReason]] = {
    "completed": "completed",
    "requires_action": "completed",
    "incomplete": "max_tokens",
    "budget_exceeded": "max_tokens",
    "requires_continuation": "max_tokens",  # after the last continuation
}
_USAGE: Final = (
    ("total_input_tokens", "input_tokens"),
    ("total_output_tokens", "output_tokens"),
    ("total_thought_tokens", "output_tokens"),  # not included in the output of the server
    ("total_thought_tokens", "reasoning_tokens"),
    ("total_cached_tokens", "cache_read_tokens"),
)
_UNFINISHED: Final = frozenset({"in_progress", "queued"})
_CONTENTS: Final = {"thought": "summary", "model_output": "content"}


class _OpenStep:
    """A step that arrives. `step` grows to the step that is sent back."""

    def __init__(self, index: int, step: Message) -> None:
        self.index = index
        self.step = step
        self.type: str = step["type"]
        self.signature: list[str] = []
        self.arguments: list[str] = []
        self._text: Message | None = None  # the last content, a text whose pieces arrive
        self._pieces: list[str] = []

    def add_content(self, content: Message) -> None:
        """Add a content. A text continues the text before it."""
        contents = self.step.setdefault(_CONTENTS[self.type], [])
        if content.keys() != {"type", "text"} or content["type"] != "text":
            self._end_text()
            contents.append(content)
            return
        if self._text is None:
            if not contents or contents[-1].get("type") != "text":
                contents.append(_text_content(""))
            self._text = contents[-1]
            self._pieces = [self._text["text"]]
        self._pieces.append(content["text"])

    def add_annotations(self, annotations: list[JsonValue]) -> None:
        """Add annotations of the last text."""
        self.step["content"][-1].setdefault("annotations", []).extend(annotations)

    def merge(self, delta: WireObject) -> None:
        """Add the fields of a delta that this module does not know."""
        for key, value in delta.items():
            if isinstance(value, list) and isinstance(self.step.get(key), list):
                self.step[key] += value
            elif key != "type":
                self.step[key] = value

    def end(self) -> None:
        """Complete `step`, except the arguments of a call."""
        self._end_text()
        if self.signature:
            self.step["signature"] = "".join(self.signature)

    def _end_text(self) -> None:
        if self._text is not None:
            self._text["text"] = "".join(self._pieces)
            self._text = None


class InteractionsDecoder(ContinuedDecoder):
    """Decoder for one response of the Interactions API."""

    def __init__(self, schema: AnswerSchema | None = None) -> None:
        super().__init__(schema, _USAGE)
        self._has_schema = schema is not None
        self._steps: dict[int, _OpenStep] = {}  # by the server's index
        self._count = 0
        self._output: list[_OpenStep] = []  # complete texts that the next request may continue
        self._pending_call: Flush | None = None
        self._error: Any = None
        self._is_continued = False
        self._unknown: set[str] = set()

    def begin_continuation(self) -> str:
        """Return the token for the next request, whose stream follows; "" if there is none."""
        self._steps.clear()
        self._is_continued = True
        return super().begin_continuation()

    def feed(self, message: WireObject, out: EventBuffer) -> None:
        """Add the events of `message`."""
        match message.get("event_type"):
            case "step.delta":
                self._apply_delta(self._steps[message["index"]], message["delta"], out)
                self.add_usage((message.get("metadata") or {}).get("total_usage"), out)
            case "step.start":
                self._start_step(message["index"], message["step"], out)
            case "step.stop":
                self._stop_step(self._steps.pop(message["index"]), out)
                self.add_usage(message.get("usage"), out)
            case "interaction.completed":
                self._complete(message["interaction"], out)
            case "interaction.status_update":
                out.add(KeepAlive())
                self.add_usage(message.get("usage"), out)
            case "error":
                out.add(end_with_error(message.get("error")))
            case None if "error" in message:
                out.add(end_with_error(message["error"]))
            case kind if kind != "interaction.created":
                self._report_unknown(f"event {kind}")

    def _report_unknown(self, what: str) -> None:
        if what not in self._unknown and len(self._unknown) < MAX_UNKNOWN:
            self._unknown.add(what)
            _LOGGER.debug("google: unknown %.100s", what)

    def _start_step(self, wire_index: int, step: Message, out: EventBuffer) -> None:
        kind, index = step["type"], self._count
        self._flush_pending_call(out)
        if self._is_continued and self._output and kind == "model_output":
            index = self._output[0].index
        else:
            self._flush_output(out)
            self._count += 1
        self._is_continued = False
        opened = self._steps[wire_index] = _OpenStep(index, {**step})
        if kind in _CONTENTS:
            for content in step.get(_CONTENTS[kind]) or []:
                self._show(opened, content, out)
        elif kind == "function_call":
            out.add(ToolCallStart(index, step["id"], step["name"]))
        elif kind != "user_input":
            out.held_chars += len(compact_json(step))
            self._report_unknown(f"step {kind}")

    def _apply_delta(self, step: _OpenStep, delta: WireObject, out: EventBuffer) -> None:
        match step.type, delta["type"]:
            case "model_output", "text" | "image" | "audio" | "document" | "video":
                step.add_content(delta)
                self._show(step, delta, out)
            case "model_output", "text_annotation_delta":
                step.add_annotations(delta.get("annotations") or [])
                out.held_chars += len(compact_json(delta))
            case "thought", "thought_summary":
                if content := delta.get("content"):
                    step.add_content(content)
                    self._show(step, content, out)
            case "thought", "thought_signature":
                step.signature.append(delta["signature"])
                out.held_chars += len(delta["signature"])
            case "function_call", "arguments_delta":
                if text := delta.get("arguments"):
                    step.arguments.append(text)
                    out.add_text(step.index, None, text)
            case _, kind:
                step.merge(delta)
                out.held_chars += len(compact_json(delta))
                self._report_unknown(f"delta {kind} of a step {step.type}")

    def _show(self, step: _OpenStep, content: WireObject, out: EventBuffer) -> None:
        if content.get("type") != "text":
            out.held_chars += len(compact_json(content))
        elif step.type == "thought":
            out.add_text(step.index, "reasoning", content["text"])
        elif content["text"]:
            self._answer.feed(step.index, content["text"], out)

    def _stop_step(self, step: _OpenStep, out: EventBuffer) -> None:
        step.end()
        match step.type:
            case "model_output":
                self._error = step.step.get("error") or self._error
                self._output.append(step)
            case "thought":
                self._stop_thought(step, out)
            case "function_call":
                self._stop_call(step, out)
            case kind if kind != "user_input":
                _flush_step(step, out)

    def _stop_thought(self, step: _OpenStep, out: EventBuffer) -> None:
        text, signature = _join_texts([step.step], "summary"), step.step.get("signature")
        if step.step != _thought_step(text, signature):
            _flush_step(step, out)
        elif signature:
            out.held_chars -= sum(map(len, step.signature))
            _flush_step(step, out, {SIGNATURE: signature})
        elif text:
            out.add(Flush(step.index))

    def _stop_call(self, step: _OpenStep, out: EventBuffer) -> None:
        text, call = "".join(step.arguments), step.step
        if not text and call.get("arguments"):
            text = json.dumps(call["arguments"], ensure_ascii=False)
            out.add_text(step.index, None, text)
        is_complete = is_json_object(text)
        if step.arguments:
            call["arguments"] = json.loads(text) if is_complete else {}
        is_known = call == _call_step(call["id"], call["name"], call.get("arguments", {}))
        flush = Flush(step.index, {} if is_known else {STEP: call})
        if is_complete:
            out.add(flush)
        else:  # The arguments are empty or cut, which the status tells.
            self._pending_call = flush

    def _flush_pending_call(self, out: EventBuffer) -> None:
        flush, self._pending_call = self._pending_call, None
        if flush is not None:
            out.add(flush)

    def _flush_output(self, out: EventBuffer) -> None:
        opened, self._output = self._output, []
        if not opened:
            return
        index, steps = opened[0].index, [each.step for each in opened]
        text = _join_texts(steps, "content")
        self._answer.finish(index, out)
        if not text:
            if any(step.get("content") for step in steps):  # such as an image
                _flush_step(opened[0], out)
        elif steps == [_output_step(text)] and not self._has_schema:
            out.add(Flush(index))
        else:
            kept: Any = steps if len(steps) > 1 else steps[0]
            out.add(Flush(index, {STEP: kept}))

    def _complete(self, interaction: WireObject, out: EventBuffer) -> None:
        status = interaction["status"]
        if self._count == 0:  # a model that does not stream its steps
            for index, step in enumerate(interaction.get("steps") or []):
                self._start_step(index, step, out)
                self._stop_step(self._steps.pop(index), out)
        self.add_usage(interaction.get("usage"), out)
        token = interaction.get("continuation_token")
        if status == "requires_continuation" and self.keep_token(token):
            return
        if status in _UNFINISHED:
            raise ProviderError(
                f"{NAME} ended its response while it was {status}", kind="transient"
            )
        error = next(iter(interaction.get("errors") or []), self._error)
        if error or status == "failed":
            out.add(end_with_error(error or {"message": "the interaction failed"}))
            return
        reason: FinishReason = _FINISH.get(status, "other")
        if reason != "max_tokens":
            self._flush_pending_call(out)
        self._flush_output(out)
        out.add(Finished(reason, str(status) if reason == "other" else None))


def _flush_step(
    step: _OpenStep, out: EventBuffer, metadata: Mapping[str, JsonValue] | None = None
) -> None:
    # Without any text, the step needs a part to be stored. An empty one is not shown.
    out.add_text(step.index, "reasoning", "")
    out.add(Flush(step.index, {STEP: step.step} if metadata is None else metadata))


class InteractionsProvider(GoogleProvider[InteractionsRendering]):
    """Provider for servers with the Interactions API."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, InteractionsRendering, format_attachments)

    def _encode_body(
        self,
        request: ModelRequest,
        rendering: InteractionsRendering,
        attached: FormattedAttachments,
        answer: AnswerSchema | None,
        omitted: Omitted,
    ) -> RequestBody:
        thinking = self._find_thinking(request)
        fields = build_request_fields(request, answer=answer, thinking=thinking, omitted=omitted)
        steps = rendering.encode(request.thread, before=attached.messages)
        return RequestBody(fields, steps, "input", prefix=("tools", "system_instruction"))

    def _make_decoder(self, answer: AnswerSchema | None, body: bytes) -> InteractionsDecoder:
        return InteractionsDecoder(answer)

    def _repair(
        self, error: ProviderError, request: ModelRequest, rendering: InteractionsRendering
    ) -> ProviderEvent | None:
        end = len(request.thread)
        text_calls, unsigned_items = rendering.text_calls, rendering.unsigned_items
        if "missing" in str(error).lower() and text_calls.stop < end:
            asked = (
                index
                for index, item in enumerate(request.thread)
                if isinstance(item.entry, ChatRequest)
            )
            text_calls = range(max(asked, default=0), end)
        elif rendering.has_signatures:
            unsigned_items = end
        else:
            return None
        self._keep_rendering(request.thread, InteractionsRendering(unsigned_items, text_calls))
        return Retry(error.without_address)


def create(name: str, config: Google) -> HttpProvider[Any]:
    """Return the provider that `config` describes.

    Raises:
        ConfigError: The address is not valid.
    """
    # An address can end in a version, as `https://generativelanguage.googleapis.com/v1beta`.
    version = re.search(r"/v\d\w*/?$", config.base_url or "")
    root = "" if version else "/v1"
    endpoint = make_endpoint(
        name,
        config,
        f"{root}/interactions" if config.dialect == "interactions" else f"{root}/models",
        # The revision of the API in its versions before 1. Later ones ignore it.
        headers={"api-revision": "2026-05-20"} if config.dialect == "interactions" else {},
        key_header="x-goog-api-key",
    )
    if config.dialect == "generate":
        from jp_nb.providers.google_generate import GenerateProvider

        return GenerateProvider(endpoint)
    return InteractionsProvider(endpoint)
